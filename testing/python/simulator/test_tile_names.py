"""Findings about shared memory name the tile."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda
from tilelang.errors import SimulatorError


def copied(one_after_the_other):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=64):
            whole, part = T.alloc_shared((64, 64), "float32"), T.alloc_shared((64, 64), "float32")
            T.copy(A[0:8, :], part[0:8, :])
            if not one_after_the_other:
                T.copy(A, whole)
            for i, j in T.Parallel(64, 64):
                B[i, j] = part[i, 63 - j] if one_after_the_other else whole[i, j] + part[i, 63 - j]
            if one_after_the_other:
                T.copy(A, whole)
                for i, j in T.Parallel(64, 64):
                    B[i, j] = whole[j, i]

    return main


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("one_after_the_other", [False, True])
def test_what_was_never_written_is_named(one_after_the_other, arch):
    """Also where two tiles that are needed one after the other share memory."""
    kernel = tilelang.compile(copied(one_after_the_other), target=cuda(arch))
    with pytest.raises(SimulatorError, match=r"in shared memory \(byte \d+ of part\): not written"), tilelang.simulator():
        kernel(torch.ones(64, 64), torch.zeros(64, 64))
