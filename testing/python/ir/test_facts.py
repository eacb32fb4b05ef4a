"""What is known of integer expressions."""

from __future__ import annotations

import pytest

from testing.python.target.cuda.support import source
from tilelang import language as T
from tilelang.ir import nodes as ir
from tilelang.ir.expr import simplify
from tilelang.ir.facts import Facts


def test_a_range_may_be_narrowed_by_a_second_fact():
    facts, size, var = Facts(), ir.Var("size", "int32"), ir.Var("j", "int32")
    facts.bind_range(var, size)
    facts.bind_value(size, ir.IntImm("int32", 4))
    facts.bind_range(var, size)
    assert facts.bounds(var) == (0, 3)


def test_a_loop_whose_length_a_bound_value_gives():
    @T.prim_func
    def main(A: T.Tensor((32, 8), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.serial(3):
                size = 1 << (i + 1)
                for j in T.serial(8 // size):
                    A[T.get_thread_binding(), j * size] = 0

    assert "for (int j" in source(main)


POSITION, U, F = ir.Var("i", "int32"), ir.Var("u", "uint32"), ir.Var("f", "float32")


@pytest.mark.parametrize(
    ("condition", "known"),
    [
        (ir.Cast("int32", U) >= 0, False),
        (ir.Cast("int32", ir.Cast("uint8", POSITION + 200)) >= 200, False),
        (ir.Cast("int32", ir.Cast("uint8", POSITION + 190)) >= 190, True),
        (U + ir.IntImm("uint32", 1) > U, False),
        (ir.EQ(ir.Cast("uint32", POSITION) - ir.IntImm("uint32", 1), ir.IntImm("uint32", 0)), False),
        (ir.Cast("uint32", POSITION) < ir.IntImm("uint32", 64), True),
        (1 << (POSITION & 31) > 0, False),
        ((POSITION & 15) << 28 >= 0, False),
        ((POSITION & 15) << 26 < 1 << 30, True),
        (ir.Cast("int32", ir.Cast("int64", POSITION) * 2**26) >= 0, False),
        (ir.Cast("int32", ir.Cast("int64", POSITION) * 2**25) >= 0, True),
        (ir.EQ(F, F), False),
        (ir.EQ(ir.Cast("int32", F) + POSITION - ir.Cast("int32", F), POSITION), True),
    ],
    ids=str,
)
def test_floats_and_integers_that_wrap_around_prove_what_their_types_allow(condition, known):
    facts = Facts()
    facts.bind_range(POSITION, 64)
    assert facts.holds(condition) == known


def test_a_quotient_by_data_may_be_zero():
    facts, data = Facts(), ir.decl_buffer((4,), "int32", "data")
    facts.bind_range(POSITION, 2)
    assert facts.bounds((POSITION + 100) // (ir.BufferLoad(data, [POSITION]) % 2))[0] <= 0


@pytest.mark.parametrize("extent", [1, 3])
def test_a_quotient_by_a_variable_may_be_zero(extent):
    facts, divisor = Facts(), ir.Var("k", "int32")
    facts.bind_range(POSITION, 8)
    facts.bind_range(divisor, extent)
    assert facts.bounds((POSITION + 8) // divisor)[0] == 0
    assert not facts.holds(ir.EQ(divisor // divisor, 1))
    with facts.assuming(divisor > 0):
        assert facts.holds((POSITION + 8) // divisor >= 4) == (extent == 3)


def test_positions_beside_what_is_hidden_are_simplified():
    part = ir.Cast("int32", U + ir.IntImm("uint32", 7))
    assert simplify(part * 4 + POSITION - part * 4 - POSITION + 3).value == 3
    assert str(Facts().simplify(part + POSITION - POSITION)) == str(part)


def test_simplifying_to_a_bound_value_restores_its_hidden_parts():
    """A variable without hidden parts is simplified to its value, which has one."""
    facts, var = Facts(), ir.Var("n", "int32")
    facts.bind_value(var, ir.Cast("int32", U) + 2)
    assert str(facts.simplify(var - 2)) == str(ir.Cast("int32", U))


def test_facts_about_data_end_with_the_condition_that_implies_them():
    facts, number = Facts(), ir.Var("n", "int64")
    position = ir.Cast("int64", ir.Cast("uint64", number) + ir.IntImm("uint64", 1))
    with facts.assuming(ir.And(number >= 0, number < 10)):
        assert facts.bounds(position) == (1, 10)
    assert not facts.holds(position < 11)


NUMBER = ir.Var("n", "int32")
CHAINS = {
    "choices": (lambda h, i: ir.Select(h > i, h, ir.IntImm("int32", i)), lambda h, n, i: max(h, i)),
    "quotients": (lambda h, i: ir.FloorDiv(h + (NUMBER + i), ir.IntImm("int32", 3)), lambda h, n, i: (h + n + i) // 3),
}


@pytest.mark.parametrize("kind", CHAINS)
def test_a_chain_of_bound_values_is_not_put_together(kind):
    """The analyzer would visit the first value more often by a factor for each step, and not come to an end."""
    step, number = CHAINS[kind]
    facts, value, values = Facts(), POSITION + NUMBER, [(i + n, n) for i in range(8) for n in (-1000, 0, 1000)]
    facts.bind_range(POSITION, 8)
    for i in range(40):
        name = ir.Var(f"h{i}", "int32")
        facts.bind_value(name, step(value, i))
        value, values = name, [(number(each, n, i), n) for each, n in values]
    low, high = facts.bounds(value)
    assert low <= min(values)[0] and max(values)[0] <= high


def test_a_short_chain_is_exact():
    facts, half, back = Facts(), ir.Var("half", "int32"), ir.Var("back", "int32")
    facts.bind_range(POSITION, 8)
    facts.bind_value(half, ir.FloorDiv(POSITION, ir.IntImm("int32", 2)))
    facts.bind_value(back, half * 2 + ir.FloorMod(POSITION, ir.IntImm("int32", 2)))
    assert facts.holds(ir.EQ(back, POSITION))
