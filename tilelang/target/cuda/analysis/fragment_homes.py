"""The groups of threads that have a fragment of their own.

Below a branch for different threads each side has its own copy of a fragment, so the narrowest groups that use one are its
*homes*: each holds the tile in registers of its own threads, numbered from the group's first one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilelang.ir.memory import is_fragment
from tilelang.target.cuda.tile.tree import ThreadGroup, TileTree


def threads_of(tree: TileTree, block: range) -> dict[Any, range]:
    """The threads that run each node, in program order."""
    found: dict[Any, range] = {}
    for node, around in tree.around.items():
        own = node.threads if isinstance(node, ThreadGroup) else None
        found[node] = own if own is not None else found[around[-1]] if around else block
    return found


def homes_of(threads: Mapping[Any, range], root_of: Callable[[Any], Any]) -> dict[Any, list[range]]:
    """The homes of each fragment, by the allocation that it is (a view of)."""
    groups: dict[Any, set[range]] = {}
    for node, running in threads.items():
        for access in node.touched:
            if is_fragment(access.buffer):
                groups.setdefault(root_of(access.buffer), set()).add(running)
    return {buffer: _narrowest(found) for buffer, found in groups.items()}


def _narrowest(groups: set[range]) -> list[range]:
    """The groups that contain no other one, by their first threads."""
    return sorted(
        (group for group in groups if not any(_contains(group, other) for other in groups)), key=lambda group: group.start
    )


def _contains(group: range, other: range) -> bool:
    return group != other and group.start <= other.start and other.stop <= group.stop
