"""Waits of the whole block: a program that names no thread runs on a CPU with them."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.definition import EVERY, meaning


@pytest.mark.parametrize("target", EVERY)
def test_tiles_copied_ahead_by_the_program_itself(target):
    """Each asynchronous copy is a group of its own: the four of the last iteration are left in flight."""

    @T.prim_func
    def main(A: T.Tensor((96, 64), "float32"), B: T.Tensor((96, 64), "float32")):
        with T.Kernel(1, threads=128):
            tiles = T.alloc_shared((2, 32, 64), "float32")
            T.async_copy(A[0:32, :], tiles[0, :, :])
            for k in T.serial(3):
                T.sync_threads()
                if k + 1 < 3:
                    for part in T.unroll(4):
                        first = (k + 1) * 32 + part * 8
                        T.async_copy(A[first : first + 8, :], tiles[(k + 1) % 2, part * 8 : part * 8 + 8, :])
                    T.ptx_wait_group(4)
                else:
                    T.ptx_wait_group(0)
                T.sync_threads()
                for i, j in T.Parallel(32, 64):
                    B[k * 32 + i, j] = tiles[k % 2, i, j] * 2

    a, b = torch.randn(96, 64), torch.zeros(96, 64)
    assert torch.equal(meaning(main, a, b)[1], a * 2)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=EVERY[target])(a, b)
    assert torch.equal(b, a * 2)
