"""Changes of the compiler: each is one, and what it breaks is noticed."""

from __future__ import annotations

import ast

import pytest

from testing.mutation.modules import mutants, sample
from testing.mutation.mutators import mutants_of, mutated
from testing.mutation.pool import right_programs
from testing.mutation.suite import MISSED, SAME, in_process, judge_all

SOURCE = """
def f(a, b):
    if a < b and b:
        print(a)
    return min(a, b) + 1
"""


def test_one_change_each():
    before = ast.unparse(ast.parse(SOURCE)).splitlines()
    texts = [mutant.text for mutant in mutants_of("m", SOURCE)]
    wanted = {"negate a < b and b", "LtE in a < b", "drop print(a)", "max for min(a, b)", "2 for 1", "Or in a < b and b"}
    assert wanted <= set(texts)
    for number in range(len(texts)):
        after = ast.unparse(mutated(SOURCE, number)).splitlines()
        assert sum(a != b for a, b in zip(before, after)) == 1


def test_a_sample_is_the_same_each_time():
    assert sample(20, 1) == sample(20, 1) != sample(20, 2)


@pytest.fixture(scope="module")
def pool():
    return in_process(right_programs, 4, patience=None)


def test_a_planted_fault_is_caught(pool):
    planted = [m for m in mutants(["schedule"]) if m.module.endswith("schedule.barriers") and m.text.startswith("negate")]
    assert any(verdict.how not in MISSED for verdict in judge_all(planted[:3], pool, 4))


def test_a_change_without_effect_on_generated_code_is_classified_as_such(pool):
    planted = next(m for m in mutants(["inference"]) if m.module.endswith("solver") and m.text == "4097 for 4096")
    (verdict,) = judge_all([planted], pool, 2)
    assert (verdict.how, verdict.met, verdict.changed) == (SAME, 2, 0)


def test_tests_are_run_against_changes_that_programs_do_not_catch(pool, tmp_path):
    failing = tmp_path / "test_it.py"
    failing.write_text("def test_one():\n    pass\n\n\ndef test_two():\n    assert False\n")
    planted = next(m for m in mutants(["inference"]) if m.module.endswith("solver") and m.text == "4097 for 4096")
    (verdict,) = judge_all([planted], pool, 1, [str(failing)])
    assert verdict.how == "test" and verdict.by.endswith("test_two")
