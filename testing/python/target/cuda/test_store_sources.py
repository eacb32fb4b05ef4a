"""What ``T.tma_copy`` stores from shared memory is not written before the program has waited for the store."""

from __future__ import annotations

from typing import Any

import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate
from testing.python.target.definition import meaning


def check(program: Any, *tensors: torch.Tensor) -> None:
    found = [tensor.clone() for tensor in tensors]
    simulate(program, *found, arch="sm_90a")
    assert all(map(torch.equal, found, meaning(program, *tensors)))


def test_the_source_shares_no_memory_before_the_wait():
    """The scratch of the reduction is used for the first time while the store reads its source."""

    @T.prim_func
    def main(A: T.Tensor((32, 16), "float16"), B: T.Tensor((32, 16), "float16"), C: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32, 16), "float16")
            T.copy(A, tile)
            numbers = T.alloc_shared((2, 4), "int32")
            T.fill(numbers, 7)
            largest = T.alloc_fragment((2,), "int32")
            T.tma_copy(tile, B)
            T.tma_store_arrive()
            T.reduce_max(numbers[:, 2:4], largest, dim=1)
            T.tma_store_wait(0)
            T.copy(largest, C)

    check(main, torch.randn(32, 16).half(), torch.zeros(32, 16).half(), torch.zeros(2, dtype=torch.int32))


def test_threads_write_the_source_after_the_one_that_waited():
    """A barrier between the store and the wait does not order what other threads do after the wait."""

    @T.prim_func
    def main(A: T.Tensor((32, 16), "float16"), B: T.Tensor((32, 16), "float16"), C: T.Tensor((128,), "float32"),
             D: T.Tensor((32, 16), "float16")):  # fmt: skip
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((32, 16), "float16")
            other = T.alloc_shared((128,), "float32")
            T.copy(A, tile)
            T.tma_copy(tile, B)
            T.tma_store_arrive()
            for i in T.Parallel(128):
                other[i] = C[i]
            for i in T.Parallel(128):
                C[i] = other[127 - i] + 1
            T.tma_store_wait(0)
            T.fill(tile, 3)
            T.copy(tile, D)

    check(main, torch.randn(32, 16).half(), torch.zeros(32, 16).half(), torch.arange(128.0), torch.zeros(32, 16).half())


def test_the_source_is_written_again_in_the_next_iteration():
    @T.prim_func
    def main(A: T.Tensor((4, 32, 16), "float16"), B: T.Tensor((4, 32, 16), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((32, 16), "float16")
            for step in T.serial(4):
                T.tma_store_wait(0)
                for i, j in T.Parallel(32, 16):
                    tile[i, j] = A[step, i, j] + T.float16(1)
                T.tma_copy(tile, B[step, 0:32, 0:16])
                T.tma_store_arrive()
            T.tma_store_wait(0)

    check(main, torch.randn(4, 32, 16).half(), torch.zeros(4, 32, 16).half())
