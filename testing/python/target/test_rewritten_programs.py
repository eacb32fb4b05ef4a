"""Small programs that rewriting real kernels, with the same meaning, has found to be wrong or refused."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.every_target import every_target, run


@every_target
@pytest.mark.parametrize("loop", [T.unroll, T.serial])
def test_loops_of_run_time_lengths(loop, target):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=32):
            total = T.alloc_fragment((2,), "float32")
            T.clear(total)
            for i in loop(n):
                total[0] += A[i]
            for i in loop(1, n, 2):
                total[1] += A[i]
            T.copy(total, B)

    assert run(main, target, torch.arange(7.0)).tolist() == [21, 9]
