"""Fragments, memory layouts, swizzles and digit arithmetic, against brute force."""

import itertools
import random

import pytest

from tilelang.errors import CompileError
from tilelang.layout import (
    Fragment,
    Layout,
    conflicts,
    draw,
    from_text,
    on_register,
    on_thread,
    replicated,
    row_major,
    swizzled,
)  # fmt: skip
from tilelang.layout.digits import Digit, Form, NotMixedRadix
from tilelang.layout.fragment import FragmentLayout


def accumulator(rows, columns):
    """The layout of an m16n8 accumulator tile, repeated in registers."""
    return FragmentLayout(
        (rows, columns),
        (
            (on_thread(8, 4), on_register(2, 2), on_register(rows // 16, 4)),
            (on_register(2, 1), on_thread(4, 1), on_register(columns // 8, 4 * rows // 16)),
        ),
    )


def test_accumulator_places():
    layout = accumulator(16, 16)
    assert layout.threads == 32 and layout.registers == 8
    assert layout.locate((0, 0)) == (0, 0)
    assert layout.locate((9, 3)) == (5, 3)
    assert layout.locate((15, 15)) == (31, 7)


def test_every_thread_and_register_is_used_once():
    layout = accumulator(32, 24)
    places = {layout.locate(index) for index in itertools.product(range(32), range(24))}
    assert len(places) == 32 * 24 == layout.threads * layout.registers


def test_project_makes_replicas():
    reduced = accumulator(16, 32).project(1)
    assert reduced.shape == (16,)
    assert reduced.owners((3,)) == [12, 13, 14, 15]
    assert reduced.registers == 2
    assert reduced.locate((11,)) == (12, 1)


def test_spread_fills_the_block():
    assert accumulator(16, 8).spread(128).owners((0, 0)) == [0, 32, 64, 96]
    assert replicated((2, 3), 64).owners((1, 2)) == list(range(64))


def test_text_round_trip():
    for layout in (accumulator(32, 16).spread(64), swizzled((64, 64), 16), Layout((4, 8), lambda i, j: (i, j ^ (i % 8)))):
        assert from_text(layout.to_text()) == layout


def test_fragment_from_functions():
    layout = Fragment((16, 8), forward_fn=lambda i, j: (i % 8 * 4 + j // 2, i // 8 * 2 + j % 2))
    assert layout.same_threads(accumulator(16, 8))
    for index in itertools.product(range(16), range(8)):
        assert layout.locate(index) == accumulator(16, 8).locate(index)


def test_fragment_with_replication():
    layout = Fragment((8,), forward_thread_fn=lambda i, rep: i * 4 + rep, replicate=4)
    assert layout.owners((2,)) == [8, 9, 10, 11]


def test_fragment_that_is_no_sum_is_refused():
    with pytest.raises(CompileError, match="do not add up|decompose"):
        Fragment((8, 8), forward_fn=lambda i, j: (i ^ j, j))


def test_layout_with_shared_places_is_refused():
    with pytest.raises(CompileError, match="share a place"):
        Layout((4, 4), lambda i, j: i + j)


@pytest.mark.parametrize("columns", [16, 32, 64, 96, 128, 192, 256, 576])
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_swizzle_is_a_permutation_without_conflicts(columns, bits):
    layout = swizzled((32, columns), bits)
    size = bits // 8
    places = [layout.offset(index) for index in itertools.product(range(32), range(columns))]
    assert sorted(places) == list(range(32 * columns))
    chunk = 16 // size
    for column in range(0, columns, chunk):
        rows = [layout.offset((row, column)) * size for row in range(8)]
        assert conflicts(rows, 16) == 0, (columns, bits, column)


@pytest.mark.parametrize("columns", [32, 64, 128])
def test_swizzle_for_columns_of_words(columns):
    layout = swizzled((32, columns), 32, step=1)
    for row, column in itertools.product(range(0, 32, 4), range(0, columns, 8)):
        lanes = [layout.offset((row + lane % 4, column + lane // 4)) * 4 for lane in range(32)]
        assert conflicts(lanes, 4) == 0


def test_row_major_vector():
    assert row_major((4, 24)).vector == 8
    assert swizzled((32, 64), 16).vector == 8


def test_draw():
    assert draw(row_major((2, 3))) == "0 1 2\n3 4 5"
    assert draw(accumulator(16, 8)).splitlines()[0].split()[2] == "T1:0"


def test_forms_agree_with_integers():
    generator = random.Random(7)
    digits = [Digit("a", 4, "thread", 1), Digit("b", 6, "register"), Digit("c", 8, "thread", 4)]
    full = Form.of_digit(digits[0]) + Form.of_digit(digits[1], 4) + Form.of_digit(digits[2], 24)
    for divisor in (2, 4, 8, 12, 24, 48):
        try:
            quotient, remainder = full.divmod(divisor)
        except NotMixedRadix:
            assert divisor == 16
            continue
        for _ in range(50):
            values = {digit.name: generator.randrange(digit.extent) for digit in digits}
            assert _value(quotient, values) == _value(full, values) // divisor
            assert _value(remainder, values) == _value(full, values) % divisor
    with pytest.raises(NotMixedRadix):
        full.divmod(16)


def _value(form, values):
    return form.offset + sum(t.weight * (values[t.digit.name] // t.low % t.extent) for t in form)
