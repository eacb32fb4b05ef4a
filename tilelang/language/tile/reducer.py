"""Reducers: accumulators that every thread adds to; ``T.finalize_reducer`` combines the threads' parts once.

total = T.alloc_reducer((rows,), "float32", op="sum")
T.reducer_init(total)
for i, j in T.Parallel(rows, columns):
    T.reducer_update(total[i], tile[i, j])
T.finalize_reducer(total, result)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from tilelang.dtypes import DType, canonical
from tilelang.errors import OperandError
from tilelang.frontend.access import as_region, assign_subscript
from tilelang.frontend.bindings import snapshot
from tilelang.frontend.builder import require_kernel
from tilelang.frontend.conversion import convert
from tilelang.frontend.loops import each_element
from tilelang.frontend.values import as_expr
from tilelang.ignored import ignored, unless
from tilelang.language import calls, limits, math
from tilelang.tileop.copy import Copy, Fill
from tilelang.tileop.reduce import FinalizeReducer


def _lowest(dtype: DType) -> Any:
    return -limits.infinity(dtype) if dtype.is_float else limits.min_value(dtype)


def _highest(dtype: DType) -> Any:
    return limits.infinity(dtype) if dtype.is_float else limits.max_value(dtype)


OPERATIONS: Mapping[str, tuple[Callable[[Any, Any], Any], Callable[[DType], Any]]] = {
    # name -> (what combines two values, its identity)
    "sum": (operator.add, lambda dtype: 0),
    "max": (math.max, _lowest),
    "min": (math.min, _highest),
    "bitand": (operator.and_, lambda dtype: -1 if dtype.kind == "int" else limits.max_value(dtype)),
    "bitor": (operator.or_, lambda dtype: 0),
    "bitxor": (operator.xor, lambda dtype: 0),
}


def _operation(what: str, buffer: Any) -> str:
    operation = require_kernel(what).reducers.get(buffer)
    if operation is None:
        raise OperandError(f"{what} takes a reducer of T.alloc_reducer")
    return operation


def reducer_init(reducer: Any, init: Any = None) -> None:
    """Begins a reduction: sets the reducer to the identity of its operation.

    Args:
        reducer: a buffer from ``T.alloc_reducer``.
        init: an initial value that takes part in the result once; the identity by default.
    """
    operation = _operation("T.reducer_init", reducer)
    builder, dtype = require_kernel("T.reducer_init"), canonical(str(reducer.dtype))
    region = as_region(reducer)
    neutral = convert(as_expr(OPERATIONS[operation][1](dtype), str(dtype)), str(dtype))
    seed = None if init is None else snapshot(builder, "seed", convert(as_expr(init, str(dtype)), str(dtype)))
    builder.perform(Fill(region, neutral))
    if seed is not None:
        # Each iteration belongs to one thread, so that an element gets the value once.
        with each_element(builder, region.extents) as place:
            reducer_update(reducer[place], seed)


def reducer_update(target: Any, value: Any) -> None:
    """Combines an element of a reducer with ``value``, in a loop of ``T.Parallel``; each iteration counts once."""
    load = calls.element(target, "T.reducer_update")
    combine, _ = OPERATIONS[_operation("T.reducer_update", load.source)]
    assign_subscript(load.source, tuple(load.indices), combine(load, as_expr(value, str(load.source.dtype))))


def finalize_reducer(reducer: Any, dst: Any = None, batch: int = 1, annotations: Any = None) -> None:
    """Combines what each thread accumulated in a reducer; afterwards every thread reads the complete result.

    Args:
        reducer: a buffer from ``T.alloc_reducer``.
        dst: a tile to put the result into.
        batch, annotations: have no effect; a value warns.

    Raises:
        OperandError: no reducer.
    """
    ignored("T.finalize_reducer", batch=unless(1, batch), annotations=annotations)
    operation = _operation("T.finalize_reducer", reducer)
    builder = require_kernel("T.finalize_reducer")
    builder.perform(FinalizeReducer(as_region(reducer), operation))
    if dst is not None:
        builder.perform(Copy(as_region(reducer), as_region(dst)))
