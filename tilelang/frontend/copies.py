"""Copies of Python's containers that hold variables of the kernel: they hold what the variables hold where they are made.

``l[0] = x`` stores to a variable that the list holds. A copy (``l[:]``, ``list(l)``, ``l + m``, ``[*l]``) keeps the old value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilelang.frontend.values import LocalVar, ReadVar


def read(value: Any) -> Any:
    """``value``, of a variable with what it holds here; a macro may still take it as ``T.Ref``."""
    return ReadVar(value) if isinstance(value, LocalVar) and not isinstance(value, ReadVar) else value


def with_values(container: Any) -> Any:
    """A list, tuple or dictionary that is about to be copied, or is a copy, with the values of its variables."""
    rebuild = _REBUILT.get(type(container))
    if rebuild is None:
        return container
    items = container.values() if isinstance(container, dict) else container
    return rebuild(container) if any(isinstance(item, LocalVar) for item in items) else container


_REBUILT: Mapping[type, Callable[[Any], Any]] = {
    list: lambda items: [*map(read, items)],
    tuple: lambda items: tuple(map(read, items)),
    dict: lambda items: {key: read(value) for key, value in items.items()},
}
