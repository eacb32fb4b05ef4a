"""Python containers in a kernel: a run-time loop or condition that changes one does so once, while it is traced."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from tilelang.errors import ChangedContainerError
from tilelang.frontend.access import is_buffer
from tilelang.ir import nodes as ir

CONTAINERS = (list, dict, set, deque)


def values_in_containers(scope: Mapping[str, Any]) -> dict[str, tuple[Any, list[Any]]]:
    """The containers that local names hold, each with the numbers and expressions in it.

    Memory is left out: a list of tiles may grow anywhere, as a tile is allocated once wherever that is written.
    """
    return {name: (value, list(_scalars(value))) for name, value in scope.items() if isinstance(value, CONTAINERS)}


def refuse_changed(before: Mapping[str, tuple[Any, list[Any]]], where: str) -> None:
    """Refuses a run-time ``where`` ("loop", "condition") whose traced pass has changed a container from before it.

    Raises:
        ChangedContainerError: a number or expression in one was added, removed or replaced.
    """
    for name, (container, values) in before.items():
        after = list(_scalars(container))
        if len(after) != len(values) or not all(map(_is_same, values, after)):
            raise ChangedContainerError(name, type(container).__name__, where)


def _scalars(container: Any) -> Iterator[Any]:
    """The numbers and expressions in a container, and in those in it."""
    for item in container.values() if isinstance(container, dict) else container:
        if isinstance(item, (*CONTAINERS, tuple)):
            yield from _scalars(item)
        elif isinstance(item, (int, float, ir.PrimExpr)) and not is_buffer(item):
            yield item


def _is_same(value: Any, other: Any) -> bool:
    """Whether two items are one value; expressions have no equality."""
    return value is other or isinstance(value, (int, float)) and type(value) is type(other) and value == other
