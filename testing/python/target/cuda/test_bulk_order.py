"""Copies that a program starts and waits for by itself, beside what threads do to the same memory, and what no thread reads."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from testing.python.target.definition import check_meaning, meaning


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


@pytest.mark.parametrize("read", [True, False])
def test_threads_read_what_a_bulk_store_has_written(read):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float16"), D: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            T.copy(A, tile)
            T.tma_copy(tile, C)
            T.tma_store_wait(0, read)
            for i, j in T.Parallel(64, 64):
                D[i, j] = C[i, 63 - j]

    on_hopper(main, some(64, 64), some(64, 64), some(64, 64))


def test_a_bulk_store_comes_between_stores_of_threads():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            T.copy(A, tile)
            T.sync_threads()
            for i, j in T.Parallel(64, 64):
                C[i, j] = 1
            T.tma_copy(tile, C)
            T.tma_store_wait(0)
            for i, j in T.Parallel(64, 64):
                if j % 3 == 0:
                    C[i, 63 - j] = 2

    on_hopper(main, some(64, 64), some(64, 64))


def test_a_bulk_load_comes_between_stores_of_threads():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float16"), D: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile, full = T.alloc_shared((64, 64), "float16"), T.alloc_barrier(1)
            for i, j in T.Parallel(64, 64):
                C[i, j] = A[i, 63 - j]
            if tx == 0:
                T.tma_copy(C, tile, barrier=full)
                T.mbarrier_arrive(full)
                T.mbarrier_wait_parity(full, 0)
            for i, j in T.Parallel(64, 64):
                C[i, 63 - j] = A[j, i]
            T.copy(tile, D)

    assert "tl::fence_proxy_async_tensors" in source(main, "sm_90a")
    on_hopper(main, some(64, 64), some(64, 64), some(64, 64))


def test_a_bulk_load_reads_what_a_bulk_store_has_written():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float16"), D: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            stored, loaded, full = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16"), T.alloc_barrier(1)
            T.copy(A, stored)
            T.tma_copy(stored, C)
            T.tma_store_wait(0)
            if tx == 130:
                T.tma_copy(C, loaded, barrier=full)
                T.mbarrier_arrive(full)
            T.mbarrier_wait_parity(full, 0)
            T.copy(loaded, D)

    on_hopper(main, some(64, 64), some(64, 64), some(64, 64))


@pytest.mark.parametrize("signals", [False, True])
def test_a_content_that_no_thread_reads_has_the_bytes_of_its_tile(signals):
    @T.prim_func
    def main(A: T.Tensor((2, 64, 64), "float32"), C: T.Tensor((64, 64), "float32"), D: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256):
            tile, other = T.alloc_shared((64, 64), "float32"), T.alloc_shared((64, 64), "float32")
            full, empty = T.alloc_barrier(128), T.alloc_barrier(128)
            with T.ws(0):
                T.copy(A[0, 0:64, 0:64], tile)
                T.mbarrier_arrive(full)
                T.mbarrier_wait_parity(empty, 0)
                for i, j in T.Parallel(64, 64):
                    tile[i, j] = 7.0
                if signals:
                    T.mbarrier_arrive(full)
            with T.ws(1):
                T.mbarrier_wait_parity(full, 0)
                for i, j in T.Parallel(64, 64):
                    C[i, j] = tile[i, 63 - j]
                T.mbarrier_arrive(empty)
                for i, j in T.Parallel(64, 64):
                    other[i, j] = A[1, i, j]
                for i, j in T.Parallel(64, 64):
                    D[i, j] = other[i, 63 - j]

    check_meaning(main, torch.randn(2, 64, 64), torch.zeros(64, 64), torch.zeros(64, 64))


def by_turns(read, written, leaves=False):
    """A tile that a group fills in some iterations, and another reads in some, before it uses another tile."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), C: T.Tensor((64, 64), "float32"), D: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256):
            tile, other = T.alloc_shared((64, 64), "float32"), T.alloc_shared((64, 64), "float32")
            full, empty = T.alloc_barrier(128), T.alloc_barrier(128)
            with T.ws(0):
                for k in T.serial(written):
                    T.mbarrier_wait_parity(empty, (k + 1) % 2)
                    T.copy(A, tile)
                    T.mbarrier_arrive(full)
            with T.ws(1):
                for k in T.serial(read):
                    T.mbarrier_wait_parity(full, k % 2)
                    for i, j in T.Parallel(64, 64):
                        C[i, j] = tile[i, 63 - j]
                    if leaves and A[k, 0] > 1:
                        break
                    T.mbarrier_arrive(empty)
                for i, j in T.Parallel(64, 64):
                    other[i, j] = A[j, i]
                for i, j in T.Parallel(64, 64):
                    D[i, j] = other[i, 63 - j]

    return main


