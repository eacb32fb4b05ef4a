"""Everything that the language emits is known to the interpreter: tile operators and intrinsics."""

import pytest

import tilelang.interpreter.program  # noqa: F401  (loads every table)
from tilelang.interpreter.elementary import FUNCTIONS
from tilelang.interpreter.expressions import INTRINSICS as VALUES
from tilelang.interpreter.operators import RULES
from tilelang.interpreter.waits import STEPS
from tilelang.language.math import _ELEMENTARY as ELEMENTARY
from tilelang.tileop import OPERATORS
from tilelang.tileop.thread import INTRINSICS

NOT_COVERED = {"source_kernel", "ring_wait", "ring_expect", "ring_release", "ring_registers"}
"""CUDA source cannot be run here; the others are the CUDA target's own, no program has them."""


def test_every_tile_operator_has_a_rule():
    assert [name for name, record in OPERATORS.items() if record not in RULES] == []


def test_every_intrinsic_is_defined_once():
    assert set(INTRINSICS) - set(VALUES) - set(STEPS) == NOT_COVERED
    assert set(VALUES) & set(STEPS) == set()
    assert (set(VALUES) | set(STEPS)) - set(INTRINSICS) == set()


@pytest.mark.parametrize("row", ELEMENTARY, ids=lambda row: row.name)
def test_every_elementary_function_is_computed(row):
    assert (row.tvm or row.name) in FUNCTIONS
