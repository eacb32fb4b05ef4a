"""Values at the ends of types: what the generator makes, passes and compares."""

from __future__ import annotations

import math
import re

import pytest
import torch

from testing.fuzz import dtypes, ends
from testing.fuzz.draw import Draw
from testing.fuzz.execute import arguments, interpreted
from testing.fuzz.generator import FAST_MATH, draw_program
from testing.fuzz.outcome import RIGHT
from testing.fuzz.registry import BLOCK
from testing.fuzz.scope import Scope


@pytest.mark.parametrize("dtype", ends.INTS)
def test_limits_of_integers_are_among_the_ends(dtype):
    info = torch.iinfo(getattr(torch, dtype))
    values = ends.tensor(dtype, (2000,), torch.Generator().manual_seed(0)).tolist()
    assert {info.min, info.max, 0} <= {*values} <= {*ends.whole(dtype)}


@pytest.mark.parametrize("dtype", ends.FLOATS)
def test_floats_end_in_zeros_of_both_signs_subnormals_infinities_and_nan(dtype):
    values = ends.tensor(dtype, (2000,), torch.Generator().manual_seed(0)).double()
    tiny = torch.finfo(getattr(torch, dtype)).tiny
    assert values.isnan().any() and values.isposinf().any() and values.isneginf().any()
    assert ((values.abs() > 0) & (values.abs() < tiny)).any()
    assert {math.copysign(1, zero) for zero in values[values == 0].tolist()} == {1.0, -1.0}


def test_equal_numbers_are_nan_and_nan_but_not_zeros_of_different_signs():
    values = torch.tensor([math.nan, 0.0, -0.0, math.inf])
    found = dtypes.numbers(values, "float32", 4)
    assert torch.equal(found, dtypes.numbers(values.clone(), "float32", 4)) and found[1] == found[2]
    signs = dtypes.signs(found)
    assert torch.equal(signs, signs.clone()) and signs[1] != signs[2]


def test_large_integers_are_compared_exactly():
    first, second = (torch.tensor([2**63 - step], dtype=torch.int64) for step in (1, 2))
    assert not torch.equal(dtypes.numbers(first, "int64", 1), dtypes.numbers(second, "int64", 1))


def test_a_row_of_an_odd_number_of_packed_elements_is_compared_without_its_last_half_byte():
    rows = dtypes.tensor_of(torch.tensor([[1, 2, 3], [-1, -2, -3]]), "int4")
    assert rows.shape == (2, 2)
    assert dtypes.numbers(rows | 0xF0 * torch.tensor([0, 1], dtype=torch.uint8), "int4", 3).tolist() == [[1, 2, 3], [-1, -2, -3]]


def test_arguments_of_every_type_are_drawn():
    draw = Draw(0)
    for dtype in ends.ARGUMENTS:
        scalar = draw.scalars[draw.end_argument(dtype)]
        assert scalar.dtype == dtype and not scalar.small
    assert draw.whole == draw.real == []


def test_conversions_between_all_pairs_of_types_are_drawn():
    pairs = set()
    for seed in range(4000):
        draw = Draw(seed)
        draw.sizes["D0"] = 4
        statement = BLOCK["conversion"].rule(draw, Scope())
        pairs.update(expr.kind for part in statement.parts for expr in part.walk() if "_to_" in expr.kind)
    sources = [f"{source}_to_{target}" for source in ends.TYPES for target in ends.TYPES if target != "float8_e5m2"]
    assert not {*sources} - pairs


def test_operations_on_the_ends_are_not_drawn_with_fast_functions():
    programs = [draw_program(seed, ("float_ends", "conversion")) for seed in range(40)]
    assert not any(FAST_MATH in program.configs for program in programs if any(tensor.ends for tensor in program.tensors))


@pytest.mark.parametrize("kind", ["table_loop", "table_count", "table_gather", "table_scatter", "table_slice", "refill"])
def test_programs_with_tables_of_every_type_have_a_meaning(kind):
    types = set()
    for seed in range(8):
        program = draw_program(seed, (kind, kind))
        if kind in {statement.kind for statement in program.statements()}:
            types.update(re.findall(r'"(u?int\d+)"', str(program)))
            assert interpreted(program)[0].status == RIGHT, program
    assert len(types) >= 4 or kind == "refill"


def test_the_arguments_of_a_program_are_equal_each_time():
    program = next(p for p in (draw_program(s, ("conversion", "conversion")) for s in range(50)) if any(t.ends for t in p.used))
    assert [a.view(torch.uint8).tolist() for a in arguments(program)] == [
        a.view(torch.uint8).tolist() for a in arguments(program)
    ]
