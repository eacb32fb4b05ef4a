"""Runs random programs with changed compilers, each in a process of its own."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from testing.mutation.installed import ROOT, install, path_of
from testing.mutation.lines import Lines
from testing.mutation.mutators import Mutant, mutants_of

FOLDERS = ("inference", "schedule", "codegen", "ops", "specialize", "analysis", "normalise", "tile")
CHECKERS = ("verify", "dump")
"""Modules that make no code: without a check of theirs nothing is wrong."""
SURVIVED, UNREACHED = "survived", "not reached"
TARGETS = ("sm_80", "sm_90a")
PATIENCE = 200.0
"""Seconds after which a changed compiler is taken to loop; that counts as caught."""
_CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: ``how`` it was caught, or that it survived, or that no program ran its line."""

    mutant: Mutant
    how: str
    seed: int | None = None


@dataclass(frozen=True)
class Programs:
    """Programs that the compiler as it is gets right.

    Attributes:
        lines: of each seed, the lines of the compiler that its program runs.
        imported: lines that run whenever the compiler is loaded.
    """

    lines: dict[int, frozenset[tuple[str, int]]]
    imported: frozenset[tuple[str, int]]

    def reaching(self, mutant: Mutant) -> list[int]:
        """The seeds whose programs run the line of a mutant."""
        line = str(path_of(mutant.module)), mutant.line
        return [seed for seed, found in self.lines.items() if line in found or line in self.imported]


def modules(folders: Sequence[str] = FOLDERS) -> list[str]:
    """The modules that are changed: those of ``target/cuda`` that decide on code."""
    found = []
    for folder in folders:
        for path in sorted((ROOT / "tilelang" / "target" / "cuda" / folder).glob("*.py")):
            if path.stem not in CHECKERS:
                found.append(".".join(path.relative_to(ROOT).with_suffix("").parts))
    return found


def sample(count: int, seed: int, folders: Sequence[str] = FOLDERS) -> list[Mutant]:
    """Changes drawn evenly from all of the modules of some folders."""
    found = [mutant for module in modules(folders) for mutant in mutants_of(module, path_of(module).read_text())]
    return random.Random(seed).sample(found, min(count, len(found)))


def right_programs(count: int) -> Programs:
    """The first seeds whose programs are right, and what each runs."""
    return _in_process(_right, count, patience=None)


def judge_all(mutants: Sequence[Mutant], programs: Programs, most: int) -> Iterator[Verdict]:
    """The verdict on each mutant, from at most so many programs that run its line."""
    for mutant in mutants:
        seeds = programs.reaching(mutant)[:most]
        if not seeds:
            yield Verdict(mutant, UNREACHED)
            continue
        try:
            yield _in_process(_verdict, mutant, seeds, patience=PATIENCE)
        except TimeoutError:
            yield Verdict(mutant, "hangs")
        except EOFError:
            yield Verdict(mutant, "crash")


# In processes of their own ---------------------------------------------------------------------------------------------


def _in_process(task: Callable[..., Any], *arguments: Any, patience: float | None) -> Any:
    """What ``task`` gives, in a fresh process.

    Raises:
        TimeoutError: it takes longer than ``patience`` seconds.
        EOFError: the process dies.
    """
    ours, theirs = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=_perform, args=(theirs, task, arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(patience):
            raise TimeoutError
        return ours.recv()
    finally:
        process.kill()
        process.join()


def _perform(connection: Connection, task: Callable[..., Any], arguments: tuple) -> None:
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    os.environ["OMP_NUM_THREADS"] = "1"
    warnings.filterwarnings("ignore")
    connection.send(task(*arguments))


def _right(count: int) -> Programs:
    files = [str(path_of(module)) for module in modules()]
    with Lines(files) as loading:
        import tilelang.target.cuda.compile  # noqa: F401
    found: dict[int, frozenset[tuple[str, int]]] = {}
    for seed in itertools.count():
        if len(found) == count:
            return Programs(found, frozenset(loading.found))
        with Lines(files) as lines:
            failure = _failure(seed)
        if failure is None:
            found[seed] = frozenset(lines.found)


def _verdict(mutant: Mutant, seeds: Sequence[int]) -> Verdict:
    try:
        install(mutant)
        failures = ((seed, _failure(seed)) for seed in seeds)
        return next((Verdict(mutant, how, seed) for seed, how in failures if how is not None), Verdict(mutant, SURVIVED))
    except Exception as error:  # the changed module cannot even be imported
        return Verdict(mutant, f"error: {type(error).__name__}")


def _failure(seed: int) -> str | None:
    """How the program of a seed fails; nothing of the compiler is imported before this."""
    from testing.fuzz.generator import draw_program
    from testing.fuzz.judge import judge
    from testing.fuzz.outcome import BAD

    found = judge(draw_program(seed), TARGETS)
    return next((outcome.status for outcome in found.values() if outcome.status in BAD), None)
