"""Blocks that copy from and to tensors whose size turns out to be 0: they read zeros, and write nothing."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from testing.python.target.definition import check_meaning

n = T.dynamic("n")


@T.macro
def loaded(A, s, B):
    f = T.alloc_fragment((32, 64), "float16")
    T.clear(f)
    for k in T.Pipelined(3, num_stages=2):
        T.copy(A[k * 32, 0], s)
        for i, j in T.Parallel(32, 64):
            f[i, j] += s[i, j]
    T.copy(f, s)


@T.macro
def stored(A, s, B):
    T.fill(s, 2)
    T.copy(s, B[0:32, :])


@T.macro
def added(A, s, B):
    T.fill(s, 2)
    T.atomic_add(B[8:40, :], s)


@pytest.mark.parametrize("body", [loaded, stored, added], ids=lambda body: body.__name__)
@pytest.mark.parametrize("rows", [0, 1, 40])
def test_copies_of_the_tensor_memory_accelerator(body, rows):
    @T.prim_func
    def main(A: T.Tensor((n, 64), "float16"), B: T.Tensor((n, 64), "float16"), C: T.Tensor((32, 64), "float16")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((32, 64), "float16")
            body(A, s, B)
            T.copy(s, C)

    assert source(main, "sm_90a").count("tl::tma_") > 2
    check_meaning(main, torch.ones(rows, 64).half(), torch.full((rows, 64), 3.0).half(), torch.full((32, 64), 7.0).half())


@T.macro
def by_name(A, tile, full):
    if T.get_thread_binding() == 0:
        T.tma_copy(A[0:64, :], tile, barrier=full)
        T.mbarrier_arrive(full)


@T.macro
def by_hand(A, tile, full):
    tensor_map = T.create_tma_descriptor(6, 2, A, 64, n, 2, 128, 64, 64, 1, 1, 0, 0, 2, 0)
    if T.get_thread_binding() == 0:
        T.mbarrier_expect_tx(full, 64 * 64 * 2)
        T.tma_load(tensor_map, full, tile[0, 0], 0, 0)
        T.mbarrier_arrive(full)


@pytest.mark.parametrize("load", [by_name, by_hand], ids=lambda load: load.__name__)
def test_loads_that_the_program_waits_for(load):
    @T.prim_func
    def main(A: T.Tensor((n, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile, full = T.alloc_shared((64, 64), "float16"), T.alloc_barrier(1)
            T.annotate_layout({tile: tilelang.layout.make_linear_layout(tile)})
            load(A, tile, full[0])
            T.mbarrier_wait_parity(full, 0)
            T.copy(tile, C)

    for rows in (0, 3):
        c = torch.full((64, 64), 7.0).half()
        simulate(main, torch.ones(rows, 64).half(), c, arch="sm_90a")
        assert float(c.sum()) == rows * 64
