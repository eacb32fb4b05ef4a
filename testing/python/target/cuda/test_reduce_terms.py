"""Sums of many parts in shared memory: unrolled while they are few."""

from __future__ import annotations

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
