"""Elementary functions of sixteen float32 in a register of AVX-512, by instructions that no scalar expression becomes.

``vscalefps`` multiplies by two to the power of a *float* of any size, and gives zero and infinity for infinite exponents (also
for a NaN times ``2**-inf``). So ``2**x`` needs no range check and no integer: a rounding, a subtraction, a polynomial of six
steps and a scaling. LLVM's scaling takes an integer.

``vpermi2ps`` looks up sixteen of 32 values at once. So the error function is a short polynomial for each of 32 segments: four
steps instead of eleven and an exponential for a polynomial that covers all arguments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilelang.target.cpu import helpers
from tilelang.target.cpu.elementary import ERF_ONE, EXP, LN2_HIGH, LN2_LOW, LOG2_E, POWER

LANES = 16
_KIND = f"<{LANES} x float>"
_SCALE = "@llvm.x86.avx512.mask.scalef.ps.512"
_LOOK_UP = "@llvm.x86.avx512.vpermi2var.ps.512"

_DECLARED = f"""
declare {_KIND} @llvm.roundeven.v{LANES}f32({_KIND})
declare {_KIND} @llvm.fma.v{LANES}f32({_KIND}, {_KIND}, {_KIND})
declare {_KIND} @llvm.fabs.v{LANES}f32({_KIND})
declare {_KIND} @llvm.copysign.v{LANES}f32({_KIND}, {_KIND})
declare {_KIND} {_SCALE}({_KIND}, {_KIND}, {_KIND}, i16, i32)
declare {_KIND} {_LOOK_UP}({_KIND}, <{LANES} x i32>, {_KIND})"""

_SEGMENTS, _PER_UNIT = 32, 8
_ROUND_TO_SEGMENT = 1.5 * 2**23 / _PER_UNIT
"""Added to a number below 2**20 it leaves a multiple of a segment's length, counted in the lowest bits of the sum."""
_DEGREE = 4
_SMALL = 0.3125
_ERF_SMALL = (-2.5867920368909836e-2, 0.11277740448713303, -0.3761252164840698, 0.12837916612625122)
"""Coefficients of ``erf(x) / x - 1`` in the square of ``x``, for ``abs(x) < _SMALL``: there the result's last place is smaller
than that of the coefficients of a segment."""


def _splat(value: float) -> str:
    return helpers.llvm_floats([value] * LANES)


def _fma(result: str, a: str, b: str, c: str) -> str:
    return f"  {result} = call {_KIND} @llvm.fma.v{LANES}f32({_KIND} {a}, {_KIND} {b}, {_KIND} {c})"


def _polynomial(result: str, x: str, coefficients: Sequence[str]) -> list[str]:
    """Lines for the polynomial with the highest coefficient, each a value, first."""
    lines, value = [], coefficients[0]
    for step, coefficient in enumerate(coefficients[1:], start=1):
        name = result if step == len(coefficients) - 1 else f"{result}{step}"
        lines.append(_fma(name, value, x, coefficient))
        value = name
    return lines


def _bound(result: str, x: str, compare: str, limit: float) -> list[str]:
    """Lines for the smaller or larger of a value and a constant, which keep a NaN."""
    return [
        f"  {result}.is = fcmp {compare} {_KIND} {x}, {_splat(limit)}",
        f"  {result} = select <{LANES} x i1> {result}.is, {_KIND} {_splat(limit)}, {_KIND} {x}",
    ]


def _define(name: str, lines: Sequence[str]) -> None:
    """Registers a function of ``%x`` from the lines that compute ``%y``."""
    first = f"define {_KIND} @{name}({_KIND} %x) alwaysinline {{"
    helpers.register(name, "\n".join([_DECLARED, first, *lines, f"  ret {_KIND} %y", "}"]))


def _rounded(x: str) -> str:
    return f"  %n = call {_KIND} @llvm.roundeven.v{LANES}f32({_KIND} {x})"


def _scaled() -> str:
    return f"  %y = call {_KIND} {_SCALE}({_KIND} %p, {_KIND} %n, {_KIND} zeroinitializer, i16 -1, i32 4)"


