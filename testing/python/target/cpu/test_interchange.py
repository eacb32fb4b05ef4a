"""The loops of a ``T.Parallel`` run in the order of memory."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.visit import walk

from .support import build, lowered, on_both


def copy(order, transposed=False):
    """``B = 2 A`` but for B's last plane, or of A transposed, by loops over axes of 8, 16 and 32 elements in an order."""

    @T.prim_func
    def main(A: T.Tensor((8, 32, 16) if transposed else (8, 16, 32), "float32"), B: T.Tensor((9, 16, 32), "float32")):
        with T.Kernel(1, threads=128):
            for u, v, w in T.Parallel(*[(8, 16, 32)[axis] for axis in order]):
                place = [None, None, None]
                for axis, variable in zip(order, (u, v, w)):
                    place[axis] = variable
                i, j, k = place
                B[i, j, k] = (A[i, k, j] if transposed else A[i, j, k]) * 2

    return main


def extents(program):
    """Lengths of the loops of a program, the outer ones first."""
    return [as_int(stmt.extent) for stmt in walk(lowered(program)) if isinstance(stmt, ir.For)][1:]


@pytest.mark.parametrize(
    "order, expected", [((0, 1, 2), [8, 16, 32]), ((2, 1, 0), [16, 8, 32]), ((0, 2, 1), [8, 16, 32]), ((2, 0, 1), [8, 16, 32])]
)
def test_the_innermost_loop_runs_along_rows(order, expected):
    assert extents(copy(order)) == expected


def test_stores_decide_where_loads_want_another_order():
    assert extents(copy((0, 2, 1), transposed=True))[-1] == 32
    assert extents(copy((0, 1, 2), transposed=True))[-1] == 32


@on_both
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_every_order_has_one_result(order, target):
    a, b = torch.randn(8, 16, 32), torch.zeros(9, 16, 32)
    build(copy(order), target)(a, b)
    assert torch.equal(b[:8], a * 2) and not b[8].any()


@on_both
def test_a_variable_keeps_the_value_of_the_last_iteration_as_written(target):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "int32"), B: T.Tensor((4, 8), "int32"), C: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            last = T.alloc_var("int32")
            for j, i in T.Parallel(8, 4):
                last = A[i, j] + 1
                B[i, j] = last
            C[0] = last

    a = torch.arange(32, dtype=torch.int32).view(4, 8)
    b, c = torch.zeros_like(a), torch.zeros(1, dtype=torch.int32)
    build(main, target)(a, b, c)
    assert torch.equal(b, a + 1) and c.item() == a[3, 7] + 1


def test_a_nest_around_another_loop_stays_as_it_is():
    @T.prim_func
    def main(A: T.Tensor((4, 8, 2), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            for j, i in T.Parallel(8, 4):
                for k in T.serial(2):
                    B[i, j] += A[i, j, k]

    assert extents(main) == [8, 4, 2]


def scaled(m, n, by_rows=True, random=False, gather=False):
    """``B = 2 A`` but for A's last row, in tiles of 16 x 32; the first axis of the grid counts tiles down the columns."""

    @T.prim_func
    def main(A: T.Tensor((m + 1, n), "float32"), B: T.Tensor((m, n), "float32"), L: T.Tensor((m,), "uint8")):
        with T.Kernel(T.ceildiv(m, 16), T.ceildiv(n, 32), threads=128) as (bx, by):
            if random:
                T.rng_init(7)
            for i, j in T.Parallel(16, 32):
                if by_rows:
                    B[bx * 16 + i, by * 32 + j] = A[bx * 16 + i, by * 32 + j] * 2
                elif gather:
                    B[0, L[0] + j] = A[0, L[0] + j] * 2
                else:
                    B[by * 32 + j, bx * 16 + i] = A[by * 32 + j, bx * 16 + i] * 2

    return main


def first_axis(program):
    """The axis of the grid along which blocks follow each other."""
    binds = [stmt for stmt in walk(lowered(program)) if isinstance(stmt, ir.Bind)]
    return next(stmt.var.name for stmt in binds if isinstance(stmt.value, ir.FloorMod))


def test_blocks_follow_each_other_along_rows():
    assert first_axis(scaled(64, 96)) == "by"
    assert first_axis(scaled(96, 96, by_rows=False)) == "bx"
    assert first_axis(scaled(64, 96, random=True)) == "bx", "random numbers depend on the number of the block"


def conditions(program):
    return [stmt for stmt in walk(lowered(program)) if isinstance(stmt, ir.IfThenElse)]


def test_a_loop_ends_where_its_store_would_leave_the_tensor():
    assert not conditions(scaled(64, 70))
    kinds = [stmt.kind for stmt in walk(lowered(scaled(64, 70))) if isinstance(stmt, ir.For)]
    assert ir.ForKind.PARALLEL not in kinds, "it is too short for several threads"
    # Another axis is asked for, or the row changes with what is stored.
    assert conditions(scaled(60, 70)) and conditions(scaled(64, 70, by_rows=False, gather=True))


@on_both
@pytest.mark.parametrize("m, n", [(16, 1), (32, 31), (48, 33), (7, 70)])
def test_tiles_with_edges(m, n, target):
    a, b = torch.randn(m + 1, n), torch.zeros(m, n)
    build(scaled(m, n), target)(a, b, torch.zeros(m, dtype=torch.uint8))
    assert torch.equal(b, a[:m] * 2)
