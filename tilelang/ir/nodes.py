"""TVM's node types and constructors, gathered here because their home in TVM moves between minor versions.

Every other module takes them from here. Importing this module loads TVM.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import ir, tirx
from tvm.sym import Analyzer
from tvm.ir import _overload_prim_expr as expression_operators
from tvm.ir._overload_prim_expr import EqualOp, NotEqualOp
from tvm.ir.expr import ExprWithOp
from tvm.ir import Op, Range, SourceName, Span, StringImm, TensorLoad, TensorRegion
from tvm.target import Target
from tvm.tirx import (
    Add,
    AllocBuffer,
    And,
    AssertStmt,
    AttrStmt,
    Bind,
    BitwiseAnd,
    BitwiseNot,
    BitwiseOr,
    BitwiseXor,
    Break,
    Broadcast,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Cast,
    Continue,
    DeclBuffer,
    Div,
    EQ,
    Evaluate,
    FloatImm,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    GE,
    GT,
    IfThenElse,
    IndexMap,
    IntImm,
    IterVar,
    LE,
    LShift,
    LT,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    NE,
    Not,
    Or,
    PrimFunc,
    RShift,
    Ramp,
    Select,
    SeqStmt,
    Shuffle,
    Stmt,
    Sub,
    While,
    buffer_data,
    decl_buffer,
)
from tvm.tirx.buffer import BufferType, is_buffer_var

from tilelang.ir import floats, promotion

floats.install()
promotion.install()

Call = ir.Call
PrimExpr = ir.Expr
Var = tirx.Var

__all__ = [name for name in dir() if not name.startswith("_")]


def pointer_type(dtype: str) -> Any:
    """The type of a pointer to elements of ``dtype`` in global memory."""
    return ir.PointerType(ir.PrimType(dtype))


def is_pointer(value: Any) -> bool:
    """Whether ``value`` is an expression of an address."""
    return isinstance(value, PrimExpr) and isinstance(value.ty, ir.PointerType)
