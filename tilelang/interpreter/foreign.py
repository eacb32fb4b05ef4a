"""CUDA's own device functions, by the names that programs give to ``T.call_extern``.

Arguments are converted to the types of the function's parameters, and its result to the type that the program names, as in C.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tilelang.interpreter.elementary import FUNCTIONS
from tilelang.interpreter.numbers import Element, convert, element, reinterpreted
from tilelang.interpreter.rounding import EXACT, rounded

_Compute = Callable[..., Any]


class ForeignFunction(NamedTuple):
    """A function of C: its result's type, those of its parameters, and what computes it."""

    result: Element
    parameters: tuple[Element, ...]
    compute: _Compute

    def __call__(self, kind: Element, kinds: list[Element], *values: Any) -> Any:
        """Its value for numbers of the types ``kinds``, as one of the type ``kind``."""
        given = (convert(value, source, target) for value, source, target in zip(values, kinds, self.parameters, strict=True))
        return convert(self.compute(*given), self.result, kind)


_SUFFIXES = {"float32": "f", "float64": ""}
_UNARY = (
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "ceil", "floor", "trunc", "nearbyint", "round", "fabs",
)  # fmt: skip
_BINARY = ("atan2", "fmod", "hypot", "copysign", "nextafter", "pow")
_FAST = {
    "__expf": "exp", "__exp10f": "exp10", "__logf": "log", "__log2f": "log2", "__log10f": "log10", "__sinf": "sin",
    "__cosf": "cos", "__tanf": "tan", "__powf": "pow",
}  # fmt: skip
_MORE: Mapping[str, tuple[int, _Compute]] = {
    "expm1": (1, np.expm1),
    "cbrt": (1, np.cbrt),
    "rint": (1, np.rint),
    "erfc": (1, lambda x: 1.0 - FUNCTIONS["erf"](element("float64"), [], x)),
    "fmax": (2, np.fmax),
    "fmin": (2, np.fmin),
    "fdim": (2, lambda a, b: np.where(a > b, a - b, a * 0 + b * 0)),
}
"""Function of C that is none of the language's: its number of parameters, and what computes it in float64."""


def _mathematics() -> dict[str, ForeignFunction]:
    found = {}
    for name, suffix in _SUFFIXES.items():
        kind = element(name)
        for operator in (*_UNARY, *_BINARY):
            found[operator + suffix] = _elementary(kind, operator)
        for function, (count, wide) in _MORE.items():
            found[function + suffix] = _wide(kind, count, wide)
        found[f"fma{suffix}"] = ForeignFunction(kind, (kind,) * 3, rounded("fma", "rn", kind))
    single = element("float32")
    found |= {name: _elementary(single, operator) for name, operator in _FAST.items()}
    found |= dict.fromkeys(("__fdividef", "fdividef"), _wide(single, 2, np.divide))
    found["__saturatef"] = _wide(single, 1, lambda x: np.where(np.isnan(x), 0.0, np.clip(x, 0.0, 1.0)))
    return found


def _elementary(kind: Element, operator: str) -> ForeignFunction:
    count, function = 2 if operator in _BINARY else 1, FUNCTIONS[operator]
    return ForeignFunction(kind, (kind,) * count, lambda *values: function(kind, [kind] * count, *values))


def _wide(kind: Element, count: int, function: _Compute) -> ForeignFunction:
    def compute(*values: Any) -> Any:
        return np.asarray(function(*(np.asarray(value, np.float64) for value in values))).astype(kind.value)[()]

    return ForeignFunction(kind, (kind,) * count, compute)


def _rounding() -> dict[str, ForeignFunction]:
    """``__fadd_rz`` and its like."""
    found = {}
    for name, prefix in (("float32", "f"), ("float64", "d")):
        kind = element(name)
        for operation, mode in ((operation, mode) for operation in EXACT for mode in ("rn", "rz", "ru", "rd")):
            count = {"add": 2, "sub": 2, "mul": 2, "div": 2, "fma": 3}.get(operation, 1)
            c_name = {"ffma": "fmaf", "dfma": "fma"}.get(prefix + operation, prefix + operation)
            found[f"__{c_name}_{mode}"] = ForeignFunction(kind, (kind,) * count, rounded(operation, mode, kind))
    return found


_TO_WHOLE = {"rn": np.rint, "rz": np.trunc, "ru": np.ceil, "rd": np.floor}


def _conversions() -> dict[str, ForeignFunction]:
    single, found = element("float32"), {}
    for name, c_name in (("int32", "int"), ("uint32", "uint")):
        kind = element(name)
        for mode, whole in _TO_WHOLE.items():
            found[f"__float2{c_name}_{mode}"] = ForeignFunction(single, (single,), whole)
        found[f"__{c_name}2float_rn"] = ForeignFunction(single, (kind,), lambda x, kind=kind: convert(x, kind, single))
        found[f"__float_as_{c_name}"] = ForeignFunction(kind, (single,), lambda x, kind=kind: reinterpreted(x, single, kind))
        found[f"__{c_name}_as_float"] = ForeignFunction(single, (kind,), lambda x, kind=kind: reinterpreted(x, kind, single))
    half = element("float16")
    found["__float2half_rz"] = ForeignFunction(half, (single,), lambda x: convert(_truncated(x), single, half))
    for name, c_name in (("float16", "half"), ("bfloat16", "bfloat16")):
        kind = element(name)
        narrow = ForeignFunction(kind, (single,), lambda x, kind=kind: convert(x, single, kind))
        found |= dict.fromkeys((f"__float2{c_name}", f"__float2{c_name}_rn"), narrow)
        found[f"__{c_name}2float"] = ForeignFunction(single, (kind,), lambda x, kind=kind: convert(x, kind, single))
    return found


def _truncated(x: Any) -> Any:
    """A float32 rounded towards zero to a float16."""
    with np.errstate(over="ignore"):
        nearest = np.asarray(x, np.float16)
    is_beyond = np.abs(nearest.astype(np.float32)) > np.abs(x)
    return np.where(is_beyond, np.nextafter(nearest, np.float16(0)), nearest).astype(np.float32)[()]


def _bits() -> dict[str, ForeignFunction]:
    number, found = element("int32"), {}
    for suffix, name in (("", "int32"), ("ll", "int64")):
        kind = element(name)
        for c_name, operator in (("popc", "popcount"), ("clz", "clz")):
            found[f"__{c_name}{suffix}"] = ForeignFunction(
                number, (kind,), lambda x, kind=kind, operator=operator: FUNCTIONS[operator](number, [kind], x)
            )
        found[f"__ffs{suffix}"] = ForeignFunction(
            number, (kind,), lambda x, kind=kind: np.where(x == 0, 0, kind.bits - FUNCTIONS["clz"](number, [kind], x & -x))
        )
    for name, c_name in (("int32", "__mulhi"), ("uint32", "__umulhi")):
        kind = element(name)
        found[c_name] = ForeignFunction(
            kind, (kind, kind), lambda a, b, kind=kind: (np.int64(a) * np.int64(b) >> 32).astype(kind.value)
        )
    return found


CUDA_FUNCTIONS: Mapping[str, ForeignFunction] = _mathematics() | _rounding() | _conversions() | _bits()
"""Name of a device function -> the function."""
