"""Runs random programs with changed compilers, each in a process of its own."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

from testing.mutation.installed import ROOT, install, path_of
from testing.mutation.lines import Lines
from testing.mutation.mutators import Mutant, mutants_of

FOLDERS = ("inference", "schedule", "codegen")
SURVIVED, UNREACHED = "survived", "not reached"
PATIENCE = 300.0
"""Seconds after which a changed compiler is taken to loop; that counts as caught."""


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: ``how`` it was caught, or that it survived, or that no program ran its line."""

    mutant: Mutant
    how: str
    seed: int | None = None


def sample(count: int, seed: int) -> list[Mutant]:
    """Changes drawn evenly from all of ``target/cuda/{inference,schedule,codegen}``."""
    found: list[Mutant] = []
    for folder in FOLDERS:
        for path in sorted((ROOT / "tilelang" / "target" / "cuda" / folder).glob("*.py")):
            if path.stem == "verify":  # it makes no code: without a check of it nothing is wrong
                continue
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found += mutants_of(module, path_of(module).read_text())
    return random.Random(seed).sample(found, min(count, len(found)))


def right_seeds(count: int) -> list[int]:
    """The first seeds whose programs the compiler as it is gets right."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_right, (count,))


def _right(count: int) -> list[int]:
    _quiet()
    return list(itertools.islice((seed for seed in itertools.count() if _failure(seed) is None), count))


def judge_all(mutants: Sequence[Mutant], seeds: Sequence[int]) -> Iterator[Verdict]:
    """The verdict on each mutant."""
    context = multiprocessing.get_context("spawn")
    for mutant in mutants:
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, mutant, tuple(seeds)), daemon=True)
        process.start()
        theirs.close()
        try:
            verdict = ours.recv() if ours.poll(PATIENCE) else Verdict(mutant, "hangs")
        except EOFError:
            verdict = Verdict(mutant, "crash")
        process.kill()
        process.join()
        yield verdict


def _work(connection: Connection, mutant: Mutant, seeds: tuple[int, ...]) -> None:
    _quiet()
    install(mutant)
    try:
        connection.send(_verdict(mutant, seeds))
    except Exception as error:  # the changed module cannot even be imported
        connection.send(Verdict(mutant, f"error: {type(error).__name__}"))


def _quiet() -> None:
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    os.environ["OMP_NUM_THREADS"] = "1"
    warnings.filterwarnings("ignore")


def _verdict(mutant: Mutant, seeds: tuple[int, ...]) -> Verdict:
    with Lines(path_of(mutant.module), mutant.line) as lines:
        for seed in seeds:
            failure = _failure(seed)
            if failure is not None:
                return Verdict(mutant, failure, seed)
    return Verdict(mutant, SURVIVED if lines.reached else UNREACHED)


def _failure(seed: int) -> str | None:
    """How the program of a seed fails; nothing of the compiler is imported before this."""
    from testing.fuzz.generator import draw_program
    from testing.fuzz.judge import judge
    from testing.fuzz.outcome import BAD

    found = judge(draw_program(seed), ("sm_80", "sm_90a"))
    return next((outcome.status for outcome in found.values() if outcome.status in BAD), None)
