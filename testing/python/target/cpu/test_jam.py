"""A few steps of serial loops around a ``T.Parallel`` are made element by element."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from tilelang import interpreter
from tilelang.ir import nodes as ir
from tilelang.ir.visit import walk
from tilelang.target.cpu.jam import jam

from .support import build

SHAPE = (6, 40)


def program(body, dtype="float32"):
    """A program that calls ``body(X, tile)`` between filling a tile and copying it to ``Y``."""
    inside = T.macro(body)

    @T.prim_func
    def main(X: T.Tensor((24, 64), dtype), Y: T.Tensor(SHAPE, dtype)):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment(SHAPE, dtype)
            T.fill(tile, 1)
            inside(X, tile)
            T.copy(tile, Y)

    return main


def _sum(X, tile):
    for a, b in T.grid(3, 3):
        for i, j in T.Parallel(*SHAPE):
            tile[i, j] += X[i + a, j + b] * X[a, b]


def _offset(X, tile):
    for a in T.serial(2, 7):
        for i, j in T.Parallel(*SHAPE):
            tile[i, j] = T.max(X[i + a, j] - a, tile[i, j])


def _unrolled(X, tile):
    for a in T.unroll(4):
        for j, i in T.Parallel(SHAPE[1], SHAPE[0]):
            tile[i, j] = T.if_then_else(X[i, j + a] > 0, tile[i, j] * 2, 3)


def _guarded(X, tile):
    for a in T.serial(4):
        for i, j in T.Parallel(*SHAPE):
            tile[i, j] += X[i + 6 * a, j + 8 * a]


def _powers(X, tile):
    for _ in T.serial(3):
        for i, j in T.Parallel(*SHAPE):
            tile[i, j] *= X[i, j]


JAMMED = [_sum, _offset, _unrolled, _guarded, _powers]


def _reads_twice(X, tile):
    for a in T.serial(3):
        for i, j in T.Parallel(*SHAPE):
            tile[i, j] = tile[i, j] * tile[i, j] - X[i, j + a]


def _reads_a_neighbour(X, tile):
    for a in T.serial(3):
        for i, j in T.Parallel(*SHAPE):
            if j < 20:
                tile[i, j] += tile[i, j + 20] + a


def _many_steps(X, tile):
    for a in T.serial(17):
        for i, j in T.Parallel(*SHAPE):
            tile[i, j] += X[i + a, j]


def _of_another_length_each_step(X, tile):
    for a in T.serial(3):
        for i, j in T.Parallel(a + 1, SHAPE[1]):
            tile[i, j] += X[i, j]


def _under_another_name(X, tile):
    flat = T.reshape(tile, (SHAPE[0] * SHAPE[1],))
    for a in T.serial(3):
        for i, j in T.Parallel(*SHAPE):
            tile[i, j] += flat[i * SHAPE[1] + j] + a


def _another_statement(X, tile):
    for a in T.serial(3):
        for i, j in T.Parallel(*SHAPE):
            tile[i, j] += X[i, j + a]
        T.copy(tile[0:3, :], tile[3:6, :])


def _one_row(X, tile):
    for a in T.serial(3):
        for j in T.Parallel(SHAPE[1]):
            tile[a, j] += X[a, j]


def _two_updates(X, tile):
    for a in T.serial(3):
        for i, j in T.Parallel(*SHAPE):
            tile[i, j] += X[i, j + a]
            tile[i, j] = T.max(tile[i, j], a)


def _of_a_tensor(X, tile):
    for a in T.serial(3):
        for i, j in T.Parallel(*SHAPE):
            X[i, j] += tile[i, j] * a


def _no_step(X, tile):
    for _ in T.serial(0):
        for i, j in T.Parallel(*SHAPE):
            tile[i, j] += X[i, j]


def _from_the_end_to_the_start(X, tile):
    for _ in T.serial(3, 1):
        for i, j in T.Parallel(*SHAPE):
            tile[i, j] += X[i, j]


LEFT = [
    _no_step,
    _from_the_end_to_the_start,
    _reads_twice,
    _reads_a_neighbour,
    _many_steps,
    _of_another_length_each_step,
    _under_another_name,
    _another_statement,
    _one_row,
    _two_updates,
    _of_a_tensor,
]


def serial_loops(func):
    return [stmt for stmt in walk(func.body) if isinstance(stmt, ir.For) and stmt.kind != ir.ForKind.PARALLEL]


@pytest.mark.parametrize("body", [*JAMMED, *LEFT])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_the_result_is_that_of_the_loops(body, dtype):
    main = program(body, dtype)
    x = torch.randint(-2, 3, (24, 64)).to(getattr(torch, dtype))
    expected, found = torch.zeros(SHAPE, dtype=x.dtype), torch.zeros(SHAPE, dtype=x.dtype)
    assert interpreter.run(main, x, expected) == []
    for target in ("cpu", "c"):
        build(main, target)(x, found.zero_())
        assert torch.equal(found, expected)


@pytest.mark.parametrize("body", JAMMED)
def test_the_steps_are_inside_of_the_iterations(body):
    assert serial_loops(program(body)) and not serial_loops(jam(program(body), None))


@pytest.mark.parametrize("body", LEFT)
def test_loops_whose_steps_depend_on_more_than_their_element_are_left(body):
    assert len(serial_loops(jam(program(body), None))) == 1
