"""Elements are read where Python reads them.

``A[0]`` is an expression, which the kernel computes where a statement uses it. Python may carry it there past statements
that change the element: in a tuple, an object, a closure, or as an argument. So the builder remembers where each load was made,
and a statement that uses it behind such a change takes a variable that is bound at that place instead. An element that is a place
(``T.copy(A[0], tile)``, ``T.address_of(A[0])``) is not read, so that nothing happens to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from itertools import chain
from typing import TYPE_CHECKING, Any

from tilelang.errors import RunTimeValueError
from tilelang.frontend.frames import Place
from tilelang.frontend.values import as_operand
from tilelang.ir import nodes as ir
from tilelang.ir.visit import is_guarded, operands, statement_exprs, variables, walk, with_operands
from tilelang.tileop.base import record_of
from tilelang.tileop.thread import INTRINSICS, intrinsic_name

if TYPE_CHECKING:
    from tilelang.frontend.builder import Builder

_DECLARATIONS = (ir.AllocBuffer, ir.DeclBuffer)

_OF_PLACES = (
    "tirx.address_of",
    "tl.ldg",
    "tl.dp4a",
    "tl.atomic_addx",
    "tl.ptx_",
    "tl.tma_",
    "tl.wgmma_descriptor",
    "tl.store_cluster",
)
"""Calls whose arguments that are elements are places."""


def note_read(builder: Builder, expr: Any) -> None:
    """Remembers that the program has made an element load here, or a choice that guards some."""
    # An element of a barrier buffer names the barrier.
    if is_guarded(expr, 1) or isinstance(expr, ir.TensorLoad) and not expr.source.scope().endswith("barrier"):
        builder.reads[expr] = builder.frames[-1].here()


def read_anew(builder: Builder, expr: Any) -> None:
    """Lets every statement that uses an expression read its elements for itself."""
    for load in _reads(as_operand(expr)):
        builder.reads.pop(load, None)


def changes_memory(stmt: Any) -> bool:
    """Whether a statement may change what an element holds."""
    if isinstance(stmt, ir.Bind):
        called = intrinsic_name(stmt.value)
        return called is not None and not INTRINSICS[called].pure
    return not isinstance(stmt, _DECLARATIONS)


def may_have_changed(builder: Builder, place: Place, buffer: Any) -> bool:
    """Whether a statement behind a place may have changed what a buffer holds, or another pass of a loop may have.

    Args:
        builder: of the program.
        place: where the buffer was named.
        buffer: itself, or a view of memory that others name, too.
    """
    inside = builder.frames[builder.frames.index(place.frame) + 1 :] if place.frame in builder.frames else []
    since = chain(place.frame.stmts[place.position :], *(frame.stmts for frame in inside))
    root, written = builder.root_of(buffer), (each for stmt in since for part in walk(stmt) for each in _written(part))
    return place.is_past or any(frame.repeats for frame in inside) or any(root.same_as(builder.root_of(each)) for each in written)


def _written(stmt: Any) -> list[Any]:
    """The buffers that a statement itself may write."""
    record = record_of(stmt)
    if record is not None:
        return [region.buffer for region, access in record.regions() if "w" in access]
    if isinstance(stmt, ir.BufferStore):
        return [stmt.buffer]
    if not isinstance(stmt, (ir.Evaluate, ir.Bind)) or not changes_memory(stmt):
        return []
    return [var for expr in statement_exprs(stmt) for var in variables(expr) if ir.is_buffer_var(var)]


def read_in_order(builder: Builder, expr: Any) -> Any:
    """An expression that the next statement computes; what it reads of memory that has changed since is a variable."""
    return _with_variables(expr, _kept(builder, [expr])) if isinstance(expr, ir.PrimExpr) else expr


def with_reads_in_order(builder: Builder, stmt: Any) -> Any:
    """A statement that is about to be appended, with the same done to its own expressions."""
    if type(stmt) not in _WITH_EXPRS or not builder.reads:
        return stmt
    variables = _kept(builder, statement_exprs(stmt))
    return _WITH_EXPRS[type(stmt)](stmt, lambda expr: _with_variables(expr, variables)) if variables else stmt


_WITH_EXPRS: Mapping[type, Callable[[Any, Callable[[Any], Any]], Any]] = {
    ir.BufferStore: lambda stmt, new: ir.BufferStore(stmt.buffer, new(stmt.value), list(map(new, stmt.indices)), stmt.span),
    ir.Bind: lambda stmt, new: ir.Bind(stmt.var, new(stmt.value), stmt.span),
    ir.Evaluate: lambda stmt, new: ir.Evaluate(new(stmt.value), stmt.span),
    ir.IfThenElse: lambda stmt, new: ir.IfThenElse(new(stmt.condition), stmt.then_case, stmt.else_case, stmt.span),
}


def _kept(builder: Builder, exprs: list[Any]) -> dict[Any, Any]:
    """The variables of what expressions read after a change."""
    stale = {load for expr in exprs for load in _reads(expr) if _is_stale(builder, load)}
    return {part: _variable(builder, part, place) for part, place in _held_parts(builder, exprs, stale)} if stale else {}


def _held_parts(builder: Builder, exprs: list[Any], stale: Set[Any]) -> Iterator[tuple[Any, Place]]:
    """Parts of expressions that variables hold, with where these are bound: loads, and conditions that guard some."""
    stack, seen = [(expr, False) for expr in exprs], set()
    while stack:
        part = node, is_place = stack.pop()
        if part in seen:
            continue
        seen.add(part)
        if node in stale and not is_place:
            yield node, builder.reads[node]
        elif node in builder.reads and _is_read_at_once(builder, node, stale):
            yield node, builder.reads[node]
        else:
            stack += _parts(node)


def _is_read_at_once(builder: Builder, guard: Any, stale: Set[Any]) -> bool:
    """Whether a choice reads memory that has changed since, and can read everything where it was made."""
    loads, place = list(_reads(guard)), builder.reads[guard]
    if stale.isdisjoint(loads) or place.frame not in builder.frames:
        return False
    with builder.at(place):
        return not any(_is_stale(builder, load) for load in loads)


def _variable(builder: Builder, value: Any, place: Place) -> Any:
    """The variable that holds what a value was at a place."""
    if value not in builder.kept:
        if place.is_past:
            raise RunTimeValueError(
                f"an element of {value.source.name} was read in a block that has ended, and changed memory after that",
                hint="assign it to a T.alloc_var from before the block",
            )
        with builder.at(place):
            builder.kept[value] = builder.bind("held", value)
    return builder.kept[value]


def _is_stale(builder: Builder, load: Any) -> bool:
    """Whether memory may have changed since a load was made."""
    place = builder.reads.get(load)
    if place is None or place.frame not in builder.frames:
        return False
    inside = builder.frames[builder.frames.index(place.frame) + 1 :]
    since = chain(place.frame.stmts[place.position :], *(frame.stmts for frame in inside))
    return load in builder.kept or place.is_past or any(frame.repeats for frame in inside) or any(map(changes_memory, since))


def _reads(expr: Any) -> Iterator[Any]:
    """The loads whose values an expression uses."""
    stack, seen = [(expr, False)], set()
    while stack:
        part = node, is_place = stack.pop()
        if part in seen:
            continue
        inside = _parts(node)
        if inside:
            seen.add(part)
            stack += inside
            if isinstance(node, ir.TensorLoad) and not is_place:
                yield node


_Part = tuple[Any, bool]
"""An operand, and whether it is a place."""


def _parts(expr: Any) -> list[_Part]:
    """The operands of an expression."""
    if type(expr) is not ir.Call or not isinstance(expr.op, ir.Op):
        return [(part, False) for part in operands(expr)]
    name = expr.op.name
    all_places, first_place = name.startswith(_OF_PLACES), name.startswith("tl.atomic_")
    return [
        (part, isinstance(part, ir.TensorLoad) and (all_places or first_place and position == 0))
        for position, part in enumerate(operands(expr))
    ]


def _with_variables(expr: Any, variables: Mapping[Any, Any]) -> Any:
    """An expression with variables in the place of loads."""
    made: dict[_Part, Any] = {(load, False): variable for load, variable in variables.items()}
    waiting = [(expr, False)] if variables else []
    while waiting:
        part = waiting.pop()
        inside = _parts(part[0]) if part not in made else []
        unknown = [each for each in inside if each not in made]
        if unknown:
            waiting += [part, *unknown]
        elif part not in made:
            parts = iter([made[each] for each in inside])
            made[part] = with_operands(part[0], lambda old, parts=parts: next(parts) if isinstance(old, ir.PrimExpr) else old)
    return made.get((expr, False), expr)
