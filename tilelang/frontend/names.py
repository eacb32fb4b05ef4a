"""The names of a function while it is traced: its local ones with what they hold, and those that it takes from outside."""

from __future__ import annotations

from collections.abc import Callable
from types import CellType
from typing import Any

UNBOUND = object()
"""Stands for the value of a name that has none."""


class Outside:
    """The variables of enclosing functions and of the module that a function names."""

    def __init__(self, function: Callable[..., Any]):
        code = function.__code__
        self._cells: dict[str, CellType] = dict(zip(code.co_freevars, function.__closure__ or ()))
        self._globals = function.__globals__
        self._names = frozenset(code.co_names) - {*code.co_varnames, *code.co_cellvars}

    def get(self, name: str) -> Any:
        """What one of them holds now, or ``UNBOUND``."""
        if name in self._cells:
            try:
                return self._cells[name].cell_contents
            except ValueError:  # not assigned yet
                return UNBOUND
        return self._globals.get(name, UNBOUND) if name in self._names else UNBOUND

    def all(self) -> dict[str, Any]:
        """All of them with what they hold now."""
        return {name: self.get(name) for name in (*self._cells, *self._names)}


class Names(dict[str, Any]):
    """The local names, and what they hold."""

    def __init__(self, local: dict[str, Any], outside: Outside):
        super().__init__(local)
        self.outside = outside

    def held(self, name: str) -> Any:
        """What a name holds, also one that the function declares ``nonlocal`` or ``global``; or ``UNBOUND``."""
        return self[name] if name in self else self.outside.get(name)

    def reached(self) -> dict[str, Any]:
        """Everything that the function can name."""
        return {**self.outside.all(), **self}
