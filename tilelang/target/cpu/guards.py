"""Guards on element accesses of global buffers: a load outside gives zero (or the safe value), a store outside is dropped.

A guard is emitted only for the part of the bounds that the ranges of the variables and the conditions around the access do
not prove.
"""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import constant
from tilelang.ir.memory import is_global
from tilelang.ir.visit import conjunction, is_choice, rebuilt
from tilelang.target.cpu.emit import when, zero


class Guards:
    """Guards accesses at one place of a program; ``scope`` has the facts that hold there."""

    def __init__(self, scope: Any):
        self.scope = scope

    def condition(self, buffer: Any, indices: Any) -> Any:
        """The condition under which an access is in bounds, or None where it always is."""
        if not is_global(buffer):
            return None
        return conjunction(self._axis(index, size) for index, size in zip(indices, buffer.shape))

    def _axis(self, index: Any, size: Any) -> Any:
        if isinstance(index, ir.Ramp):
            return conjunction((self._axis(index.base, size), self._axis(index.base + index.stride * (index.lanes - 1), size)))
        index, size = constant(index), constant(size)
        low, high = index >= 0, index < size
        return conjunction((None if self.scope.facts.holds(low) else low, None if self.scope.facts.holds(high) else high))

    def store(self, node: Any) -> Any:
        """The store, under a condition if it needs one."""
        return when(self.condition(node.buffer, node.indices), node)

    def loads(self, expr: Any) -> Any:
        """``expr`` with its loads guarded. Branches of a conditional expression are judged under its condition."""
        if isinstance(expr, ir.TensorLoad):
            return self._load(expr)
        return self._call(expr) if isinstance(expr, ir.Call) else rebuilt(expr, self.loads)

    def _load(self, node: Any) -> Any:
        node = rebuilt(node, self.loads)
        condition = self.condition(node.source, node.indices)
        if condition is None:
            return node
        return if_then_else(condition, node, self.scope.safe_value(node.source))

    def _call(self, node: Any) -> Any:
        if not is_choice(node):
            return self._operands(node)
        condition, then, otherwise = node.args
        guarded = self.loads(condition)
        with self.scope.facts.assuming(condition):
            then = self.loads(then)
        with self.scope.facts.assuming(condition, holds=False):
            otherwise = self.loads(otherwise)
        return if_then_else(guarded, then, otherwise)

    def _operands(self, node: Any) -> Any:
        name = node.op.name if isinstance(node.op, ir.Op) else ""
        atomic = name.startswith("tl.atomic_")
        if not atomic and name != "tirx.address_of":
            return rebuilt(node, self.loads)
        # The first operand names a place, whose indices alone are loaded.
        place, rest = rebuilt(node.args[0], self.loads), map(self.loads, node.args[1:])
        call = ir.Call(node.op, [place, *rest], attrs=node.attrs, ret_ty=node.ty)
        if not atomic:
            return call
        # Where it is out of bounds, nothing happens and the old value is zero.
        condition = self.condition(place.source, place.indices)
        if condition is None:
            return call
        missing = self.scope.safe_value(place.source) if name == "tl.atomic_load" else zero(str(call.ty))
        return if_then_else(condition, call, missing)


def if_then_else(condition: Any, then: Any, otherwise: Any) -> Any:
    """``then if condition else otherwise``, evaluating only the branch taken.

    Args:
        condition: a bool.
        then, otherwise: values of one type.
    """
    return ir.Call(ir.Op.get("prim.if_then_else"), [condition, then, otherwise], ret_ty=then.ty)
