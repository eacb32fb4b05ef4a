"""Small constructors of loops and scratch buffers, shared by the lowering rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.memory import ARRAY

Body = Callable[[Any], Any]


def seq(*parts: Any) -> Any:
    """One statement of several; None and empty lists vanish, lists flatten. Nothing at all is a no-op."""
    flat = list(_flatten(parts))
    if not flat:
        return no_op()
    return flat[0] if len(flat) == 1 else ir.SeqStmt(flat)


def _flatten(parts: Iterable[Any]) -> Iterable[Any]:
    for part in parts:
        if part is None or is_no_op(part):
            continue
        if isinstance(part, (list, tuple)):
            yield from _flatten(part)
        elif isinstance(part, ir.SeqStmt):
            yield from _flatten(part.seq)
        else:
            yield part


def no_op() -> Any:
    """A statement that does nothing."""
    return ir.Evaluate(ir.IntImm("int32", 0))


def is_no_op(stmt: Any) -> bool:
    """Whether ``stmt`` is what :func:`no_op` makes."""
    return isinstance(stmt, ir.Evaluate) and isinstance(stmt.value, ir.IntImm)


def loop(name: str, extent: Any, body: Body) -> Any:
    """``for name in range(extent): body(name)``; no loop at all where the extent is 1, nothing where it is 0.

    Args:
        name: of the loop variable.
        extent: the number of iterations; a number or an expression.
        body: the statement for a value of the variable.
    """
    extent = as_int(extent)
    if extent == 1:
        return body(0)
    if extent == 0:
        return no_op()
    extent = constant(extent)
    var = ir.Var(name, extent.ty)
    each = body(var)
    return each if is_no_op(each) else ir.For(var, ir.IntImm(extent.ty, 0), extent, ir.ForKind.SERIAL, each)


def nest(extents: Sequence[Any], body: Callable[[list[Any]], Any], names: str = "ijklmn") -> Any:
    """A perfect nest of loops over ``extents``, the last one innermost; ``body`` gets the list of indices.

    Args:
        extents: the numbers of iterations, outermost first.
        body: the statement for a list of indices.
        names: one letter for each loop variable; further ones are numbered.
    """

    def level(axis: int, indices: list[Any]) -> Any:
        if axis == len(extents):
            return body(indices)
        name = names[axis] if axis < len(names) else f"i{axis}"
        return loop(name, extents[axis], lambda index: level(axis + 1, [*indices, index]))

    return level(0, [])


def when(condition: Any, then: Any, otherwise: Any = None) -> Any:
    """``if condition: then``; a condition of None is always true.

    Args:
        condition: a bool, an expression, or None.
        then, otherwise: statements; ``otherwise`` may be None.
    """
    if condition is None or as_int(condition) is True:
        return then
    return ir.IfThenElse(condition, then, otherwise)


def local(name: str, shape: Sequence[Any], dtype: str) -> Any:
    """A buffer for the body of one block.

    Args:
        name: of the buffer.
        shape: its extents; where the last one is not 1 it is aligned to a cache line.
        dtype: the element type.
    """
    align = 64 if as_int(shape[-1]) != 1 else 8
    return ir.decl_buffer(tuple(map(constant, shape)), dtype, name=name, layout=None, scope=ARRAY, data_alignment=align)


def alloc(*buffers: Any) -> list[Any]:
    """The statements that allocate ``buffers``."""
    return [ir.AllocBuffer(buffer) for buffer in buffers]


def zero(dtype: str) -> Any:
    """Zero of any scalar type."""
    return ir.FloatImm(dtype, 0.0) if dtype.startswith(("float", "bfloat")) else ir.IntImm(dtype, 0)


def cast(value: Any, dtype: str) -> Any:
    """``value`` converted to ``dtype``; itself where it has that type."""
    return value if str(value.ty) == dtype else ir.Cast(dtype, value)


REGISTER_LANES = "tl.register_lanes"
"""Annotation of a buffer that is to become vector registers; its value is their number of lanes. All indices are constants."""


def register_alloc(buffer: Any, lanes: int) -> Any:
    """The statement that allocates a buffer as vector registers."""
    return ir.AllocBuffer(buffer, {REGISTER_LANES: ir.IntImm("int32", lanes)})


def span(first: Any, lanes: int) -> Any:
    """The index of ``lanes`` consecutive elements."""
    return first if lanes == 1 else ir.Ramp(constant(first), ir.IntImm("int32", 1), lanes)


def splat(value: Any, lanes: int) -> Any:
    """A scalar in each of ``lanes`` lanes."""
    return value if lanes == 1 else ir.Broadcast(value, lanes)


def address_of(load: Any) -> Any:
    """The address of the element that a load reads."""
    return ir.Call(ir.Op.get("tirx.address_of"), [load], ret_ty="handle")


def extern_call(name: str, arguments: Iterable[Any], result: str, pure: bool = True) -> Any:
    """A call to a C function.

    Args:
        name: of the function.
        arguments: expressions.
        result: type of the value.
        pure: whether the call may be removed or repeated.

    Returns:
        The call, an expression.
    """
    op = "tirx.call_pure_extern" if pure else "tirx.call_extern"
    return ir.Call(ir.Op.get(op), [ir.StringImm(name), *arguments], ret_ty=result)
