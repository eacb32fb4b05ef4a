"""``continue`` in the body of a ``T.Parallel``, written as conditions: a thread may run an iteration without any loop."""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir


def without_continue(body: Any) -> Any:
    """The body of one iteration with what follows a ``continue`` under the condition that it was not reached."""
    return _block(_rest([body])) if _continues(body) else body


def _rest(stmts: list[Any]) -> list[Any]:
    """Statements in order, up to a ``continue``; what follows a branch that may reach one moves into its other ways on."""
    kept: list[Any] = []
    for place, stmt in enumerate(stmts):
        if not _continues(stmt):
            kept.append(stmt)
            continue
        following = stmts[place + 1 :]
        if isinstance(stmt, ir.SeqStmt):
            return [*kept, *_rest([*stmt.seq, *following])]
        if isinstance(stmt, ir.IfThenElse):
            otherwise = [] if stmt.else_case is None else [stmt.else_case]
            then, otherwise = _rest([stmt.then_case, *following]), _rest([*otherwise, *following])
            if then:
                kept.append(ir.IfThenElse(stmt.condition, _block(then), _block(otherwise) if otherwise else None, stmt.span))
            elif otherwise:
                kept.append(ir.IfThenElse(ir.Not(stmt.condition), _block(otherwise), None, stmt.span))
        elif isinstance(stmt, ir.AttrStmt):
            kept.append(ir.AttrStmt(stmt.node, stmt.attr_key, stmt.value, _block(_rest([stmt.body, *following])), stmt.span))
        return kept
    return kept


def _continues(stmt: Any) -> bool:
    """Whether a statement may end the iteration that it stands in."""
    if isinstance(stmt, ir.SeqStmt):
        return any(map(_continues, stmt.seq))
    if isinstance(stmt, ir.IfThenElse):
        return _continues(stmt.then_case) or (stmt.else_case is not None and _continues(stmt.else_case))
    return isinstance(stmt, ir.Continue) or (isinstance(stmt, ir.AttrStmt) and _continues(stmt.body))


def _block(stmts: list[Any]) -> Any:
    if not stmts:
        return ir.Evaluate(ir.IntImm("int32", 0))
    return stmts[0] if len(stmts) == 1 else ir.SeqStmt(stmts)
