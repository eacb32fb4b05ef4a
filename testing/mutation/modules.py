"""The modules of the compiler that are changed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from testing.mutation.mutators import Mutant, mutants_of

ROOT = Path(__file__).parents[2]
FOLDERS = ("intrinsics", "inference", "schedule", "codegen", "ops", "specialize", "analysis", "normalise", "tile")
CHECKERS = ("verify", "dump")
"""Modules that make no code: without a check of theirs nothing is wrong."""


def path_of(module: str) -> Path:
    """The file of a module."""
    return ROOT / (module.replace(".", "/") + ".py")


def modules(folders: Sequence[str] = FOLDERS) -> list[str]:
    """The modules that are changed: those of ``target/cuda`` that decide on code."""
    found = []
    for folder in folders:
        for path in sorted((ROOT / "tilelang" / "target" / "cuda" / folder).glob("*.py")):
            if path.stem not in CHECKERS:
                found.append(".".join(path.relative_to(ROOT).with_suffix("").parts))
    return found


def mutants(folders: Sequence[str] = FOLDERS) -> list[Mutant]:
    """All changes of the modules of some folders."""
    return [mutant for module in modules(folders) for mutant in mutants_of(module, path_of(module).read_text())]


def sample(count: int, seed: int, folders: Sequence[str] = FOLDERS, names: Sequence[str] = ()) -> list[Mutant]:
    """Changes drawn evenly from all of the modules of some folders, or from the named modules."""
    found = [mutant for name in names for mutant in mutants_of(name, path_of(name).read_text())] or mutants(folders)
    return random.Random(seed).sample(found, min(count, len(found)))
