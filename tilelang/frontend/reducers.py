"""Checks how a finished program uses its reducers.

Until ``T.finalize_reducer`` each thread has partial results of its own. A program that reads them, combines them by another
operation than the reducer's, or starts every thread from the same value would run, and give wrong numbers; it is refused here.
The statements are followed in program order, the bodies of loops twice: an iteration must find the reducer as the first one did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tvm_ffi import structural_equal

from tilelang.errors import ReducerError
from tilelang.ir import nodes as ir
from tilelang.ir.span import location_of
from tilelang.ir.visit import statement_exprs, walk_expr
from tilelang.tileop.base import record_of
from tilelang.tileop.copy import Fill
from tilelang.tileop.reduce import FinalizeReducer

EMPTY, BEGUN, PARTIAL, WHOLE, UNKNOWN = "empty", "begun", "partial", "whole", "unknown"
"""The states of a reducer: not initialised; initialised; each thread has a partial result; every thread has the whole result
(after ``T.finalize_reducer``); different on the paths that lead here, of which nothing is concluded."""

_FORMS: Mapping[type, str] = {
    ir.Add: "sum", ir.Sub: "sum", ir.Max: "max", ir.Min: "min",
    ir.BitwiseAnd: "bitand", ir.BitwiseOr: "bitor", ir.BitwiseXor: "bitxor",
}  # fmt: skip
"""Operator -> the reduction that it is a step of."""

_COUNTED = ("sum", "bitxor")
"""Reductions in which a value that several threads have counts several times; a maximum of copies is the same maximum."""

_CALLED = {f"tirx.bitwise_{name}": f"bit{name}" for name in ("and", "or", "xor")}


def verify_reducers(func: Any, reducers: Mapping[Any, str]) -> None:
    """Raises :class:`~tilelang.errors.ReducerError` at the first statement that misuses one of ``reducers``."""
    if reducers:
        check = _Check(reducers)
        check.stmt(func.body)
        check.end()


class _Check:
    """Follows the statements in program order with the state of each reducer."""

    def __init__(self, reducers: Mapping[Any, str]):
        self.reducers = reducers
        self.state = dict.fromkeys(reducers, EMPTY)
        self.finalized: set[Any] = set()
        self.last: dict[Any, Any] = {}
        """The span of each reducer's last update."""

    def stmt(self, node: Any) -> None:
        """Follows a statement."""
        if isinstance(node, ir.SeqStmt):
            for part in node.seq:
                self.stmt(part)
            return
        record = record_of(node)
        if record is not None:
            self._operator(record, node.span)
        elif isinstance(node, ir.BufferStore) and node.buffer in self.reducers:
            self._store(node)
        else:
            self._reads(statement_exprs(node), node.span)
        if isinstance(node, ir.IfThenElse):
            self._arms([node.then_case, node.else_case])
        elif isinstance(node, (ir.For, ir.While)):
            # Twice: the second iteration finds the state that the first one leaves.
            self.stmt(node.body)
            self.stmt(node.body)
        elif isinstance(node, ir.AttrStmt):
            self.stmt(node.body)

    def end(self) -> None:
        """Ends the program."""
        for buffer, span in self.last.items():
            if buffer not in self.finalized:
                raise self._error(
                    buffer, "is never finalized", "T.finalize_reducer(r, result) makes the threads' parts one", span
                )

    def _arms(self, arms: list[Any]) -> None:
        before, ends = dict(self.state), []
        for arm in arms:
            self.state = dict(before)
            if arm is not None:
                self.stmt(arm)
            ends.append(self.state)
        first, second = ends
        self.state = {buffer: _after_either(state, second[buffer]) for buffer, state in first.items()}

    def _error(self, buffer: Any, problem: str, hint: str, span: Any) -> ReducerError:
        return ReducerError(buffer.name, self.reducers[buffer], problem, hint).at(location_of(span))

    # Uses of a reducer in statements ---------------------------------------------------------------------------------

    def _operator(self, record: Any, span: Any) -> None:
        for region, access in record.regions():
            if region.buffer not in self.reducers:
                continue
            if isinstance(record, FinalizeReducer):
                self._finalize(region.buffer, span)
            elif access == "w":
                self._initialise(region.buffer, record.value if isinstance(record, Fill) else None, span)
            elif access == "rw":
                raise self._error(
                    region.buffer, f"is changed by {record.called}", "add to it element by element: T.reducer_update", span
                )
            else:
                self._read(region.buffer, span)
        self._reads(record.scalars(), span)

    def _store(self, node: Any) -> None:
        loads = [load for load in _loads(node.value) if load.source in self.reducers]
        if not any(load.source.same_as(node.buffer) for load in loads):
            self._reads([*node.indices, node.value], node.span)
            self._initialise(node.buffer, node.value, node.span)
            return
        step, rest = _step(node)
        if _is_same(_uncast(node.value), node):  # r[i] + 0, as it is simplified
            step = self.reducers[node.buffer]
        if step != self.reducers[node.buffer]:
            what = f"by the operation of {step!r}" if step else "by something else than its operation"
            hint = "T.reducer_update(r[i], x) combines by the right one; scale or shift the result after T.finalize_reducer"
            raise self._error(node.buffer, f"is updated {what}", hint, node.span)
        self._reads([*node.indices, *rest], node.span)
        self._update(node.buffer, node.span)

    def _reads(self, exprs: list[Any], span: Any) -> None:
        for expr in exprs:
            for load in _loads(expr):
                if load.source in self.reducers:
                    self._read(load.source, span)

    # Legality of those uses ------------------------------------------------------------------------------------------

    def _initialise(self, buffer: Any, value: Any, span: Any) -> None:
        if self.reducers[buffer] in _COUNTED and not _is_zero(value):
            hint = "T.reducer_init(r, init=x) counts x once; T.clear(r) starts from nothing"
            raise self._error(buffer, "is set to a value, which every thread would count", hint, span)
        self.state[buffer] = BEGUN

    def _update(self, buffer: Any, span: Any) -> None:
        state = self.state[buffer]
        if state == EMPTY:
            raise self._error(buffer, "is updated before T.reducer_init", "T.reducer_init(r) or T.clear(r) begins it", span)
        if state == WHOLE and self.reducers[buffer] in _COUNTED:
            hint = "begin again with T.reducer_init; every thread has the whole result and would count it"
            raise self._error(buffer, "is updated after T.finalize_reducer", hint, span)
        self.state[buffer] = PARTIAL
        self.last[buffer] = span

    def _finalize(self, buffer: Any, span: Any) -> None:
        if self.state[buffer] == WHOLE and self.reducers[buffer] in _COUNTED:
            raise self._error(buffer, "is finalized twice", "begin again with T.reducer_init", span)
        self.state[buffer] = WHOLE
        self.finalized.add(buffer)

    def _read(self, buffer: Any, span: Any) -> None:
        if self.state[buffer] == PARTIAL:
            raise self._error(
                buffer, "is read before T.finalize_reducer", "each thread has a part of the result until then", span
            )


