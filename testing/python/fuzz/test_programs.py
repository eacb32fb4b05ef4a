"""A fixed share of the random programs, and the machinery that draws, runs and shrinks them."""

from __future__ import annotations

import ast

import pytest

from testing.fuzz import shrink
from testing.fuzz.coverage import Coverage, pairs_of
from testing.fuzz.draw import Draw
from testing.fuzz.execute import TARGETS, arguments, traced
from testing.fuzz.generator import PRODUCTS, draw_program
from testing.fuzz.judge import judge
from testing.fuzz.outcome import BAD, Outcome
from testing.fuzz.registry import BLOCK
from testing.fuzz.scope import Scope, Tile
from testing.fuzz.statements.regions import block, counted
from testing.fuzz.tree import Program

GROUPS = [range(start, start + 10) for start in range(0, 50, 10)]


@pytest.mark.property
@pytest.mark.parametrize("seeds", GROUPS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_every_target_does_what_the_program_means(seeds, monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    for seed in seeds:
        program = draw_program(seed)
        wrong = {target: outcome for target, outcome in judge(program, TARGETS).items() if outcome.status in BAD}
        assert not wrong, f"seed {seed}: {wrong}\n{program}"


def test_a_seed_is_a_program():
    assert str(draw_program(3)) == str(draw_program(3)) != str(draw_program(4))
    assert str(draw_program(3, ("copy", "gemm"))) != str(draw_program(3))
    assert [a.tolist() for a in arguments(draw_program(3))] == [a.tolist() for a in arguments(draw_program(3))]


def test_all_kinds_of_statements_are_drawn():
    kinds = {statement.kind for seed in range(700) for statement in draw_program(seed).statements()}
    assert not BLOCK.keys() - kinds


def test_avoided_constructs_are_not_drawn():
    for seed in range(60):
        program = draw_program(seed, avoid=("parallel", "int4", "threads"))
        assert "parallel" not in {statement.kind for statement in program.statements()}
        assert '"int4"' not in str(program) and not program.needs


def test_programs_are_steered_to_new_pairs():
    coverage = Coverage()
    coverage.add(pairs_of(draw_program(5)))
    hits = 0
    for seed in range(120):
        aim = coverage.aim()
        hits += any(pair[1:] == aim for pair in pairs_of(draw_program(seed, aim)))
    assert hits > 30


def test_a_failure_is_shrunk_to_its_cause():
    program = next(p for p in map(draw_program, range(500)) if has_product(p))
    smaller = shrink.shrink(program, has_product)
    kinds = [statement.kind for statement in smaller.statements()]
    assert sum(map(kinds.count, PRODUCTS)) == 1 and "parallel" not in kinds and "result" not in kinds
    assert len(str(smaller)) < len(str(program)) / 2
    ast.parse(str(smaller))


def has_product(program: Program) -> bool:
    """Whether the text is a program with a product in a loop and other statements."""
    if "T.gemm(" not in str(program) or {statement.kind for statement in program.statements()}.isdisjoint(PRODUCTS):
        return False
    try:
        traced(program)
    except Exception:
        return False
    return True


def test_failures_with_one_cause_have_the_same_signature():
    first = Outcome("refused", "f12 is spread over 32 threads\n  --> /tmp/a.py:3")
    second = Outcome("refused", "s7 is spread over 64 threads\n  --> /tmp/b.py:9")
    assert first.signature == second.signature != Outcome("finding", first.message).signature


def test_a_view_of_a_view_has_as_many_elements():
    for seed in range(10):
        draw = Draw(seed)
        draw.sizes |= {"D0": 2, "D1": 3, "D2": 4}
        scope = Scope(tiles=[Tile("flat1", "shared", ("D0", "(D1) * (D2)"), "float32")])
        BLOCK["view"].rule(draw, scope)
        assert draw.elements(scope.tiles[-1].shape) == 24


def test_a_block_beside_a_slice_that_an_index_names_has_its_ranges():
    # A[bx, 0, 0] would take the extents (2, 2, 1), so that blocks overlap.
    assert block("A", "bx", ("D0", "D1"), "f[:, :, -1]") == "A[bx, 0:D0, 0:D1]"
    assert block("A", "bx", ("D0",), "t", "f[t[0, 1], :]") == "A[bx, 0]"


def test_an_axis_that_is_reduced_counts_those_that_indices_name_in_both():
    assert counted(1, "f[g[0, 0], :, :]", "t[k % 2, :]", 2) == (2, 3)
    assert counted(1, "f[k, :, :]", "t", 2) == counted(1, "f", "t[k, :]", 2) == counted(1, "f[:, :, k]", "t[k, :]", 2) == (1, 2)
    assert counted(0, "f[2:D0, :]", "t", 2) == (0, 2)
