"""A changed module in place of the real one, in this process alone: no file is touched."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any

from testing.mutation.modules import path_of
from testing.mutation.mutators import Mutant, mutated


class _Loader(importlib.abc.Loader):
    """Executes the changed text."""

    def __init__(self, mutant: Mutant):
        self.mutant = mutant

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        path = path_of(self.mutant.module)
        code = compile(mutated(path.read_text(), self.mutant.number), str(path), "exec")
        exec(code, module.__dict__)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant):
        self.mutant = mutant

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != self.mutant.module:
            return None
        file = path_of(name)
        return importlib.util.spec_from_file_location(name, file, loader=_Loader(self.mutant))


def install(mutant: Mutant) -> None:
    """From now on the module is imported with its change."""
    assert mutant.module not in sys.modules, "imported before it could be changed"
    sys.meta_path.insert(0, _Finder(mutant))
