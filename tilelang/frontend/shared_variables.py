"""Objects and containers that Python has given a variable of another one: they keep what it held when they got it.

A plain function or ``copy.copy`` copies the variable itself (``State(other.count)``, in a function that is not traced), where
Python copies a number. A store through one of both leaves the others with the old value: they hold it from there on.
"""

from __future__ import annotations

from collections import deque
from types import FunctionType
from typing import Any

from tilelang.frontend.builder import Builder
from tilelang.frontend.containers import walked
from tilelang.frontend.copies import read
from tilelang.frontend.values import LocalVar

_LARGEST = 256
"""Items of a container that is looked into for each store: one with more is a table of numbers."""


def part(builder: Builder, variable: LocalVar, owner: Any = None) -> None:
    """Lets all holders of a variable that is about to be stored to, but one, keep its value.

    Args:
        builder: of the program.
        variable: the variable.
        owner: the object or container through which it is stored to; None where a name is.
    """
    names = {name: value for scope in builder.scopes for name, value in scope.reached().items()}
    for _, holder, items in walked(names, _LARGEST):
        if items is not None and holder is not owner:
            keys = [key for key, item in (items.items() if isinstance(items, dict) else enumerate(items)) if item is variable]
            for key in keys:
                _hold(holder, key, read(variable))


def _hold(holder: Any, key: Any, value: Any) -> None:
    """Puts a value into an object, also a frozen one, or into a container; a tuple keeps what it has."""
    if isinstance(holder, (list, dict, deque)):
        holder[key] = value
    elif not isinstance(holder, (tuple, FunctionType)):
        object.__setattr__(holder, key, value)
