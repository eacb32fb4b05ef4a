"""Python's operators in a kernel: unchanged for ordinary values, expressions for run-time values.

``and``, ``or``, ``not``, ``in``, chained comparisons and conditional expressions are here because Python does not let an object
override them; differences, divisions and powers because TVM's operators refuse them, or compute them wrongly, for some operands.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import FLOAT_DIVISION, INTEGER_DIVISION, DtypeError, MisplacedError, OperandError, RunTimeValueError
from tilelang.frontend.access import is_buffer
from tilelang.frontend.builder import current, noted
from tilelang.frontend.conversion import convert, wrapped
from tilelang.frontend.copies import with_values
from tilelang.frontend.frames import Stored
from tilelang.frontend.values import as_expr, as_operand, is_symbolic
from tilelang.ir import nodes as ir
from tilelang.ir.interval import is_within
from tilelang.ir.memory import is_global
from tilelang.ir.visit import walk_expr
from tilelang.provided import provided
from tilelang.tileop.thread import INTRINSICS, intrinsic_name, is_exchange_of_all

Operator = Callable[[Any, Any], Any]
Term = Callable[[], Any]
"""An operand as a function, which is called only if Python would evaluate the operand."""


def constant(value: Any) -> Any:
    """The Python value of a constant expression; anything else as it is."""
    if isinstance(value, ir.IntImm):
        return bool(value.value) if str(value.ty) == "bool" else int(value.value)
    return float(value.value) if isinstance(value, ir.FloatImm) else value


def boolean(value: Any) -> Any:
    """The boolean expression of whether ``value`` is true, which a number is unless it is zero."""
    expr = as_expr(value)
    kind = str(expr.ty)
    if kind == "bool":
        return expr
    return as_operand(expr != ir.IntImm(expr.ty, 0)) if "int" in kind else convert(expr, "bool")


# Divisions and powers ------------------------------------------------------------------------------------------------


def divide(left: Any, right: Any) -> Any:
    """``left / right``; between run-time integers it is ambiguous and refused."""
    left, right = as_operand(left), as_operand(right)
    if is_symbolic(left) or is_symbolic(right):
        kinds = [str(value.ty) if hasattr(value, "ty") else type(value).__name__ for value in (left, right)]
        if all(kind.startswith(("int", "uint", "bool")) for kind in kinds):
            raise DtypeError("/ between two run-time integers", hint=INTEGER_DIVISION)
    return constant(left) / constant(right)


def floor_divide(left: Any, right: Any) -> Any:
    """``left // right``."""
    left, right = _division(as_operand(left), as_operand(right))
    return left // right


def modulo(left: Any, right: Any) -> Any:
    """``left % right``."""
    left, right = _division(as_operand(left), as_operand(right))
    return left % right


def power(left: Any, right: Any) -> Any:
    """``left ** right``."""
    left, right = as_operand(left), as_operand(right)
    return provided("pow")(left, right) if is_symbolic(left) or is_symbolic(right) else constant(left) ** constant(right)


def subtract(left: Any, right: Any) -> Any:
    """``left - right``; TVM refuses to compute zero less another unsigned constant."""
    left, right = as_operand(left), as_operand(right)
    if _is_integer(left) and _is_integer(right) and constant(left) == 0:
        kind = str(getattr(left + right, "ty", ""))
        if kind.startswith("uint"):
            return ir.IntImm(kind, wrapped(-constant(right), canonical(kind)))
    return left - right


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, ir.IntImm))


def _division(left: Any, right: Any) -> tuple[Any, Any]:
    """The operands of ``//`` and ``%``; a run-time float is refused."""
    if any(is_symbolic(value) and "float" in str(value.ty) for value in (left, right)):
        raise DtypeError("// and % of floating-point values", hint=FLOAT_DIVISION)
    return left, right


