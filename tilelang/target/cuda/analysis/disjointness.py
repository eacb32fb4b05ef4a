"""Disjointness: whether statements touch different parts of a tensor, in whatever iterations of the loops around them.

The result is conservative. Two regions are disjoint if they are a known distance apart along some axis, or if they are
different parts of one step of a loop. Threads may communicate through every other tensor: its accesses are ordered by barriers,
and its parameter is not declared ``__restrict__``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.access import READ, UPDATE, WRITE
from tilelang.ir.expr import as_int, difference
from tilelang.ir.facts import Facts
from tilelang.ir.memory import is_global
from tilelang.ir.region import Region
from tilelang.ir.visit import is_choice, walk_expr
from tilelang.target.cuda.intrinsics.table import intrinsic
from tilelang.target.cuda.intrinsics.tensor_maps import moved_tensor
from tilelang.target.cuda.ir.access import Access, Site
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.tile.nest import Nest
from tilelang.target.cuda.tile.tree import Loop, Operator, Parallel, Repeat, Scalar, TileTree, bindings, walk
from tilelang.transform.substitute import substitute


class Iterations:
    """The loops of a kernel as those of each statement, and what varies in them, and between the threads that run them."""

    def __init__(self, tree: TileTree, facts: Facts, threads: Iterable[Any]):
        self.facts, self._around = facts, tree.around
        self._values = bindings(tree.root)
        self._varying = {node.stmt.loop_var for node in tree.around if isinstance(node, Loop)} | set(self._values)
        self._varying.update(threads)
        roots = {tree.root_of(buffer) for node in walk(tree.root) for buffer in node.written}
        self._varying.update(roots, (view for view in tree.aliases if tree.root_of(view) in roots))

    def _loops(self, node: Any) -> list[Any]:
        """The variables of the loops around a statement; None of a ``while`` loop."""
        loops = (each for each in self._around[node] if isinstance(each, (Loop, Repeat)))
        return [each.stmt.loop_var if isinstance(each, Loop) else None for each in loops]

    def are_disjoint(self, one: Region, other: Region) -> bool:
        """Whether the regions of two statements have no element in common, each in any iteration."""
        if one.buffer is not other.buffer and not one.buffer.same_as(other.buffer):
            return False
        return any(map(self._disjoint, one.mins, other.mins, one.extents, other.extents))

    def is_repeated(self, node: Any) -> bool:
        """Whether a statement is in a loop."""
        return bool(self._loops(node))

    def region_of(self, access: Any, nest: Nest) -> Region:
        """The elements that all iterations of a nest access. The extent is 0, not known, where an index is not linear."""
        places = [self._spanned(index, nest) for index in access.site.indices]
        return Region(access.buffer, tuple(low for low, _ in places), tuple(extent for _, extent in places))

    def _spanned(self, index: Any, nest: Nest) -> tuple[Any, int]:
        low, reach = index, 0
        for axis in nest.axes:
            # An index grows by the same number with each iteration, or it is not linear. Where it falls, the last iteration has
            # the lowest.
            by = growth(index, axis.var, self.facts)
            if by is None:
                return 0, 0
            at = axis.extent - 1 if by < 0 else 0
            low = low if isinstance(low, int) else substitute(low, {axis.var: ir.IntImm(str(axis.var.ty), at)})
            reach += abs(by) * (axis.extent - 1)
        return low, 1 + reach

    def repeats(self, node: Any, region: Region) -> bool:
        """Whether a statement may touch an element of its region in two iterations."""
        steps = [(self._only_variable(low), low, as_int(extent)) for low, extent in zip(region.mins, region.extents)]
        # A loop whose step along some axis is at least the extent there never comes back to an element: 64 * k with 64 elements.
        # All loops around the statement must be such, each along some axis.
        moved = ((var, _size(extent), growth(low, var, self.facts)) for var, low, extent in steps if var is not None)
        disjoint = {var for var, size, step in moved if 0 < size <= abs(step or 0)}
        # A `while` loop is listed as None, which no index moves with.
        return not disjoint.issuperset(self._loops(node))

    def share_out(self, loop: Loop, one: Site, other: Site) -> bool:
        """Whether two regions certainly have no element in common in different iterations of a loop.

        Along some axis they then start at one index, which grows by at least their extents.
        """
        if one.extents is None or other.extents is None or len(one.extents) != len(other.extents):
            return False
        around = (each for each in self._around[loop] if isinstance(each, Loop))
        fixed = {loop.stmt.loop_var, *(each.stmt.loop_var for each in around)}
        for low, start, extent, reach in zip(one.indices, other.indices, map(as_int, one.extents), map(as_int, other.extents)):
            if isinstance(low, int) or isinstance(start, int) or not isinstance(extent, int) or not isinstance(reach, int):
                continue
            # A name stands for its value: with b = rows[k], what k * 64 + b grows by is not known.
            low, start = self._written_out(low), self._written_out(start)
            step = growth(low, loop.stmt.loop_var, self.facts) if self._mentioned(low) <= fixed else None
            if self.facts.simplify(difference(low, start)) == 0 and abs(step or 0) >= max(extent, reach):
                return True
        return False

    def _written_out(self, expr: Any) -> Any:
        """An expression without names that the program binds."""
        while named := {part: self._values[part] for part in walk_expr(expr) if part in self._values}:
            expr = substitute(expr, named)
        return expr

    def _disjoint(self, low: Any, other: Any, extent: Any, reach: Any) -> bool:
        extent, reach = _size(as_int(extent)), _size(as_int(reach))
        # Only a known distance proves anything: B[i : i + 4] and B[i + 4 : i + 8] are 4 apart, B[i] and B[j] may be equal.
        distance = self.facts.simplify(difference(other, low))
        if not extent or not reach or not isinstance(distance, int):
            return False
        if not self._mentioned(low) and not self._mentioned(other):
            return distance >= extent or -distance >= reach
        var = self._only_variable(low)
        step = abs(growth(low, var, self.facts) or 0) if var is not None else 0
        # Modulo the step, the first region is [0, extent) and the second [d, d + reach) with d = distance % step. They do not
        # overlap, and neither wraps around, so that no two iterations bring them together.
        return step > 0 and distance % step >= extent and distance % step + reach <= step

    def _mentioned(self, expr: Any) -> set[Any]:
        """What may be another value in an expression where another iteration or thread, or the same one later, evaluates it."""
        parts = () if isinstance(expr, int) else walk_expr(expr)
        return {part for part in parts if (isinstance(part, ir.Call) and not is_choice(part)) or part in self._varying}

    def _only_variable(self, expr: Any) -> Any:
        """The one variable that an index depends on; None where it depends on none or more, or on what is stored somewhere."""
        found = self._mentioned(expr)
        only = found.pop() if len(found) == 1 else None
        return only if isinstance(only, ir.Var) and not ir.is_buffer_var(only) else None


def _size(extent: Any) -> int:
    """A known extent; 0 for another."""
    return extent if isinstance(extent, int) else 0


def growth(index: Any, var: Any, facts: Facts) -> int | None:
    """By how much an index grows while a variable grows by one; None where that is not known."""
    found = 0 if isinstance(index, int) else facts.simplify(substitute(index, {var: var + 1}) - index)
    return found if isinstance(found, int) else None


# Tensors through which threads communicate -----------------------------------------------------------------------------


def communicating_tensors(tree: TileTree, iterations: Iterations) -> set[Any]:
    """Tensors whose accesses barriers must order: changed and read, or changed in several places that may be the same."""
    changes: dict[Any, dict[Any, set[str]]] = {}
    for node, buffer, access in _accesses(tree):
        if access.kind in (WRITE, UPDATE):
            changes.setdefault(buffer, {}).setdefault(node, set()).add(_change(access))
    reads = {buffer for _, buffer, access in _accesses(tree) if access.kind == READ}
    found = {buffer for buffer, found in changes.items() if buffer in reads or _may_meet(found, iterations)}
    # Bulk stores to one tensor, which one thread makes, are that thread's to order.
    moved = moved_in_bulk(tree)
    return found | {
        buffer
        for buffer, kinds in moved.items()
        if (WRITE in kinds and (buffer in changes or buffer in reads or READ in kinds)) or (READ in kinds and buffer in changes)
    }


def repeated_tensors(tree: TileTree, iterations: Iterations) -> set[Any]:
    """Tensors that a nest in a loop stores to at places which its other iterations may store to as well.

    In each iteration another thread may store to an element, so barriers must order the iterations.
    """
    nests = (node for node in walk(tree.root) if isinstance(node, Parallel) and iterations.is_repeated(node))
    stores = ((node, access) for node in nests for access in node.nest.accesses if access.kind in (WRITE, UPDATE))
    return {
        tree.root_of(access.buffer)
        for node, access in stores
        if is_global(access.buffer)
        and not _commute({_change(access)})
        and iterations.repeats(node, iterations.region_of(access, node.nest))
    }


def changing_tensors(tree: TileTree) -> set[Any]:
    """Tensors that are read and may be changed by other threads meanwhile.

    Their parameters cannot be ``__restrict__``: the compiler would move reads across barriers, as if no other thread wrote there.
    """
    kinds: dict[Any, set[str]] = {}
    for _node, buffer, access in _accesses(tree):
        kinds.setdefault(buffer, set()).add(access.kind)
    moved = moved_in_bulk(tree)
    return {buffer for buffer, found in kinds.items() if READ in found and (len(found) > 1 or WRITE in moved.get(buffer, ()))}


def _accesses(tree: TileTree) -> Iterator[tuple[Any, Any, Access]]:
    """(node, tensor, access) of every access of a tensor, or of a view of it, that threads make."""
    found = ((node, access) for node in walk(tree.root) for access in (*node.accesses, *_reads_of_operands(node)))
    return ((node, tree.root_of(access.buffer), access) for node, access in found if is_global(access.buffer))


def moved_in_bulk(tree: TileTree) -> dict[Any, set[str]]:
    """Tensors that the accelerator reads and writes in copies of the program's."""
    found: dict[Any, set[str]] = {}
    operators = (node for node in walk(tree.root) if isinstance(node, Operator) and not rule_of(node.op).reads_itself)
    for access in (access for node in operators for access in node.regions if is_global(access.buffer)):
        found.setdefault(tree.root_of(access.buffer), set()).add(READ if access.kind == READ else WRITE)
    for node in walk(tree.root):
        known = intrinsic(node.stmt.value) if isinstance(node, Scalar) and isinstance(node.stmt, ir.Evaluate) else None
        moved = moved_tensor(node.stmt.value) if known is not None and known.in_bulk else None
        if moved is not None:
            found.setdefault(tree.root_of(moved[0]), set()).add(moved[1])
    return found


