"""Neighbouring branches for different groups of threads become one branch for each group, its *role*.

Groups are in no order among each other but by barriers of the program, so that what two branches of a group do may run while
another group is still in the branch between them:

    with T.ws(0): T.clear(acc)            with T.ws(0): T.clear(acc); T.barrier_wait(full, 0); T.gemm(A, B, acc)
    with T.ws(1): load(); arrive(full) -> with T.ws(1): load(); arrive(full)
    with T.ws(0): T.barrier_wait(full, 0); T.gemm(A, B, acc)

A barrier of the block in front of the third branch could wait for ever: the second one may wait for what the third does. And what
follows a branch that gives registers away is reached with few of them, so that code of the other groups must not stand there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, groupby
from typing import Any

from tilelang.target.cuda.analysis.groups import are_separate, contains
from tilelang.target.cuda.tile.tree import Sequence, ThreadGroup, TileTree


def join_roles(tree: TileTree) -> TileTree:
    """The tree in which each group of threads has one branch among neighbouring branches of groups."""
    return replace(tree, root=_joined(tree.root))


def _joined(node: Any) -> Any:
    node = node.with_parts(_joined)
    # The statements of a pipelined loop keep their places.
    if not isinstance(node, Sequence) or node.origins:
        return node
    runs = [(is_group, list(run)) for is_group, run in groupby(node.items, key=_is_group)]
    if not any(is_group and len(run) > 1 for is_group, run in runs):
        return node
    return Sequence([*chain.from_iterable(_roles(run) if is_group else run for is_group, run in runs)])


def _is_group(node: Any) -> bool:
    return isinstance(node, ThreadGroup) and node.threads is not None


def _roles(groups: Iterable[Any]) -> list[Any]:
    """Branches of groups, of which no two neighbours have threads in common where one is inside of the other."""
    roles: list[Any] = []
    ended = 0  # the roles before this one stay as they are
    for group in groups:
        sharing = [role for role in roles[ended:] if not are_separate((role.threads, group.threads))]
        if not sharing:
            roles.append(group)
        elif len(sharing) == 1 and contains(sharing[0].threads, group.threads):
            roles[roles.index(sharing[0])] = _with(sharing[0], group)
        elif all(contains(group.threads, role.threads) for role in sharing):
            roles[ended:] = [role for role in roles[ended:] if role not in sharing]
            roles.append(replace(group, body=Sequence([*sharing, *group.body.items])))
        else:
            ended = len(roles)
            roles.append(group)
    return roles


def _with(role: ThreadGroup, group: ThreadGroup) -> ThreadGroup:
    """The branch of a role with a later one of its threads, or of some of them."""
    alike = (role.threads, role.by_thread) == (group.threads, group.by_thread)
    return replace(role, body=Sequence([*role.body.items, *(group.body.items if alike else [group])]))
