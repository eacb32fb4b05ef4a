"""Shifts by amounts that only the run-time knows, used as bounds and indices."""

from __future__ import annotations

import torch

import tilelang.language as T
from testing.python.target.cpu.support import build, on_both


@on_both
def test_a_distance_that_doubles(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for s in T.unroll(3):
                d = 1 << s
                for i in T.Parallel(64):
                    if i >= d:
                        C[i] = A[i - d]

    a, c = torch.randn(64), torch.zeros(64)
    build(main, target)(a, c)
    want = torch.zeros(64)
    for d in (1, 2, 4):
        want[d:] = a[:-d]
    assert torch.equal(c, want)
