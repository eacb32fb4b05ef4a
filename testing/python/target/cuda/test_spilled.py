"""Loops over arrays that registers cannot hold are not written out; those over registers are."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source


def extrema(rows, columns, dtype, threads):
    @T.prim_func
    def main(A: T.Tensor((rows, columns), dtype), C: T.Tensor((rows,), dtype)):
        with T.Kernel(1, threads=threads):
            a, c = T.alloc_fragment((rows, columns), dtype), T.alloc_fragment((rows,), dtype)
            T.copy(A, a)
            T.reduce_max(a, c, dim=1)
            T.copy(c, C)

    return main


@pytest.mark.parametrize(("threads", "in_memory"), [(32, True), (128, False)])
def test_long_arrays_are_in_memory(threads, in_memory):
    """A warp has 1024 words of the tile in each thread, four warps 256."""
    program = extrema(128, 128, "int64", threads)
    factors = re.findall(r"#pragma unroll(?: (\d+))?\n", source(program))
    assert ("8" in factors) == in_memory
    torch.manual_seed(0)
    a, c = torch.randint(-(2**60), 2**60, (128, 128)), torch.zeros(128, dtype=torch.int64)
    simulate(program, a, c)
    assert torch.equal(c, a.amax(1))


@pytest.mark.parametrize(("results", "in_memory"), [(512, True), (128, False)])
def test_narrow_results_of_a_reducer_take_a_register_each(results, in_memory):
    @T.prim_func
    def main(A: T.Tensor((results,), "float16"), B: T.Tensor((results,), "float16")):
        with T.Kernel(1, threads=128):
            tile, total = T.alloc_shared((results,), "float16"), T.alloc_fragment((results,), "float16")
            partial = T.alloc_reducer((results,), "float16", op="sum")
            T.copy(A, tile)
            T.reducer_init(partial)
            for i in T.Parallel(results):
                T.reducer_update(partial[i], tile[i])
            T.finalize_reducer(partial, total)
            T.copy(total, B)

    assert ("#pragma unroll 8\n" in source(main)) == in_memory
    a, b = torch.randint(-3, 4, (results,)).half(), torch.zeros(results).half()
    simulate(main, a, b)
    assert torch.equal(a, b)


def test_arrays_that_one_loop_numbers_are_in_use_together():
    """Of 204 and 408 words neither is registers; NVRTC took 8 s over what was written out for them."""

    @T.prim_func
    def main(A: T.Tensor((48, 17), "float16"), B: T.Tensor((48, 17), "float32")):
        with T.Kernel(1, threads=2):
            a, b = T.alloc_fragment((48, 17), "float16"), T.alloc_fragment((48, 17), "float32")
            T.copy(A, a)
            for k in T.serial(3):
                for i, j in T.Parallel(48, 17):
                    b[i, j] = T.if_then_else(a[i, j] > k, a[i, j] * 2, b[i, j] if k > 0 else 0)
            T.copy(b, B)

    assert "#pragma unroll\n" not in source(main)
    a, b, want = torch.randint(0, 5, (48, 17)).half(), torch.zeros(48, 17), torch.zeros(48, 17)
    simulate(main, a, b)
    for k in range(3):
        want = torch.where(a > k, a.float() * 2, want)
    assert torch.equal(b, want)
