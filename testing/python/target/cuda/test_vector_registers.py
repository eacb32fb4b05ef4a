"""When the registers of a vector's elements are neighbours, so that one instruction may move them."""

from __future__ import annotations

import pytest

from tilelang.layout.digits import Digit, Form, Term
from tilelang.target.cuda.codegen.nest_loops import NestLoops

LANE, ROW = Digit("v", 4, "register"), Digit("r", 8, "register")


@pytest.mark.parametrize(
    ("form", "adjacent"),
    [
        (Form((Term(LANE, 1, 1, 4),)), True),
        (Form((Term(LANE, 1, 1, 4), Term(ROW, 4, 1, 8)), 8), True),
        (Form((Term(LANE, 2, 1, 4),)), False),  # every second register
        (Form((Term(LANE, 1, 2, 2),)), False),  # elements that share a register
        (Form((Term(LANE, 1, 1, 2), Term(LANE, 4, 2, 2))), False),  # pairs apart
        (Form((Term(LANE, 1, 1, 4), Term(ROW, 2, 1, 8))), False),  # some rows begin within a vector
        (Form((Term(LANE, 1, 1, 4),), 1), False),  # no row begins at a whole vector
        (Form((Term(ROW, 4, 1, 8),)), False),  # one register for all elements
    ],
)
def test_elements_of_whole_vectors_are_adjacent(form, adjacent):
    loops = object.__new__(NestLoops)
    loops.width, loops.vector = LANE.extent, LANE
    assert loops.is_adjacent(form) is adjacent
