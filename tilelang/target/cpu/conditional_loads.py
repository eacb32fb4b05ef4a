"""Loads that C code makes under a condition, which GCC before 14 may give to each other's places.

GCC turns ``condition ? A[i] : 0`` in a loop into a masked load. Where one iteration has several (an inner loop that was
unrolled, or several statements) and stores their values in another order than they have in memory, it forms one vector of them
and drops the permutation (GCC bug tree-optimization/114375). Such a load is ``volatile`` for these compilers, so that it stays
one load of one element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.visit import variables

QUALIFIER = "tl_single"
DEFINITION = f"""/* GCC before 14 mixes up the places of conditional loads (bug 114375). */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 14
#define {QUALIFIER} volatile
#else
#define {QUALIFIER}
#endif"""

_UNROLLED = 16
"""Iterations of a loop that GCC unrolls completely (its parameter ``max-completely-peel-times``)."""


def is_unrolled(loop: Any) -> bool:
    """Whether a compiler may unroll a loop completely."""
    extent = as_int(loop.extent)
    return isinstance(extent, int) and extent <= _UNROLLED


def may_be_grouped(indices: Sequence[Any], innermost: Any | None) -> bool:
    """Whether a compiler may see several loads of one iteration as a group, whose order it may lose.

    Args:
        indices: of the element.
        innermost: the loop around the load; None for straight-line code.
    """
    if innermost is None or is_unrolled(innermost) or not indices:
        return True
    *outer, last = indices
    variable = innermost.loop_var
    return any(_depends(index, variable) for index in outer) or not _runs_along(last, variable)


def _depends(index: Any, variable: Any) -> bool:
    return any(var.same_as(variable) for var in variables(constant(index)))


def _runs_along(index: Any, variable: Any) -> bool:
    """Whether an index is a loop variable and something that does not depend on it: neighbours in neighbouring iterations."""
    if isinstance(index, ir.Add):
        moving = [part for part in (index.a, index.b) if _depends(part, variable)]
        return len(moving) == 1 and _runs_along(moving[0], variable)
    if isinstance(index, ir.Sub):
        return not _depends(index.b, variable) and _runs_along(index.a, variable)
    return isinstance(index, ir.Var) and index.same_as(variable)
