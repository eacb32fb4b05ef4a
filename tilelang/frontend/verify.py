"""Checks that every variable of a finished program is used inside the scope that defines it.

A Python name may outlive the loop whose variable it holds, which tracing does not notice.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tilelang.errors import CompileError, DeclarationError, OutOfScopeError
from tilelang.ir import nodes as ir
from tilelang.ir.span import location_of
from tilelang.ir.visit import children, statement_exprs, variables, walk_expr


def verify_scopes(func: Any, dynamic_sizes: Collection[Any] = ()) -> None:
    """Raises an error at the first use of a variable outside of its scope.

    Args:
        func: the program.
        dynamic_sizes: the variables of the sizes that it names.

    Raises:
        OutOfScopeError: a variable after the loop or branch that defines it.
        DeclarationError: a dynamic size of no argument.
    """
    known = set()
    for param in func.params:
        known.add(param)
        if ir.is_buffer_var(param):
            known.update(v for size in [*param.shape, *param.strides] for v in variables(size))
    _visit(func.body, known, dynamic_sizes)


def _visit(stmt: Any, known: set, sizes: Collection[Any]) -> None:
    if isinstance(stmt, ir.SeqStmt):
        inner = set(known)
        for part in stmt.seq:
            _visit(part, inner, sizes)
            inner.update(_defined(part))
        return
    for expr in statement_exprs(stmt):
        for var in variables(expr):
            if var not in known and not any(isinstance(part, ir.Let) and part.var.same_as(var) for part in walk_expr(expr)):
                raise _unknown(var, sizes, location_of(stmt.span))
    scoped = _scoped(stmt)
    inner = known.union(scoped) if scoped else known
    for child in children(stmt):
        _visit(child, inner, sizes)


def _unknown(var: Any, sizes: Collection[Any], location: Any) -> CompileError:
    if not any(var.same_as(size) for size in sizes):
        return OutOfScopeError(var.name, location, memory=ir.is_buffer_var(var))
    hint = f"declare a tensor with it in its shape, or an argument {var.name}: T.int32"
    return DeclarationError(f"the dynamic size {var.name!r} is in the shape of no argument", location, hint=hint)


def _defined(stmt: Any) -> list[Any]:
    """The variables that a statement defines for the statements after it."""
    if isinstance(stmt, ir.Bind):
        return [stmt.var]
    return [stmt.buffer] if isinstance(stmt, (ir.AllocBuffer, ir.DeclBuffer)) else []


def _scoped(stmt: Any) -> list[Any]:
    """The variables that a statement defines for its body alone."""
    if isinstance(stmt, ir.For):
        return [stmt.loop_var]
    if isinstance(stmt, ir.AttrStmt) and isinstance(stmt.node, ir.IterVar):
        return [stmt.node.var]
    return []
