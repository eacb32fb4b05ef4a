"""Atomic updates of single elements and of tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import DtypeError, OperandError, OptionError
from tilelang.frontend.access import anchored_region, as_region, is_anchor
from tilelang.frontend.builder import require_kernel
from tilelang.frontend.conversion import convert, dtype_of
from tilelang.frontend.lanes import lanes_of
from tilelang.frontend.loops import each_element
from tilelang.frontend.values import as_expr
from tilelang.ignored import ignored
from tilelang.ir import nodes as ir
from tilelang.ir.expr import same
from tilelang.ir.memory import is_local
from tilelang.language import calls
from tilelang.language.memory import alloc_local
from tilelang.language.script import buffer_store
from tilelang.language.vectors import extract_lane
from tilelang.tileop.atomic import AtomicTile

_UPDATE_ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
_LOAD_ORDERS = ("relaxed", "acquire", "seq_cst")
_STORE_ORDERS = ("relaxed", "release", "seq_cst")


def _order(what: str, order: str | None, allowed: tuple[str, ...]) -> str:
    order = "relaxed" if order is None else order
    if order == "consume" and "acquire" in allowed:
        order = "acquire"  # which is what every compiler makes of it
    if order not in allowed:
        raise OptionError(f"{what}: memory_order={order!r} is none of {', '.join(allowed)}")
    return order


def _check(what: str, buffer: Any, updates: bool = True) -> None:
    """Memory has no atomic access of less than a byte; floats of 8 bits can be exchanged, but not updated.

    What each thread has for itself has none, either: the instructions take addresses of global and shared memory.
    """
    if is_local(buffer):
        raise OperandError(
            f"{what} takes memory that threads share, and each thread has its own {buffer.name}",
            hint=f"access its elements directly, as in `{buffer.name}[i] += x`",
        )
    dtype = canonical(str(buffer.dtype)).base
    kind = canonical(dtype)
    if kind.bits < 8 or updates and kind.is_float and kind.bits < 16:
        raise DtypeError(f"{what} cannot access elements of {dtype}, as {buffer.name} has", hint="use a wider type")


def _converted(load: Any, value: Any) -> Any:
    kind = str(load.source.dtype)
    return convert(as_expr(value, kind), kind)


def _tile(op: str, dst: Any, value: Any, order: str, use_tma: bool) -> None:
    """``value`` is a tile: each of its elements updates the element at its place in ``dst``."""
    what = f"T.atomic_{op}"
    source = as_region(value, what)
    target = anchored_region(dst, source.extents, what) if is_anchor(dst) else as_region(dst, what)
    _check(what, target.buffer)
    require_kernel(what).perform(AtomicTile(source, target, op, order, bool(use_tma)))


def _everywhere(op: str, target: Any, value: Any, order: str) -> None:
    """Every element of a tile is updated by one scalar."""
    _check(f"T.atomic_{op}", target.buffer)
    with each_element(require_kernel(f"T.atomic_{op}"), target.extents) as indices:
        load = ir.BufferLoad(target.buffer, [as_expr(low) + index for low, index in zip(target.mins, indices)])
        calls.effect(f"atomic_{op}", load, _converted(load, value), attrs={"memory_order": order})


def _update(op: str, dst: Any, value: Any, memory_order: str | None, return_prev: bool, use_tma: bool = False) -> Any:
    what = f"T.atomic_{op}"
    order = _order(what, memory_order, _UPDATE_ORDERS)
    if calls.is_tile(value):
        if return_prev:
            raise OperandError(f"{what}: return_prev=True needs a single element, not a tile")
        return _tile(op, dst, value, order, use_tma)
    if not return_prev and calls.is_tile(dst) and any(extent != 1 for extent in as_region(dst, what).extents):
        return _everywhere(op, as_region(dst, what), value, order)
    load = calls.element(dst, what)
    _check(what, load.source)
    emit = calls.value if return_prev else calls.effect
    return emit(f"atomic_{op}", load, _converted(load, value), attrs={"memory_order": order})


def atomic_add(
    dst: Any,
    value: Any,
    memory_order: str | None = None,
    return_prev: bool = False,
    use_tma: bool = False,
    annotations: Any = None,
) -> Any:
    """``dst += value``, atomically; for tiles, element by element.

    Args:
        dst: an element of global or shared memory; for a tile, a buffer, a slice, or the element where the region starts.
        value: a scalar, or a tile (a buffer or slice) of the extents of ``dst``.
        memory_order: ``"relaxed"`` (the default), ``"acquire"``, ``"release"``, ``"acq_rel"`` or ``"seq_cst"``.
        return_prev: give the value before the update (single elements only).
        use_tma: reduce tiles by the tensor memory accelerator.
        annotations: has no effect; a value warns.

    Returns:
        The element's value before the update with ``return_prev``, else None.

    Raises:
        CopyShapeError: the tiles differ in shape.
        CompileError: an unknown memory order; ``return_prev`` with a tile; a type of less than a byte, or a float of 8 bits; a
            variable or array of each thread.
    """
    ignored("T.atomic_add", annotations=annotations)
    return _update("add", dst, value, memory_order, return_prev, use_tma)


def atomic_max(dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False, annotations: Any = None) -> Any:
    """``dst = max(dst, value)``, atomically; arguments as in :func:`atomic_add`.

    Args:
        dst, value, memory_order, return_prev, annotations: as for :func:`atomic_add`.

    Returns:
        The element's value before the update with ``return_prev``, else None.

    Raises:
        CopyShapeError: the tiles differ in shape.
        CompileError: an unknown memory order; ``return_prev`` with a tile.
    """
    ignored("T.atomic_max", annotations=annotations)
    return _update("max", dst, value, memory_order, return_prev)


def atomic_min(dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False, annotations: Any = None) -> Any:
    """``dst = min(dst, value)``, atomically; arguments as in :func:`atomic_add`.

    Args:
        dst, value, memory_order, return_prev, annotations: as for :func:`atomic_add`.

    Returns:
        The element's value before the update with ``return_prev``, else None.

    Raises:
        CopyShapeError: the tiles differ in shape.
        CompileError: an unknown memory order; ``return_prev`` with a tile.
    """
    ignored("T.atomic_min", annotations=annotations)
    return _update("min", dst, value, memory_order, return_prev)


def atomic_or(dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False) -> Any:
    """``dst |= value`` on an integer element, atomically.

    Args:
        dst: an element of global or shared memory, of an integer type.
        value: a scalar; converted to the element's type.
        memory_order, return_prev: as for :func:`atomic_add`.

    Returns:
        The element's value before the update with ``return_prev``, else None.

    Raises:
        DtypeError: an element of a floating-point type, or an unknown memory order.
    """
    load = calls.element(dst, "T.atomic_or")
    if str(load.source.dtype).startswith(("float", "bfloat")):
        raise DtypeError(f"T.atomic_or takes integers, {load.source.name} is {load.source.dtype}")
    return _update("or", load, as_expr(value), memory_order, return_prev)


def _consecutive(lanes: int, dst: Any, value: Any, return_prev: bool) -> Any:
    name = f"atomic_addx{lanes}"
    target, source = (calls.address(_first(each, lanes), f"T.{name}") for each in (dst, value))
    _check(f"T.{name}", target.source)
    if str(target.source.dtype) != str(source.source.dtype):
        values = [load for lane in range(lanes) for load in _shifted(lane, source)]
        source = calls.address(_held(values, target.source.dtype), f"T.{name}")
    if return_prev:
        old = [
            calls.value("atomic_add", *_shifted(lane, target, source), attrs={"memory_order": "relaxed"}) for lane in range(lanes)
        ]
        return ir.Shuffle(old, [ir.IntImm("int32", lane) for lane in range(lanes)])
    return calls.effect(name, target, source, attrs={"memory_order": "relaxed"})


def _first(place: Any, lanes: int) -> Any:
    """The first of ``lanes`` elements that a ``T.Ramp`` names, or of those of an array that holds a vector; else ``place``."""
    if isinstance(place, ir.TensorLoad):
        *outer, last = place.indices
        is_row = isinstance(last, ir.Ramp) and same(last.stride, as_expr(1)) and lanes_of(last) == lanes
        return ir.BufferLoad(place.source, [*outer, last.base]) if is_row else place
    if calls.is_tile(place) or calls.is_address(place) or not isinstance(place, ir.PrimExpr) or lanes_of(place) != lanes:
        return place
    # A vector has no address.
    return _held([extract_lane(place, lane) for lane in range(lanes)], dtype_of(place).base)


def _held(values: Sequence[Any], dtype: Any) -> Any:
    """An array with these values, converted to its type."""
    held = alloc_local((len(values),), dtype)
    for lane, value in enumerate(values):
        buffer_store(held, value, [lane])
    return held


def _shifted(lane: int, *loads: Any) -> list[Any]:
    """The elements that lie ``lane`` places after the given ones."""
    return [ir.BufferLoad(load.source, [*list(load.indices)[:-1], load.indices[-1] + lane]) for load in loads]


def atomic_addx2(dst: Any, value: Any, return_prev: bool = False) -> Any:
    """Adds two consecutive elements at ``value`` to two at ``dst``, each atomically.

    Args:
        dst, value: the first element of each pair, a buffer that starts with it, or its ``T.Ramp``; the value is converted to
            the type of ``dst``, and may be a vector of two.
        return_prev: give the values before the update.

    Returns:
        With ``return_prev`` a vector of the two values before the update, else None.

    Raises:
        DtypeError: elements of less than a byte.
    """
    return _consecutive(2, dst, value, return_prev)


def atomic_addx4(dst: Any, value: Any, return_prev: bool = False) -> Any:
    """Adds four consecutive elements at ``value`` to four at ``dst``, each atomically.

    Args:
        dst, value: the first of each four elements, a buffer that starts with it, or its ``T.Ramp``; the value is converted to
            the type of ``dst``, and may be a vector of four.
        return_prev: give the values before the update.

    Returns:
        With ``return_prev`` a vector of the four values before the update, else None.

    Raises:
        DtypeError: elements of less than a byte.
    """
    return _consecutive(4, dst, value, return_prev)


def atomic_load(src: Any, memory_order: str = "seq_cst") -> Any:
    """The value of an element, read atomically.

    Args:
        memory_order: ``"relaxed"``, ``"acquire"`` (also ``"consume"``) or ``"seq_cst"``.
    """
    load = calls.element(src, "T.atomic_load")
    _check("T.atomic_load", load.source, updates=False)
    attrs = {"memory_order": _order("T.atomic_load", memory_order, _LOAD_ORDERS)}
    return calls.value("atomic_load", load, attrs=attrs)


def atomic_store(dst: Any, src: Any, memory_order: str = "seq_cst") -> None:
    """Sets an element to a scalar, atomically.

    Args:
        dst: an element of global or shared memory.
        src: a scalar; converted to the element's type.
        memory_order: ``"relaxed"``, ``"release"`` or ``"seq_cst"``.

    Raises:
        OperandError: ``src`` is a tile, or an unknown memory order.
    """
    if isinstance(src, ir.TensorRegion) or calls.is_tile(src):
        raise OperandError("T.atomic_store takes one value, not a tile")
    load = calls.element(dst, "T.atomic_store")
    _check("T.atomic_store", load.source, updates=False)
    attrs = {"memory_order": _order("T.atomic_store", memory_order, _STORE_ORDERS)}
    calls.effect("atomic_store", load, _converted(load, src), attrs=attrs)
