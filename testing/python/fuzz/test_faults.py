"""Planted faults: what is changed, what the interpreter says of it, and what counts as missed."""

from __future__ import annotations

import ast

import pytest

from testing.fuzz.execute import interpreted
from testing.fuzz.faults import FAULTS, planted
from testing.fuzz.findings import Survey, is_near
from testing.fuzz.generator import draw_program
from testing.fuzz.outcome import FINDING
from testing.fuzz.tree import Kernel, Program, Stmt, Tensor

IN, OUT = Tensor("A1", ("64",), "float32"), Tensor("O2", ("64",), "float32", "out")
LOAD = Stmt("declare", ('s3 = T.alloc_shared((64,), "float32")', "T.copy(A1[0], s3)"), writes=("s3",))
STORE = Stmt("parallel", ("for i4 in T.Parallel(64):",), body=(Stmt("store", ("s3[i4] = s3[i4] + T.cast(i4, 'float32')",)),))
RESULT = Stmt("result", ("T.copy(s3, O2[0])",))
SMALL = Program("small", {}, (IN, OUT), (Kernel("1", "64", (LOAD, STORE, RESULT)),))


def test_every_kind_of_fault_is_planted_and_is_a_program():
    kinds = set()
    for seed in range(600):
        faults = planted(draw_program(seed), seed, 12)
        kinds |= {fault.kind for fault in faults}
        for fault in faults[:2]:
            ast.parse(str(fault.program))
    assert len(kinds) >= len(FAULTS) - 2  # two need a construct that few programs have


@pytest.mark.parametrize(
    ("kind", "finding"),
    [
        ("no first value", "uninitialised"),
        ("two iterations store one element", "race"),
        ("an index beyond the tile", "out-of-bounds"),
        ("a neighbour is read", "race"),
    ],
)
def test_the_interpreter_reports_a_fault_at_its_line(kind, finding):
    (fault,) = (fault for fault in planted(SMALL, 0, 12) if fault.kind == kind)
    meaning, *_ = interpreted(fault.program)
    assert meaning.status == FINDING and meaning.message.startswith(finding) and is_near(fault, meaning)


def test_a_survey_counts_what_is_found_and_tells_what_is_missed():
    said: list[str] = []
    survey = Survey(("cpu",), said.append)
    survey.run(range(6), lambda: False, most=1)
    assert not survey.missed and sum(survey.meanings.values()) > 0
    assert survey.summary().splitlines()[-1].split()[0].isdigit()
