"""Serial loops around loops over the same elements run a strip of elements at a time, with what does not change in registers."""

from __future__ import annotations

import math

import pytest
import torch

import tilelang.language as T
from tilelang import interpreter
from tilelang.ir import nodes as ir
from tilelang.ir.visit import walk
from tilelang.target.cpu.emit import REGISTER_LANES

from .support import build, lowered

STEPS, C = 9, 72
"""Two strips of 32 elements, and 8 more."""


def program(body, dtype="float32", columns=C):
    """A program that calls ``body(X, W, Y, sums)`` for tensors of ``columns`` columns and a fragment of as many elements."""
    inside = T.macro(body)

    @T.prim_func
    def main(X: T.Tensor((STEPS + 2, columns), dtype), W: T.Tensor((3, columns), dtype), Y: T.Tensor((STEPS, columns), dtype)):
        with T.Kernel(1, threads=128):
            sums = T.alloc_fragment((columns,), dtype)
            T.fill(sums, 1)
            inside(X, W, Y, sums)

    return main


def _convolution(X, W, Y, sums):
    for x in T.serial(STEPS):
        T.clear(sums)
        for k in T.serial(3):
            for c in T.Parallel(C):
                sums[c] += X[x + k, c] * W[k, c]
        T.copy(sums, Y[x, :])


def _recurrence(X, W, Y, sums):
    for x in T.serial(STEPS):
        for c in T.Parallel(C):
            sums[c] = sums[c] * W[0, c] + X[x, c]
        for c in T.Parallel(C):
            Y[x, c] = T.max(sums[c], W[1, c])


def _in_place(X, W, Y, sums):
    for x in T.serial(STEPS):
        for c in T.Parallel(C):
            X[x, c] = X[x + 1, c] * W[2, c] + W[0, c]
        for c in T.Parallel(C):
            Y[x, c] = X[x, c] - X[x + 2, c]


def _of_part_of_a_row(X, W, Y, sums):
    T.clear(Y)
    for x in T.serial(STEPS):
        for c in T.Parallel(C - 16):
            Y[x, c + 16] = X[x, c + 16] * W[0, c + 16]


IN_STRIPS = [_convolution, _recurrence, _in_place, _of_part_of_a_row]


def _nothing_kept(X, W, Y, sums):
    for x in T.serial(STEPS):
        for c in T.Parallel(C):
            Y[x, c] = X[x, c] * X[x + 1, c]


def _neighbours(X, W, Y, sums):
    for x in T.serial(STEPS):
        for c in T.Parallel(C):
            sums[c] = X[x, c] * W[0, c]
        for c in T.Parallel(C):
            Y[x, c] = sums[C - 1 - c]


def _a_fragment_moved(X, W, Y, sums):
    T.clear(Y)
    for x in T.serial(STEPS):
        for c in T.Parallel(C - 16):
            sums[c] = X[x, c] * W[0, c]
        for c in T.Parallel(C - 16):
            Y[x, c] = sums[c + 8]


def _rows_moved(X, W, Y, sums):
    T.clear(Y)
    for x in T.serial(STEPS):
        for c in T.Parallel(C - 16):
            Y[x, c] = X[x, c + 16] * W[0, c]


def _a_scalar(X, W, Y, sums):
    for x in T.serial(STEPS):
        for c in T.Parallel(C):
            Y[x, c] = X[x, c] * W[0, c] + X[x, 0]


def _another_name(X, W, Y, sums):
    same = T.reshape(Y, (STEPS, C))
    T.clear(Y)
    for x in T.serial(STEPS):
        for c in T.Parallel(C):
            Y[x, c] = X[x, c] + same[0, c] + W[0, c]


def _changed(X, W, Y, sums):
    T.clear(Y)
    for x in T.serial(STEPS):
        for c in T.Parallel(C):
            Y[x, c] = X[x, c] + Y[0, c]


def _under_a_condition(X, W, Y, sums):
    for x in T.serial(STEPS):
        for c in T.Parallel(C):
            Y[x, c] = T.if_then_else(x > 2, W[0, c], X[x, c])


