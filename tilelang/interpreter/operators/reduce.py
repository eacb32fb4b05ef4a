"""``T.reduce_*``, ``T.cumsum``, ``T.cummax``, ``T.finalize_reducer``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilelang.interpreter.boxes import Box, box_of, read, write
from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.numbers import Element, convert
from tilelang.interpreter.operators.gemm import one_for_all
from tilelang.interpreter.operators.table import rule
from tilelang.interpreter.state import Lanes
from tilelang.tileop.reduce import FinalizeReducer, Reduce
from tilelang.tileop.scan import Scan

Effect = Callable[[Lanes], Any]

_FOLDS: Mapping[str, tuple[np.ufunc, np.ufunc]] = {
    # kind -> NumPy's operation on integers, on floats (of a number and NaN, max and min give the number)
    "sum": (np.add, np.add),
    "max": (np.maximum, np.fmax),
    "min": (np.minimum, np.fmin),
    "bitand": (np.bitwise_and, np.bitwise_and),
    "bitor": (np.bitwise_or, np.bitwise_or),
    "bitxor": (np.bitwise_xor, np.bitwise_xor),
}


def fold(kind: str, element: Element, nan_propagate: bool = False) -> np.ufunc:
    """The function that combines two values in a reduction.

    Args:
        kind: ``"sum"``, ``"max"`` and the like, as for ``T.reduce``.
        element: type of the values.
        nan_propagate: whether a NaN wins; max and min of floats ignore it otherwise.
    """
    of_integers, of_floats = _FOLDS[kind.removeprefix("abs")]
    if element.kind != "float":
        return of_integers
    return of_integers if nan_propagate else of_floats


def _operand(x: Lanes, box: Box, target: Box) -> np.ndarray:
    """The values of a tile; with a row a thread where each computes a result of its own from an array of its own."""
    value = read(x, box)
    return value if target.view.storage.private else one_for_all(x, value, len(box.extents))


def _wide(value: np.ndarray, element: Element) -> np.ndarray:
    """Values in the type in which they are summed: float64 for floats, so that the order of the sum does not matter."""
    return value.astype(np.float64) if element.kind == "float" else value


@rule(Reduce)
def _reduce(c: Compiler, record: Reduce) -> Effect:
    source, target = box_of(c, record.src), box_of(c, record.dst)

    def effect(x: Lanes) -> None:
        src, dst = source(x), target(x)
        kind = dst.view.kind
        value = convert(_operand(x, src, dst), src.view.kind, kind)
        value = np.abs(value) if record.kind.startswith("abs") else value
        combine, axis = fold(record.kind, kind, record.nan_propagate), record.dim - len(src.extents)
        result = combine.reduce(_wide(value, kind), axis=axis, initial=_start(record.kind, kind))
        result = np.asarray(result).reshape(*value.shape[: value.ndim - len(src.extents)], *dst.extents)
        if not record.clear:
            result = combine(_operand(x, dst, dst).astype(result.dtype), result)
        write(x, dst, result.astype(kind.value))

    return effect


def _start(kind: str, element: Element) -> Any:
    """The identity of a reduction, with which it begins."""
    name = kind.removeprefix("abs")
    if name in ("max", "min"):
        low, high = _limits(element)
        return (0 if kind == "absmax" else low) if name == "max" else high
    return -1 if name == "bitand" and element.kind == "int" else _ones(element) if name == "bitand" else 0


def _limits(element: Element) -> tuple[Any, Any]:
    if element.kind == "float":
        return -np.inf, np.inf
    if element.kind == "bool":
        return False, True
    low = -(1 << (element.bits - 1)) if element.kind == "int" else 0
    return low, (1 << (element.bits - (element.kind == "int"))) - 1


def _ones(element: Element) -> Any:
    return True if element.kind == "bool" else (1 << element.bits) - 1


@rule(Scan)
def _scan(c: Compiler, record: Scan) -> Effect:
    source, target = box_of(c, record.src), box_of(c, record.dst)

    def effect(x: Lanes) -> None:
        src, dst = source(x), target(x)
        kind = dst.view.kind
        value, axis = _wide(convert(_operand(x, src, dst), src.view.kind, kind), kind), record.dim - len(src.extents)
        if record.reverse:
            value = np.flip(value, axis)
        running = fold(record.kind, kind).accumulate(value, axis=axis)
        running = np.flip(running, axis) if record.reverse else running
        running = np.asarray(running).reshape(*running.shape[: running.ndim - len(src.extents)], *dst.extents)
        write(x, dst, running.astype(kind.value))

    return effect


@rule(FinalizeReducer)
def _finalize(c: Compiler, record: FinalizeReducer) -> Effect:
    """Nothing: a reducer is one tile here, which has all that iterations gave it."""
    return lambda x: None