def _augmented(name: str, of_values: Operator) -> Operator:
    """One of Python's operators before ``=``, which changes an object that can be changed in place, such as a list.

    Args:
        name: of the method that does so.
        of_values: the operator, for all other objects.
    """
    method = f"__i{name}__"

    def apply(left: Any, right: Any) -> Any:
        left, right = as_operand(left), as_operand(right)
        if not hasattr(left, method):
            return of_values(left, right)
        current().stored.append(Stored(left))
        return getattr(operator, method)(left, with_values(right))

    return apply


BINARY: Mapping[str, Operator] = {
    "Div": divide,
    "Pow": power,
    "FloorDiv": floor_divide,
    "Mod": modulo,
    "Add": lambda left, right: with_values(left + right),
    "Sub": subtract,
    "Mult": operator.mul,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "MatMult": operator.matmul,
}
"""The function of ``left op right``, by the name of the operator's class in Python's syntax tree: TVM's expressions override most
as they should."""

AUGMENTED: Mapping[str, Operator] = {
    name: _augmented(method, BINARY[name])
    for name, method in {
        "Div": "truediv",
        "Pow": "pow",
        "FloorDiv": "floordiv",
        "Mod": "mod",
        "Add": "add",
        "Sub": "sub",
        "Mult": "mul",
        "LShift": "lshift",
        "RShift": "rshift",
        "BitAnd": "and",
        "BitOr": "or",
        "BitXor": "xor",
        "MatMult": "matmul",
    }.items()
}
"""The function of ``target op= operand``, by the same name."""


# Logic ---------------------------------------------------------------------------------------------------------------


def and_(*terms: Term) -> Any:
    """``a and b``; run-time operands combine to a boolean expression."""
    return _logical(terms, stop=False, combine=ir.And)


def or_(*terms: Term) -> Any:
    """``a or b``."""
    return _logical(terms, stop=True, combine=ir.Or)


def value_of_and(*terms: Term) -> Any:
    """``a and b`` where its value is used: the value of the operand that decides, as in Python; of conditions a condition."""
    return _deciding_value(terms, stop=False, combine=and_)


def value_of_or(*terms: Term) -> Any:
    """``a or b`` where its value is used."""
    return _deciding_value(terms, stop=True, combine=or_)


def _deciding_value(terms: tuple[Term, ...], stop: bool, combine: Operator) -> Any:
    """The value of the first operand whose truth is ``stop``, or else of the last one.

    Args:
        terms: the operands.
        stop: False for ``and``, True for ``or``.
        combine: of two conditions: their conjunction or disjunction.
    """
    value = as_operand(terms[0]())
    if len(terms) == 1:
        return value
    if not is_symbolic(value):
        return value if bool(constant(value)) is stop else _deciding_value(terms[1:], stop, combine)
    # Python would compute it only where the first one does not decide; the kernel computes both, so it must change nothing.
    other = _skippable(lambda: _deciding_value(terms[1:], stop, combine), _unless(value, stop))
    if _is_condition(value) and _is_condition(other):
        return combine(lambda: value, lambda: other)
    return provided("if_then_else")(boolean(value), *((value, other) if stop else (other, value)))


def _is_condition(value: Any) -> bool:
    return isinstance(constant(value), bool) or str(getattr(value, "ty", "")).startswith("bool")


def not_(value: Any) -> Any:
    """``not value``."""
    value = as_operand(value)
    return ir.Not(boolean(value)) if is_symbolic(value) else not constant(value)


def choose(test: Any, then: Term, otherwise: Term) -> Any:
    """``then if test else otherwise``.

    Args:
        test: a Python value, or a run-time condition.
        then, otherwise: compute the two values; of a Python condition only one is called.

    Raises:
        CompileError: a run-time condition, and a value whose computation changes memory.
    """
    test = as_operand(test)
    if not is_symbolic(test):
        return then() if constant(test) else otherwise()
    return provided("if_then_else")(test, _skippable(then, _unless(test, False)), _skippable(otherwise, _unless(test, True)))


def compare(operators: tuple[str, ...], *operands: Any) -> Any:
    """``a < b < c``; of two operands whatever the comparison gives, which of arrays is an array."""
    values = [as_operand(value) for value in operands]
    if len(operators) == 1:
        return _COMPARISONS[operators[0]](*values)
    pairs = list(zip(operators, values, values[1:]))
    return and_(*(lambda op=op, a=a, b=b: _COMPARISONS[op](a, b) for op, a, b in pairs))


