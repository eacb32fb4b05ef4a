"""Expressions: each is compiled to a function of the run's state that returns a scalar or an array over the lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilelang.dtypes import canonical
from tilelang.errors import UnsupportedError
from tilelang.interpreter import numbers
from tilelang.interpreter.access import both, load, some
from tilelang.interpreter.arithmetic import BINARY, CALLED
from tilelang.interpreter.elementary import FUNCTIONS
from tilelang.interpreter.foreign import CUDA_FUNCTIONS
from tilelang.interpreter.numbers import Element, element
from tilelang.interpreter.survey import is_private
from tilelang.ir import nodes as ir
from tilelang.ir.text import expr_text, unmet_text
from tilelang.tileop.thread import intrinsic_name

Evaluate = Callable[[Any], Any]
"""``state -> value``."""

INTRINSICS: dict[str, Callable[[Any, Any], Evaluate]] = {}
"""Intrinsic of :mod:`tilelang.tileop.thread` -> what makes its function, of the compiler and the call."""


def intrinsic(*names: str) -> Callable[[Callable], Callable]:
    """Decorator: the function makes the evaluation of these intrinsics, of ``(compiler, call)``."""

    def register(make: Callable) -> Callable:
        for name in names:
            if name in INTRINSICS:
                raise ValueError(f"{name} is defined in {INTRINSICS[name].__module__} and in {make.__module__}")
            INTRINSICS[name] = make
        return make

    return register


def type_of(expr: Any) -> Element:
    """The element type of an expression."""
    return element(str(expr.ty))


def compiled(c: Any, expr: Any) -> Evaluate:
    """The function that evaluates an expression.

    Raises:
        UnsupportedError: something that the language does not have.
    """
    if isinstance(expr, (bool, int, float)):
        value = np.bool_(expr) if isinstance(expr, bool) else np.float32(expr) if isinstance(expr, float) else np.int32(expr)
        return lambda x: value
    make = _binary if type(expr) in BINARY else _RULES.get(type(expr))
    if make is None:
        raise UnsupportedError(f"the interpreter does not know {type(expr).__name__}: {expr_text(expr)}")
    return make(c, expr)


def compiled_element(c: Any, load: Any) -> tuple[int, list[Evaluate]]:
    """The slot of the buffer that an element access names, and the functions that evaluate its indices."""
    return c.view(load.source), [compiled(c, index) for index in load.indices]


def _constant(c: Any, expr: Any) -> Evaluate:
    value = numbers.constant(expr.value, type_of(expr))
    return lambda x: value


def _variable(c: Any, expr: Any) -> Evaluate:
    slot = c.slot(expr)
    return lambda x: x.values[slot]


def _binary(c: Any, expr: Any) -> Evaluate:
    a, b, kind = compiled(c, expr.a), compiled(c, expr.b), type_of(expr.a)
    compute = BINARY[type(expr)]
    if kind.kind != "bool" and not kind.is_narrow and type(expr) in _DIRECT:
        direct = _DIRECT[type(expr)]
        return lambda x: direct(a(x), b(x))
    return lambda x: compute(kind, a(x), b(x))


_DIRECT = {
    ir.Add: lambda a, b: a + b, ir.Sub: lambda a, b: a - b, ir.Mul: lambda a, b: a * b, ir.EQ: lambda a, b: a == b,
    ir.NE: lambda a, b: a != b, ir.LT: lambda a, b: a < b, ir.LE: lambda a, b: a <= b, ir.GT: lambda a, b: a > b,
    ir.GE: lambda a, b: a >= b,
}  # fmt: skip
"""Operations whose result needs no wrapping and that Python's operators compute faster than the functions of ``BINARY``."""


def _load(c: Any, expr: Any) -> Evaluate:
    (slot, indices), tracked = compiled_element(c, expr), c.tracks(expr.source)
    if is_private(expr.source) and not c.in_nest and not c.differs(expr):
        # The threads hold the same; those that do not run the statement may hold anything.
        return lambda x: x.of_any(load(x, x.views[slot], [index(x) for index in indices], tracked))
    if len(indices) == 1:
        (only,) = indices
        return lambda x: load(x, x.views[slot], (only(x),), tracked)
    return lambda x: load(x, x.views[slot], [index(x) for index in indices], tracked)


def _cast(c: Any, expr: Any) -> Evaluate:
    value, source, target = compiled(c, expr.value), type_of(expr.value), type_of(expr)
    return lambda x: numbers.convert(value(x), source, target)


def _not(c: Any, expr: Any) -> Evaluate:
    value = compiled(c, expr.a)
    return lambda x: np.logical_not(value(x))


def _invert(c: Any, expr: Any) -> Evaluate:
    value, kind = compiled(c, expr.a if hasattr(expr, "a") else expr.args[0]), type_of(expr)
    return lambda x: numbers.wrapped(np.invert(value(x)), kind) if kind.is_narrow else np.invert(value(x))


def _select(c: Any, expr: Any) -> Evaluate:
    parts = [compiled(c, part) for part in (expr.condition, expr.true_value, expr.false_value)]
    # Unlike `if_then_else`, T.Select evaluates both values (docs/semantics.md, "Memory"). `[()]` makes a scalar of an array of
    # rank 0.
    return lambda x: np.where(*(part(x) for part in parts))[()]


