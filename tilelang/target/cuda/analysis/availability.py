"""What can be done before some statements have run, by threads that do not run them: expressions and copies of a loop's body."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_global, is_shared
from tilelang.ir.region import Region
from tilelang.ir.visit import walk_expr
from tilelang.records import Record


def is_available(expr: Any, may_read: Callable[[Any], bool], unknown: Set[Any]) -> bool:
    """Whether an expression has its value already.

    Args:
        may_read: whether a buffer has the elements already that the expression would find later.
        unknown: variables that have no value yet.
    """
    if isinstance(expr, int):
        return True
    # Tile operators and intrinsics of the language may depend on when and by which thread they are evaluated.
    return not any(
        (isinstance(part, ir.TensorLoad) and not may_read(part.source))
        or (isinstance(part, ir.Var) and part in unknown)
        or (isinstance(part, ir.Call) and isinstance(part.op, ir.Op) and part.op.name.startswith("tl."))
        for part in walk_expr(expr)
    )


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

    def may_fill_ahead(self, at: int, source: Region, target: Region, computed: Iterable[Any] = ()) -> bool:
        """Whether the copy at a place among the statements may be made iterations before its data is used, if its tile has a
        slot for each; ``computed`` are further expressions that it evaluates."""
        tile = target.buffer
        if not is_global(source) or not is_shared(target) or not target.is_whole or tile in self.aliased or self.is_outside(tile):
            return False
        if self.written.get(tile) != 1 or self.written.get(source.buffer):
            return False
        # A use before it in the iteration is one of the previous iteration's data, which a slot of this iteration does not hold.
        used_before = any(tile in statement.buffers for statement in self.statements[:at])
        return not used_before and all(map(self.is_known, (*source.mins, *source.extents, *computed)))
