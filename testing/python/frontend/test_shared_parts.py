"""Expressions that use a part several times, and those parts in turn: walks over them must not see a tree of 2**40 nodes."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.every_target import every_target, run
from tilelang import interpreter
from tilelang.errors import OperandError
from tilelang.ir.visit import LARGE, is_large, statement_exprs, walk


def squared(value, times: int = 40):
    for _ in range(times):
        value = (value * value) % 64 + 1
    return value


def halved(value, times: int = 40):
    for _ in range(times):
        value = value * value * 0.5 - value
    return value


@T.prim_func
def shared(A: T.Tensor((64,), "int32"), F: T.Tensor((64,), "float32"), B: T.Tensor((3, 64), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[0, i] = A[squared(i + 1) - 1] + squared(A[i])
            # Element 64 does not exist: what a condition guards may be read below it alone.
            B[1, i] = T.if_then_else(i < 63, halved(F[i + 1]), T.cast(squared(A[i]), "float32"))
            if i > 62 or squared(A[i + 1]) > 2:
                B[2, i] = 1
            else:
                B[2, i] = 0


@T.prim_func
def assigned(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            value = A[i] + i
            for _ in [None] * 40:  # Python repeats it, and each value has a variable
                value = (value * value) % 64 + 1
            B[i] = A[value - 1]


def expected(a: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    i = torch.arange(64)
    following = halved(f.roll(-1))
    return torch.stack([
        (a[(squared(i + 1) - 1).long()] + squared(a)).float(),
        torch.where(i < 63, following, squared(a).float()),
        ((i > 62) | (squared(a.roll(-1)) > 2)).float(),
    ])  # fmt: skip


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, 64, (64,), dtype=torch.int32), torch.rand(64)


@every_target
def test_shared_parts_are_computed_once(target):
    a, f = operands()
    torch.testing.assert_close(run(shared, target, a, f), expected(a, f))


@T.prim_func
def guarded(A: T.Tensor((64,), "int32"), B: T.Tensor((4, 64), "int32")):
    with T.Kernel(1, threads=64):
        tile = T.alloc_shared((64,), "int32")
        T.copy(A, tile)
        for i in T.Parallel(64):
            B[0, i] = T.if_then_else(i < 60, T.if_then_else(i > 3, squared(tile[i + 4]), 1), 2)
            part = squared(tile[i])
            B[1, i] = T.if_then_else(i < 60, T.if_then_else(i > 3, part, part), part + 1)
            B[2, i] = T.if_then_else(i > 0, squared(64 // i), 7)
            if i == 63 or (i > 3 and squared(tile[i + 1]) > 2) or (i > 0 and T.if_then_else(i > 9, 1, squared(tile[i - 1])) > 2):
                B[3, i] = 1
            else:
                B[3, i] = 0


@every_target
def test_a_part_below_several_conditions_is_computed_where_all_hold(target):
    a = operands()[0].tolist()
    b = run(guarded, target, torch.tensor(a, dtype=torch.int32))
    assert b.tolist() == [
        [squared(a[i + 4]) if i > 3 else 1 for i in range(60)] + [2] * 4,
        [squared(a[i]) + (i >= 60) for i in range(64)],
        [7] + [squared(64 // i) for i in range(1, 64)],
        [int(i == 63 or (i > 3 and squared(a[i + 1]) > 2) or (0 < i <= 9 and squared(a[i - 1]) > 2)) for i in range(64)],
    ]


@every_target
def test_a_chain_of_assignments(target):
    a, _ = operands()
    assert torch.equal(run(assigned, target, a), a[(squared(a + torch.arange(64)) - 1).long()])


def test_the_interpreter_reads_nothing_that_a_condition_guards():
    a, f = operands()
    b = torch.zeros(3, 64)
    assert interpreter.run(shared, a, f, b) == []
    torch.testing.assert_close(b, expected(a, f))
    assert interpreter.run(guarded, a, torch.zeros(4, 64, dtype=torch.int32)) == []


def test_no_expression_is_large_and_small_ones_stay_whole():
    @T.prim_func
    def small(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                A[i] = squared(i, 4)

    def large(func) -> list[bool]:
        return [is_large(expr) for stmt in walk(func.body) for expr in statement_exprs(stmt)]

    assert LARGE > 24 and not any(large(shared)) and str(small).count("part") == 0 < str(shared).count("part")


def folded(step, terms):
    """A chain as long as Python's limit of nested calls, and longer."""
    value, *others = terms
    for term in others:
        value = step(value, term)
    return value


@T.prim_func
def deep(A: T.Tensor((1100,), "int32"), B: T.Tensor((2, 64), "int32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[0, i] = folded(lambda value, k: A[k] - value, [i, *range(1100)])
            # Each condition is bound below those before it, which takes longer.
            B[1, i] = folded(lambda value, k, i=i: T.if_then_else(A[k] == i, k, value), [-1, *range(500)])


@every_target
def test_deep_expressions_are_computed_in_parts(target):
    a = torch.randint(0, 70, (1100,), dtype=torch.int32)
    i = torch.arange(64, dtype=torch.int32)
    signs = torch.tensor([-1, 1], dtype=torch.int32).repeat(550)
    places = {value: place for place, value in enumerate(a[:500].tolist())}
    last = torch.tensor([places.get(value, -1) for value in range(64)], dtype=torch.int32)
    assert torch.equal(run(deep, target, a), torch.stack([i + (a * signs).sum().int(), last]))


def test_a_deep_condition_of_a_loop_is_refused():
    with pytest.raises(OperandError, match="more than 200 nested operations") as info:

        @T.prim_func
        def main(A: T.Tensor((1100,), "int32")):
            with T.Kernel(1, threads=64):
                while folded(lambda value, k: value + A[k], [0, *range(1100)]) < 0:  # computed anew in each iteration
                    A[0] += 1

    assert info.value.location is not None
