"""Indices and scalars of a tile operator that are read from memory which the operator writes, or from a fragment.

An operator's operands are evaluated before it starts: ``T.copy(A[0], tile[tile[0, 0], :])`` uses the value that ``tile[0, 0]``
had before the copy. The threads of a block would evaluate them at different times, so such a value is read by a statement before
the operator. The same holds for an element of a fragment, since only one thread may have it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_fragment
from tilelang.ir.region import Region
from tilelang.ir.visit import walk_expr


def with_bound_operands(operator: Any, root_of: Callable[[Any], Any], bind: Callable[[Any], Any]) -> Any:
    """The operator with each value that depends on what it writes, or on a fragment, bound to a variable before it.

    Args:
        operator: a tile operator.
        root_of: the buffer whose memory a buffer is a view of.
        bind: binds an expression to a variable before the operator, and gives the variable.

    Returns:
        A copy of the operator over these variables.
    """
    written = {root_of(region.buffer) for region, access in operator.regions() if "w" in access}

    def bound(value: Any) -> Any:
        if isinstance(value, Region):
            return dataclasses.replace(value, mins=tuple(map(bound, value.mins)), extents=tuple(map(bound, value.extents)))
        if isinstance(value, tuple):
            return tuple(map(bound, value))
        return bind(value) if isinstance(value, ir.PrimExpr) and any(map(is_unstable, walk_expr(value))) else value

    def is_unstable(part: Any) -> bool:
        return isinstance(part, ir.TensorLoad) and (is_fragment(part.source) or root_of(part.source) in written)

    return operator.replace(**{f.name: bound(getattr(operator, f.name)) for f in operator.operand_fields()})
