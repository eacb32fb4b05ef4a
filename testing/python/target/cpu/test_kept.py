"""Panels of B are kept for the next blocks, exactly where every block would pack the same."""

from __future__ import annotations

import pytest
import torch
import tvm_ffi

import tilelang.language as T
from tilelang.ir import nodes as ir

from .support import build, lowered, on_both

M, N, K, TILE = 96, 80, 40, 16


def program(kind="", m=M, n=N, k=K, tile=TILE, dtype="float32", transposed=True):
    """``C = A B`` with tiles of ``tile`` in every direction; ``kind`` names what is unusual."""
    batches = 2 if kind == "batches" else 1
    rows, columns = T.ceildiv(m, tile), T.ceildiv(n, tile)
    result = "float32" if dtype == "float32" else "int32"
    shape = (n, k) if transposed else (k, n)

    @T.prim_func
    def main(
        A: T.Tensor((batches, m, k), dtype),
        B: T.Tensor((batches, *shape), dtype),
        C: T.Tensor((batches, m, n), result),
        L: T.Tensor((rows,), "int32"),
    ):
        with T.Kernel(columns, rows, batches, threads=128) as (bx, by, bz):
            a = T.alloc_shared((tile, tile), dtype)
            b = T.alloc_shared((tile, tile), dtype)
            c = T.alloc_fragment((tile, tile), result)
            if kind.endswith("apart"):
                a_end = T.alloc_shared((tile, tile), dtype)
                b_end = T.alloc_shared((tile, tile), dtype)
            T.clear(c)
            if kind == "random numbers":
                T.rng_init(7)
            if kind == "left early" and by == rows:
                T.thread_return()
            for step in T.serial(by + 1 if kind == "causal" else T.ceildiv(k, tile)):
                if kind.endswith("apart"):
                    if (by < 5) if kind == "rows apart" else (bx < 3):
                        T.copy(A[bz, by * tile, step * tile], a)
                        T.copy(B[bz, step * tile, bx * tile], b)
                        T.gemm(a, b, c)
                    else:
                        T.copy(A[bz, by * tile, step * tile], a_end)
                        T.copy(B[bz, step * tile, bx * tile], b_end)
                        T.gemm(a_end, b_end, c)
                elif kind == "other columns":
                    T.copy(B[bz, (bx + by) % columns * tile, step * tile], b)
                elif transposed:
                    T.copy(B[bz, bx * tile, step * tile], b)
                else:
                    T.copy(B[bz, step * tile, bx * tile], b)
                if not kind.endswith("apart"):
                    T.copy(A[bz, by * tile, step * tile], a)
                if kind == "condition":
                    if L[by] > 0:
                        T.gemm(a, b, c, transpose_B=transposed)
                elif not kind.endswith("apart"):
                    T.gemm(a, b, c, transpose_B=transposed)
            T.copy(c, C[bz, by * tile, bx * tile])
            if kind == "written":
                B[bz, bx * tile, by] = 0.0

    return main


def keeps(func):
    """Whether the program keeps panels."""
    found = []
    tvm_ffi.structural_walk(lowered(func), [(ir.AllocBuffer, lambda node: found.append(node.buffer.name == "b_kept"))])
    return any(found)


@pytest.mark.parametrize("kind", ["", "batches"])
@pytest.mark.parametrize("transposed", [True, False])
def test_blocks_below_each_other_share_panels(kind, transposed):
    assert keeps(program(kind, k=32, dtype="int8", transposed=transposed))


def test_panels_that_the_first_row_of_tiles_packs_are_shared():
    assert keeps(program(m=192, n=128, k=128, tile=64, transposed=False))


@pytest.mark.parametrize("kind", ["rows apart", "columns apart"])
def test_blocks_below_a_bound_share_panels(kind):
    assert keeps(program(kind, k=32, dtype="int8", transposed=False))


@pytest.mark.parametrize("kind", ["causal", "condition", "written", "other columns", "random numbers", "left early"])
def test_blocks_that_differ_pack_their_own(kind):
    assert keeps(program(m=80, k=32)) and not keeps(program(kind, m=80, k=32))


def test_panels_larger_than_the_cache_are_not_kept():
    assert not keeps(program(k=16384, tile=32))


def test_a_number_of_blocks_that_nothing_divides_has_no_groups():
    assert not keeps(program(m=11 * TILE, k=32))


@on_both
@pytest.mark.parametrize(
    ("kind", "dtype", "transposed"),
    [
        ("", "int8", False),
        ("batches", "int8", True),
        ("", "float32", True),
        ("", "float32", False),
        ("rows apart", "float32", False),
        ("rows apart", "int8", False),
        ("columns apart", "int8", False),
        ("condition", "int8", False),
        ("causal", "int8", True),
    ],
)
def test_results(kind, dtype, transposed, target):
    """As many blocks as make a kernel parallel, whose parts begin inside of groups; depths that fill no tile of AMX."""
    tile, batches = 48, 2 if kind == "batches" else 1
    m, n, k = 12 * tile, 5 * tile, (12 if kind == "causal" else 2) * tile
    a, b = torch.randint(-4, 5, (batches, m, k)), torch.randint(-4, 5, (batches, n, k))
    c, length = torch.empty(batches, m, n, dtype=torch.int32), torch.arange(m // tile, dtype=torch.int32) % 3 - 1
    types = getattr(torch, dtype), torch.float32 if dtype == "float32" else torch.int32
    operands = [a.to(types[0]), (b if transposed else b.transpose(1, 2)).contiguous().to(types[0])]
    kernel = build(program(kind, m, n, k, tile, dtype, transposed), target)
    if kind == "condition":
        a = a * (length > 0).repeat_interleave(tile)[None, :, None]
    if kind == "causal":
        a = a * (torch.arange(k) // tile <= torch.arange(m)[:, None] // tile)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            c = torch.empty(batches, m, n, dtype=types[1])
            kernel(*operands, c, length)
            assert torch.equal(c, (a @ b.transpose(1, 2)).to(types[1]))
    finally:
        torch.set_num_threads(before)
