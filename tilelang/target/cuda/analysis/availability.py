"""What can be done before some statements have run, by threads that do not run them: expressions and copies of a loop's body."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_global, is_shared
from tilelang.ir.region import Region
from tilelang.ir.visit import walk_expr


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


def may_be_filled_ahead(
    copied: tuple[Region, Region],
    at: int,
    uses: Sequence[Set[Any]],
    written: Mapping[Any, int],
    is_private: Callable[[Any], bool],
) -> bool:
    """Whether a copy of a loop's body may be made iterations before its data is used, if its tile has a slot for each.

    Args:
        copied: its source and destination.
        at: its position among the statements of the body.
        uses: the buffers that each of them names.
        written: how often statements write each buffer that changes meanwhile.
        is_private: whether the loop alone uses a buffer, by one name.
    """
    source, target = copied
    tile = target.buffer
    if not is_global(source) or not is_shared(target) or not target.is_whole or not is_private(tile):
        return False
    # A use before it in the iteration is one of the previous iteration's data, which a slot of this iteration does not hold.
    return written.get(tile) == 1 and not written.get(source.buffer) and not any(tile in used for used in uses[:at])
