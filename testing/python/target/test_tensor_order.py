"""What several statements of a kernel do to one tensor happens in program order, whichever threads or units do it."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda, source
from testing.python.target.every_target import every_target, run

N = 64


def _kernel(act):
    @T.prim_func
    def main(A: T.Tensor((N, N), "float16"), B: T.Tensor((N, N), "float16"), C: T.Tensor((N, N), "float16")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((N, N), "float16"), T.alloc_shared((N, N), "float16")
            rows, columns = T.alloc_fragment((N, N), "float16"), T.alloc_fragment((N, N), "float16")
            T.annotate_layout({columns: T.Fragment((N, N), lambda i, j: ((j * N + i) % 128, (j * N + i) // 128))})
            T.copy(A, a)
            T.copy(B, b)
            T.copy(B, rows)
            T.copy(A, columns)
            act(a, b, rows, columns, C)

    return main


@T.macro
def _two_tiles(a, b, rows, columns, C):
    T.copy(a, C)
    T.copy(b, C)


@T.macro
def _two_fragments(a, b, rows, columns, C):
    T.copy(columns, C)
    T.copy(rows, C)


@T.macro
def _tile_and_fragment(a, b, rows, columns, C):
    T.copy(a, C)
    T.copy(rows, C)


@T.macro
def _fragment_and_tile(a, b, rows, columns, C):
    T.copy(columns, C)
    T.copy(b, C)


@T.macro
def _again(a, b, rows, columns, C):
    for k in T.serial(3):
        for i, j in T.Parallel(N, N):
            a[i, j] = T.if_then_else(k == 2, b[i, j], a[i, j] + 1)
        T.copy(a, C)


@T.macro
def _halves_again(a, b, rows, columns, C):
    for k in T.serial(2):
        T.copy(a, C[k * 32, 0])
        T.copy(b[0:32, :], C[k * 32, 0])
        T.copy(b[32:64, :], a[0:32, :])
        T.copy(b[32:64, :], b[0:32, :])


STORES = (_two_tiles, _two_fragments, _tile_and_fragment, _fragment_and_tile, _again, _halves_again)


@every_target
@pytest.mark.parametrize("act", STORES, ids=lambda act: act.__name__)
def test_the_last_store_is_kept(act, target):
    a, b = (torch.randint(-4, 4, (N, N)).half() for _ in range(2))
    assert torch.equal(run(_kernel(act), target, a, b), b)


@every_target
def test_atomic_sums_are_complete_when_they_are_read(target):
    @T.prim_func
    def main(C: T.Tensor((4,), "float32"), D: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                T.atomic_add(C[i % 4], T.float32(1))
            for i in T.Parallel(4):
                D[i] = C[3 - i]

    assert run(main, target, torch.zeros(4)).tolist() == [32.0] * 4


def test_atomics_come_after_the_stores_below_them():
    @T.prim_func
    def main(C: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                C[i] = 5.0
            for i in T.Parallel(128):
                T.atomic_add(C[127 - i], T.float32(1))

    assert source(main).count("__syncthreads") == 1


def test_atomics_alone_and_copies_to_different_parts_need_no_barrier():
    @T.prim_func
    def main(A: T.Tensor((8, 128), "float32"), B: T.Tensor((8, 128), "float32"), C: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            values = T.alloc_fragment((128,), "float32")
            for k in T.serial(4):
                T.copy(A[k, :], values)
                T.copy(values, B[k * 2, :])
                T.copy(values, B[k * 2 + 1, :])
                for i in T.Parallel(128):
                    T.atomic_add(C[i], values[i])
                for i in T.Parallel(128):
                    T.atomic_add(C[127 - i], values[i])

    assert "__syncthreads" not in source(main)


@pytest.mark.parametrize("step", [0, N])
def test_a_repeated_store_in_bulk_waits_for_the_last_one_where_they_may_meet(step):
    @T.prim_func
    def main(A: T.Tensor((4 * N, N), "float16"), C: T.Tensor((4 * N, N), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((N, N), "float16")
            for k in T.serial(4):
                T.copy(A[k * N, 0], tile)
                T.copy(tile, C[k * step, 0])

    text = tilelang.lower(main, target=cuda("sm_90a")).kernel_source
    assert "tma_store_2d" in text
    assert ("tma_store_wait_complete" in text) == (step == 0)


@every_target
def test_atomic_updates_by_different_operations(target):
    @T.prim_func
    def main(X: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                T.atomic_store(Y[63 - i], X[i])
            for i in T.Parallel(64):
                T.atomic_add(Y[i], i)
            for i in T.Parallel(64):
                T.atomic_max(Y[i ^ 33], 40)

    x = torch.arange(64, dtype=torch.int32) * 37 % 64 - 32
    assert torch.equal(run(main, target, x), (x.flip(0) + torch.arange(64)).clamp(min=40).int())


@every_target
def test_atomic_stores_of_several_iterations(target):
    @T.prim_func
    def main(X: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            for k in T.serial(4):
                for i in T.Parallel(64):
                    T.atomic_store(Y[(i * 37 + k * 31) % 64], X[i] + k)

    x = torch.arange(64, dtype=torch.int32) * 10
    expected = torch.zeros(64, dtype=torch.int32)
    expected[(torch.arange(64) * 37 + 3 * 31) % 64] = x + 3
    assert torch.equal(run(main, target, x), expected)
