"""Statements that each thread runs by itself: one rule for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.access import ADDRESS
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_array
from tilelang.ir.visit import children, is_parallel, reads_memory, variables, walk, walk_expr
from tilelang.target.assumptions import assumed
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.intrinsics.table import intrinsic, lower_intrinsic
from tilelang.target.cuda.ir.code import Block, BranchCode, Jump, LoopCode, under, with_span
from tilelang.target.cuda.ir.instructions import Assign, Define, DefinePointer, Evaluate, WaitBulk
from tilelang.target.cuda.ir.values import Cast, Value, both
from tilelang.target.cuda.operators import rule_of
from tilelang.tileop import decode, is_tile_op
from tilelang.tileop.thread import intrinsic_call
from tilelang.transform.first_use import loop_range, uses

_MOST_STATEMENTS = 256
"""Statements that a loop may become: code that is much longer costs more than an array in local memory."""
_OPERATOR_STATEMENTS = 16
"""What an operator on tiles counts for."""


def statement(e: Emitter, stmt: Any, owner: Value | None = None) -> list[Any]:
    """The code of a statement; only a thread for which ``owner`` holds stores to memory, where it is given."""
    return with_span(_RULES[type(stmt)](e, stmt, owner), stmt.span)


def loop_of(e: Emitter, stmt: Any) -> LoopCode:
    """A serial, unrolled or vectorised loop without its body; names the variable."""
    step = 1 if stmt.step is None else as_int(stmt.step)
    first, limit = e.index(stmt.min), e.index(stmt.min + stmt.extent)
    e.facts.bind_range(stmt.loop_var, stmt.extent, stmt.min)
    name = e.named(stmt.loop_var)
    counters = [(name, first)]
    if reads_memory(stmt.min) or reads_memory(stmt.extent):  # computed once: the body may change what it came from
        end = e.names.take("end")
        counters.append((end, limit))
        limit = end
    advance = ((name, name + e.value(step)),)
    return LoopCode(name.is_("<", limit), Block(), tuple(counters), advance, _unrolled(stmt), str(stmt.loop_var.ty))


def _unrolled(stmt: Any) -> int | None:
    kind = int(stmt.kind)
    if kind == int(ir.ForKind.UNROLLED) and "pragma_unroll_factor" in stmt.annotations:
        return as_int(stmt.annotations["pragma_unroll_factor"])
    return 0 if kind in (int(ir.ForKind.UNROLLED), int(ir.ForKind.VECTORIZED)) or _chooses_registers(stmt) else None


def _chooses_registers(loop: Any) -> bool:
    """Whether a loop of known length steps through an array of ``T.alloc_local``: registers have no addresses, and an element
    chosen at run time puts the array into local memory."""
    if _copies(loop) > _MOST_STATEMENTS:
        return False
    indices = (use.indices or () for stmt in walk(loop.body) for use in uses(stmt) if is_array(use.buffer))
    return any(loop.loop_var in set(variables(index)) for each in indices for index in each)


def _copies(stmt: Any) -> float:
    """How many statements of one thread a statement is with its loops written out."""
    if isinstance(stmt, ir.While):
        return inf
    if isinstance(stmt, ir.For) and not is_parallel(stmt):
        values = loop_range(stmt)
        return inf if values is None else len(values) * _copies(stmt.body)
    if isinstance(stmt, ir.For) or (isinstance(stmt, ir.Evaluate) and is_tile_op(stmt.value)):
        return _OPERATOR_STATEMENTS
    return sum(map(_copies, children(stmt))) or 1


def _sequence(e: Emitter, stmt: Any, owner: Value | None) -> list[Any]:
    return [code for child in stmt.seq for code in statement(e, child, owner)]


def _store(e: Emitter, stmt: Any, owner: Value | None) -> list[Any]:
    buffer, indices = stmt.buffer, list(stmt.indices)
    with e.places.storing(buffer):
        store = Assign(e.places.place(buffer, indices), e.value(stmt.value), e.places.shares_byte(buffer, indices))
    by_one = e.places.is_stored_by_one(buffer) or _accumulates(e, stmt)
    # The owner comes first: a guard may load what an index comes from, which no other thread of the group reads here.
    return under(both([owner if by_one else None, e.places.bounds_guard(buffer, indices)]), [store])


def _accumulates(e: Emitter, stmt: Any) -> bool:
    """Whether a store adds to a reducer, which only one of the threads that run an iteration may do."""
    return stmt.buffer in e.layouts.reducers and any(
        isinstance(node, ir.TensorLoad) and node.source == stmt.buffer for node in walk_expr(stmt.value)
    )


def _evaluate(e: Emitter, stmt: Any, owner: Value | None) -> list[Any]:
    value, known = stmt.value, intrinsic(stmt.value)
    if is_tile_op(value):
        op = decode(value)
        return under(owner, rule_of(op).lower_scalar(op, e))
    if known is None:
        return [] if isinstance(value, ir.IntImm) or assumed(stmt) is not None else [Evaluate(e.value(value))]
    if known.optional and not known.is_possible(e.target):
        return []
    if known.lanes > 1:
        return under(owner, _add_neighbours(e, value, known.lanes))
    if known.is_atomic:
        return under(both([owner, _exists(e, value.args[0])]), [_access(e, value)])
    if known.statement is None:
        return under(owner if known.place == ADDRESS else None, [Evaluate(e.value(value))])
    known.require(e.target)
    return [_completing(e, each) for each in known.statement(value)]


def _completing(e: Emitter, code: Any) -> Any:
    """A wait for bulk stores waits for what they write, too, where other statements use it: it is complete in the program."""
    return replace(code, complete=True) if isinstance(code, WaitBulk) and e.has_stores_in_use else code


def _access(e: Emitter, call: Any) -> Evaluate:
    value = lower_intrinsic(e, call)
    assert value is not None
    return Evaluate(value)


def _exists(e: Emitter, place: Any, lane: int = 0) -> Value | None:
    """The condition under which an element exists, or a later one of the same row; None where it certainly does."""
    if not isinstance(place, ir.TensorLoad):
        return None
    indices = list(place.indices)
    if lane:
        indices[-1] += lane
    return e.places.bounds_guard(place.source, indices)


def _add_neighbours(e: Emitter, call: Any, lanes: int) -> list[Any]:
    """An atomic sum of consecutive elements; of those that are not all in their tensors, each by itself."""
    ends = [(_exists(e, place), _exists(e, place, lanes - 1)) for place in call.args]
    inside, whole = both(each for pair in ends for each in dict.fromkeys(pair)), _access(e, call)
    # Where one condition is that of the first and of the last, there is no vector of which only a part exists.
    if all(first == last for first, last in ends):
        return under(inside, [whole])
    singles: list[Any] = []
    for lane in range(lanes):
        places = (ir.BufferLoad(each.source, [*list(each.indices)[:-1], each.indices[-1] + lane]) for each in call.args)
        update = intrinsic_call("atomic_add", *places, attrs={"memory_order": "relaxed"})
        singles += _evaluate(e, ir.Evaluate(update), None)
    return [BranchCode(inside, Block([whole]), Block(singles))] if inside is not None else singles


def _bind(e: Emitter, stmt: Any, owner: Value | None) -> list[Any]:
    value = e.value(stmt.value)
    known = intrinsic(stmt.value)
    if known is not None and known.is_parameter:
        e.names.values[stmt.var] = value
        return []
    dtype = str(stmt.var.ty)
    name = e.named(stmt.var)
    # A value that comes from memory may change while its variable keeps the old one, so that the two are not equal for ever.
    if dtype.startswith(("int", "uint")):
        (e.facts.bind_bounds if _loads(stmt.value) else e.facts.bind_value)(stmt.var, stmt.value)
    elif dtype == "bool":
        e.conditions.name(stmt.var, stmt.value)
    return [Define(name, dtype, value)]


def _loads(expr: Any) -> bool:
    return any(isinstance(node, (ir.TensorLoad, ir.Call)) for node in walk_expr(expr))


def _if(e: Emitter, stmt: Any, owner: Value | None) -> list[Any]:
    condition, otherwise = e.value(stmt.condition), None
    with e.conditions.assuming(stmt.condition):
        then = Block(statement(e, stmt.then_case, owner))
    if stmt.else_case is not None:
        with e.conditions.assuming(stmt.condition, holds=False):
            otherwise = Block(statement(e, stmt.else_case, owner))
    return [BranchCode(condition, then, otherwise)]


def _for(e: Emitter, stmt: Any, owner: Value | None) -> list[Any]:
    loop = loop_of(e, stmt)
    loop.body.items += statement(e, stmt.body, owner)
    return [loop]


def _while(e: Emitter, stmt: Any, owner: Value | None) -> list[Any]:
    with e.conditions.assuming(stmt.condition):
        body = Block(statement(e, stmt.body, owner))
    return [LoopCode(e.value(stmt.condition), body)]


def _pointer(e: Emitter, stmt: Any) -> DefinePointer:
    """A tensor at an address, or a view of one."""
    start = e.value(stmt.data) if isinstance(stmt.data, ir.Var) else e.array(stmt.data.args[0])
    return DefinePointer(e.array(stmt.buffer), Cast(start, str(stmt.buffer.dtype)))


_RULES: Mapping[type, Callable[[Emitter, Any, Value | None], list[Any]]] = {
    ir.SeqStmt: _sequence,
    ir.BufferStore: _store,
    ir.Evaluate: _evaluate,
    ir.Bind: _bind,
    ir.IfThenElse: _if,
    ir.For: _for,
    ir.While: _while,
    ir.AttrStmt: lambda e, stmt, owner: statement(e, stmt.body, owner),
    ir.Break: lambda e, stmt, owner: [Jump("break")],
    ir.Continue: lambda e, stmt, owner: [Jump("continue")],
    ir.DeclBuffer: lambda e, stmt, owner: [_pointer(e, stmt)],
    ir.AllocBuffer: lambda e, stmt, owner: [],
    ir.AssertStmt: lambda e, stmt, owner: [],
}
