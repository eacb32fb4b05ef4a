"""Reductions across warps exchange their results one after the other where shared memory has no room for all of them."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source

ROOM = {"sm_80": 166912, "sm_90a": 232448}


def reduced(kind, axis, clear, free, arch):
    """Twice reduces a product whose warps share what is reduced, with ``free`` bytes of shared memory left to others."""
    rows, columns, depth = (64, 128, 32) if axis else (128, 64, 32)
    kept, reduce = (rows, columns)[1 - axis], getattr(T, f"reduce_{kind}")
    filled = (ROOM[arch] - (rows + columns) * depth * 2 - free) // 128 * 128
    policy = T.GemmWarpPolicy.FullCol if axis else T.GemmWarpPolicy.FullRow

    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), "float16"), B: T.Tensor((columns, depth), "float16"), C: T.Tensor((kept,), "float32")
    ):  # fmt: skip
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((rows, depth), "float16"), T.alloc_shared((columns, depth), "float16")
            rest = T.alloc_shared((filled,), "uint8")
            values, result = T.alloc_fragment((rows, columns), "float32"), T.alloc_fragment((kept,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.fill(rest, 1)
            T.copy(C, result)
            for _ in T.serial(2):
                T.gemm(a, b, values, transpose_B=True, clear_accum=True, policy=policy)
                reduce(values, result, dim=axis, clear=clear)
                for i in T.Parallel(kept):
                    result[i] = result[i] + T.cast(rest[i], "float32")
            T.copy(result, C)

    return main


@pytest.mark.parametrize("arch", ROOM)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("kind", "clear"), [("sum", True), ("sum", False), ("max", False)])
def test_results_are_exchanged_in_the_memory_that_there_is(kind, clear, axis, arch):
    torch.manual_seed(0)
    a, b = (torch.randint(-4, 5, (size, 32)).half() for size in ((64, 128) if axis else (128, 64)))
    old = torch.randint(-9, 10, (64,)).float()
    values, want = a.float() @ b.float().T, old.clone()
    for _ in range(2):
        part = values.sum(axis) if kind == "sum" else values.amax(axis)
        want = (part if clear else want + part if kind == "sum" else torch.maximum(want, part)) + 1
    for free in (4096, 1100):
        c = old.clone()
        simulate(reduced(kind, axis, clear, free, arch), a, b, c, arch=arch)
        assert torch.equal(c, want)


def test_all_results_are_exchanged_at_once_where_there_is_room():
    barriers = [len(re.findall(r"__syncthreads|bar", source(reduced("sum", 1, True, free, "sm_80")))) for free in (4096, 1100)]
    assert barriers[0] < barriers[1]
