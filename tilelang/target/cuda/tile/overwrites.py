"""Which statements give every element of a buffer a new value."""

from __future__ import annotations

from typing import Any

from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.tile.tree import Operator, Parallel


def overwrites(node: Any, family: set[Any]) -> bool:
    """Whether a statement writes every element of a buffer (under one of the names in ``family``) and reads none of it."""
    if isinstance(node, Operator):
        uses = [(region, access) for region, access in node.op.regions() if region.buffer in family]
        # One use only: T.gemm(c, b, c) overwrites c and reads it.
        return len(uses) == 1 and uses[0][0] is rule_of(node.op).overwritten(node.op)
    if not isinstance(node, Parallel):
        return False
    uses = [access for access in node.nest.accesses if access.buffer in family]
    if len(uses) != 1:
        return False
    whole = None if node.op is None else rule_of(node.op).overwritten(node.op)
    if whole is not None and whole.buffer in family:
        return True
    return node.nest.fills(uses[0])
