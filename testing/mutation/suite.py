"""Judges a mutant: random programs, and then tests, run with the changed compiler in separate processes.

A program whose generated code is unchanged is not run, so many programs can be tried for each mutant.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from testing.mutation.installed import install
from testing.mutation.mutators import Mutant
from testing.mutation.pool import Pool, code_of

SURVIVED, SAME, UNREACHED = "survived", "same code", "not reached"
"""Changed code that is right; no changed code; no program that runs the line."""
MISSED = (SURVIVED, SAME, UNREACHED)
PATIENCE = 300.0
"""Seconds after which a changed compiler is taken to loop; that counts as caught."""
MOST_RUNS = 12
"""Programs with changed code that are run for one change."""

_CONTEXT = multiprocessing.get_context("forkserver")
_PRELOADED = ["tilelang.ir.nodes", "testing.fuzz.judge", "testing.fuzz.generator", "pytest"]
"""What every process has from the beginning: nothing that is changed."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on a mutant.

    Attributes:
        how: the way it was caught, or the reason why it was not.
        met: number of programs that execute its line.
        changed: number of those whose generated code differs.
        by: the seed of the program that caught it, or the names of the tests that failed.
    """

    mutant: Mutant
    how: str
    met: int = 0
    changed: int = 0
    by: str = ""


def judge_all(mutants: Sequence[Mutant], pool: Pool, most: int, tests: Sequence[str] = ()) -> Iterator[Verdict]:
    """The verdict on each mutant.

    Args:
        mutants: the changes.
        pool: programs to choose from.
        most: upper bound on the programs that are tried for each mutant.
        tests: test files to run for mutants that no program catches.
    """
    for mutant in mutants:
        seeds = pool.reaching(mutant)
        chosen = random.Random(str(mutant)).sample(seeds, min(most, len(seeds)))
        code = {seed: pool.code[seed] for seed in chosen}
        verdict = _guarded(mutant, _by_programs, code) if chosen else Verdict(mutant, UNREACHED)
        if verdict.how in MISSED and tests:
            by_tests = _guarded(mutant, _by_tests, tuple(tests))
            verdict = by_tests if by_tests.how not in MISSED or not chosen else verdict
        yield verdict


def _guarded(mutant: Mutant, task: Callable[..., Verdict], argument: Any) -> Verdict:
    try:
        return in_process(task, mutant, argument, patience=PATIENCE)
    except TimeoutError:
        return Verdict(mutant, "hangs")
    except EOFError:
        return Verdict(mutant, "crash")


# In processes of their own ---------------------------------------------------------------------------------------------


def in_process(task: Callable[..., Any], *arguments: Any, patience: float | None) -> Any:
    """The result of ``task``, run in a fresh process.

    Raises:
        TimeoutError: it takes longer than ``patience`` seconds.
        EOFError: the process dies.
    """
    _CONTEXT.set_forkserver_preload(_PRELOADED)
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
    os.environ["TILELANG_DISABLE_CACHE"], os.environ["OMP_NUM_THREADS"] = "1", "1"
    warnings.filterwarnings("ignore")
    connection.send(task(*arguments))


def _by_programs(mutant: Mutant, known: dict[int, dict[str, str]]) -> Verdict:
    """Runs the programs whose generated code has changed."""
    changed = 0
    try:
        install(mutant)
        for met, (seed, code) in enumerate(known.items(), start=1):
            found = _changed(seed, code)
            changed += bool(found)
            how = _failure(seed, found) if found else None
            if how is not None:
                return Verdict(mutant, how, met, changed, str(seed))
            if changed == MOST_RUNS:
                break
    except Exception as error:  # the changed module cannot even be imported
        return Verdict(mutant, f"error: {type(error).__name__}")
    return Verdict(mutant, SURVIVED if changed else SAME, len(known), changed)


def _changed(seed: int, code: dict[str, str]) -> dict[str, str]:
    """The targets for which the generated code of a program has changed, and the error if compilation fails."""
    from testing.fuzz.generator import draw_program

    program, found = draw_program(seed), {}
    for target, known in code.items():
        try:
            if code_of(program, target) != known:
                found[target] = ""
        except Exception as error:
            found[target] = type(error).__name__
    return found


def _failure(seed: int, found: dict[str, str]) -> str | None:
    """How the program of a seed, which was right, fails on targets for which its code has changed."""
    from testing.fuzz.generator import draw_program
    from testing.fuzz.judge import judge
    from testing.fuzz.outcome import RIGHT

    outcomes = judge(draw_program(seed), tuple(found))
    wrong = next((outcome.status for outcome in outcomes.values() if outcome.status != RIGHT), None)
    return wrong or next((f"checker: {error}" for error in found.values() if error), None)


def _by_tests(mutant: Mutant, tests: tuple[str, ...]) -> Verdict:
    """Runs tests until one fails."""
    import pytest

    install(mutant)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = pytest.main(["-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests])
    failed = [line.split(" - ")[0] for line in said.getvalue().splitlines() if line.startswith(("FAILED", "ERROR"))]
    return Verdict(mutant, "test" if status else SURVIVED, by=" ".join(failed))