@pytest.mark.parametrize(("written", "read", "leaves", "pools"), [(3, 3, False, 2), (3, 2, False, 1), (2, 2, True, 1)])
def test_a_tile_ends_with_its_reader_where_all_that_is_written_is_read(written, read, leaves, pools):
    program = by_turns(read, written, leaves)
    assert source(program, "sm_80").count("(pool + 0)") == pools
    check_meaning(program, torch.rand(64, 64), torch.zeros(64, 64), torch.zeros(64, 64))


def test_a_bulk_load_that_nothing_has_read_fills_its_own_bytes():
    @T.prim_func
    def main(A: T.Tensor((4, 64, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile, other = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            part, full = T.alloc_fragment((64, 64), "float16"), T.alloc_barrier(1)
            if tx == 0:
                T.tma_copy(A[0, 0:64, 0:64], tile, barrier=full)
                T.mbarrier_arrive(full)
            for k in T.serial(3):
                T.mbarrier_wait_parity(full, k % 2)
                T.copy(tile, part)
                if tx == 0:
                    T.tma_copy(A[k + 1, 0:64, 0:64], tile, barrier=full)
                    T.mbarrier_arrive(full)
            for i, j in T.Parallel(64, 64):
                other[i, j] = part[i, j]
            for i, j in T.Parallel(64, 64):
                C[i, j] = other[i, 63 - j]
            T.mbarrier_wait_parity(full, 1)

    on_hopper(main, some(4, 64, 64), torch.zeros(64, 64).half())


@pytest.mark.parametrize("behind", [False, True])
def test_a_branch_on_data_comes_after_the_wait_of_a_thread(behind):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "int32"), C: T.Tensor((128,), "int32"), D: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile, full = T.alloc_shared((64, 64), "int32"), T.alloc_barrier(1)
            if tx == 0:
                T.tma_copy(A, tile, barrier=full)
                T.mbarrier_arrive(full)
                T.mbarrier_wait_parity(full, 0)
            if tile[tx % 64, 0] > 0:
                C[tx] = 1
            else:
                C[tx] = tile[63 - tx % 64, 1]
            if behind:
                if tx < 32:
                    D[tx] = 3

    on_hopper(main, some(64, 64).int(), torch.zeros(128).int(), torch.zeros(128).int())


@pytest.mark.parametrize("where", ["below", "above"])
def test_a_branch_on_data_that_a_thread_waits_for_stands_between_groups(where):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "int32"), C: T.Tensor((128,), "int32"), D: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile, full, more = T.alloc_shared((64, 64), "int32"), T.alloc_barrier(1), T.alloc_barrier(32)
            if tx == 0:
                T.tma_copy(A, tile, barrier=full)
                T.mbarrier_arrive(full)
                T.mbarrier_wait_parity(full, 0)
            if tile[tx % 64, 0] > 0:
                C[tx] = 1
            else:
                C[tx] = tile[63 - tx % 64, 1]
            if where == "below":
                if tx < 32:
                    D[tx] = 3
                    T.mbarrier_arrive(more)
                    T.mbarrier_wait_parity(more, 0)
            else:
                if tx < 32:
                    T.mbarrier_arrive(more)
                if tx >= 64:
                    T.mbarrier_wait_parity(more, 0)
                    D[tx] = 4

    on_hopper(main, some(64, 64).int(), torch.zeros(128).int(), torch.zeros(128).int())


@pytest.mark.parametrize("apart", [False, True])
def test_a_branch_on_what_a_group_wrote_stands_between_groups(apart):
    """Where each thread reads its own element, it need not wait for the others."""

    @T.prim_func
    def main(A: T.Tensor((128,), "int32"), C: T.Tensor((128,), "int32"), D: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile, full, more = T.alloc_shared((128,), "int32"), T.alloc_barrier(64), T.alloc_barrier(64)
            tile[tx] = A[127 - tx]
            if tx < 64:
                tile[tx] = A[tx]
                T.mbarrier_arrive(full)
                T.mbarrier_wait_parity(full, 0)
            if tile[tx if apart else tx % 64] > 0:
                C[tx] = 1
            if tx >= 64:
                T.mbarrier_arrive(more)
                T.mbarrier_wait_parity(more, 0)
                D[tx] = 4

    check_meaning(main, torch.arange(128).int() % 5 - 2, torch.zeros(128).int(), torch.zeros(128).int())


def test_a_branch_on_data_between_groups_does_not_part_them():
    @T.prim_func
    def main(A: T.Tensor((128,), "int32"), X: T.Tensor((128,), "int32"), C: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile, full = T.alloc_shared((64,), "int32"), T.alloc_barrier(64)
            if tx < 64:
                T.mbarrier_wait_parity(full, 0)
                C[tx] = tile[tx]
            if X[tx] > 0:
                C[tx] = 5
            if tx >= 64:
                tile[tx - 64] = A[tx]
                T.mbarrier_arrive(full)

    check_meaning(main, torch.arange(128).int(), torch.arange(128).int() % 3, torch.zeros(128).int())


NUMBERS = (6, 2), (64, 64, 2, 128, 64, 64, 1, 1, 0, 0, 2, 0)
"""Type and rank of a descriptor before its tensor, of 64 rows of 64 elements, and all else after it."""


@T.macro
def in_rows(tile):
    T.annotate_layout({tile: T.Layout((64, 64), lambda i, j: (i, j))})


def test_a_load_by_a_descriptor_comes_after_what_threads_do_to_both_sides():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile, full = T.alloc_shared((64, 64), "float16"), T.alloc_barrier(1)
            in_rows(tile)
            for i, j in T.Parallel(64, 64):
                tile[i, j] = A[i, j]
            for i, j in T.Parallel(64, 64):
                B[i, j] = tile[i, 63 - j]
            if tx == 0:
                T.mbarrier_arrive_expect_tx(full, 64 * 64 * 2)
                T.tma_load(T.create_tma_descriptor(*NUMBERS[0], B, *NUMBERS[1]), full, tile[0, 0], 0, 0)
            T.mbarrier_wait_parity(full, 0)
            for i, j in T.Parallel(64, 64):
                C[i, j] = tile[j, i]

    on_hopper(main, some(64, 64), torch.zeros(64, 64).half(), torch.zeros(64, 64).half())


def test_a_store_by_a_descriptor_comes_between_what_threads_do_to_both_sides():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((64, 64), "float16")
            in_rows(tile)
            for i, j in T.Parallel(64, 64):
                tile[i, j] = A[i, 63 - j]
            if tx == 0:
                T.tma_store(T.create_tma_descriptor(*NUMBERS[0], B, *NUMBERS[1]), tile[0, 0], 0, 0)
                T.tma_store_arrive()
                T.tma_store_wait(0)
            for i, j in T.Parallel(64, 64):
                C[i, j] = B[i, 63 - j]

    on_hopper(main, some(64, 64), torch.zeros(64, 64).half(), torch.zeros(64, 64).half())
