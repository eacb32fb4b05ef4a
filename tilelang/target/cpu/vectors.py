"""Loops that are meant to be one vector operation: each operation of their body, with as many lanes as there are iterations.

LLVM unrolls a loop of sixteen iterations before its vectoriser sees it, and does not find all of the way back. So where a rule
annotates a loop with :data:`AS_VECTOR`, its legal form is rewritten here; what has no form in vectors stays a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.dtypes import canonical, vector
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.visit import flattened, variables
from tilelang.target.cpu.emit import seq, span, splat

AS_VECTOR = "tl.as_vector"
"""Annotation of a loop, from 0 on, over stores to neighbouring elements."""

_BINARY = (
    ir.Add, ir.Sub, ir.Mul, ir.BitwiseAnd, ir.BitwiseOr, ir.BitwiseXor, ir.LShift, ir.RShift,
    ir.EQ, ir.LT, ir.LE, ir.GT, ir.GE, ir.And, ir.Or,
)  # fmt: skip


class _NoVectorError(Exception):
    """Something has no form in vectors."""


def vectorized(loop: Any) -> Any:
    """A legal loop over scalars as vector statements; itself where that is not possible."""
    lanes = _Lanes(loop.loop_var, int(as_int(loop.extent)))
    try:
        return seq([lanes.stmt(stmt) for stmt in flattened(loop.body)])
    except _NoVectorError:
        return loop


class _Lanes:
    """Rewrites straight-line code.

    Attributes:
        values: variables that differ between iterations, and what holds all their values. Other expressions stay scalar.
    """

    def __init__(self, variable: Any, count: int):
        self.variable, self.count = variable, count
        self.values: dict[Any, Any] = {variable: ir.Ramp(constant(0), constant(1), count)}

    def stmt(self, stmt: Any) -> Any:
        if isinstance(stmt, ir.Bind):
            value = self.expr(stmt.value)
            return ir.Bind(self._named(stmt.var, value), value)
        if not isinstance(stmt, ir.BufferStore):
            raise _NoVectorError
        value = self._wide(self.expr(stmt.value))
        return ir.BufferStore(stmt.buffer, value, self._place(stmt.indices))

    def _place(self, indices: Sequence[Any]) -> list[Any]:
        """The indices of all elements, where the last one is the loop's variable and perhaps a constant."""
        *outer, last = indices
        first = constant(0) if last.same_as(self.variable) else last.b if isinstance(last, ir.Add) else None
        if first is None or any(map(self._differs, (*outer, first))) or not self._differs(last):
            raise _NoVectorError
        return [*outer, span(first, self.count)]

    def expr(self, node: Any) -> Any:
        if not self._differs(node):
            return node
        if isinstance(node, _BINARY):
            return type(node)(self._wide(self.expr(node.a)), self._wide(self.expr(node.b)))
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise _NoVectorError
        return handler(self, node)

    def _differs(self, node: Any) -> bool:
        return any(var in self.values for var in variables(node))

    def _wide(self, value: Any) -> Any:
        return value if canonical(str(value.ty)).lanes > 1 else splat(value, self.count)

    def _named(self, variable: Any, value: Any) -> Any:
        """The variable that holds a value."""
        if canonical(str(value.ty)).lanes == 1:
            return variable
        self.values[variable] = ir.Var(variable.name, value.ty)
        return self.values[variable]

    def _variable(self, node: Any) -> Any:
        return self.values[node]

    def _cast(self, node: Any) -> Any:
        return ir.Cast(vector(str(node.ty), self.count), self.expr(node.value))

    def _select(self, node: Any) -> Any:
        return ir.Select(*(self._wide(self.expr(part)) for part in (node.condition, node.true_value, node.false_value)))

    def _let(self, node: Any) -> Any:
        value = self.expr(node.value)
        variable = self._named(node.var, value)
        return ir.Let(variable, value, self._wide(self.expr(node.body)))

    def _call(self, node: Any) -> Any:
        if not node.op.same_as(ir.Op.get("tirx.reinterpret")):
            raise _NoVectorError
        return ir.Call(node.op, [self.expr(node.args[0])], ret_ty=vector(str(node.ty), self.count))


_HANDLERS = {
    ir.Var: _Lanes._variable,
    ir.Cast: _Lanes._cast,
    ir.Select: _Lanes._select,
    ir.Let: _Lanes._let,
    ir.Call: _Lanes._call,
}