def _another_loop(X, W, Y, sums):
    for x in T.serial(STEPS):
        for c in T.Parallel(C):
            Y[x, c] = X[x, c] * W[0, c]
        for c in T.Parallel(C // 2):
            Y[x, c] = W[1, c]


def _few_steps(X, W, Y, sums):
    T.clear(Y)
    for x in T.serial(3):
        for c in T.Parallel(C):
            Y[x, c] = X[x, c] * W[0, c]


def _outside(X, W, Y, sums):
    for x in T.serial(STEPS):
        for c in T.Parallel(C):
            Y[x, c] = X[x + 3, c] + W[0, c]


LEFT = [
    _nothing_kept,
    _neighbours,
    _a_fragment_moved,
    _rows_moved,
    _a_scalar,
    _another_name,
    _changed,
    _under_a_condition,
    _another_loop,
    _few_steps,
    _outside,
]


def registers(body):
    """The arrays that a program keeps in registers."""
    return [stmt for stmt in walk(body) if isinstance(stmt, ir.AllocBuffer) and REGISTER_LANES in (stmt.annotations or {})]


def tensors(columns=C):
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(-3, 4, (rows, columns), generator=generator).float() for rows in (STEPS + 2, 3, STEPS)]


@pytest.mark.parametrize("body", [*IN_STRIPS, *LEFT], ids=lambda body: body.__name__)
@pytest.mark.parametrize("target", ["cpu", "c"])
def test_values(body, target):
    func = program(body)
    wanted = tensors()
    assert not interpreter.Program(func).run(*wanted)
    found = tensors()
    build(func, target)(*found)
    assert all(map(torch.equal, found, wanted))


@pytest.mark.parametrize("body", IN_STRIPS, ids=lambda body: body.__name__)
def test_in_strips(body):
    assert len(registers(lowered(program(body)))) == 1


@pytest.mark.parametrize("body", LEFT, ids=lambda body: body.__name__)
def test_left(body):
    assert not registers(lowered(program(body)))


def test_other_types_are_left():
    assert not registers(lowered(program(_recurrence, "float16")))


def test_rows_of_other_lengths_are_left():
    """Where one tensor is passed for both, strips would touch each other's elements."""

    @T.prim_func
    def main(X: T.Tensor((STEPS, C), "float32"), W: T.Tensor((1, C), "float32"), Y: T.Tensor((STEPS, C + 16), "float32")):
        with T.Kernel(1, threads=128):
            for x in T.serial(STEPS):
                for c in T.Parallel(C):
                    Y[x, c] = X[x, c] * W[0, c]

    assert not registers(lowered(main))


def test_rows_that_no_cache_holds_are_left():
    def body(X, W, Y, sums):
        for x in T.serial(STEPS):
            for c in T.Parallel(1 << 16):
                Y[x, c] = X[x, c] * W[0, c]

    assert not registers(lowered(program(body, columns=1 << 16)))


@pytest.mark.parametrize("rows, vectors", [(6, 4), (7, 2), (14, 2), (15, 1), (30, 1), (31, 0)])
def test_what_is_kept_fits_the_registers(rows, vectors):
    @T.prim_func
    def main(W: T.Tensor((rows, 64), "float32"), Y: T.Tensor((STEPS, 64), "float32")):
        with T.Kernel(1, threads=128):
            for x in T.serial(STEPS):
                for c in T.Parallel(64):
                    Y[x, c] = T.float32(x) * math.prod(W[row, c] for row in range(rows))

    found = registers(lowered(main))
    assert [int(each.buffer.shape[0]) for each in found] == [rows * vectors * 16] * bool(vectors)


def test_one_tensor_for_two_parameters():
    """Steps read rows that later steps write to: their order holds in each strip."""

    def body(X, W, Y, sums):
        for x in T.serial(STEPS):
            for c in T.Parallel(C):
                Y[x, c] = X[x + 2, c] * W[0, c]

    X, W, _ = tensors()
    wanted = X[2:] * W[0]
    build(program(body))(X, W, X[:STEPS])
    assert torch.equal(X[:STEPS], wanted)
