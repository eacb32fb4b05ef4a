"""TVM's node types and constructors, gathered here because their home in TVM moves between minor versions.

Every other module takes them from here. Importing this module loads TVM.
"""

from __future__ import annotations

from typing import Any

from tvm import ir

Call = ir.Call
PrimExpr = ir.Expr

__all__ = [name for name in dir() if not name.startswith("_")]


def pointer_type(dtype: str) -> Any:
    """The type of a pointer to elements of ``dtype`` in global memory."""
    return ir.PointerType(ir.PrimType(dtype))