def _reads_of_operands(node: Any) -> Iterator[Access]:
    """What every thread reads for a tile operator that is no nest: the values that it gets, and a buffer that it prints."""
    if isinstance(node, Operator):
        yield from node.values
        yield from node.regions if rule_of(node.op).reads_itself else ()


def _may_meet(changes: dict[Any, set[str]], iterations: Iterations) -> bool:
    """Whether a statement may change what another one, or another iteration, changes by other threads.

    Atomic updates by one operation may; ``changes`` has ``WRITE`` or the operations."""
    repeated = (isinstance(node, Scalar) and not _commute(changes[node]) and iterations.is_repeated(node) for node in changes)
    nests = (node for node in changes if isinstance(node, Parallel) and node.op is not None)
    places = {node: rule_of(node.op).destination(node.op) for node in nests}
    pairs = ((one, other) for one, other in combinations(changes, 2) if not _commute(changes[one] | changes[other]))
    return any(repeated) or any(
        places.get(one) is None or places.get(other) is None or not iterations.are_disjoint(places[one], places[other])
        for one, other in pairs
    )


def _change(access: Access) -> str:
    """What an access does: the operation of an atomic one, or the kind."""
    return access.operation if access.kind == UPDATE else access.kind


def _commute(changes: set[str]) -> bool:
    """Whether changes give the same in any order; atomic loads are none."""
    operations = changes - {"load"}
    return WRITE not in changes and (not operations or (len(operations) == 1 and "" not in operations))
