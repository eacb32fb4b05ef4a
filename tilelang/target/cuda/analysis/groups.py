"""Groups of threads: which threads of a block meet a condition, and which groups have a fragment of their own.

Below a branch for different threads each side has its own copy of a fragment, so the narrowest groups that use one are its
*homes*: each holds the tile in registers of its own threads, numbered from the group's first one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import pairwise, repeat
from typing import Any, Union

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_fragment
from tilelang.ir.visit import conjunction, conjuncts, walk_expr
from tilelang.target.cuda.intrinsics.table import digit_of
from tilelang.target.cuda.tile.program import thread_digits
from tilelang.target.cuda.tile.tree import TileTree

# Conditions -----------------------------------------------------------------------------------------------------------

_BINARY: Mapping[Any, Callable[[Any, Any], Any]] = {
    ir.Add: operator.add, ir.Sub: operator.sub, ir.Mul: operator.mul, ir.FloorDiv: operator.floordiv, ir.FloorMod: operator.mod,
    ir.LShift: operator.lshift, ir.RShift: operator.rshift, ir.BitwiseAnd: operator.and_, ir.Min: min, ir.Max: max,
    ir.LT: operator.lt, ir.LE: operator.le, ir.GT: operator.gt, ir.GE: operator.ge, ir.EQ: operator.eq, ir.NE: operator.ne,
    ir.And: lambda a, b: a and b, ir.Or: lambda a, b: a or b,
}  # fmt: skip


Values = Union[int, "list[int]"]
"""What an expression is in each of some threads; a number where it is the same in all."""


class _Unknown(Exception):
    """The condition depends on more than the thread's number."""


class ThreadConditions:
    """Conditions on the thread's number, evaluated for each thread.

    Args:
        threads: the variables of the thread's index with their extents.
        definitions: what the program binds names to.
    """

    def __init__(self, threads: Any, definitions: Mapping[Any, Any]):
        self.digits = thread_digits(threads)
        self.values = definitions
        self._members: dict[tuple[Any, range], list[bool] | None] = {}

    def members(self, condition: Any, threads: range) -> tuple[list[bool] | None, Any]:
        """Which threads meet the part of a condition that is about threads (None if none is), and the rest of it."""
        # A conjunction can be split: `tx < 32 and n > 0` is run by all or none of the first 32 threads, which may have a barrier
        # of their own.
        parts = [(part, self.names_thread(part)) for part in conjuncts(condition)]
        mine, rest = [part for part, named in parts if named], conjunction(part for part, named in parts if not named)
        if not mine:
            return None, None
        if (condition, threads) not in self._members:
            self._members[condition, threads] = self._meeting(mine, threads)
        found = self._members[condition, threads]
        return found, None if found is None else rest

    def _meeting(self, conditions: list[Any], threads: range) -> list[bool] | None:
        """Which threads meet all of some conditions; None where that is not known."""
        try:
            found = [_each(bool, self._values(part, threads)) for part in conditions]
        except (_Unknown, ZeroDivisionError):
            return None
        lists = [values if isinstance(values, list) else [values] * len(threads) for values in found]
        return [all(met) for met in zip(*lists)]

    def names_thread(self, expr: Any) -> bool:
        return any(
            (isinstance(part, ir.Var) and (part in self.digits or (part in self.values and self.names_thread(self.values[part]))))
            or digit_of(part) is not None
            for part in walk_expr(expr)
        )

    def _values(self, expr: Any, threads: range) -> Values:
        """The value of an expression in each of some threads."""
        if isinstance(expr, ir.IntImm):
            return int(expr.value)
        if isinstance(expr, ir.Var) and expr in self.digits:
            return _digits(threads, self.digits[expr])
        if isinstance(expr, ir.Var) and expr in self.values:
            return self._values(self.values[expr], threads)
        if type(expr) in _BINARY:
            return _in_type(_each(_BINARY[type(expr)], self._values(expr.a, threads), self._values(expr.b, threads)), expr)
        if isinstance(expr, ir.Not):
            return _each(operator.not_, self._values(expr.a, threads))
        if isinstance(expr, ir.Cast) and canonical(str(expr.ty)).kind in ("int", "uint", "bool"):
            return _in_type(self._values(expr.value, threads), expr)
        # Intrinsics such as the lane or the warp number are digits of the thread's number.
        digit = digit_of(expr)
        if digit is None:
            raise _Unknown
        return _digits(threads, digit)


def _digits(threads: range, digit: tuple[int, int]) -> list[int]:
    """A digit of the number of each thread; of extent 0, the number without the digits below it."""
    low, extent = digit
    return [thread // low % extent if extent else thread // low for thread in threads]


def _each(compute: Callable[..., Any], *operands: Values) -> Any:
    """An operation in each thread."""
    several = [each if isinstance(each, list) else repeat(each) for each in operands]
    return [*map(compute, *several)] if any(isinstance(each, list) for each in operands) else compute(*operands)


def _in_type(values: Values, expr: Any) -> Any:
    """The values that an expression of its type has: integers wrap, so that ``T.cast(tx - 32, "uint32") < 32`` is a range."""
    dtype = canonical(str(expr.ty))
    if dtype.kind == "bool":
        return _each(bool, values)
    low, count = -(1 << dtype.bits - 1) if dtype.kind == "int" else 0, 1 << dtype.bits
    return _each(lambda value: (value - low) % count + low, values)


# Homes of fragments ---------------------------------------------------------------------------------------------------


def threads_of(tree: TileTree, block: range) -> dict[Any, range]:
    """The threads that run each node, in program order."""
    found: dict[Any, range] = {}
    for node, around in tree.around.items():
        found[node] = node.runners(found[around[-1]] if around else block)
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
    homes = [group for group in groups if not any(group != other and contains(group, other) for other in groups)]
    return sorted(homes, key=lambda group: group.start)


def contains(group: range, other: range) -> bool:
    """Whether all threads of the other group are in a group."""
    return group.start <= other.start and other.stop <= group.stop


def are_separate(groups: Iterable[range]) -> bool:
    """Whether no thread is in two of the groups."""
    return all(one.stop <= other.start for one, other in pairwise(sorted(groups, key=lambda group: group.start)))


def widest(groups: Collection[range]) -> range:
    """The group of the most threads."""
    return max(groups, key=len)
