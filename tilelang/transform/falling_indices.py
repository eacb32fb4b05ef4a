"""Step ``hide_falling_indices``: keeps TVM's FlattenBuffer from rewriting indices such as ``(12 - 2 * i) % 8``.

Before: buffers with several axes. After: the same program; each index that divides an expression with a negative coefficient
is the body of a ``Let``. FlattenBuffer of TVM 0.27 normalises indices over the loop variables and loses the constant of such an
expression (``(2 - i) % 8`` becomes ``i % -8 * -1``, ``(20 - 2 * i) // 8`` becomes ``i // -4 + 2``); it leaves bound values alone.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.visit import walk_expr


def hide_falling_indices(func: Any, context: Any = None) -> Any:
    """The program with the indices that FlattenBuffer would get wrong bound by ``Let``."""
    return tvm_ffi.structural_map(func, [(ir.BufferStore, _store), (ir.TensorLoad, _load)])


def _store(node: Any) -> Any:
    indices = _hidden(node.indices)
    return node if indices is None else ir.BufferStore(node.buffer, node.value, indices, node.span)


def _load(node: Any) -> Any:
    indices = _hidden(node.indices)
    return node if indices is None else ir.BufferLoad(node.source, indices, node.span)


def _hidden(indices: Any) -> list[Any] | None:
    """The indices with those that fall bound, or None where none does."""
    if not any(map(_falls, indices)):
        return None
    return [_bound(index) if _falls(index) else index for index in indices]


def _bound(index: Any) -> Any:
    var = ir.Var("index", index.ty)
    return ir.Let(var, index, var)


def _falls(index: Any) -> bool:
    """Whether ``index`` divides something that may have a negative coefficient (or divides by a negative number)."""
    divisions = (node for node in walk_expr(index) if isinstance(node, (ir.FloorMod, ir.FloorDiv)))
    return not isinstance(index, ir.Let) and any(_may_fall(node.a) or _may_fall(node.b) for node in divisions)


def _may_fall(expr: Any) -> bool:
    return any(isinstance(node, ir.Sub) or (isinstance(node, ir.IntImm) and int(node.value) < 0) for node in walk_expr(expr))
