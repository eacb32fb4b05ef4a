"""What may be concluded from a condition inside the branch that it guards.

A fact must stay true throughout the branch, so what reads memory is none: the branch may store there. Nothing is concluded from
floats either, which TVM's analyzer takes for real numbers (``x != x`` would be false, and prove anything).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import tvm

from tilelang.ir import nodes as ir
from tilelang.ir.expr import involves_floats
from tilelang.ir.visit import walk_expr


@contextmanager
def assuming(analyzer: Any, condition: Any, holds: bool = True) -> Iterator[None]:
    """Tells ``analyzer`` what follows from ``condition`` (from its negation unless ``holds``), as long as the context lasts."""
    with ExitStack() as stack:
        for fact in _facts(condition, holds):
            try:
                stack.enter_context(analyzer.constraint_scope(fact))
            except tvm.error.InternalError:
                continue
        yield


def proves(analyzer: Any, condition: Any) -> bool:
    """Whether ``analyzer`` knows that ``condition`` holds."""
    if isinstance(condition, bool):
        return condition
    try:
        return not involves_floats(condition) and analyzer.can_prove(condition)
    except tvm.error.InternalError:  # the analyzer folds some quotients before it looks at the divisor
        return False


def _facts(condition: Any, holds: bool) -> Iterator[Any]:
    """The parts of a conjunction that are facts."""
    if isinstance(condition, ir.Not):
        yield from _facts(condition.a, not holds)
    elif isinstance(condition, ir.And if holds else ir.Or):
        yield from _facts(condition.a, holds)
        yield from _facts(condition.b, holds)
    elif not involves_floats(condition) and not any(isinstance(node, (ir.TensorLoad, ir.Call)) for node in walk_expr(condition)):
        yield condition if holds else ir.Not(condition)