def _after_either(one: str, other: str) -> str:
    """The state after a branch, of which it is not known here which side runs: where both leave another one nothing is refused.

    A reducer is not finalized on the way on which it is partial, nor on one on which nothing was added.
    """
    if one == other:
        return one
    return PARTIAL if PARTIAL in (one, other) and {one, other} <= {PARTIAL, BEGUN, EMPTY} else UNKNOWN


def _loads(expr: Any) -> Iterator[Any]:
    return (node for node in walk_expr(expr) if isinstance(node, ir.TensorLoad))


def _uncast(expr: Any) -> Any:
    while isinstance(expr, ir.Cast):
        expr = expr.value
    return expr


def _step(node: Any) -> tuple[str | None, list[Any]]:
    """The reduction that ``r[i] = value`` is a step of (None for no reduction), and what is combined with the old value."""
    value = _uncast(node.value)
    form = _FORMS.get(type(value)) or (_CALLED.get(value.op.name) if isinstance(value, ir.Call) else None)
    if form is None:
        return None, []
    subtracted: list[Any] = []
    if form == "sum":
        sides, subtracted = _terms(value)
    else:
        sides = list(value.args) if isinstance(value, ir.Call) else [value.a, value.b]
    rest = [side for side in sides if not _is_same(_uncast(side), node)]
    return (form, rest + subtracted) if len(rest) == len(sides) - 1 else (None, [])


def _is_same(value: Any, store: Any) -> bool:
    """Whether a value is the element that a store is to."""
    if not isinstance(value, ir.TensorLoad) or not value.source.same_as(store.buffer):
        return False
    return all(map(structural_equal, value.indices, store.indices))


def _terms(value: Any) -> tuple[list[Any], list[Any]]:
    """The terms of a sum that are added, and those that are subtracted."""
    value = _uncast(value)
    if not isinstance(value, (ir.Add, ir.Sub)):
        return [value], []
    added, subtracted = _terms(value.a)
    if isinstance(value, ir.Sub):
        return added, [*subtracted, value.b]
    more_added, more_subtracted = _terms(value.b)
    return added + more_added, subtracted + more_subtracted


def _is_zero(value: Any) -> bool:
    value = _uncast(value)
    return getattr(value, "value", value) == 0 if isinstance(value, (int, ir.IntImm, ir.FloatImm)) else False
