"""Python's order of evaluation: what reads memory is read before an operand to its right changes it.

An expression is computed where the statement around it stands, after everything that a macro in the same statement does:
``A[0] + pop(stack)``. Where such an operand has changed memory, what was computed before is bound to a variable in front of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilelang.frontend.bindings import snapshot_items
from tilelang.frontend.builder import current
from tilelang.frontend.frames import Place
from tilelang.frontend.reads import changes_memory


@dataclass(frozen=True, slots=True)
class Mark:
    """Between two operands.

    Attributes:
        place: where it is.
    """

    place: Place

    @classmethod
    def here(cls) -> Mark:
        """The present place."""
        return cls(current().frames[-1].here())

    def keep(self, value: Any) -> Any:
        """``value``, which was computed before this mark, as it is here if a statement since then may change what it reads."""
        if not any(map(changes_memory, self.place.frame.stmts[self.place.position :])):
            return value
        builder = current()
        with builder.at(self.place):
            return snapshot_items(builder, "operand", value)


def in_order(*parts: Any) -> tuple[Any, ...]:
    """The operands among ``parts``, which are operands with a :class:`Mark` after each but the last."""
    kept = [mark.keep(value) for value, mark in zip(parts[::2], parts[1::2])]
    return (*kept, parts[-1])
