"""Sums of many parts in shared memory: unrolled while they are few."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source


def results_of_all_threads(threads):
    @T.prim_func
    def main(A: T.Tensor((32, 40), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=threads):
            most = T.alloc_reducer((32,), "int32", op="max", replication="all")
            result = T.alloc_fragment((32,), "int32")
            T.reducer_init(most)
            for i, j in T.Parallel(32, 40):
                T.reducer_update(most[i], A[i, j])
            T.finalize_reducer(most, result)
            T.copy(result, B)

    return main


def test_a_thread_that_combines_thousands_of_parts_does_so_in_a_loop():
    """127 threads share no digits with 32 results: each has a part of every one, 32 x 127 terms that were unrolled."""
    program = results_of_all_threads(127)
    assert "#pragma unroll 4\n    for (int p = 0; p < 127; ++p)" in source(program)
    a, b = torch.randint(-1000, 1000, (32, 40), dtype=torch.int32), torch.zeros(32, dtype=torch.int32)
    simulate(program, a, b)
    assert torch.equal(b, a.amax(1))


def test_few_parts_are_unrolled():
    assert "#pragma unroll 4" not in source(results_of_all_threads(31))


@pytest.mark.parametrize(("rows", "columns"), [(1, 200), (4, 1000)])
def test_registers_beyond_the_end_of_a_row_do_not_count(rows, columns):
    """The threads do not divide the row: the position along it, of a thread and its register, says which of them exist."""

    @T.prim_func
    def main(A: T.Tensor((rows, columns), "int32"), B: T.Tensor((rows,), "int32")):
        with T.Kernel(1, threads=128):
            tile, most = T.alloc_fragment((rows, columns), "int32"), T.alloc_fragment((rows,), "int32")
            T.copy(A, tile)
            T.reduce_max(tile, most, dim=1)
            T.copy(most, B)

    # All are below the zero that the other registers hold, and the last one is the greatest.
    a, b = torch.arange(-rows * columns, 0, dtype=torch.int32).view(rows, columns), torch.zeros(rows, dtype=torch.int32)
    simulate(main, a, b)
    assert torch.equal(b, a[:, -1])
