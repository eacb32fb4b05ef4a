"""Copies whose places differ between threads: each thread makes its own, and those of a warp may make one together."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from testing.python.target.definition import check_meaning, meaning
from tilelang.errors import DivergenceError


@T.macro
def stored(A, B, tile, first, warp):
    T.copy(A[first, 0], tile)
    T.copy(tile[warp, 0:64], B[first + warp, 0:64])


@T.macro
def loaded(A, B, tile, first, warp):
    T.copy(A[first + warp, 0:64], tile[warp, 0:64])
    T.copy(tile, B[first, 0])


@T.macro
def loaded_in_a_pipeline(A, B, tile, first, warp):
    for k in T.Pipelined(2, num_stages=2):
        T.copy(A[k * 8 + warp, 0:64], tile[warp, 0:64])
        T.copy(tile, B[first + k * 8, 0])


@T.macro
def added(A, B, tile, first, warp):
    T.copy(A[first, 0], tile)
    T.atomic_add(B[first + warp, 0:64], tile[warp, 0:64])


@pytest.mark.parametrize("body", [stored, loaded, loaded_in_a_pipeline, added], ids=lambda body: body.__name__)
def test_a_row_for_each_warp(body):
    blocks = 1 if body is loaded_in_a_pipeline else 2

    @T.prim_func
    def main(A: T.Tensor((16, 64), "float32"), B: T.Tensor((16, 64), "float32")):
        with T.Kernel(blocks, threads=256) as block:
            tile = T.alloc_shared((8, 64), "float32")
            body(A, B, tile, block * 8, T.get_thread_binding() // 32)

    check_meaning(main, torch.randint(-9, 9, (16, 64)).float(), torch.zeros(16, 64))


def by_groups(threads, width):
    groups = 256 // threads

    @T.prim_func
    def main(A: T.Tensor((groups, width), "float32"), B: T.Tensor((groups,), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            group = tx // threads
            tile, bar = T.alloc_shared((groups, width), "float32"), T.alloc_barrier([threads] * groups)
            T.tma_copy(A[group, 0:width], tile[group, 0:width], barrier=bar[group])
            T.mbarrier_arrive(bar[group])
            T.mbarrier_wait_parity(bar[group], 0)
            if tx % threads == 0:
                B[group] = tile[group, 0] + tile[group, width - 1]

    return main


@pytest.mark.parametrize("threads", [32, 64, 256])
@pytest.mark.parametrize("width", [64, 1024])
def test_threads_that_name_one_place_start_one_tma_copy(threads, width):
    a, b = torch.randint(-9, 9, (256 // threads, width)).float(), torch.zeros(256 // threads)
    wanted = meaning(by_groups(threads, width), a, b)[1]
    simulate(by_groups(threads, width), a, b, arch="sm_90a")
    assert torch.equal(b, wanted)


def test_a_tma_copy_of_each_thread_is_refused():
    with pytest.raises(DivergenceError, match="the threads of a warp name different places"):
        source(by_groups(8, 64), "sm_90a")


def test_a_warp_that_has_taken_its_work_by_itself_starts_one_tma_copy():
    """The text does not say that lanes agree on what one of them has claimed."""

    @T.prim_func
    def main(A: T.Tensor((8, 64, 64), "float16"), claimed: T.Tensor((1,), "int32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=160):
            lane = T.get_thread_binding() - 128
            tile = T.alloc_shared((64, 64), "float16")
            full, free = T.alloc_barrier([32]), T.alloc_barrier([128])
            if lane >= 0:
                work, done = T.alloc_local((1,), "int32"), T.alloc_var("int32", init=0)
                work[0] = 0
                while work[0] < 4:
                    if lane == 0:
                        work[0] = T.atomic_add(claimed[0], 1, return_prev=True)
                    work[0] = T.shfl_sync(work[0], 0)
                    if work[0] < 4:
                        T.mbarrier_wait_parity(free, done % 2 ^ 1)
                        T.tma_copy(A[work[0] * 2, :, :], tile, barrier=full)
                        T.mbarrier_arrive(full)
                        done += 1
            else:
                total = T.alloc_fragment((64, 64), "float32")
                T.clear(total)
                for k in T.serial(4):
                    T.mbarrier_wait_parity(full, k % 2)
                    for i, j in T.Parallel(64, 64):
                        total[i, j] += tile[i, j] * (k + 1)
                    T.mbarrier_arrive(free)
                T.copy(total, B)

    a, claimed, b = torch.randint(-3, 4, (8, 64, 64)).half(), torch.zeros(1, dtype=torch.int32), torch.zeros(64, 64)
    wanted = sum(a[2 * k].float() * (k + 1) for k in range(4))
    assert torch.equal(meaning(main, a, claimed, b)[2], wanted)
    simulate(main, a, claimed, b, arch="sm_90a")
    assert torch.equal(b, wanted)