def choose(test: Evaluate, then: Evaluate, otherwise: Evaluate) -> Evaluate:
    """One of two values, of which each lane computes only the one that it chooses.

    Args:
        test, then, otherwise: give the condition and the two values in a state.
    """

    def evaluate(x: Any) -> Any:
        chosen = test(x)
        if not np.ndim(chosen):
            return then(x) if chosen else otherwise(x)
        if chosen.all():
            return then(x)
        outer = x.mask
        try:
            # Lanes that do not choose a value must not read for it: `i < n and A[i] > 0` is no access beyond the end.
            x.mask = both(outer, chosen)
            first = then(x) if some(x.mask) else None
            x.mask = both(outer, ~chosen)
            second = otherwise(x) if some(x.mask) else None
        finally:
            x.mask = outer
        if first is None or second is None:
            return second if first is None else first
        return np.where(chosen, first, second)

    return evaluate


_FALSE, _TRUE = np.bool_(False), np.bool_(True)


def _and(c: Any, expr: Any) -> Evaluate:
    return choose(compiled(c, expr.a), compiled(c, expr.b), lambda x: _FALSE)


def _or(c: Any, expr: Any) -> Evaluate:
    return choose(compiled(c, expr.a), lambda x: _TRUE, compiled(c, expr.b))


def _let(c: Any, expr: Any) -> Evaluate:
    value, slot = compiled(c, expr.value), c.slot(expr.var)
    body = compiled(c, expr.body)

    # A variable is bound in one place only, so nothing has to be restored after the body.
    def evaluate(x: Any) -> Any:
        x.values[slot] = value(x)
        return body(x)

    return evaluate


def _shuffle(c: Any, expr: Any) -> Evaluate:
    # The front end has split vectors into lanes (frontend/lanes.py): a Shuffle that is left selects one of several scalars.
    if len(expr.indices) != 1 or any(canonical(str(part.ty)).lanes > 1 for part in expr.vectors):
        raise UnsupportedError(f"the interpreter computes with scalars, not with {expr.ty}")
    return compiled(c, expr.vectors[int(expr.indices[0].value)])


def _call(c: Any, expr: Any) -> Evaluate:
    name = intrinsic_name(expr)
    if name is not None:
        if name not in INTRINSICS:
            raise UnsupportedError(f"the interpreter does not know the intrinsic {name}")
        return INTRINSICS[name](c, expr)
    operator = str(getattr(expr.op, "name", "")).rpartition(".")[2]
    if operator in _CALLS:
        return _CALLS[operator](c, expr)
    if operator in CALLED:
        a, b = (compiled(c, arg) for arg in expr.args)
        compute, kind = CALLED[operator], type_of(expr.args[0])
        return lambda x: compute(kind, a(x), b(x))
    if operator in FUNCTIONS:
        return _function(c, expr, expr.args, FUNCTIONS[operator])
    raise UnsupportedError(f"the interpreter does not know the function {operator}")


def _function(c: Any, expr: Any, given: Sequence[Any], compute: Callable[..., Any]) -> Evaluate:
    arguments = [compiled(c, arg) for arg in given]
    kind, kinds = type_of(expr), [type_of(arg) for arg in given]
    return lambda x: compute(kind, kinds, *(argument(x) for argument in arguments))


def _if_then_else(c: Any, expr: Any) -> Evaluate:
    return choose(*(compiled(c, arg) for arg in expr.args))


def _reinterpret(c: Any, expr: Any) -> Evaluate:
    (argument,) = expr.args
    if canonical(str(expr.ty)).kind == "handle":
        return compiled(c, argument)
    value, source, target = compiled(c, argument), type_of(argument), type_of(expr)
    return lambda x: numbers.reinterpreted(value(x), source, target)


def _foreign(c: Any, expr: Any) -> Evaluate:
    name, *arguments = [getattr(expr.args[0], "value", "?"), *expr.args[1:]] if expr.args else "?"
    function = CUDA_FUNCTIONS.get(name)
    if function is not None and len(arguments) == len(function.parameters):
        return _function(c, expr, arguments, function)
    raise UnsupportedError(
        f"T.call_extern({name!r}): the interpreter cannot run foreign code",
        hint="compile for a target, or write the function with the language's own operators",
    )


def _assume(c: Any, expr: Any) -> Evaluate:
    condition, message = compiled(c, expr.args[0]), unmet_text(expr, expr.args[0])

    def check(x: Any) -> None:
        if x.run.checks and some(both(x.mask, np.logical_not(condition(x)))):
            x.find("assumption", message)

    return check


_CALLS: dict[str, Callable[[Any, Any], Evaluate]] = {
    "if_then_else": _if_then_else,
    "reinterpret": _reinterpret,
    "bitwise_not": _invert,
    "call_extern": _foreign,
    "call_pure_extern": _foreign,
    "assume": _assume,
}
"""TVM's operators that are no functions of their arguments' values."""

_RULES: dict[type, Callable[[Any, Any], Evaluate]] = {
    ir.IntImm: _constant,
    ir.FloatImm: _constant,
    ir.Var: _variable,
    ir.TensorLoad: _load,
    ir.BufferLoad: _load,
    ir.Cast: _cast,
    ir.Not: _not,
    ir.BitwiseNot: _invert,
    ir.Select: _select,
    ir.And: _and,
    ir.Or: _or,
    ir.Let: _let,
    ir.Shuffle: _shuffle,
    ir.Call: _call,
}
"""Node -> what makes its function."""
