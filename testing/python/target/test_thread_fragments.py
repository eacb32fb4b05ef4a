"""Fragments whose elements single threads store: they change in the block's one tile, whichever threads hold copies of it.

The interpreter tells what a program does, and that it has no race.
"""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.definition import GPU, check_meaning
from tilelang.errors import MisplacedError

N = 64


def test_a_store_below_a_condition_on_the_thread():
    @T.prim_func
    def main(B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            tile = T.alloc_fragment((N,), "float32")
            T.clear(tile)
            if T.get_thread_binding() == 3:
                tile[5] = 7.0
            T.copy(tile, B)

    (b,) = check_meaning(main, torch.zeros(N))
    assert b.nonzero().tolist() == [[5]]


def test_a_view_sees_what_a_thread_has_stored():
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            tile = T.alloc_fragment((N,), "float32")
            view = T.view(tile, (8, 8))
            T.copy(A, tile)
            if T.get_thread_binding() == 9:
                tile[4] = 100.0
            for i, j in T.Parallel(8, 8):
                B[i * 8 + j] = view[i, j]

    a = torch.arange(float(N))
    _, b = check_meaning(main, a, torch.zeros(N))
    assert torch.equal(b, torch.where(a == 4, 100, a))


def test_threads_take_turns_at_the_elements():
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            tile = T.alloc_fragment((N,), "float32")
            tx = T.get_thread_binding()
            T.clear(tile)
            for i in T.serial(4):
                tile[(tx + i) % N] += A[tx]
                T.sync_threads()
            T.copy(tile, B)

    a = torch.arange(float(N))
    _, b = check_meaning(main, a, torch.zeros(N))
    assert torch.equal(b, sum(a.roll(i) for i in range(4)))


def test_between_reductions_and_products():
    @T.prim_func
    def main(A: T.Tensor((N, N), "float16"), C: T.Tensor((N, N), "float32"), S: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=128):
            a, c = T.alloc_shared((N, N), "float16"), T.alloc_fragment((N, N), "float32")
            sums = T.alloc_fragment((N,), "float32")
            tx = T.get_thread_binding()
            T.copy(A, a)
            T.gemm(a, a, c, clear_accum=True)
            if tx == 9:
                c[3, 5] = 100.0
            T.gemm(a, a, c)
            T.reduce_sum(c, sums, dim=1)
            if tx == 64:
                sums[2] = sums[1] + 1
            T.copy(c, C)
            T.copy(sums, S)

    _, c, s = check_meaning(main, torch.eye(N).half(), torch.zeros(N, N), torch.zeros(N))
    assert c[3, 5] == 100 and c.sum() == 2 * N + 100
    assert s[:4].tolist() == [2, 2, 3, 102]


def test_atomic_updates_of_elements_that_no_two_iterations_share():
    @T.prim_func
    def main(A: T.Tensor((2, N), "float32"), B: T.Tensor((2, N), "float32")):
        with T.Kernel(1, threads=N):
            tile, row = T.alloc_fragment((2, N), "float32"), T.alloc_fragment((N,), "float32")
            T.copy(A, tile)
            T.fill(row, 2.0)
            for i, j in T.Parallel(2, N):
                T.atomic_add(tile[i, j], row[j])
            for k in T.serial(2):
                T.atomic_add(tile[k, :], row)
            T.copy(tile, B)

    a = torch.arange(2.0 * N).reshape(2, N)
    _, b = check_meaning(main, a, torch.zeros(2, N))
    assert torch.equal(b, a + 4)


def test_a_layout_of_registers_does_not_matter_there():
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            tile = T.alloc_fragment((N,), "float32")
            T.annotate_layout({tile: T.Fragment((N,), forward_fn=lambda i: (i // 2, i % 2))})
            T.copy(A, tile)
            if T.get_thread_binding() == 3:
                tile[5] = 70.0
            T.copy(tile, B)

    a = torch.arange(float(N))
    _, b = check_meaning(main, a, torch.zeros(N))
    assert torch.equal(b, torch.where(a == 5, 70, a))


def test_foreign_code_gets_no_address_of_a_tile_that_is_spread_over_threads():
    @T.prim_func
    def main(A: T.Tensor((16, 64), "float32")):
        with T.Kernel(1, threads=128):
            T.import_source("__device__ void take(const float* tile) {}")
            tile = T.alloc_fragment((16, 64), "float32")
            T.annotate_layout({tile: T.Fragment((16, 64), forward_fn=lambda i, j: (i * 8 + j // 8, j % 8))})
            T.copy(A, tile)
            T.call_extern("handle", "take", T.address_of(tile[0, 0]))

    with pytest.raises(MisplacedError, match="tile is spread over the threads"):
        tilelang.compile(main, target=GPU["sm_80"])
