"""Operands of a tile operator that are computed from memory which it writes itself, or which threads share out.

Where a region begins, and what a tile is filled with, is known before the operator begins: ``T.copy(A[0], tile[tile[0, 0], :])``.
So such a value is read once, by a statement of its own. So is an element of a fragment, which one thread may hold alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_fragment
from tilelang.ir.region import Region
from tilelang.ir.visit import walk_expr


def settled(operator: Any, root_of: Callable[[Any], Any], hold: Callable[[Any], Any]) -> Any:
    """The operator with each value that depends on what it writes, or on a fragment, as ``hold`` gives it.

    Args:
        operator: a tile operator.
        root_of: the buffer whose memory a buffer is a view of.
        hold: binds an expression to a variable before the operator, and gives the variable.

    Returns:
        A copy of the operator with these values held.
    """
    written = {root_of(region.buffer) for region, access in operator.regions() if "w" in access}

    def settle(value: Any) -> Any:
        if isinstance(value, Region):
            return dataclasses.replace(value, mins=tuple(map(settle, value.mins)), extents=tuple(map(settle, value.extents)))
        if isinstance(value, tuple):
            return tuple(map(settle, value))
        return hold(value) if isinstance(value, ir.PrimExpr) and any(map(is_held, walk_expr(value))) else value

    def is_held(part: Any) -> bool:
        return isinstance(part, ir.TensorLoad) and (is_fragment(part.source) or root_of(part.source) in written)

    return operator.replace(**{f.name: settle(getattr(operator, f.name)) for f in operator.operand_fields()})
