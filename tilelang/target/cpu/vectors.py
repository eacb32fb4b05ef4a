"""Loops as vector operations: each operation of their body, with a lane for each iteration.

LLVM unrolls a loop of sixteen iterations before its vectoriser sees it, and then vectorises only parts of it. So loops that a
rule annotates with :data:`AS_VECTOR` are vectorised here; one that has no vector form stays a loop. Loops that call functions of
whole registers (``wide_functions.py``) are vectorised, too, as many iterations at a time as a register has lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilelang.dtypes import canonical, vector
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.visit import expressions, flattened, variables, walk_expr
from tilelang.target.cpu.emit import loop, seq, span, splat

AS_VECTOR = "tl.as_vector"
"""Annotation of a loop, from 0 on, over stores to neighbouring elements."""

WIDE = {"tl_expf": "tl_exp_16", "tl_exp2f": "tl_exp2_16", "tl_erff": "tl_erf_16"}
"""Function of a scalar -> the helper function of a register that stands for it."""

_BINARY = (
    ir.Add, ir.Sub, ir.Mul, ir.BitwiseAnd, ir.BitwiseOr, ir.BitwiseXor, ir.LShift, ir.RShift,
    ir.EQ, ir.LT, ir.LE, ir.GT, ir.GE, ir.And, ir.Or,
)  # fmt: skip


class _NoVectorError(Exception):
    """Something has no form in vectors."""


def vectorized(node: Any) -> Any:
    """A legal loop over scalars as vector statements; itself where that is not possible."""
    try:
        return _Lanes(node.loop_var, constant(0), int(as_int(node.extent))).body(node)
    except _NoVectorError:
        return node


def in_registers(node: Any, lanes: int) -> Any | None:
    """A legal loop of independent iterations from 0 on, ``lanes`` at a time; None where that is not possible.

    Args:
        node: the loop, of a multiple of ``lanes`` iterations; its body calls functions of :data:`WIDE` by the register's name.
        lanes: elements of a register.
    """
    try:
        return loop("s", as_int(node.extent) // lanes, lambda s: _Lanes(node.loop_var, constant(s * lanes), lanes).body(node))
    except _NoVectorError:
        return None


class _Lanes:
    """Rewrites straight-line code.

    Attributes:
        first: the first iteration.
        count: how many there are.
        values: variables that differ between iterations, and what holds all their values. Other expressions stay scalar.
    """

    def __init__(self, variable: Any, first: Any, count: int):
        self.variable, self.first, self.count = variable, first, count
        self.values: dict[Any, Any] = {variable: ir.Ramp(first, constant(1), count)}

    def body(self, node: Any) -> Any:
        """The loop's body, once for all iterations."""
        return seq([self.stmt(stmt) for stmt in flattened(node.body)])

    def stmt(self, stmt: Any) -> Any:
        if isinstance(stmt, ir.Bind):
            value = self.expr(stmt.value)
            return ir.Bind(self._named(stmt.var, value), value)
        if not isinstance(stmt, ir.BufferStore):
            raise _NoVectorError
        # A store of a value that is the same in all iterations still writes one element for each.
        value = self._wide(self.expr(stmt.value))
        return ir.BufferStore(stmt.buffer, value, self._place(stmt.indices))

    def _place(self, indices: Sequence[Any]) -> list[Any]:
        """The indices of all elements, where these are neighbours in a row."""
        *outer, last = indices or [None]
        # Elements of one row are one load or store. Others would be gathers and scatters, which are slower than the scalar loop.
        if last is None or any(map(self._differs, outer)) or not self._differs(last):
            raise _NoVectorError
        return [*outer, span(self._lowest(last), self.count)]

    def _lowest(self, index: Any) -> Any:
        """The index of the first iteration, where it grows by one from each to the next."""
        if index.same_as(self.variable):
            return self.first
        # Only forms with the variable itself: `2 * i` would be every second element, and no row.
        if isinstance(index, ir.Add) and not self._differs(index.b):
            return self._lowest(index.a) + index.b
        if isinstance(index, ir.Add) and not self._differs(index.a):
            return index.a + self._lowest(index.b)
        if isinstance(index, ir.Sub) and not self._differs(index.b):
            return self._lowest(index.a) - index.b
        raise _NoVectorError

    def expr(self, node: Any) -> Any:
        # The same in all iterations: computed once, as a scalar.
        if not self._differs(node):
            # The call has the name of a function of registers already (in_registers), so it cannot stay scalar.
            if any(_wide_name(part) is not None for part in walk_expr(node)):
                raise _NoVectorError
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
        # Only values that differ become vectors: a broadcast is made where a vector operation uses the scalar, and LLVM hoists
        # it.
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

    def _load(self, node: Any) -> Any:
        # A bool is a byte in memory and a bit in a vector; the conversion costs more than the loop.
        if str(node.ty) == "bool":
            raise _NoVectorError
        return ir.BufferLoad(node.source, self._place(node.indices))

    def _call(self, node: Any) -> Any:
        name = _wide_name(node)
        if name is None and not any(node.op.same_as(ir.Op.get(plain)) for plain in _PLAIN):
            raise _NoVectorError
        arguments = node.args if name is None else node.args[1:]
        wide = [self._wide(self.expr(argument)) for argument in arguments]
        return ir.Call(node.op, wide if name is None else [node.args[0], *wide], ret_ty=vector(str(node.ty), self.count))


_PLAIN = ("tirx.reinterpret", "tirx.fabs", "tirx.sqrt")
"""Operators that take vectors as they take scalars."""


def wide_names(stmt: Any) -> Iterator[str]:
    """The functions of registers that a statement calls."""
    return (name for name in map(_wide_name, expressions(stmt)) if name is not None)


def _wide_name(node: Any) -> str | None:
    """The function of registers that an expression calls."""
    if not isinstance(node, ir.Call) or not node.op.same_as(ir.Op.get("tirx.call_pure_extern")):
        return None
    name = str(node.args[0].value)
    return name if name in WIDE.values() else None


_HANDLERS = {
    ir.Var: _Lanes._variable,
    ir.TensorLoad: _Lanes._load,
    ir.Cast: _Lanes._cast,
    ir.Select: _Lanes._select,
    ir.Let: _Lanes._let,
    ir.Call: _Lanes._call,
}
