"""Which statements and expressions wait for other threads, or signal to them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_local
from tilelang.ir.visit import statement_exprs, walk_expr
from tilelang.target.cuda.intrinsics.table import intrinsic, is_atomic
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.tile.nest import evaluated
from tilelang.target.cuda.tile.tree import Operator, Parallel, Repeat, Scalar, Sequence, walk
from tilelang.tileop.thread import runs_foreign_code

_ACQUIRING = {"acquire", "acq_rel", "seq_cst"}


def orders_threads(exprs: Iterable[Any]) -> bool:
    """Whether a program orders its threads by one of these expressions: it waits for others, or they for it."""
    calls = _calls(exprs)
    known = filter(None, map(intrinsic, calls))
    return any(call.orders for call in known) or any(order != "relaxed" for order in _memory_orders(calls))


def takes_part(node: Any) -> bool:
    """Whether threads wait for others in a statement or below it, or signal to them, by barriers of the program."""
    inside = [*walk(node)]
    stmts = [each.stmt for each in inside if not isinstance(each, (Sequence, Operator, Parallel))]
    nests = (each.nest.body for each in inside if isinstance(each, Parallel))
    exprs = chain(*map(statement_exprs, stmts), *map(evaluated, nests))
    spins = (part for each in inside if isinstance(each, Repeat) for part in walk_expr(each.stmt.condition))
    # What comes behind a group that gives registers away is reached with few of them: other groups are beside it.
    gives = (rule_of(each.op).registers(each.op) for each in inside if isinstance(each, Operator))
    return orders_threads(exprs) or any(map(is_atomic, spins)) or any(map(runs_foreign_code, stmts)) or any(gives)


def tests_memory(condition: Any) -> bool:
    """Whether a condition is of what other threads may change, so that its value depends on when it is evaluated."""
    parts = walk_expr(condition)
    return any(not is_local(part.source) if isinstance(part, ir.TensorLoad) else is_atomic(part) for part in parts)


def waits_for_others(exprs: Iterable[Any]) -> bool:
    """Whether threads wait by one of these expressions for others that may run other code."""
    calls = _calls(exprs)
    return any(call.waits for call in filter(None, map(intrinsic, calls))) or not _ACQUIRING.isdisjoint(_memory_orders(calls))


def may_be_at_once(node: Any) -> bool:
    """Whether there is a form of a node that leaves nothing in flight, and is not the node itself."""
    return isinstance(node, Operator) and rule_of(node.op).at_once(node.op) != [node.op]


def is_in_flight(node: Any) -> bool:
    """Whether a node leaves an operator in flight, or waits for one."""
    return may_be_at_once(node) or (isinstance(node, Operator) and rule_of(node.op).is_asynchronous(node.op))


def waits_for_products(node: Any) -> bool:
    """Whether a node, or one inside it, waits for products in flight, for all or all but the newest."""
    return any(_pending(inner) is not None for inner in walk(node))


def awaits_all(node: Any) -> bool:
    """Whether a node itself waits for all products in flight."""
    return _pending(node) == 0


def _pending(node: Any) -> int | None:
    """How many products a wait may leave in flight; None of any other node."""
    if isinstance(node, Operator):
        # The compiler's own wait; it stands behind what it waits for.
        return None if rule_of(node.op).at_once(node.op) else 0
    call = node.stmt.value if isinstance(node, Scalar) and isinstance(node.stmt, ir.Evaluate) else None
    known = None if call is None else intrinsic(call)
    if call is None or known is None or not known.completes:
        return None
    pending = as_int(call.args[0]) if call.args else 0
    return pending if isinstance(pending, int) else None


def acquires(exprs: Iterable[Any]) -> bool:
    """Whether one of these expressions is an atomic access that acquires."""
    return not _ACQUIRING.isdisjoint(_memory_orders(_calls(exprs)))


def _calls(exprs: Iterable[Any]) -> list[Any]:
    return [part for expr in exprs if isinstance(expr, ir.PrimExpr) for part in walk_expr(expr) if isinstance(part, ir.Call)]


def _memory_orders(calls: Iterable[Any]) -> set[str]:
    return {str(call.attrs.get("memory_order", "relaxed")) for call in calls if is_atomic(call)}
