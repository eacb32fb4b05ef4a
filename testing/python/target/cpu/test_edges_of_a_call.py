"""Tiles that overhang tensors whose sizes a call gives: blocks at an edge take the part inside, all others whole tiles."""

from __future__ import annotations

import itertools

import pytest
import torch

import tilelang.language as T

from .support import build, on_both
from .test_edges import BLOCK, CUT, attention, expected, operands, products, program

SIZES = (1, 5, 16, 17, 37, 48)


def cut(kind, m, n, k=39):
    """Which of the rows, columns and depths of products are those of a part of a tile."""
    found = products(program(kind, m, n, k))
    assert (16, 16, 16) in found
    return {axis for extents in found for axis, extent in zip("mnk", extents) if not isinstance(extent, int)}


@on_both
@pytest.mark.parametrize("kind", (*CUT, "greatest", "sums", "last", "part", "neighbour", "one more", "carried", "left early"))
def test_any_number_of_rows_and_columns(kind, target):
    dynamic = program(kind, T.dynamic("m"), T.dynamic("n"), 39)
    kernel = build(dynamic, target, execution_backend="ctypes", compile_flags=["-O0"])
    for m, n in itertools.product(SIZES, SIZES):
        given = operands(kind, m, n, 39, "float32")
        want = expected(kind, *given)
        kernel(*given)
        torch.testing.assert_close(given[3].double(), want[0])
        if kind in ("greatest", "sums", "last"):
            torch.testing.assert_close(given[4].double(), want[1])


def test_a_single_row_is_a_case_of_its_own():
    """Where rows alone are cut: products of one row take other instructions than those of several."""
    assert 1 in {m for m, _, _ in products(program("", T.dynamic("m"), 43, 39))}
    assert 1 not in {extent for extents in products(program("", 43, T.dynamic("n"), 39)) for extent in extents}


def test_a_batch_of_any_size_has_no_edge():
    @T.prim_func
    def main(A: T.Tensor((T.dynamic("batch"), 16, 16), "float32")):
        with T.Kernel(A.shape[0], threads=128) as bz:
            a, c = T.alloc_shared((16, 16), "float32"), T.alloc_fragment((16, 16), "float32")
            T.copy(A[bz, 0, 0], a)
            T.gemm(a, a, c, clear_accum=True)
            T.copy(c, A[bz, 0, 0])

    assert products(main) == {(16, 16, 16)}


@pytest.mark.parametrize(
    "kind, axes",
    [
        *((kind, "mn") for kind in CUT),
        ("greatest", "m"),
        ("sums", "m"),
        ("last", ""),
        ("part", "m"),
        ("neighbour", "m"),
        ("one more", "mn"),
        ("carried", "mn"),
        ("left early", "mn"),
        ("safe value", ""),
    ],
)
def test_what_may_be_a_part_of_a_tile_is(kind, axes):
    assert cut(kind, T.dynamic("m"), T.dynamic("n")) == set(axes)
    assert cut(kind, T.dynamic("m"), 48) == set(axes) & {"m"}
    assert cut(kind, 32, T.dynamic("n")) == set(axes) & {"n"}


@on_both
def test_reductions_keep_what_they_do_not_reduce(target):
    kernel = build(attention(T.dynamic("queries"), 48, 32), target, execution_backend="ctypes", compile_flags=["-O0"])
    for queries in SIZES:
        q, k, v, out = (torch.randn(size, 32) for size in (queries, 48, 48, queries))
        total = torch.empty(-(-queries // BLOCK), 48)
        kernel(q, k, v, out, total)
        torch.testing.assert_close(out, torch.softmax(q @ k.T, -1) @ v)
        torch.testing.assert_close(total, k.amax(1).expand_as(total))


def shifted(rows, first):
    """``C = A B`` by tiles of rows that begin at an index of the block, or are read from a tensor."""

    @T.prim_func
    def main(
        A: T.Tensor((rows, BLOCK), "float32"),
        B: T.Tensor((BLOCK, BLOCK), "float32"),
        starts: T.Tensor((4,), "int32"),
        C: T.Tensor((rows, BLOCK), "float32"),
    ):
        with T.Kernel(4, threads=128) as bx:
            a, b = T.alloc_shared((BLOCK, BLOCK), "float32"), T.alloc_shared((BLOCK, BLOCK), "float32")
            c = T.alloc_fragment((BLOCK, BLOCK), "float32")
            T.copy(B, b)
            T.copy(A[first(bx, starts), 0], a)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C[first(bx, starts), 0])

    return main


FIRST = {
    "blocks": lambda bx, starts: bx * BLOCK,
    "reversed": lambda bx, starts: (3 - bx) * BLOCK,
    "table": lambda bx, starts: starts[bx],
    "apart": lambda bx, starts: bx * (BLOCK + 3),
}


@on_both
@pytest.mark.parametrize("kind", FIRST)
def test_grids_larger_than_the_tensor(kind, target):
    """Blocks that are wholly past the end store nothing. The table is read in the block, and its tiles stay whole."""
    rows = {extents[0] for extents in products(shifted(T.dynamic("rows"), FIRST[kind]))}
    assert rows == {16} if kind == "table" else {1, 16} < rows
    kernel = build(shifted(T.dynamic("rows"), FIRST[kind]), target, execution_backend="ctypes", compile_flags=["-O0"])
    starts = torch.tensor([16, 0, 32, 48], dtype=torch.int32)
    for rows in SIZES:
        a, b = torch.randint(-4, 5, (rows, BLOCK)).float(), torch.randint(-4, 5, (BLOCK, BLOCK)).float()
        c, want = torch.zeros(rows, BLOCK), torch.zeros(rows, BLOCK)
        for bx in range(4):
            part = slice(*(int(FIRST[kind](bx, starts)) + offset for offset in (0, BLOCK)))
            want[part] = a[part] @ b
        kernel(a, b, starts, c)
        assert torch.equal(c, want)
