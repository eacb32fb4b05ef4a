"""Elementwise kernels over whole tensors take runs of elements in the order of memory."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.visit import walk

from .support import build, lowered, on_both

F32 = "float32"


def tiles(shape, tile, place=lambda i, j: (i, j), dtype=F32, value=lambda x, i, j: x * 2, out=None, order=(0, 1), grid=None):
    """A program that stores a value of each element of a matrix, by tiles.

    Args:
        shape: of the tensor that is read.
        tile: rows and columns of a tile.
        place: ``(i, j)`` -> the indices of the element that is stored.
        dtype: of both tensors.
        value: ``(element, i, j)`` -> what is stored.
        out: the shape of the result, where it is another one.
        order: of the loops.
        grid: how many tiles there are along rows and columns, where they are not all.
    """
    counts = grid or tuple(-(-size // step) for size, step in zip(shape, tile))

    @T.prim_func
    def main(X: T.Tensor(shape, dtype), Y: T.Tensor(out or shape, dtype)):
        with T.Kernel(counts[1], counts[0], threads=128) as (bx, by):
            for u, v in T.Parallel(tile[order[0]], tile[order[1]]):
                i, j = (u, v) if order == (0, 1) else (v, u)
                row, column = by * tile[0] + i, bx * tile[1] + j
                Y[place(row, column)] = value(X[row, column], row, column)

    return main


def extents(program, **options):
    """The lengths of a program's loops, the outer ones first; 0 for one that is not known."""
    found = [as_int(stmt.extent) for stmt in walk(lowered(program, **options)) if isinstance(stmt, ir.For)]
    return [extent if isinstance(extent, int) else 0 for extent in found]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize(
    "shape, tile, expected",
    [
        ((512, 1000), (64, 64), [125, 4096]),
        ((90, 100), (64, 64), [3, 0]),
        ((96, 100), (64, 64), [3, 3200]),
        ((37, 101), (8, 16), [1, 3737]),
        ((37, 1), (8, 16), [1, 37]),
    ],
)
def test_blocks_are_runs_of_elements(shape, tile, expected, order):
    assert extents(tiles(shape, tile, order=order)) == expected


SQUARE, TILE = (96, 96), (32, 32)


@pytest.mark.parametrize(
    "options",
    [
        {"place": lambda i, j: (j, i)},
        {"place": lambda i, j: (i, i)},
        {"place": lambda i, j: (i, j + 1)},
        {"value": lambda x, i, j: x * i},
        {"out": (96, 97)},
        {"grid": (3, 2)},
        {"dtype": "int4"},
    ],
    ids=["transposed", "diagonal", "shifted", "value of a place", "wider", "grid of two axes", "packed"],
)
def test_other_kernels_keep_their_tiles(options):
    assert 9216 // 3 not in extents(tiles(SQUARE, TILE, **options))
    assert extents(tiles(SQUARE, TILE)) == [3, 3072]


def test_without_guards_kernels_keep_their_tiles():
    assert extents(tiles(SQUARE, TILE), pass_configs={"tl.disable_safe_memory_legalize": True})[-1] == 32


@on_both
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("shape", [(96, 100), (90, 100), (37, 1), (5, 7)], ids=str)
def test_every_element_is_stored_once(shape, dtype, target):
    kernel = build(tiles(shape, (16, 32), dtype=dtype, value=lambda x, i, j: x + x, order=(1, 0)), target)
    x = torch.randint(-60, 60, shape).to(getattr(torch, dtype))
    room = torch.full((shape[0] * shape[1] + 64,), 5, dtype=x.dtype)
    y = room[: x.numel()].view(shape)
    kernel(x, y)
    assert torch.equal(y, x + x) and bool((room[x.numel() :] == 5).all())
    want = x + x
    kernel(x, x)
    assert torch.equal(x, want), "in place"


@on_both
def test_values_with_names_several_results_and_tables(target):
    @T.prim_func
    def main(X: T.Tensor((90, 100), "uint8"), L: T.Tensor((200,), F32), Y: T.Tensor((90, 100), F32), Z: T.Tensor((90, 100), F32)):
        with T.Kernel(90, threads=128) as row:
            for i, j in T.Parallel(1, 100):
                found = L[X[row + i, j]]
                Y[row + i, j] = found
                Z[row + i, j] = T.if_then_else(X[row + i, j] < 100, found + Y[row + i, j], -1.0)

    assert extents(main)[0] == 3
    x, table = torch.randint(0, 256, (90, 100), dtype=torch.uint8), torch.randn(200)
    y, z = torch.zeros(2, 90, 100)
    build(main, target)(x, table, y, z)
    found = torch.cat([table, torch.zeros(56)])[x.long()]
    assert torch.equal(y, found)
    assert torch.equal(z, torch.where(x < 100, 2 * found, -torch.ones(()).expand_as(found)))


def test_large_results_are_streamed():
    program = tiles((5000, 1024), (64, 64))
    assert "tl_stream_16" in str(lowered(program))
    x, y = torch.randn(5000, 1024), torch.zeros(5000, 1024)
    build(program)(x, y)
    assert torch.equal(y, 2 * x)
