"""Scalar functions written once as expressions: number formats and elementary functions.

Code for LLVM has them inline, where its vectoriser sees straight-line arithmetic (a call to ``expf`` would be sixteen calls for a
vector of sixteen); C code has them as ``static inline`` functions. Each is a row of :data:`FUNCTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.ir import nodes as ir


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A pure function of scalars.

    Attributes:
        name: its name in C.
        arguments: dtype of each argument.
        result: dtype of the result.
        build: ``(arguments) -> expression``; the arguments are variables, so they may be used many times.
        scales: whether ``build`` takes ``scale``, the way of multiplying by a power of two.
    """

    name: str
    arguments: tuple[str, ...]
    result: str
    build: Callable[..., Any]
    scales: bool = False


FUNCTIONS: dict[str, ScalarFunction] = {}


def scalar_function(name: str, arguments: Sequence[str], result: str, scales: bool = False) -> Callable[[Callable], Callable]:
    """Decorator: makes a row of :data:`FUNCTIONS`.

    Args:
        name: the function's name in C.
        arguments: types of its parameters.
        result: type of its value.
        scales: whether the decorated function takes ``scale``.
    """

    def register(build: Callable) -> Callable:
        FUNCTIONS[name] = ScalarFunction(name, tuple(arguments), result, build, scales)
        return build

    return register


def inline(name: str, arguments: Sequence[Any], scale: Any = None) -> Any:
    """The function's expression over ``arguments``, each evaluated once; ``scale`` as in :class:`ScalarFunction`.

    Args:
        name: of a row of :data:`FUNCTIONS`.
        arguments: expressions of the parameters' types.
        scale: a factor of the argument, for functions that can include it (:class:`ScalarFunction`).
    """
    function = FUNCTIONS[name]
    bound, variables = [], []
    for position, (argument, dtype) in enumerate(zip(arguments, function.arguments)):
        if isinstance(argument, (ir.Var, ir.IntImm, ir.FloatImm)):
            variables.append(argument)
        else:
            variables.append(ir.Var(f"a{position}", dtype))
            bound.append((variables[-1], argument))
    options = {"scale": scale} if scale is not None and function.scales else {}
    result = function.build(*variables, **options)
    for variable, argument in reversed(bound):
        result = ir.Let(variable, argument, result)
    return result


def let(value: Any, body: Callable[[Any], Any], name: str = "t") -> Any:
    """``body(variable)`` where the variable holds ``value``.

    Args:
        value: the expression, evaluated once.
        body: the expression that uses it.
        name: of the variable.
    """
    variable = ir.Var(name, value.ty)
    return ir.Let(variable, value, body(variable))


def bound(value: Any, body: Callable[[Any], Any]) -> Any:
    """``body`` of a variable that holds ``value``, or of ``value`` itself where that costs nothing."""
    return body(value) if isinstance(value, (ir.Var, ir.FloatImm)) else let(value, body)


def f32(value: float) -> Any:
    return ir.FloatImm("float32", value)


def i32(value: int) -> Any:
    return ir.IntImm("int32", value)


def u32(value: int) -> Any:
    return ir.IntImm("uint32", value)


def bits(value: Any, dtype: str = "int32") -> Any:
    """The bits of a value as another type of the same size."""
    return ir.Call(ir.Op.get("tirx.reinterpret"), [value], ret_ty=dtype)


def is_nan(value: Any) -> Any:
    """Whether a float32 or float64 is NaN, asked of its bits: TVM's simplifier takes ``x != x`` for false."""
    wide = str(value.ty) == "float64"
    dtype = "int64" if wide else "int32"
    magnitude = bits(value, dtype) & ir.IntImm(dtype, (1 << (63 if wide else 31)) - 1)
    return magnitude > ir.IntImm(dtype, 0x7FF0000000000000 if wide else 0x7F800000)


def unary(name: str, value: Any) -> Any:
    """A call to one of TVM's own mathematical operators."""
    return ir.Call(ir.Op.get(f"tirx.{name}"), [value], ret_ty=value.ty)


def select(condition: Any, then: Any, otherwise: Any) -> Any:
    """``then if condition else otherwise``; both values are evaluated.

    Args:
        condition: a bool, or a vector of them.
        then, otherwise: values of one type.
    """
    return ir.Select(condition, then, otherwise)


def horner(x: Any, coefficients: Sequence[float]) -> Any:
    """The polynomial with the highest coefficient first."""
    result = f32(coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * x + f32(coefficient)
    return result
