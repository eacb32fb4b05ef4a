"""``T.reduce_*``, ``T.cumsum``, ``T.cummax``, ``T.finalize_reducer``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.interpreter.boxes import Box, box_of, check_overlap, read, write
from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.numbers import Element, convert
from tilelang.interpreter.operators.gemm import one_for_all
from tilelang.interpreter.operators.table import rule
from tilelang.interpreter.reductions import combination, identity
from tilelang.interpreter.state import Lanes
from tilelang.tileop.reduce import FinalizeReducer, Reduce
from tilelang.tileop.scan import Scan

Effect = Callable[[Lanes], Any]


def _operand(x: Lanes, box: Box, target: Box) -> np.ndarray:
    """The values of a tile; with an axis of threads in front where each thread reduces an array of its own."""
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
        combine, axis = combination(record.kind, kind, record.nan_propagate), record.dim - len(src.extents)
        result = combine.reduce(_wide(value, kind), axis=axis, initial=identity(record.kind, kind))
        result = np.asarray(result).reshape((*value.shape[: value.ndim - len(src.extents)], *dst.extents))
        if not record.clear:
            result = combine(_operand(x, dst, dst).astype(result.dtype), result)
        write(x, dst, result.astype(kind.value))

    return effect


@rule(Scan)
def _scan(c: Compiler, record: Scan) -> Effect:
    source, target = box_of(c, record.src), box_of(c, record.dst)

    def effect(x: Lanes) -> None:
        src, dst = source(x), target(x)
        kind = dst.view.kind
        check_overlap(x, src, dst, "scan")
        value, axis = _wide(convert(_operand(x, src, dst), src.view.kind, kind), kind), record.dim - len(src.extents)
        if record.reverse:
            value = np.flip(value, axis)
        running = combination(record.kind, kind).accumulate(value, axis=axis)
        running = np.flip(running, axis) if record.reverse else running
        running = np.asarray(running).reshape((*running.shape[: running.ndim - len(src.extents)], *dst.extents))
        write(x, dst, running.astype(kind.value))

    return effect


@rule(FinalizeReducer)
def _finalize(c: Compiler, record: FinalizeReducer) -> Effect:
    """Nothing: a reducer is one tile here, which has all that iterations gave it."""
    return lambda x: None
