"""Bulk copies that a program starts and waits for by itself, beside what threads do to the same memory."""

from __future__ import annotations

import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate
from testing.python.target.definition import meaning


def on_hopper(program, *tensors) -> None:
    """Checks a program of sm_90a beside the interpreter."""
    wanted, found = meaning(program, *tensors), [tensor.clone() for tensor in tensors]
    simulate(program, *found, arch="sm_90a")
    assert all(map(torch.equal, wanted, found))


def some(*shape) -> torch.Tensor:
    return torch.randint(-2, 3, shape).half()


def test_a_group_loads_a_tile_that_other_threads_have_read():
    @T.prim_func
    def main(A: T.Tensor((2, 64, 64), "float16"), C: T.Tensor((64, 64), "float16"), D: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            tile, full = T.alloc_shared((64, 64), "float16"), T.alloc_barrier(1)
            T.copy(A[0, :, :], tile)
            for i, j in T.Parallel(64, 64):
                C[i, j] = tile[i, 63 - j]
            with T.ws(0):
                if tx == 0:
                    T.tma_copy(A[1, 0:64, 0:64], tile, barrier=full)
                    T.mbarrier_arrive(full)
                T.mbarrier_wait_parity(full, 0)
                for i, j in T.Parallel(64, 64):
                    D[i, j] = tile[63 - i, j]

    on_hopper(main, some(2, 64, 64), some(64, 64), some(64, 64))


def test_a_group_loads_a_tile_again_that_all_threads_have_read_in_the_iteration_before():
    @T.prim_func
    def main(A: T.Tensor((3, 64, 64), "float16"), C: T.Tensor((64, 64), "float16"), D: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            tile, full = T.alloc_shared((64, 64), "float16"), T.alloc_barrier(1)
            for k in T.serial(3):
                with T.ws(0):
                    if tx == 0:
                        T.tma_copy(A[k, 0:64, 0:64], tile, barrier=full)
                        T.mbarrier_arrive(full)
                    T.mbarrier_wait_parity(full, k % 2)
                    for i, j in T.Parallel(64, 64):
                        D[i, j] = tile[63 - i, j]
                for i, j in T.Parallel(64, 64):
                    C[i, j] = C[i, j] + tile[i, 63 - j]

    on_hopper(main, some(3, 64, 64), some(64, 64), some(64, 64))