def chain(operators: tuple[str, ...], left: Any, right: Any, *others: Term) -> Any:
    """``a < b < c`` where Python computes ``c`` only if the kernel, or the tracing, gets that far.

    Args:
        operators: the names of their classes.
        left, right: the first two operands.
        others: compute the other ones.
    """
    first = compare(operators[:1], left, right)
    return and_(lambda: first, lambda: chain(operators[1:], right, others[0](), *others[1:])) if others else first


def _contains(item: Any, items: Any) -> Any:
    """``item in items``."""
    if is_symbolic(item) or _has_run_time_items(item) or _has_run_time_items(items):
        return or_(*(lambda other=other: _COMPARISONS["Eq"](as_operand(item), as_operand(other)) for other in items))
    return constant(item) in items


def _element(value: Any) -> Any:
    """``value``, which may be anything but a whole tensor."""
    return as_expr(value) if is_buffer(value) else value


def _ordering(compare: Operator) -> Operator:
    def compared(left: Any, right: Any) -> Any:
        if _has_run_time_items(left) or _has_run_time_items(right):
            raise OperandError("an order of tuples or lists of run-time values", hint="compare their items, with and and or")
        return compare(_element(left), _element(right))

    return compared


def _has_run_time_items(value: Any) -> bool:
    """Whether ``value`` is a tuple, list or dict with values among its items that only the kernel knows."""
    items = value.values() if isinstance(value, dict) else value
    return _kind(value) is not None and any(
        _has_run_time_items(item) or is_symbolic(item) and not is_buffer(item) for item in items
    )


def _kind(value: Any) -> type | None:
    """The type of Python, if any, that says when two of its objects are equal: that of item by item."""
    return next((kind for kind in (tuple, list, dict) if isinstance(value, kind) and type(value).__eq__ is kind.__eq__), None)


def _same_items(left: Any, right: Any) -> Any:
    """Whether two tuples, lists or dicts are equal, item by item."""
    if len(left) != len(right) or isinstance(left, dict) and left.keys() != right.keys():
        return False
    pairs = ((left[key], right[key]) for key in left) if isinstance(left, dict) else zip(left, right)
    return and_(*(lambda a=a, b=b: _COMPARISONS["Eq"](as_operand(a), as_operand(b)) for a, b in pairs))


def _is(left: Any, right: Any) -> bool:
    """``left is right``.

    Raises:
        RunTimeValueError: of two numbers one is of the run time; it has no identity.
    """
    sides = (left, right)
    are_numbers = all(isinstance(side, (int, float)) or isinstance(side, ir.PrimExpr) and not is_buffer(side) for side in sides)
    if are_numbers and any(map(is_symbolic, sides)):
        raise RunTimeValueError("`is` of a run-time value", hint="== compares values")
    return left is right


_NO_NUMBERS = (type(None), str, bytes, tuple, list, dict, set, frozenset)
"""Objects of Python that no number is equal to."""


def _equality(compare: Operator) -> Operator:
    """``==`` or ``!=``; of a tensor and a scalar it is refused, since Python's answer is False whatever the tensor holds.

    Two tensors, and a tensor and None, compare by identity.
    """

    def compared(left: Any, right: Any) -> Any:
        if _kind(left) is _kind(right) and (_has_run_time_items(left) or _has_run_time_items(right)):
            return _same_items(left, right) if compare is operator.eq else not_(_same_items(left, right))
        has_scalar = any(isinstance(side, (int, float)) or (is_symbolic(side) and not is_buffer(side)) for side in (left, right))
        if not has_scalar:
            return compare(left, right)
        if any(isinstance(side, _NO_NUMBERS) for side in (left, right)):
            return compare is operator.ne
        # TVM's object would decide later what it is, which its own operators do not wait for.
        return as_operand(compare(_element(left), _element(right)))

    return compared


