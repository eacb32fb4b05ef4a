"""Random programs that the unchanged compiler handles correctly: the lines that each executes, and its generated code."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from testing.mutation.lines import Lines
from testing.mutation.modules import modules, path_of
from testing.mutation.mutators import Mutant

TARGETS = ("sm_80", "sm_90a")


@dataclass(frozen=True)
class Pool:
    """Programs, by their seeds.

    Attributes:
        lines: lines of the compiler that each program executes.
        code: for each target, a digest of the generated code.
        imported: lines that run when the compiler is imported.
    """

    lines: dict[int, frozenset[tuple[str, int]]]
    code: dict[int, dict[str, str]]
    imported: frozenset[tuple[str, int]]

    def reaching(self, mutant: Mutant) -> list[int]:
        """The seeds whose programs run the statement of a mutant."""
        first, last = mutant.statement
        statement = {(str(path_of(mutant.module)), line) for line in range(first, last + 1)}
        return [seed for seed, found in self.lines.items() if statement & found or statement & self.imported]


def right_programs(count: int, first: int = 0) -> Pool:
    """``count`` programs with correct results on all of their targets, from seed ``first`` on."""
    from testing.fuzz.generator import draw_program
    from testing.fuzz.judge import judge
    from testing.fuzz.outcome import RIGHT

    files = [str(path_of(module)) for module in modules()]
    with Lines(files) as loading:
        import tilelang.target.cuda.compile  # noqa: F401
    pool = Pool({}, {}, frozenset(loading.found))
    for seed in itertools.count(first):
        if len(pool.lines) == count:
            return pool
        program = draw_program(seed)
        outcomes = judge(program, TARGETS)
        if any(outcome.status != RIGHT for outcome in outcomes.values()):
            continue
        with Lines(files) as lines:
            pool.code[seed] = {target: code_of(program, target) for target in outcomes}
        pool.lines[seed] = frozenset(lines.found)


def code_of(program: Any, target: str) -> str:
    """A digest of the code and the launches of a program; the postconditions of all steps are checked."""
    from testing.fuzz.execute import lowered, traced

    return sha256(repr(lowered(program, traced(program), target)).encode()).hexdigest()
