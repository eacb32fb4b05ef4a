"""What can be done before some statements have run, by threads that do not run them: expressions and copies of a loop's body."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, TypeVar

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_global, is_shared
from tilelang.ir.region import Region, are_parts
from tilelang.ir.visit import walk, walk_expr
from tilelang.records import Record
from tilelang.target.cuda.intrinsics.table import intrinsic
from tilelang.target.cuda.operators import rule_of
from tilelang.tileop import record_of

Copied = TypeVar("Copied", bound="Fill")
_BY_THREAD = ("tl.", "tirx.call_extern", "tirx.call_pure_extern")


def is_available(expr: Any, may_read: Callable[[Any], bool], unknown: Set[Any]) -> bool:
    """Whether an expression has its value already.

    Args:
        may_read: whether a buffer has the elements already that the expression would find later.
        unknown: variables that have no value yet.
    """
    if isinstance(expr, int):
        return True
    # Tile operators, intrinsics of the language and foreign code may depend on when and by which thread they are evaluated.
    return not any(
        (isinstance(part, ir.TensorLoad) and not may_read(part.source))
        or (isinstance(part, ir.Var) and part in unknown)
        or (isinstance(part, ir.Call) and isinstance(part.op, ir.Op) and part.op.name.startswith(_BY_THREAD))
        for part in walk_expr(expr)
    )


class Fill(Record, eq=False):
    """A copy of a loop's body to a tile, or to a part of one.

    Attributes:
        at: its position in the body.
        source, target: its regions.
        computed: further expressions that it evaluates.
    """

    at: int
    source: Region
    target: Region
    computed: Sequence[Any]


class LoopBody(Record, eq=False):
    """What a loop's statements touch, and the kernel around them: which copies may be made iterations ahead.

    Attributes:
        statements: in program order; each knows the ``buffers`` that it names.
        inside, everywhere: how often statements of the loop, and of the whole kernel, name each buffer.
        written: how often statements write each buffer that changes meanwhile.
        aliased: buffers that have another name.
        is_known: whether an expression has its value before the statements of an iteration have run.
    """

    statements: Sequence[Any]
    inside: Mapping[Any, int]
    everywhere: Mapping[Any, int]
    written: Mapping[Any, int]
    aliased: Set[Any]
    is_known: Callable[[Any], bool]

    def is_outside(self, buffer: Any) -> bool:
        """Whether statements outside of the loop name a buffer."""
        return self.everywhere[buffer] > self.inside[buffer]

    def may_fill_ahead(self, fills: Sequence[Fill]) -> bool:
        """Whether all the copies to a tile may be made iterations before their data is used, if it has a slot for each."""
        tile = fills[0].target.buffer
        if not is_shared(fills[0].target) or tile in self.aliased or self.is_outside(tile):
            return False
        # What an iteration does not write anew would be what was written iterations ago.
        if self.written.get(tile) != len(fills) or not are_parts([fill.target for fill in fills]):
            return False
        # A use before them is one of the previous iteration's data, which a slot of this iteration does not hold.
        places = {fill.at for fill in fills}
        used_before = any(at not in places and tile in self.statements[at].buffers for at in range(max(places)))
        return not used_before and not self._is_read_after(tile) and all(map(self._is_ready, fills))

    def _is_read_after(self, tile: Any) -> bool:
        """Whether an asynchronous agent may still read a tile when the iteration is over."""
        last = max((at for at, each in enumerate(self.statements) if tile in read_after(each.stmt)), default=None)
        return last is not None and not any(_completes(each.stmt) for each in self.statements[last + 1 :])

    def _is_ready(self, fill: Fill) -> bool:
        """Whether all that a copy reads is there before the loop."""
        source = fill.source
        there = is_global(source) and not self.written.get(source.buffer)
        return there and all(map(self.is_known, (*source.mins, *source.extents, *fill.computed)))


def read_after(stmt: Any) -> set[Any]:
    """The buffers that operators of a statement may still read when it is over, until the program waits for them."""
    found = (op for each in walk(stmt) if (op := record_of(each)) is not None)
    return {buffer for op in found for buffer in rule_of(op).read_after(op)}


def _completes(stmt: Any) -> bool:
    """Whether a statement waits for all products. (A wait for stores is that of one thread.)"""
    known = intrinsic(stmt.value) if isinstance(stmt, ir.Evaluate) else None
    return known is not None and known.completes and (not stmt.value.args or as_int(stmt.value.args[0]) == 0)


def by_tile(fills: Iterable[Copied]) -> list[list[Copied]]:
    """Copies, those to one tile together."""
    groups: dict[Any, list[Copied]] = {}
    for fill in fills:
        groups.setdefault(fill.target.buffer, []).append(fill)
    return list(groups.values())
