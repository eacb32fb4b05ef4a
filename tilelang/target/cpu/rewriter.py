"""A visitor that rebuilds statements; subclasses override the handlers of the nodes that they change."""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir
from tilelang.target.cpu.emit import seq


class StmtRewriter:
    """Rebuilds a statement tree, keeping spans and annotations.

    A handler is a method ``visit_<Node>`` (as in :class:`ast.NodeVisitor`); expressions pass through :meth:`expr`, which
    changes nothing here. Handlers return a statement; a no-op vanishes from its sequence.
    """

    def stmt(self, node: Any) -> Any:
        """The rewritten statement."""
        return getattr(self, f"visit_{type(node).__name__}")(node)

    def expr(self, node: Any) -> Any:
        """The rewritten expression."""
        return node

    def visit_SeqStmt(self, node: Any) -> Any:
        return seq([self.stmt(child) for child in node.seq])

    def visit_For(self, node: Any) -> Any:
        low, extent = self.expr(node.min), self.expr(node.extent)
        step = None if node.step is None else self.expr(node.step)
        body = self.stmt(node.body)
        return ir.For(node.loop_var, low, extent, node.kind, body, annotations=node.annotations, step=step, span=node.span)

    def visit_While(self, node: Any) -> Any:
        return ir.While(self.expr(node.condition), self.stmt(node.body), node.span)

    def visit_IfThenElse(self, node: Any) -> Any:
        condition = self.expr(node.condition)
        otherwise = None if node.else_case is None else self.stmt(node.else_case)
        return ir.IfThenElse(condition, self.stmt(node.then_case), otherwise, node.span)

    def visit_AttrStmt(self, node: Any) -> Any:
        return ir.AttrStmt(node.node, node.attr_key, self.expr(node.value), self.stmt(node.body), node.span)

    def visit_Bind(self, node: Any) -> Any:
        return ir.Bind(node.var, self.expr(node.value), node.span)

    def visit_BufferStore(self, node: Any) -> Any:
        indices = [self.expr(index) for index in node.indices]
        return ir.BufferStore(node.buffer, self.expr(node.value), indices, node.span)

    def visit_Evaluate(self, node: Any) -> Any:
        return ir.Evaluate(self.expr(node.value), node.span)

    def visit_AssertStmt(self, node: Any) -> Any:
        return ir.AssertStmt(self.expr(node.condition), node.error_kind, node.message_parts, node.span)

    def _leaf(self, node: Any) -> Any:
        return node

    visit_AllocBuffer = visit_DeclBuffer = visit_Break = visit_Continue = visit_Return = _leaf
