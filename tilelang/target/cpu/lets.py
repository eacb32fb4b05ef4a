"""Lowers ``Let`` expressions to local variables, since LLVM code generation must not see them.

TVM's code generator gives its analyzer the value of every bound variable, and the analyzer simplifies that with all earlier
values substituted: nested bindings may contradict one another, the size of nested functions multiplies, and the time for a chain
of conditions or choices grows several times by each. The analyzer ignores variables in memory, and LLVM keeps them in registers.
"""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.visit import is_choice, rebuilt, walk_expr
from tilelang.target.cpu.emit import seq
from tilelang.target.cpu.place import ON_STACK
from tilelang.target.cpu.rewriter import StmtRewriter


class LetLowering(StmtRewriter):
    """Puts the statements that compute named values before the statement that uses them.

    A value that only one arm of a conditional expression uses is computed under its condition. In the condition of a ``while`` a
    ``Let`` stays, since it is evaluated again in each iteration.
    """

    def __init__(self) -> None:
        self.before: list[Any] = []
        self.values: dict[Any, Any] = {}
        self.handlers = {ir.Var: self._variable, ir.Let: self._let, ir.Call: self._call}

    def stmt(self, node: Any) -> Any:
        outer, self.before = self.before, []
        lowered = super().stmt(node)
        before, self.before = self.before, outer
        return seq(before, lowered)

    def visit_While(self, node: Any) -> Any:
        return ir.While(self._reading(node.condition), self.stmt(node.body), node.span)

    def _reading(self, node: Any) -> Any:
        """An expression that reads the local variables made so far, and keeps what it names itself."""
        return self._variable(node) if isinstance(node, ir.Var) else rebuilt(node, self._reading)

    def visit_Bind(self, node: Any) -> Any:
        if not _is_opaque(node):
            return super().visit_Bind(node)
        value = self.expr(node.value)
        store, self.values[node.var] = self._local(str(node.var.name), node.var.ty)
        return store(value)

    def expr(self, node: Any) -> Any:
        handler = self.handlers.get(type(node))
        return rebuilt(node, self.expr) if handler is None else handler(node)

    def _variable(self, node: Any) -> Any:
        return self.values.get(node, node)

    def _let(self, node: Any) -> Any:
        value = self.expr(node.value)
        store, self.values[node.var] = self._local(str(node.var.name), node.var.ty)
        self.before.append(store(value))
        return self.expr(node.body)

    def _call(self, node: Any) -> Any:
        if not is_choice(node):
            return rebuilt(node, self.expr)
        condition = self.expr(node.args[0])
        (then, then_value), (other, other_value) = map(self._arm, node.args[1:])
        if not then and not other:
            return ir.Call(node.op, [condition, then_value, other_value], ret_ty=node.ty)
        store, load = self._local("chosen", node.ty)
        self.before.append(ir.IfThenElse(condition, seq(then, store(then_value)), seq(other, store(other_value))))
        return load

    def _arm(self, node: Any) -> tuple[list[Any], Any]:
        outer, self.before = self.before, []
        value = self.expr(node)
        before, self.before = self.before, outer
        return before, value

    def _local(self, name: str, dtype: Any) -> tuple[Any, Any]:
        """A new variable: how it is stored, and its load."""
        is_bool = str(dtype) == "bool"
        held = "int8" if is_bool else str(dtype)
        buffer = ir.decl_buffer((1,), held, name=name, layout=None, data_alignment=8)
        first = [ir.IntImm("int32", 0)]
        self.before.append(ir.AllocBuffer(buffer, {ON_STACK: ir.IntImm("bool", 1)}))
        load = ir.BufferLoad(buffer, first)
        return (
            lambda value: ir.BufferStore(buffer, ir.Cast(held, value) if is_bool else value, first),
            ir.NE(load, ir.IntImm(held, 0)) if is_bool else load,
        )


def _is_opaque(node: Any) -> bool:
    """Whether code generation needs no value of a variable: of integers that are no choices it asks how vectors are aligned."""
    is_integer = str(node.var.ty) not in ("float32", "float64", "bool")
    return not is_integer or any(isinstance(each, ir.Select) for each in walk_expr(node.value))
