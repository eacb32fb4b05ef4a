"""Vectors of a few elements: consecutive indices, repeated values, and accesses of 4 to 32 bytes at once.

A vector is assigned to consecutive elements (``A[T.Ramp(i, 1, 4)] = v``, ``A[i : i + 4] = v``); arithmetic works lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilelang.dtypes import canonical, vector
from tilelang.errors import OperandError, OptionError, RunTimeValueError, ShapeError
from tilelang.frontend.access import assign_subscript, index_expr
from tilelang.frontend.builder import current, require_kernel
from tilelang.frontend.lanes import lanes_of, pick
from tilelang.frontend.values import as_expr, is_symbolic
from tilelang.ir import nodes as ir
from tilelang.language import calls
from tilelang.language.casts import reinterpret
from tilelang.language.math import condition, if_then_else


def Ramp(base: Any, stride: Any, lanes: int) -> Any:
    """The vector ``base, base + stride, …`` of ``lanes`` integers; as an index, that many elements.

    Elements of an index that may be negative count from the end of the axis.

    Args:
        base, stride: integers or integer expressions.
        lanes: a compile-time integer.

    Returns:
        An int32 vector.
    """
    return ir.Ramp(index_expr(base), index_expr(stride), int(lanes))


def Broadcast(value: Any, lanes: int) -> Any:
    """The vector of ``lanes`` times ``value``."""
    return ir.Broadcast(as_expr(value), int(lanes))


def Shuffle(vectors: Sequence[Any], indices: Sequence[int]) -> Any:
    """The elements at ``indices`` of vectors (or scalars) put one after the other; a scalar where one is asked for.

    Raises:
        OptionError: an index beyond the elements.
    """
    parts = [as_expr(part) for part in vectors]
    places = [int(getattr(index, "value", index)) for index in indices]
    if not all(0 <= place < sum(map(lanes_of, parts)) for place in places):
        raise OptionError(f"T.Shuffle: {places} are not all indices of {sum(map(lanes_of, parts))} elements")
    if len(places) == 1:
        return pick(current("T.Shuffle"), parts, places[0])
    return ir.Shuffle(parts, [ir.IntImm("int32", place) for place in places])


def extract_lane(vector: Any, lane: Any) -> Any:
    """One element of a vector.

    Raises:
        CompileError: ``vector`` is a scalar, or ``lane`` is no compile-time index of it.
    """
    if is_symbolic(lane):
        raise RunTimeValueError("T.extract_lane needs a lane that is known at compile time")
    if lanes_of(as_expr(vector)) == 1:
        raise OperandError(f"T.extract_lane takes a vector, got {as_expr(vector).ty}")
    return Shuffle([vector], [lane])


def _place(target: Any, bits: int, what: str) -> tuple[Any, tuple[Any, ...], int]:
    """The buffer, the indices of ``bits`` bits of it from the first element of ``target`` on, and how many elements these are."""
    first = calls.address(target, what)
    buffer = first.source
    count, rest = divmod(bits, canonical(str(buffer.dtype)).bits)
    if count == 0 or rest:
        raise ShapeError(f"{what}: {bits} bits are not a whole number of {buffer.dtype} elements")
    *outer, last = first.indices
    return buffer, (*outer, last if count == 1 else ir.Ramp(last, ir.IntImm("int32", 1), count)), count


def _word(bits: int) -> str:
    """The type that an access of ``bits`` bits has."""
    return str(vector("uint32", bits // 32))


def _loader(name: str, bits: int, where: str) -> Callable[..., Any]:
    def load(src: Any, pred: Any = None) -> Any:
        buffer, indices, count = _place(src, bits, f"T.{name}")
        loaded = ir.BufferLoad(buffer, list(indices), current().span())
        if pred is not None:
            zero = as_expr(0, str(buffer.dtype))
            loaded = if_then_else(condition(pred), loaded, zero if count == 1 else ir.Broadcast(zero, count))
        return reinterpret(loaded, _word(bits))

    load.__name__ = load.__qualname__ = name
    load.__doc__ = f"""{bits} bits of {where} memory, from the first element of ``src`` on, as ``{_word(bits)}``.

    Args:
        src: an element, a region or a buffer.
        pred: where it does not hold, nothing is read and the result is zero.

    Raises:
        CompileError: {bits} bits are not a whole number of elements.
    """
    return load


def _storer(name: str, bits: int, where: str) -> Callable[..., None]:
    def store(dst: Any, value: Any, pred: Any = None) -> None:
        buffer, indices, count = _place(dst, bits, f"T.{name}")
        builder = require_kernel(f"T.{name}")
        bits_of_value = reinterpret(as_expr(value), vector(canonical(str(buffer.dtype)).base, count))
        if pred is None:
            assign_subscript(buffer, indices, bits_of_value)
            return
        span, test = builder.span(), condition(pred)
        with builder.scope("branch", lambda body: ir.IfThenElse(test, body, None, span)):
            assign_subscript(buffer, indices, bits_of_value)

    store.__name__ = store.__qualname__ = name
    store.__doc__ = f"""Writes {bits} bits to {where} memory, from the first element of ``dst`` on.

    Args:
        dst: an element, a region or a buffer.
        value: {bits} bits of any type.
        pred: where it does not hold, nothing is written.

    Raises:
        CompileError: ``value`` has another size, or {bits} bits are not a whole number of elements.
    """
    return store


for _bits in (32, 64, 128, 256):
    globals()[f"ldg{_bits}"] = _loader(f"ldg{_bits}", _bits, "global")
    globals()[f"stg{_bits}"] = _storer(f"stg{_bits}", _bits, "global")
for _bits in (32, 64, 128):
    globals()[f"lds{_bits}"] = _loader(f"lds{_bits}", _bits, "shared")
    globals()[f"sts{_bits}"] = _storer(f"sts{_bits}", _bits, "shared")
