"""Finds in a program what it assumes of every call: ``T.assume`` over sizes and integer arguments."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from typing import Any

from tilelang.assumptions import Assumption
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.host_value import dynamic_variables, host_names, host_value
from tilelang.ir.span import location_of, portable
from tilelang.ir.text import unmet_text
from tilelang.ir.visit import any_statement, conjuncts
from tilelang.tileop.thread import is_jump
from tilelang.transform.substitute import substitute


def assumed(stmt: Any) -> Any:
    """The condition of a ``T.assume``; None for any other statement."""
    value: Any = stmt.value if isinstance(stmt, ir.Evaluate) else None
    is_assumption = isinstance(value, ir.Call) and isinstance(value.op, ir.Op) and value.op.name == "tirx.assume"
    return value.args[0] if is_assumption else None


def assumptions(func: Any) -> tuple[Assumption, ...]:
    """The assumptions of a program that hold for a call or not, in order.

    Every call reaches them: they are below no condition and in no loop that may be skipped, and are over what the host knows.
    The others (over loaded values, say) are the kernel's.
    """
    names = host_names(func)
    found = (
        _assumption(host_value(condition, names), unmet_text(stmt.value, part), stmt.span)
        for stmt, part, condition in _checked(func)
    )
    return (*_widths(func), *found)


def facts_of_calls(func: Any) -> tuple[Any, ...]:
    """The same conditions as expressions over sizes and integer arguments: they hold wherever a kernel of the program runs."""
    return tuple(condition for _, _, condition in _checked(func))


def _checked(func: Any) -> Iterator[tuple[Any, Any, Any]]:
    """What every call is checked for: the statement, the part of its condition, and that part over what the host knows."""
    values, names = {}, host_names(func)
    for stmt in _always(func.body):
        if isinstance(stmt, ir.Bind):
            values[stmt.var] = substitute(stmt.value, values)
        condition = assumed(stmt)
        for part in conjuncts(condition) if condition is not None else ():
            over_host = substitute(part, values)
            if host_value(over_host, names) is not None:
                yield stmt, part, over_host


def _widths(func: Any) -> Iterator[Assumption]:
    """That sizes and strides of int32 are numbers of that type: callers pass them in 64 bits."""
    for var in dynamic_variables(func):
        name = str(var.name)
        if str(var.ty) == "int32":
            fits = ("min", ("le", 0, name), ("le", name, 2**31 - 1))
            yield Assumption(fits, f'{name} does not fit int32, its type: declare T.dynamic("{name}", "int64")')


def _assumption(condition: Any, message: str, span: Any) -> Assumption:
    place = location_of(span)
    if place is None:
        return Assumption(condition, message)
    return Assumption(condition, message, portable(place.file), place.line, linecache.getline(place.file, place.line).strip())


def _always(stmt: Any) -> Iterator[Any]:
    """The statements that every call executes, in order: those before any jump."""
    if isinstance(stmt, ir.SeqStmt):
        for child in stmt.seq:
            yield from _always(child)
            if any_statement(child, is_jump):
                return
    elif isinstance(stmt, ir.AttrStmt) and stmt.attr_key != "tl.warp_group" or isinstance(stmt, ir.For) and _runs(stmt):
        yield from _always(stmt.body)
    else:
        yield stmt


def _runs(loop: Any) -> bool:
    extent = as_int(loop.extent)
    return isinstance(extent, int) and extent > 0
