"""Sections of a kernel in which a fragment has a copy of its own, in another layout or in shared memory.

``T.gemm`` wants its accumulator in certain threads, ``c[j, i]`` wants each element where the transposed one is: no layout suits
both. In a section, some statements in a row, a *copy* stands for the fragment. It is converted from the fragment before them and
back after them, where a later statement reads it. Where no statement in the section changes the fragment, only those that need
the copy use it, and the others keep the fragment:

                                                y_converted = convert_layout(y)
    for k in range(n):                          for k in range(n):
        y[j] += x[k, j]           =>                y_converted[j] += x[k, j]
                                                y = convert_layout(y_converted)

A tree is never changed; what is new is a tree of its own that shares all other nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from tilelang.ir.memory import FRAGMENT, SHARED, is_fragment
from tilelang.ir.region import Region
from tilelang.records import Record
from tilelang.target.cuda.analysis.waiting import is_in_flight, may_be_at_once
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.tile.convert_layout import ConvertLayout
from tilelang.target.cuda.tile.nest import handed_on
from tilelang.target.cuda.tile.overwrites import overwrites
from tilelang.target.cuda.tile.read import copy_between
from tilelang.target.cuda.tile.rename import buffer_like, renamed, renamed_inside, spliced
from tilelang.target.cuda.tile.tree import (
    Loop,
    Operator,
    Parallel,
    Scalar,
    Sequence,
    ThreadGroup,
    TileTree,
    is_certainly_run,
    walk,
)


class Section(Record, eq=False):
    """Statements ``start`` to ``stop`` (exclusive) of a sequence.

    Attributes:
        users: the nodes in it that use the copy; None where all that touch the fragment do.
    """

    parent: Sequence
    start: int
    stop: int
    users: frozenset[Any] | None = None

    @property
    def nodes(self) -> list[Any]:
        """Its statements."""
        return self.parent.items[self.start : self.stop]

    def is_user(self, node: Any) -> bool:
        """Whether a node in it uses the copy where it touches the fragment."""
        return self.users is None or node in self.users


class Rewritten(Record, eq=False):
    """A kernel with a copy of a fragment in a section.

    Attributes:
        tree: the whole kernel.
        renewed: nodes of the old tree -> those that stand for them now.
        conversions: the nodes that fill the copy and bring it back.
        copies: what stands for the fragment, and for each view of it.
    """

    tree: TileTree
    renewed: Mapping[Any, Any]
    conversions: tuple[Any, ...]
    copies: Mapping[Any, Any] = field(default_factory=dict)

    def then(self, later: Rewritten) -> Rewritten:
        """This rewriting followed by ``later``, which starts from this one's tree."""
        renewed = {old: later.renewed.get(new, new) for old, new in self.renewed.items()}
        conversions = tuple(later.renewed.get(node, node) for node in self.conversions)
        return Rewritten(
            later.tree, {**later.renewed, **renewed}, (*conversions, *later.conversions), {**self.copies, **later.copies}
        )


def with_copy(tree: TileTree, section: Section, buffer: Any, scope: str) -> Rewritten:
    """The kernel with a copy that replaces a buffer in a section: a fragment or a view of one, whose views are copied too, or
    a shared tile, of which only this name is replaced."""
    # Views share registers with their fragment, so all names move to the copy together.
    family = family_of(tree, buffer) if is_fragment(buffer) else [buffer]
    values = {old: _like(old, scope) for old in family}
    renewed: dict[Any, Any] = {}

    def of(node: Any) -> Mapping[Any, Any]:
        return values if section.is_user(node) else {}

    inner = [renamed_inside(node, of, renewed, keep_operators=scope == FRAGMENT) for node in section.nodes]
    users = {node for top in section.nodes for node in walk(top) if section.is_user(node)}
    alone = is_fragment(buffer) and not touched_outside(tree, users, set(family))
    # No conversion before a section that overwrites all of the fragment, and none after one that changes nothing of it.
    # `alone`: nothing outside of the section touches the fragment any more, so that the copy takes its place for good.
    keeps = alone or _starts_anew(section, set(family))
    before = [] if keeps else [_move(family[0], values[family[0]], section)]
    leaves = not alone and is_written(section.nodes, set(family))
    after = [_move(values[family[0]], family[0], section)] if leaves else []
    return _rewritten(tree, section, values, renewed, (before, inner, after))


def with_copy_of_view(tree: TileTree, section: Section, view: Any) -> Rewritten:
    """The kernel with a separate fragment in place of a view that cannot address the registers of its source.

    The fragment is filled from a shared tile of the shape of the view.
    """
    (node,) = section.nodes
    shared = with_copy(tree, section, view, SHARED)
    parent, inner = shared.renewed[section.parent], shared.renewed[node]
    place = parent.items.index(inner)
    return shared.then(with_copy(shared.tree, Section(parent, place, place + 1), shared.copies[view], FRAGMENT))


def with_copy_for_head(tree: TileTree, section: Section, buffer: Any) -> Rewritten:
    """The kernel with a shared copy of a fragment for the condition or the bounds of a statement, which are evaluated once."""
    family = family_of(tree, buffer)
    values = {old: _like(old, SHARED) for old in family}
    (node,) = section.nodes
    new = renamed(node, values)
    before = [_move(family[0], values[family[0]], section)]
    return _rewritten(tree, section, values, {node: new}, (before, [new], []))


def family_of(tree: TileTree, buffer: Any) -> list[Any]:
    """A fragment's allocation and all views of it."""
    root = tree.root_of(buffer)
    return [root, *(view for view in tree.aliases if root.same_as(tree.root_of(view)))]


