"""Python's order of evaluation: what reads memory is read before an operand to its right changes it.

An expression is computed where the statement around it stands, after everything that a macro in the same statement does:
``A[0] + pop(stack)``. Where such an operand has changed memory, what was computed before is bound to a variable in front of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilelang.frontend.bindings import snapshot_items
from tilelang.frontend.builder import Frame, current
from tilelang.ir import nodes as ir
from tilelang.tileop.thread import INTRINSICS, intrinsic_name

_DECLARATIONS = (ir.AllocBuffer, ir.DeclBuffer)


@dataclass(frozen=True, slots=True)
class Mark:
    """A place between two operands.

    Attributes:
        frame: the innermost open scope.
        position: how many statements it has.
    """

    frame: Frame
    position: int

    @classmethod
    def here(cls) -> Mark:
        """The present place."""
        frame = current().frames[-1]
        return cls(frame, len(frame.stmts))

    def keep(self, value: Any) -> Any:
        """``value``, which was computed before this mark, as it is here if a statement since then may change what it reads."""
        stmts = self.frame.stmts
        if not any(map(_changes_memory, stmts[self.position :])):
            return value
        builder = current()
        kept, bound = builder.detached(lambda: snapshot_items(builder, "operand", value))
        stmts[self.position : self.position] = bound.stmts
        return kept


def in_order(*parts: Any) -> tuple[Any, ...]:
    """The operands among ``parts``, which are operands with a :class:`Mark` after each but the last."""
    marks = parts[1::2]
    # The last one first: a variable in front of a later operand does not move the marks before it.
    kept = [mark.keep(value) for value, mark in reversed(list(zip(parts[::2], marks)))]
    return (*reversed(kept), parts[-1])


def _changes_memory(stmt: Any) -> bool:
    if isinstance(stmt, ir.Bind):
        called = intrinsic_name(stmt.value)
        return called is not None and not INTRINSICS[called].pure
    return not isinstance(stmt, _DECLARATIONS)
