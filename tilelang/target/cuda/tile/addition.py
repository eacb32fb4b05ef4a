"""Atomic additions whose old values nobody wants: vectors of neighbours are added by one instruction, where there is one."""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_global
from tilelang.target.cuda.arch import Arch, Feature
from tilelang.target.cuda.tile.build import cast_to
from tilelang.tileop.thread import intrinsic_name

_PAIRS, _VECTORS = 4, 16
"""Bytes of the instructions that add pairs of 16-bit floats, and of those that add vectors of floats."""


def addition(stmt: Any) -> tuple[Any, Any] | None:
    """The call that a statement is, and the store of what it adds in place of the sum; None of any other statement."""
    call: Any = stmt.value if isinstance(stmt, ir.Evaluate) else None
    if intrinsic_name(call) != "atomic_add" or not isinstance(call.args[0], ir.TensorLoad):
        return None
    place, value = call.args
    if canonical(str(value.ty)).lanes > 1:
        return None
    return call, ir.BufferStore(place.source, cast_to(value, str(place.source.dtype)), place.indices, stmt.span)


def widest_addition(buffer: Any, arch: Arch) -> int:
    """How many neighbours in a buffer one instruction adds to."""
    dtype = canonical(str(buffer.dtype))
    if not is_global(buffer) or dtype.base not in ("float32", "float16", "bfloat16"):
        return 1
    return max((_VECTORS if arch.has(Feature.VECTOR_ATOMICS) else _PAIRS) // dtype.bytes, 1)
