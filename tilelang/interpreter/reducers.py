"""Updates of reducers (``T.alloc_reducer``) by the iterations of a ``T.Parallel``: each counts once, in any order.

The front end has made sure that an update combines the old value with others by the reducer's own operation. So what one
iteration contributes is the value that it would store if the old one were the operation's identity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilelang.interpreter.access import both, check_written, locate
from tilelang.interpreter.compiler import Compiler, Step
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.numbers import Element, convert, element
from tilelang.interpreter.state import Lanes
from tilelang.ir import nodes as ir
from tilelang.ir.visit import rebuilt

_OPERATIONS: Mapping[str, tuple[np.ufunc, np.ufunc]] = {
    # operation -> NumPy's on integers, on floats
    "sum": (np.add, np.add),
    "max": (np.maximum, np.fmax),
    "min": (np.minimum, np.fmin),
    "bitand": (np.bitwise_and, np.bitwise_and),
    "bitor": (np.bitwise_or, np.bitwise_or),
    "bitxor": (np.bitwise_xor, np.bitwise_xor),
}


def neutral(op: str, kind: Element) -> Any:
    """The identity of an operation."""
    if kind.kind == "float":
        return kind.value.type({"max": -np.inf, "min": np.inf}.get(op, 0))
    ones = -1 if kind.kind == "int" else (1 << kind.bits) - 1
    low = -(1 << (kind.bits - 1)) if kind.kind == "int" else 0
    high = (1 << (kind.bits - (kind.kind == "int"))) - 1
    return kind.value.type({"max": low, "min": high, "bitand": ones}.get(op, 0))


def update(c: Compiler, stmt: Any) -> Step:
    """The step of an update."""
    slot, op, span = c.view(stmt.buffer), c.reducers[stmt.buffer], stmt.span
    kind = element(str(stmt.buffer.dtype))
    value, indices = compiled(c, without_old(stmt.value, stmt.buffer, op, kind)), [compiled(c, index) for index in stmt.indices]
    combine = _OPERATIONS[op][kind.kind == "float"]
    wide = element("float64") if kind.kind == "float" else kind

    def run(x: Lanes) -> bool:
        x.begin(span)
        view, given = x.views[slot], value(x)
        at, inside = locate(x, view, [index(x) for index in indices])
        active = both(x.mask, inside)
        at, given = np.broadcast_to(at, (x.lanes,)), np.broadcast_to(given, (x.lanes,))
        if active is not True:
            at, given = at[active], given[active]
        if at.size:
            if view.storage.written is not None and x.checks:
                check_written(x, view, 0, at, True)
            _combine(view, at, given.astype(wide.value), combine, wide)
        return False

    return Step(run)


def _combine(view: Any, at: np.ndarray, given: np.ndarray, combine: Callable[..., Any], wide: Element) -> None:
    places, which = np.unique(at, return_inverse=True)
    total = convert(view.read(0, places), view.kind, wide)
    combine.at(total, which, given)
    view.write(0, places, convert(total, wide, view.kind))


def without_old(value: Any, buffer: Any, op: str, kind: Element) -> Any:
    """An expression with the loads of a buffer replaced by the identity of an operation.

    Args:
        value: the expression.
        buffer: the reducer.
        op: its operation.
        kind: type of its elements.
    """
    number = neutral(op, kind)
    same = ir.FloatImm(kind.name, float(number)) if kind.kind == "float" else ir.IntImm(kind.name, int(number))

    def replaced(expr: Any) -> Any:
        if isinstance(expr, ir.TensorLoad) and expr.source.same_as(buffer):
            return same
        return rebuilt(expr, replaced)

    return replaced(value)
