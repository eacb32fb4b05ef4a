"""Parts of expressions that TVM's analyzer misjudges, and how they are hidden from it.

The analyzer calculates with mathematical numbers, where the language does not:

- floats are real numbers to it: ``x != x`` would be false, and is true for NaN;
- integers do not wrap around: ``uint8(i + 200)`` would be at least 200;
- no divisor is zero; in the language a division by zero gives zero, so a divisor counts only where it is certainly not zero;
- for a negative divisor it negates both operands, which overflows for the least number of a type;
- a shift to the left is a product: ``1 << i`` would be positive, also where bits leave.

It is right about positions, which are int32 and int64 and do not overflow. Any other part of an expression is replaced by a
variable, its *stand-in*, of which the analyzer knows an interval at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.interval import UNKNOWN, Interval, Ranges, interval_of, overflows
from tilelang.ir.visit import operands, reads_memory, rebuilt, walk_expr

_TYPES = ("float", "bfloat", "tfloat", "uint", "int4", "int8", "int16")
_QUOTIENTS = (ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod)


def is_misjudged(expr: Any) -> bool:
    """Whether a value is a float, or of an integer type in which arithmetic wraps around."""
    return isinstance(expr, ir.PrimExpr) and str(getattr(expr, "ty", "")).startswith(_TYPES)


def is_narrowed(expr: Any, ranges: Ranges) -> bool:
    """Whether an expression takes the low 32 bits of an int64 from memory, or of one that is known to be larger."""
    if type(expr) is not ir.Cast or str(expr.ty) != "int32" or str(expr.value.ty) != "int64":
        return False
    return reads_memory(expr.value) or overflows(expr, ranges)


def hidden(expr: Any, stand_in: Callable[[Any], Any], is_positive: Callable[[Any], bool], ranges: Ranges) -> Any:
    """An expression for the analyzer.

    Args:
        expr: the program's expression.
        stand_in: gives the expression that takes the place of a part which the analyzer misjudges, of the part's type.
        is_positive: whether a divisor that is no constant is certainly positive.
        ranges: intervals of variables.

    Returns:
        ``expr`` itself where it has no such part.
    """

    def is_hidden(part: Any) -> bool:
        if type(part) is ir.LShift and None in interval_of(part, ranges):
            return True
        return is_misjudged(part) or is_narrowed(part, ranges) or (type(part) in _QUOTIENTS and is_misjudged_divisor(part.b))

    def is_misjudged_divisor(divisor: Any) -> bool:
        if isinstance(divisor, ir.IntImm):
            return int(divisor.value) < 0
        return reads_memory(divisor) or not is_positive(divisor)

    def seen(part: Any) -> Any:
        if isinstance(part, ir.TensorLoad):
            return rebuilt(part, seen) if not is_misjudged(part) else stand_in(part)
        # A comparison of floats is a bool, and hidden all the same: what it compares is not for the analyzer.
        if is_hidden(part) or any(map(is_misjudged, operands(part))):
            return stand_in(part)
        # A Let is hidden as a whole. The analyzer remembers the value of its variable, in which there would be a stand-in of
        # this query that means nothing in the next one.
        if isinstance(part, (ir.Call, ir.Let)) and any(map(is_hidden, walk_expr(part))):
            return stand_in(part)
        return rebuilt(part, seen) if operands(part) else part

    return seen(expr) if any(map(is_hidden, walk_expr(expr))) else expr


class StandIns:
    """The variables that stand for parts of expressions: one for all parts of the same structure and interval.

    The interval counts since the same part may have a narrower one below a condition: what the analyzer learns about it there
    must not be used elsewhere.

    Attributes:
        parts: variable -> the part that it stands for.
    """

    def __init__(self) -> None:
        self.parts: dict[Any, Any] = {}
        self._known: dict[tuple[int, Interval], list[tuple[Any, Any]]] = {}

    def variable(self, part: Any, interval: Interval = UNKNOWN) -> Any:
        """The variable of a part of which an interval is known."""
        alike = self._known.setdefault((tvm_ffi.structural_hash(part), interval), [])
        found = next((var for other, var in alike if tvm_ffi.structural_equal(part, other)), None)
        if found is None:
            found = ir.Var(f"part_{len(self.parts)}", part.ty)
            alike.append((part, found))
            self.parts[found] = part
        return found


def restored(expr: Any, parts: Mapping[Any, Any]) -> Any:
    """An expression with the parts in place of their variables."""
    return tvm_ffi.structural_map(expr, [(ir.Var, lambda var: parts.get(var, var))]) if parts else expr
