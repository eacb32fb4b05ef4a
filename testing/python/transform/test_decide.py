"""Conditions that the ranges of blocks and iterations decide: which are, which are left, and that results stay the same."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from tilelang import interpreter
from tilelang.ir import nodes as ir
from tilelang.ir.visit import expressions, is_choice, walk
from tilelang.transform.decide import decide_conditions

N = 4 * 64


def over_tiles(condition, otherwise=True):
    """A statement for each position ``k = bx * 64 + i`` of 256 elements, under ``condition(k, i, A, tx)``."""

    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(4, threads=32) as bx:
            tx = T.get_thread_binding()
            for i in T.Parallel(64):
                if condition(bx * 64 + i, i, A, tx):
                    B[bx * 64 + i] = A[bx * 64 + i] + 1
                elif otherwise:
                    B[bx * 64 + i] = 7

    return main


def conditions(program):
    """The conditions of branches that are left."""
    return [str(stmt.condition) for stmt in walk(decide_conditions(program, None).body) if isinstance(stmt, ir.IfThenElse)]


def check(program):
    a, found = torch.arange(N, dtype=torch.int32), torch.zeros(N, dtype=torch.int32)
    expected = found.clone()
    assert interpreter.run(program, a, expected) == []
    simulate(program, a, found)
    assert torch.equal(found, expected)


ALWAYS = {
    "less": lambda k, i, A, tx: k < N,
    "at most": lambda k, i, A, tx: k <= N - 1,
    "greater": lambda k, i, A, tx: k > -1,
    "at least": lambda k, i, A, tx: 0 <= k,
    "unequal": lambda k, i, A, tx: k != N,
    "of digits": lambda k, i, A, tx: k // 64 * 2 + i % 2 < 8,
    "a conjunction": lambda k, i, A, tx: T.And(k >= 0, k < N),
    "a disjunction": lambda k, i, A, tx: T.Or(k == 3, k < N),
    "a negation": lambda k, i, A, tx: T.Not(k >= N),
    "a constant": lambda k, i, A, tx: T.Or(k == 3, T.bool(True)),
    "of memory, too": lambda k, i, A, tx: T.Or(A[k] > 5, k < N),
}
NEVER = {
    "beyond": lambda k, i, A, tx: k >= N,
    "equal": lambda k, i, A, tx: k == N,
    "a conjunction": lambda k, i, A, tx: T.And(A[k] > 5, i > 63),
}


@pytest.mark.parametrize("condition", ALWAYS.values(), ids=ALWAYS)
def test_a_condition_that_always_holds_goes(condition):
    program = over_tiles(condition)
    assert conditions(program) == []
    check(program)


@pytest.mark.parametrize("otherwise", [True, False])
@pytest.mark.parametrize("condition", NEVER.values(), ids=NEVER)
def test_of_one_that_never_holds_the_other_side_is_left(condition, otherwise):
    program = over_tiles(condition, otherwise)
    assert conditions(program) == []
    check(program)


PARTS = {
    "of and": (lambda k, i, A, tx: T.And(T.And(k < N, A[k] > 5), i < 64), "A[bx * 64 + i] > 5"),
    "of or": (lambda k, i, A, tx: T.Or(k >= N, A[k] > 5), "A[bx * 64 + i] > 5"),
    "of not": (lambda k, i, A, tx: T.Not(T.And(A[k] > 5, k >= 0)), "not A[bx * 64 + i] > 5"),
}


@pytest.mark.parametrize("condition, left", PARTS.values(), ids=PARTS)
def test_a_part_that_is_decided_goes(condition, left):
    program = over_tiles(condition)
    assert conditions(program) == [left]
    check(program)


LEFT = {
    "it depends": lambda k, i, A, tx: k < N - 1,
    "not from zero": lambda k, i, A, tx: k > 0,
    "of memory": lambda k, i, A, tx: A[k] >= 0,
    "of the thread": lambda k, i, A, tx: tx < 32,
    "of the thread, too": lambda k, i, A, tx: T.Or(tx < 16, k < N),
    "of the thread, behind it": lambda k, i, A, tx: T.And(k >= N, tx * 2 < 5),
    "of the thread, by its type": lambda k, i, A, tx: T.cast(tx, "uint8") < 256,
    "of a function, by its type": lambda k, i, A, tx: T.call_extern("uint8", "clock") < 256,
    "beyond the type": lambda k, i, A, tx: (k + 1) * 2**30 > 0,
}


@pytest.mark.parametrize("condition", LEFT.values(), ids=LEFT)
def test_a_condition_that_is_not_decided_stays(condition):
    program = over_tiles(condition)
    assert len(conditions(program)) == 1
    assert decide_conditions(program, None).body.same_as(program.body)


def test_an_effect_stays():
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(4, threads=1) as bx:
            if T.atomic_add(A[bx], 1, return_prev=True) >= 0 and bx >= 4:
                B[bx] = 1
            if T.And(T.call_extern("int32", "atomicAdd", T.address_of(A[bx + 8]), 1) >= 0, bx >= 4):
                B[bx] = 1

    assert len(conditions(main)) == 1
    a, b = torch.arange(N, dtype=torch.int32), torch.zeros(N, dtype=torch.int32)
    simulate(main, a, b)
    assert a[:12].tolist() == [1, 2, 3, 4, 4, 5, 6, 7, 9, 10, 11, 12] and not b.any()


def test_a_choice_is_its_value():
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(4, threads=32) as bx:
            for i in T.Parallel(64):
                k = bx * 64 + i
                x = T.if_then_else(k >= N, A[k], 3)
                B[k] = T.if_then_else(k < N and A[k] > 9, T.Select(i < 64, A[k], 0), x)

    choices = [part for part in expressions(decide_conditions(main, None).body) if is_choice(part) or isinstance(part, ir.Select)]
    assert [str(choice.args[0]) for choice in choices] == ["A[bx * 64 + i] > 9"]
    check(main)


def test_a_condition_with_a_name_is_its_value():
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(4, threads=32) as bx:
            for i in T.Parallel(64):
                inside = bx * 64 + i < N
                some = A[bx * 64 + i] > 9
                if inside and some:
                    B[bx * 64 + i] = A[bx * 64 + i]

    assert conditions(main) == ["some"]
    check(main)


def test_a_thread_that_a_condition_names_does_it_by_itself():
    """`if tx < 32` holds for each thread, and each of them adds; without it the block would add once."""

    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(4, threads=32) as bx:
            tx = T.get_thread_binding()
            if tx < 32:
                T.atomic_add(B[bx], 1)
            T.atomic_add(B[bx + 8], T.if_then_else(bx < 4, 1, tx))
            lane = tx % 32
            T.atomic_add(B[bx + 16], T.if_then_else(lane * bx < 0 and bx > 4, 2, 1))
            T.atomic_add(B[bx + 24], T.if_then_else(bx < 4, 1, T.get_lane_idx()))

    check(main)


def test_statements_that_a_schedule_numbers_stay():
    @T.prim_func
    def main(A: T.Tensor((4, 64), "int32"), B: T.Tensor((4, 64), "int32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64,), "int32")
            for k in T.Pipelined(4, order=[0, 1], stage=[0, 1]):
                T.copy(A[k, :], tile)
                if k < 4:
                    for i in T.Parallel(64):
                        B[k, i] = tile[i]

    assert len(conditions(main)) == 1


def test_a_full_tile_is_copied_without_a_test():
    @T.prim_func
    def main(A: T.Tensor((N, 64), "float16"), B: T.Tensor((N, 64), "float16")):
        with T.Kernel(N // 64, threads=128) as bx:
            tile = T.alloc_shared((64, 64), "float16")
            for i, j in T.Parallel(64, 64):
                if bx * 64 + i < N and j < 64:
                    tile[i, j] = A[bx * 64 + i, j]
                else:
                    tile[i, j] = 0
            for i, j in T.Parallel(64, 64):
                if bx * 64 + i < N:
                    B[bx * 64 + i, j] = tile[i, j]

    text = source(main)
    assert "cp_async_16(" in text and "zfill" not in text and f"< {N}" not in text
    a, b = torch.randn(N, 64).half(), torch.zeros(N, 64).half()
    simulate(main, a, b)
    assert torch.equal(a, b)
