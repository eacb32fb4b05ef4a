"""Transposition of slices, in straight code and of tiles that a pipelined loop has loaded."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.test_found_programs import check, every_target


@every_target
@pytest.mark.parametrize("stages", [0, 2])
def test_transposed_slices_without_the_axes_that_an_index_names(stages, target):
    @T.prim_func
    def main(A: T.Tensor((4, 6, 2, 16), "float32"), B: T.Tensor((4, 16, 6), "float32"), C: T.Tensor((4, 16, 1, 2), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((6, 2, 16), "float32")
            b, c = T.alloc_shared((16, 6, 3), "float32"), T.alloc_fragment((16, 1, 2), "float32")
            for k in T.Pipelined(4, num_stages=stages):
                T.copy(A[k, :, :, :], a)
                T.transpose(a[:, 1, :], b[:, :, k % 3])
                T.transpose(a[k, :, :], c[:, 0, :])
                T.copy(b[:, :, k % 3], B[k, :, :])
                T.copy(c, C[k, :, :, :])

    a = torch.randn(4, 6, 2, 16)
    b, c = torch.zeros(4, 16, 6), torch.zeros(4, 16, 1, 2)
    check(main, target, a, b, c)
    assert torch.equal(b, a[:, :, 1].transpose(1, 2))
    assert torch.equal(c[:, :, 0], torch.stack([a[k, k].T for k in range(4)]))