def _rewritten(
    tree: TileTree, section: Section, values: Mapping[Any, Any], renewed: Mapping[Any, Any], parts: tuple[list, list, list]
) -> Rewritten:
    """The kernel with a section's statements replaced; ``parts`` are the conversions before, the statements, those after."""
    before, inner, after = parts
    groups = {old: [new] for old, new in zip(section.nodes, inner)}
    first, last = section.nodes[0], section.nodes[-1]
    # A section of one statement has the same node as first and last, so the second update extends what the first one made.
    groups[first] = [*before, *groups[first]]
    groups[last] = [*groups[last], *after]
    root, *views = values
    allocations = {**tree.allocations, values[root]: {}}
    aliases = {**tree.aliases, **{values[view]: values[tree.aliases[view]] for view in views}}
    containers: dict[Any, Any] = {}
    new = replace(tree, root=spliced(tree.root, groups, containers), allocations=allocations, aliases=aliases)
    return Rewritten(new, {**renewed, **containers}, (*before, *after), values)


def as_conversion(tree: TileTree, node: Parallel) -> Rewritten:
    """The kernel with a copy of a whole fragment to another as a conversion."""
    conversion = Operator(ConvertLayout(node.op.src, node.op.dst), node.span)
    containers: dict[Any, Any] = {}
    new = replace(tree, root=spliced(tree.root, {node: [conversion]}, containers))
    return Rewritten(new, containers, (conversion,))


def is_ever_in_flight(tree: TileTree, family: set[Any]) -> bool:
    """Whether an operator that uses a fragment (``family``) is in flight somewhere in the kernel."""
    return any(is_in_flight(node) and touches(node, family) for node in walk(tree.root))


def at_once(tree: TileTree, family: set[Any]) -> Rewritten | None:
    """The kernel with nothing in flight that uses a fragment (``family``): what would be is complete at its end; None where there
    is no such operator."""
    found = [node for node in walk(tree.root) if may_be_at_once(node) and touches(node, family)]
    values = {node: [Operator(op, node.span) for op in rule_of(node.op).at_once(node.op)] for node in found}
    containers: dict[Any, Any] = {}
    new = replace(tree, root=spliced(tree.root, values, containers))
    renewed = {**containers, **{node: made[0] for node, made in values.items() if made}}
    return Rewritten(new, renewed, ()) if found else None


def _like(buffer: Any, scope: str) -> Any:
    return buffer_like(buffer, scope, "_converted" if scope == FRAGMENT else "_shared")


def _move(source: Any, target: Any, section: Section) -> Any:
    span = next(filter(None, (node.span for node in section.nodes)), None)
    regions = Region.whole(source), Region.whole(target)
    if is_fragment(source) and is_fragment(target):
        return Operator(ConvertLayout(*regions), span)
    return copy_between(*regions, span)


# What a section does with a fragment -----------------------------------------------------------------------------------


def touches(node: Any, buffers: Any) -> bool:
    """Whether a node, or one inside it, touches any of some buffers."""
    return any(buffer in buffers for inner in walk(node) for buffer in _named(inner))


def is_written(nodes: Iterable[Any], family: set[Any]) -> bool:
    """Whether any of some statements writes to a buffer of a family, or foreign code may, which gets its registers."""
    inner = [node for top in nodes for node in walk(top)]
    return any(a.buffer in family and a.writes for node in inner for a in node.touched) or is_handed_on(nodes, family)


def is_handed_on(nodes: Iterable[Any], family: set[Any]) -> bool:
    """Whether any of some statements gives foreign code the registers of a family, which are then those that it expects."""
    return any(not family.isdisjoint(_given(node)) for top in nodes for node in walk(top))


def touched_outside(tree: TileTree, within: Collection[Any], family: set[Any]) -> bool:
    """Whether a node outside of some nodes accesses a fragment or a view of it (``family``)."""
    return any(buffer in family for node in walk(tree.root) if node not in within for buffer in _named(node))


def _named(node: Any) -> Iterator[Any]:
    yield from (access.buffer for access in node.touched)
    yield from _given(node)


def _given(node: Any) -> set[Any]:
    return handed_on(node.stmt) if isinstance(node, Scalar) else set()


def _starts_anew(section: Section, family: set[Any]) -> bool:
    """Whether the first statement that touches a fragment overwrites all of it, so that its old values are not needed."""
    for node in section.nodes:
        if touches(node, family):
            return overwrites(node, family)
    return True


def partly_written(tree: TileTree, conversions: Iterable[Any]) -> set[Any]:
    """The fragments that conversions move as a whole although the program may not have written every element before."""
    # A program may write half of a tile and read that half only. A conversion reads all of it, and a register without a value has
    # no meaning in C++: such fragments begin as zeros.
    moved = {tree.root_of(access.buffer) for node in conversions for access in node.touched if access.reads}
    return {root for root in moved if is_fragment(root) and not _begins_whole(tree.root, set(family_of(tree, root)))}


def _begins_whole(node: Any, family: set[Any]) -> bool:
    """Whether the first statement inside of a node that touches a fragment is certainly run, and overwrites all of it."""
    if isinstance(node, (Sequence, ThreadGroup)) or (isinstance(node, Loop) and is_certainly_run(node.stmt.extent)):
        first = next((each for each in node.inside if touches(each, family)), None)
        return first is not None and _begins_whole(first, family)
    return overwrites(node, family)
