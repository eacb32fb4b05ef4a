"""Changes of the compiler: each is one, and what it breaks is noticed."""

from __future__ import annotations

import ast

from testing.mutation.mutators import mutants_of, mutated
from testing.mutation.suite import SURVIVED, UNREACHED, judge_all, right_programs, sample

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


def test_a_planted_fault_is_caught():
    planted = [m for m in sample(10**6, 0) if m.module.endswith("schedule.barriers") and m.text.startswith("negate")]
    programs = right_programs(6)
    assert any(verdict.how not in (SURVIVED, UNREACHED) for verdict in judge_all(planted[:3], programs, 6))
