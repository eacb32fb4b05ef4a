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
    make_fully_replicated_layout_fragment,
    on_register,
    on_thread,
    panel_layout,
    replicated,
    row_major,
    swizzled,
)  # fmt: skip
from tilelang.layout.digits import Digit, Form, NotMixedRadix
from tilelang.layout.fragment import FragmentLayout
from tilelang.layout.memory import Swizzle, TileLayout


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


def test_threads_of_a_fragment_count_from_the_first():
    layout = Fragment((8,), forward_fn=lambda i, rep: (32 + i * 4 + rep, 0), replicate=4)
    assert layout == Fragment((8,), forward_fn=lambda i, rep: (i * 4 + rep, 0), replicate=4)


def test_fragment_that_is_no_sum_is_refused():
    with pytest.raises(CompileError, match="do not add up|decompose"):
        Fragment((8, 8), forward_fn=lambda i, j: (i ^ j, j))


@pytest.mark.parametrize(
    ("forward", "fault"),
    [
        (lambda i, j: (i % 32 + j * 64, i // 32), "threads of the fragment leave numbers out: a stride of 64 follows 32"),
        (lambda i, j: (i % 32 + j * 16, i // 32), "threads of the fragment repeat numbers"),
        (lambda i, j: (i % 32, i // 32 + j), "several elements to one register"),
    ],
)
def test_fragment_refuses_threads_with_gaps_and_shared_registers(forward, fault):
    with pytest.raises(CompileError, match=fault):
        Fragment((64, 2), forward_fn=forward)


def test_layout_with_shared_places_knows_it():
    layout = Layout((4, 4), lambda i, j: i + j)
    assert not layout.injective and layout.get_output_shape() == [7]
    assert Layout((4, 4), lambda i, j: 4 * i + j).injective


def places(layout):
    return {index: tuple(layout.places(index)) for index in itertools.product(*map(range, layout.shape))}


@pytest.mark.parametrize("layout", [Layout((8, 64), lambda i, j: [i, j]), swizzled((8, 64), 16), row_major((8, 64))])
def test_layouts_made_of_a_layout(layout):
    inside = places(layout)
    expanded = layout.expand([3, 2])
    assert expanded.get_input_shape() == [3, 2, 8, 64]
    assert {expanded.offset((a, b, *index)) for a in range(3) for b in range(2) for index in inside} == set(range(3072))
    assert all(expanded.offset((2, 1, *index)) == 5 * 512 + layout.offset(index) for index in inside)
    down, across, halved = layout.repeat(0, 2), layout.repeat(-1, 3), layout.reshape((4, 128))
    assert all(down.places((8 + i, j)) == [1, *place] for (i, j), place in inside.items())
    assert all(across.places((i, 128 + j)) == [2, *place] for (i, j), place in inside.items())
    assert all(halved.offset((i // 2, i % 2 * 64 + j)) == layout.offset((i, j)) for i, j in inside)
    assert layout.expand([]) is layout.repeat(1, 1) is layout.reshape((8, 64)) is layout
    for wrong in (
        lambda: layout.expand(0),
        lambda: layout.repeat(0, -1),
        lambda: layout.repeat(2, 2),
        lambda: layout.reshape((7,)),
    ):
        with pytest.raises(ValueError):
            wrong()


def test_panels_of_more_axes_are_expanded_panels():
    for shape in ((2, 8, 64), (3, 2, 8, 64)):
        assert panel_layout(shape, 16, 128) == panel_layout((8, 64), 16, 128).expand(shape[:-2])


def test_places_of_two_layouts_are_over_the_same_variables():
    from tilelang.tvm_names import tvm

    split, plain = Layout((64,), lambda i: [i // 32, i % 32]), Layout((64,), lambda i: i)
    places = split.get_linearized_forward_index(), plain.get_linearized_forward_index()
    assert tvm.arith.Analyzer().can_prove_equal(*places)
    assert all(a.same_as(b) for a, b in zip(split.get_forward_vars(), plain.get_forward_vars()))


def test_fragments_by_an_index_map():
    from tvm.tirx import IndexMap

    places = IndexMap.from_func(lambda i, j: [i * 4 + j // 2, j % 2], index_dtype="int32")
    by_map = Fragment(
        (8, 8),
        forward_thread_fn=lambda i, j: places.map_indices([i, j])[0],
        forward_index_fn=lambda i, j: places.map_indices([i, j])[1],
    )
    assert by_map == Fragment((8, 8), forward_fn=lambda i, j: (i * 4 + j // 2, j % 2))


def test_layouts_are_compared_by_places():
    layout = Layout((32, 4), lambda i, j: i * 4 + j)
    assert layout.is_equal(Layout((32, 4), lambda a, b: b + 4 * a)) and layout.is_equal(row_major((32, 4)))
    others = [
        Layout((32, 4), lambda i, j: j * 32 + i),
        Layout((32, 4), lambda i, j: i * 8 + j),
        Layout((16, 8), lambda i, j: i * 8 + j),
    ]
    assert not any(map(layout.is_equal, others))


def test_inverse_of_a_layout():
    layout = Layout((128, 6), lambda i, j: [j, i // 8, i % 8])
    inverse = layout.inverse()
    assert inverse.get_input_shape() == [6, 16, 8] and inverse.get_output_shape() == [128, 6]
    assert all(tuple(inverse.places(place)) == index for index, place in places(layout).items())
    for wrong in (lambda i: (i + 1) % 128, lambda i: i * 2, lambda i: i // 2):
        with pytest.raises(CompileError, match="inverse"):
            Layout((128,), wrong).inverse()


def test_a_layout_on_variables_of_the_ir():
    layout = Layout((8, 4), lambda i, j: [j, i])
    assert [str(each) for each in layout.get_forward_index()] == ["i1", "i0"]


def test_repeated_and_replicated_fragments():
    base = accumulator(16, 8)
    on_threads = base.repeat([2, 1], repeat_on_thread=True).replicate(2)
    assert on_threads.shape == (32, 8) and on_threads.threads == 128 and on_threads.replicate_size == 2
    thread, register = base.locate((3, 5))
    assert on_threads.locate((19, 5)) == (32 + thread, register) and on_threads.owners((19, 5)) == [32 + thread, 96 + thread]
    for lower_first, tile in ((True, 1 * 3 + 2), (False, 2 * 2 + 1)):
        repeated = base.repeat([2, 3], lower_dim_first=lower_first)
        assert repeated.locate((16 + 3, 2 * 8 + 5)) == (thread, 4 * tile + register)
    assert base.is_equal(base.condense_rep_var()) and not base.is_equal(on_threads)
    assert make_fully_replicated_layout_fragment((4,), 64).is_equal(replicated((4,), 64))


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


@pytest.mark.parametrize("columns", [16, 32, 64, 128, 256])
def test_swizzle_for_every_second_row(columns):
    layout = swizzled((32, columns), 8, row_step=1)
    places = [layout.offset(index) for index in itertools.product(range(32), range(columns))]
    assert sorted(places) == list(range(32 * columns))
    for first, column in itertools.product((0, 1, 16), range(0, columns, 16)):
        assert conflicts([layout.offset((first + 2 * row, column)) for row in range(8)], 16) == 0


@pytest.mark.parametrize("columns", [32, 64, 128])
def test_swizzle_for_columns_of_words(columns):
    layout = swizzled((32, columns), 32, step=1)
    for row, column in itertools.product(range(0, 32, 4), range(0, columns, 8)):
        lanes = [layout.offset((row + lane % 4, column + lane // 4)) * 4 for lane in range(32)]
        assert conflicts(lanes, 4) == 0


@pytest.mark.parametrize(
    "layout",
    [
        swizzled((16, 64), 16),
        swizzled((16, 96), 16),
        swizzled((16, 64), 16).expand(3),
        panel_layout((16, 128), 16, 128),
        TileLayout((4, 12), (((4, 12),), ((12, 1),)), Swizzle(0, 2, 0, 1)),
        TileLayout((8, 8), (((8, 1),), ((2, 8), (4, 16))), Swizzle(1, 2, 0, 1)),
    ],
    ids=["panel", "panels", "slots", "wide panels", "rows of other lengths", "columns"],
)
def test_the_offset_is_the_linear_one_xored(layout):
    """However much of it the XOR is applied to."""
    for index in itertools.product(*map(range, layout.shape)):
        assert layout.offset(index) == layout.linear(index) ^ layout.swizzle.mask(index[layout.swizzle.axis])


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


def test_a_number_below_the_divisor_is_its_own_remainder():
    full = Form.of_digit(Digit("a", 12, "thread", 1)) + Form.of_digit(Digit("b", 2, "thread", 12), 12)  # up to 23
    assert full.divmod(32) == (Form(), full) and full.shifted(8).divmod(32) == (Form(), full.shifted(8))
    for changed in (full.shifted(9), full.shifted(-1)):
        with pytest.raises(NotMixedRadix):
            changed.divmod(32)


def _value(form, values):
    return form.offset + sum(t.weight * (values[t.digit.name] // t.low % t.extent) for t in form)