def _exp2() -> list[str]:
    remainder = f"  %r = fsub {_KIND} %x, %n"
    return [_rounded("%x"), remainder, *_polynomial("%p", "%r", [_splat(value) for value in POWER]), _scaled()]


def _exp() -> list[str]:
    """``n`` times the logarithm of two is subtracted in two parts; arguments are bounded, so that it is exact."""
    return [
        *_bound("%below", "%x", "ogt", 89.0),
        *_bound("%b", "%below", "olt", -104.0),
        f"  %m = fmul {_KIND} %b, {_splat(LOG2_E)}",
        _rounded("%m"),
        _fma("%r1", "%n", _splat(-LN2_HIGH), "%b"),
        _fma("%r", "%n", _splat(-LN2_LOW), "%r1"),
        *_polynomial("%q", "%r", [_splat(value) for value in EXP]),
        f"  %qr = fmul {_KIND} %q, %r",
        _fma("%s", "%qr", "%r", "%r"),
        f"  %p = fadd {_KIND} %s, {_splat(1.0)}",
        _scaled(),
    ]


def _erf() -> list[str]:
    """An odd polynomial of small arguments; of others the polynomial of the segment whose middle is nearest."""
    tables = list(zip(*map(_erf_near, (segment / _PER_UNIT for segment in range(_SEGMENTS)))))
    looked_up = [
        f"  %c{power} = call {_KIND} {_LOOK_UP}({_KIND} {helpers.llvm_floats(table[:LANES])}, <{LANES} x i32> %segment, "
        f"{_KIND} {helpers.llvm_floats(table[LANES:])})"
        for power, table in enumerate(tables)
    ]
    return [
        f"  %magnitude = call {_KIND} @llvm.fabs.v{LANES}f32({_KIND} %x)",
        *_bound("%a", "%magnitude", "ogt", ERF_ONE),
        # Adding 1.5 * 2**23 / 8 leaves no bits below 1/8 in the sum: the addition rounds to the nearest multiple, whose number
        # stands in the lowest bits of the float, where the permutation takes the index from.
        f"  %shifted = fadd {_KIND} %a, {_splat(_ROUND_TO_SEGMENT)}",
        f"  %middle = fsub {_KIND} %shifted, {_splat(_ROUND_TO_SEGMENT)}",
        f"  %segment = bitcast {_KIND} %shifted to <{LANES} x i32>",
        f"  %r = fsub {_KIND} %a, %middle",
        *looked_up,
        *_polynomial("%p", "%r", [f"%c{power}" for power in reversed(range(_DEGREE + 1))]),
        f"  %z = fmul {_KIND} %a, %a",
        *_polynomial("%q", "%z", [_splat(value) for value in _ERF_SMALL]),
        _fma("%s", "%a", "%q", "%a"),
        f"  %small = fcmp olt {_KIND} %a, {_splat(_SMALL)}",
        f"  %positive = select <{LANES} x i1> %small, {_KIND} %s, {_KIND} %p",
        f"  %y = call {_KIND} @llvm.copysign.v{LANES}f32({_KIND} %positive, {_KIND} %x)",
    ]


def _erf_near(middle: float) -> list[float]:
    """Coefficients, lowest first, of the polynomial in ``x - middle`` that is ``erf(x)`` at the Chebyshev nodes of a segment."""
    count = _DEGREE + 1
    nodes = [math.cos(math.pi * (2 * k + 1) / (2 * count)) / (2 * _PER_UNIT) for k in range(count)]
    # Newton's divided differences, in place.
    differences = [math.erf(middle + node) for node in nodes]
    for order in range(1, count):
        for k in reversed(range(order, count)):
            differences[k] = (differences[k] - differences[k - 1]) / (nodes[k] - nodes[k - order])
    coefficients = [0.0] * count
    for node, difference in zip(reversed(nodes), reversed(differences)):  # Newton's form, expanded from the inside
        coefficients = [below - node * same for below, same in zip([0.0, *coefficients], coefficients)]
        coefficients[0] += difference
    return coefficients


_define("tl_exp_16", _exp())
_define("tl_exp2_16", _exp2())
_define("tl_erf_16", _erf())
