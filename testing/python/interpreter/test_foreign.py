"""CUDA's own device functions, called by ``T.call_extern``, beside torch and the compiled kernel."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import UnsupportedError

from .support import run


def called(name, source, result, arity=1):
    """``C[i] = name(A[i], …)`` for 64 elements."""

    @T.prim_func
    def main(A: T.Tensor((64,), source), B: T.Tensor((64,), source), C: T.Tensor((64,), result)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                C[i] = T.call_extern(result, name, A[i], *(B[i],) * (arity - 1))

    return main


REALS, OTHERS = torch.linspace(0.1, 0.95, 64), torch.linspace(2.0, 0.5, 64)
NUMBERS = torch.arange(-32, 32, dtype=torch.int32) * 123_456_789

FUNCTIONS = {
    "erff": lambda a, b: torch.erf(a),
    "__expf": lambda a, b: torch.exp(a),
    "expm1f": lambda a, b: torch.expm1(a),
    "rsqrtf": lambda a, b: torch.rsqrt(a),
    "__saturatef": lambda a, b: a.clamp(0, 1),
    "__fdividef": lambda a, b: a / b,
    "fmaxf": torch.maximum,
    "powf": torch.pow,
    "__fmul_rn": torch.mul,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_floats(name):
    want = FUNCTIONS[name](REALS.double(), OTHERS.double())
    arity = 2 if name in ("__fdividef", "fmaxf", "powf", "__fmul_rn") else 1
    for result in ("float32", "float16"):
        c = torch.zeros(64, dtype=getattr(torch, result))
        run(called(name, "float32", result, arity), REALS, OTHERS, c)
        torch.testing.assert_close(c.double(), want, rtol=1e-6 if result == "float32" else 1e-3, atol=1e-6)


@pytest.mark.parametrize(("name", "source", "result", "arity"), [
    ("__fdiv_rz", "float32", "float32", 2), ("__fmaf_ru", "float32", "float32", 3), ("__fsqrt_rd", "float32", "float32", 1),
    ("__float2int_rn", "float32", "int32", 1), ("__float2int_ru", "float32", "int32", 1),
    ("__float_as_int", "float32", "int32", 1), ("__int_as_float", "int32", "float32", 1),
    ("__int2float_rn", "int32", "float32", 1),
    ("__popc", "int32", "int32", 1), ("__clz", "int32", "int32", 1), ("__ffs", "int32", "int32", 1),
    ("__mulhi", "int32", "int32", 2), ("__umulhi", "uint32", "uint32", 2), ("__float2half_rz", "float32", "float16", 1),
    ("__float2half_rn", "float32", "float16", 1), ("__half2float", "float16", "float32", 1),
])  # fmt: skip
def test_rounding_conversions_and_bits_are_those_of_the_device(name, source, result, arity):
    a, b = (REALS * 100, OTHERS) if source.startswith("float") else (NUMBERS, NUMBERS.flip(0))
    a, b = a.to(getattr(torch, source)), b.to(getattr(torch, source))
    program = called(name, source, result, arity)
    c, device = (torch.zeros(64, dtype=getattr(torch, result)) for _ in range(2))
    run(program, a, b, c)
    with tilelang.simulator(strict=True):
        tilelang.compile(program, target={"kind": "cuda", "arch": "sm_80"})(a, b, device)
    assert torch.equal(c.view(torch.uint8), device.view(torch.uint8))


@pytest.mark.parametrize(("dtype", "c_name"), [("float16", "half"), ("bfloat16", "bfloat16")])
def test_a_small_float_that_only_foreign_calls_name(dtype, c_name):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                C[i] = T.call_extern("float32", f"__{c_name}2float", T.call_extern(dtype, f"__float2{c_name}_rn", A[i]))

    c, device = torch.zeros(64), torch.zeros(64)
    run(main, REALS, c)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target={"kind": "cuda", "arch": "sm_80"})(REALS, device)
    assert torch.equal(c, REALS.to(getattr(torch, dtype)).float()) and torch.equal(c, device)


def test_arguments_are_converted_as_in_c():
    @T.prim_func
    def main(A: T.Tensor((64,), "float16"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                C[i] = T.call_extern("float32", "powf", A[i], 2)

    a, c = REALS.half(), torch.zeros(64)
    run(main, a, c)
    torch.testing.assert_close(c, a.float() ** 2)


@pytest.mark.parametrize(("name", "arity"), [("mine", 1), ("__expf", 2)])
def test_other_functions_are_refused(name, arity):
    with pytest.raises(UnsupportedError, match="the interpreter cannot run foreign code"):
        tilelang.compile(called(name, "float32", "float32", arity), target="interpret")
