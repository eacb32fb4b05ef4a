"""Postconditions of the steps, checked after each of them on programs that use every construct they handle."""

import pytest

import tilelang.language as T
from tilelang.errors import PassFailedError
from tilelang.target.cpu import verify
from tilelang.target.cpu.context import CpuContext, vector_unit
from tilelang.target.cpu.pipeline import COMMON
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import Step, run


@T.prim_func
def everything(X: T.Tensor((100, 64), "float8_e4m3fn"), Y: T.Tensor((100,), "bfloat16"), N: T.Tensor((1,), "int32")):
    with T.Kernel(4, threads=128) as bx:
        if bx > N[0]:
            return
        T.rng_init(1)
        tile = T.alloc_shared((32, 64), "float16")
        total = T.alloc_fragment((32,), "float32")
        large = T.alloc_shared((256, 256), "float32")
        T.copy(X[bx * 32, 0], tile)
        T.fill(large, 1.0)
        T.reduce_sum(tile, total, dim=1)
        for i in T.serial(32):
            if total[i] == 0:
                continue
            if T.isnan(total[i]):
                break
            Y[bx * 32 + i] = T.exp(total[i]) * T.rng_rand_float() + large[i, 0]


def compiled(target, steps=COMMON):
    """The program after ``steps``, each verified."""
    request = CompileRequest(parse_target(target))
    context = CpuContext(request, "everything", vector_unit(request.target))
    return run(steps, everything, context, verify=True).value


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_postconditions_of_all_steps_hold(target):
    compiled(target)


def test_a_failed_postcondition_names_the_step():
    def nothing(func, context):
        return func

    with pytest.raises(PassFailedError, match="'lower_tiles'.*a t"):
        compiled("cpu", [Step("lower_tiles", nothing, "does not lower anything", verify.tiles_are_lowered)])
