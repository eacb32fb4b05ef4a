"""What is said of an index over the elements of a vector, compared with the index at every place."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from tilelang.ir import nodes as ir
from tilelang.ir.facts import Facts
from tilelang.target.cuda.tile.vector_index import makes_unit_steps, vector_index

J, OTHERS = 64, (range(3), range(5))
"""The extent of the vectors' axis; the values of another axis and of a block's number."""

_OPERATIONS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, number: a * number,
    lambda a, number: a // number,
    lambda a, number: a % number,
    lambda a, number: a // number * number,
)
_NUMBERS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 96)


def _drawn(random_: random.Random, depth: int) -> Callable[..., Any]:
    """A function of ``j``, ``i`` and ``b`` that works on numbers and on expressions."""
    if depth == 0:
        kind = random_.randrange(5)
        number = random_.choice(_NUMBERS)
        return lambda *vars: vars[kind] if kind < 3 else vars[0] + 0 * vars[1] if kind == 3 else 0 * vars[0] + number
    operation = random_.choice(_OPERATIONS)
    left = _drawn(random_, depth - 1)
    if operation in _OPERATIONS[:2]:
        right = _drawn(random_, depth - 1)
        return lambda *vars: operation(left(*vars), right(*vars))
    number = random_.choice(_NUMBERS)
    return lambda *vars: operation(left(*vars), number)


@pytest.mark.parametrize("seed", range(8))
def test_steps_and_units_are_those_of_the_index(seed: int) -> None:
    random_, known = random.Random(seed), 0
    j, i, b = (ir.Var(name, "int32") for name in "jib")
    for _ in range(400):
        function, width = _drawn(random_, random_.randrange(1, 5)), random_.choice((2, 4, 8, 16))
        found = vector_index(function(j, i, b), j, width, Facts().divisor)
        if found is None:
            continue
        known += found.step == 1
        for first, *others in itertools.product(range(0, J, width), *OTHERS):
            start = function(first, *others)
            assert [function(first + r, *others) - start for r in range(width)] == [found.step * r for r in range(width)]
            assert start == 0 if found.unit == 0 else start % found.unit == 0
    assert known > 20  # of most trees nothing is known, or nothing moves


@pytest.mark.parametrize(
    ("index", "step", "unit"),
    [
        (lambda j, b: b * 64 + j, 1, 8),
        (lambda j, b: (b * 64 + j) % 96, 1, 8),
        (lambda j, b: (b * 64 + j) // 96, 0, 1),
        (lambda j, b: (b * 32 + j) // 256 % 3, 0, 1),
        (lambda j, b: j // 8 * 16 + j % 8, 1, 16),
        (lambda j, b: (b * 4 + j) // 8, None, None),  # a vector of eight may begin at 4
        (lambda j, b: j * 3 // 8, None, None),
    ],
)
def test_places_of_a_convolution(index: Any, step: int | None, unit: int | None) -> None:
    j, b = ir.Var("j", "int32"), ir.Var("b", "int32")
    found = vector_index(index(j, b), j, 8)
    assert (found and found.step, found and found.unit) == (step, unit)


def test_pairs_tell_the_axis_of_a_row() -> None:
    j, i = ir.Var("j", "int32"), ir.Var("i", "int32")
    index = (i * 96 + j) % 12 + i * 2
    assert makes_unit_steps(index, j) and not makes_unit_steps(index, i)
