"""Updates of reducers (``T.alloc_reducer``) by the iterations of a ``T.Parallel``: each counts once, in any order.

The front end has made sure that an update combines the old value with others by the reducer's own operation. So what one
iteration contributes is the value that it would store if the old one were the operation's identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.interpreter.access import both, check_written, locate
from tilelang.interpreter.compiler import Compiler, Step
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.numbers import Element, convert, element
from tilelang.interpreter.reductions import combination, identity
from tilelang.interpreter.state import Lanes
from tilelang.ir import nodes as ir
from tilelang.ir.visit import rebuilt


def update(c: Compiler, stmt: Any) -> Step:
    """The step of an update."""
    slot, op, span = c.view(stmt.buffer), c.reducers[stmt.buffer], stmt.span
    kind = element(str(stmt.buffer.dtype))
    value, indices = compiled(c, without_old(stmt.value, stmt.buffer, op, kind)), [compiled(c, index) for index in stmt.indices]
    combine = combination(op, kind)
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
    number = kind.value.type(identity(op, kind))
    same = ir.FloatImm(kind.name, float(number)) if kind.kind == "float" else ir.IntImm(kind.name, int(number))

    def replaced(expr: Any) -> Any:
        if isinstance(expr, ir.TensorLoad) and expr.source.same_as(buffer):
            return same
        return rebuilt(expr, replaced)

    return replaced(value)