_COMPARISONS: Mapping[str, Operator] = {
    "Lt": _ordering(operator.lt),
    "LtE": _ordering(operator.le),
    "Gt": _ordering(operator.gt),
    "GtE": _ordering(operator.ge),
    "Eq": _equality(operator.eq),
    "NotEq": _equality(operator.ne),
    "Is": _is,
    "IsNot": lambda left, right: not _is(left, right),
    "In": _contains,
    "NotIn": lambda item, items: not_(_contains(item, items)),
}


def _logical(terms: tuple[Term, ...], stop: bool, combine: Operator) -> Any:
    """``and`` or ``or`` where only the truth matters.

    Args:
        terms: the operands.
        stop: False for ``and``, True for ``or``: the truth value that decides the result.
        combine: makes the expression of two conditions.
    """
    result: Any = None
    value: Any = None
    for term in terms:
        # Until a run-time term was found Python evaluates each term; it may skip those after it.
        value = as_operand(term() if result is None else _skippable(term, _unless(result, stop)))
        if not is_symbolic(value):
            value = constant(value)
            if bool(value) is stop:
                # Beside a run-time term the value is a condition too: `~` of it is `not`, which it is not of Python's bools.
                return value if result is None else ir.IntImm("bool", int(stop))
            continue
        part = boolean(value)
        result = part if result is None else _combined(result, part, stop, combine)
    return value if result is None else result


def _combined(left: Any, right: Any, stop: bool, combine: Operator) -> Any:
    """``left and right`` or ``left or right``; a right side that may read outside of a tile is evaluated only where Python would.

    Targets evaluate both sides of TVM's ``And`` and ``Or`` where that is faster. This is safe for global tensors, as reads
    outside of them are guarded; ``i < 8 and tile[i] > 0`` would read outside of the tile.
    """
    if canonical(str(right.ty)).lanes > 1 or not any(map(_may_leave_tile, walk_expr(right))):
        return noted(combine(left, right))
    decided = ir.IntImm("bool", int(stop))
    return noted(ir.tirx.if_then_else(left, *((decided, right) if stop else (right, decided))))


def _may_leave_tile(expr: Any) -> bool:
    """Whether ``expr`` reads a tile at an index that may be outside of it."""
    if not isinstance(expr, ir.TensorLoad) or is_global(expr.source):
        return False
    ranges = current().ranges
    return not all(is_within(index, size, ranges) for index, size in zip(expr.indices, expr.source.shape))


def _unless(condition: Any, stop: bool) -> Term:
    """Makes the condition that ``condition`` is not ``stop``."""
    return lambda: ir.Not(boolean(condition)) if stop else boolean(condition)


def _skippable(part: Term, runs: Term) -> Any:
    """The value of an operand that Python might skip.

    The kernel computes what the operand binds to names in any case, but reads of a tile, which may be at an index outside of
    it: these it makes only where Python would. What all lanes or threads exchange they exchange in any case: one that skipped
    it would be missing.

    Args:
        part: computes the operand.
        runs: makes the condition under which Python does.

    Raises:
        MisplacedError: the operand calls something that changes memory, which the kernel would do in any case.
    """
    # The statements that computing the operand appends show whether it does more than compute.
    begin = current().frames[-1].here()
    value = part()
    stmts = begin.frame.stmts
    for position, stmt in enumerate(stmts[begin.position :], begin.position):
        if not isinstance(stmt, ir.Bind) or _has_effect(stmt.value):
            raise MisplacedError("a call with side effects in a conditional expression", hint="use an if statement")
        if any(map(_may_leave_tile, walk_expr(stmt.value))):
            guarded = ir.tirx.if_then_else(runs(), stmt.value, as_expr(0).astype(str(stmt.value.ty)))
            stmts[position] = ir.Bind(stmt.var, guarded, stmt.span)
    return value


def _has_effect(value: Any) -> bool:
    """Whether a value cannot be computed where Python would not: it changes memory, or is exchanged but may be outside."""
    called = intrinsic_name(value)
    if called is None or INTRINSICS[called].pure:
        return False
    return not is_exchange_of_all(value) or any(map(_may_leave_tile, walk_expr(value)))
