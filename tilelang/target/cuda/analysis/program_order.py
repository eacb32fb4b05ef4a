"""Program order: which nodes of a tile tree may run after which others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilelang.target.cuda.tile.tree import Loop, Repeat, walk


class ProgramOrder:
    """The order of a tree's nodes, with the loops that repeat them.

    Args:
        nodes: in program order.
    """

    def __init__(self, nodes: Iterable[Any]):
        self._places = {node: place for place, node in enumerate(nodes)}
        self._loops = [frozenset(walk(node)) for node in self._places if isinstance(node, (Loop, Repeat))]

    def may_follow(self, node: Any, other: Any) -> bool:
        """Whether ``node`` may run after ``other`` has: it stands below it, or a loop has both."""
        return self._places[other] < self._places[node] or any(node in loop and other in loop for loop in self._loops)
