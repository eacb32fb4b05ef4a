"""Elementary functions of float32 as straight-line arithmetic, accurate to about two units in the last place.

Range reduction is Cody and Waite's: the constants that are multiplied by an integer have so few bits that the product is
exact. Rounding to an integer adds 1.5 * 2**23, which leaves the integer in the low mantissa bits; a NaN stays a NaN
throughout. Tests measure the error of each over all of float32; docs/cpu.md states it.
"""

from __future__ import annotations

import math
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.target.cpu.functions import bits, f32, horner, i32, is_nan, let, scalar_function, select, unary

_ROUND = 12582912.0
_ROUND_BITS = 0x4B400000
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
LOG2_E = math.log2(math.e)
EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1,
    -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_TANH = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
_ERF_SMALL = (-5.9640873e-4, 4.9879714e-3, -2.6763102e-2, 1.12817205e-1, -3.76124859e-1, 1.28379151e-1)
_LOG2_ERFC = (3.0768049e-4, -4.6297777e-3, 3.29965986e-2, -1.5181981e-1, -9.1717821e-1, 3.7190682e-1)
POWER = (1.5353258640e-4, 1.3399003074e-3, 9.6184387803e-3, 5.5503319949e-2, 2.4022647738e-1, 6.9314718246e-1, 1.0)
"""Coefficients of ``2**r`` for ``abs(r) <= 0.5``, with an error of 2**-28 of it."""
_EXP2 = (1.32647273e-3, 9.67151299e-3, 5.55073358e-2, 2.40222424e-1, 6.93147004e-1, 1.0)
ERF_ONE = 3.925
"""Where the error function is 1 to within half a unit, and stays so."""


def _clamp(x: Any, low: float, high: float, scale: Any) -> Any:
    """Keeps a NaN; each comparison chooses one of its operands, which is one instruction.

    Scaling by the instruction needs no upper bound: the integer that is read from the bits of a larger number is large, what it
    leaves over is positive, and the polynomial of that, too, so that the result is infinite.

    Args:
        x: the argument of an exponential.
        low, high: where results are zero, and infinite.
        scale: how the result is scaled.
    """
    above = x if scale is scale_by_instruction else select(x > f32(high), f32(high), x)
    return let(above, lambda y: select(y < f32(low), f32(low), y), "c")


def _power_of_two(n: Any) -> Any:
    # The exponent field of a float32, whose bias is 127, with an empty mantissa.
    return bits((n + i32(127)) << i32(23), "float32")


def scale_in_steps(y: Any, n: Any) -> Any:
    """``y * 2**n`` in two steps, so that results near both ends of the range are right."""
    return let(n >> i32(1), lambda half: y * _power_of_two(half) * _power_of_two(n - half), "h")


def scale_by_instruction(y: Any, n: Any) -> Any:
    """``y * 2**n`` by LLVM's ``ldexp``, which is one instruction on AVX-512 (and a call elsewhere)."""
    return ir.tirx.call_llvm_pure_intrin("float32", "llvm.ldexp", y, n)


def _exp_core(r: Any) -> Any:
    """``e**r`` for ``abs(r) <= 0.35``."""
    # The two leading terms are added last and exactly rounded, so that the polynomial's error is scaled by r * r.
    return horner(r, EXP) * r * r + r + f32(1.0)


def _exponential(x: Any, factor: float, reduce: Any, scale: Any) -> Any:
    """``2**(x * factor)``; ``reduce(x, n)`` is the natural logarithm of what ``2**n`` leaves over."""

    def whole(n: Any) -> Any:
        return let(reduce(x, ir.Cast("float32", n)), lambda r: scale(_exp_core(r), n), "r")

    # The integer is read from the bits: subtracting the constant again would be simplified away.
    return let(bits(x * f32(factor) + f32(_ROUND)) - i32(_ROUND_BITS), whole, "n")


@scalar_function("tl_expf", ("float32",), "float32", scales=True)
def _exp(x: Any, scale: Any = scale_in_steps) -> Any:
    return let(_clamp(x, -104.0, 89.0, scale), lambda y: _bounded_exp(y, scale), "y")


def _bounded_exp(x: Any, scale: Any) -> Any:
    """``e**x`` of a variable between -104 and 89, or NaN."""

    def reduce(y: Any, n: Any) -> Any:
        # LN2_HIGH has 9 bits, n at most 8: the product is exact, and so is the first difference, as both operands are close to
        # each other.
        return y - n * f32(LN2_HIGH) - n * f32(LN2_LOW)

    return _exponential(x, LOG2_E, reduce, scale)


@scalar_function("tl_exp2f", ("float32",), "float32", scales=True)
def _exp2(x: Any, scale: Any = scale_in_steps) -> Any:
    def whole(y: Any, n: Any) -> Any:
        return let(y - ir.Cast("float32", n), lambda r: scale(horner(r, POWER), n), "r")

    def bounded(y: Any) -> Any:
        return let(bits(y + f32(_ROUND)) - i32(_ROUND_BITS), lambda n: whole(y, n), "n")

    return let(_clamp(x, -151.0, 129.0, scale), bounded, "y")


@scalar_function("tl_exp10f", ("float32",), "float32", scales=True)
def _exp10(x: Any, scale: Any = scale_in_steps) -> Any:
    high = 0.301025390625  # log10(2) in 11 bits
    low = math.log10(2.0) - high

    def reduce(y: Any, n: Any) -> Any:
        return (y - n * f32(high) - n * f32(low)) * f32(math.log(10.0))

    return let(_clamp(x, -46.0, 39.0, scale), lambda y: _exponential(y, math.log2(10.0), reduce, scale), "y")


def _logarithm(x: Any, combine: Any) -> Any:
    """``combine(f, y, e)`` where ``x = (1 + f) * 2**e`` and ``log(1 + f) = f + y``; the special values of a logarithm."""

    def split(scaled: Any, extra: Any) -> Any:
        def parts(e: Any) -> Any:
            f = bits(bits(scaled) - (e << i32(23)), "float32") - f32(1.0)
            return let(f, lambda v: polynomial(v, ir.Cast("float32", e - extra)), "f")

        # Less the bits of sqrt(1/2): the exponent is chosen so that 1 + f lies between sqrt(1/2) and sqrt(2), around the zero
        # of log.
        return let((bits(scaled) - i32(0x3F3504F3)) >> i32(23), parts, "e")

    def polynomial(f: Any, e: Any) -> Any:
        def summed(z: Any) -> Any:
            return combine(f, horner(f, _LOG) * f * z - f32(0.5) * z, e)

        return let(f * f, summed, "z")

    def special(result: Any) -> Any:
        result = select(x == f32(0.0), f32(-math.inf), result)
        result = select(x < f32(0.0), f32(math.nan), result)
        return select(ir.Or(is_nan(x), x == f32(math.inf)), x, result)

    # The exponent field of a subnormal number says nothing of its size: it is scaled to a normal one first.
    tiny = x < f32(2.0**-126)
    scaled = select(tiny, x * f32(2.0**24), x)
    extra = select(tiny, i32(24), i32(0))
    return special(let(scaled, lambda s: let(extra, lambda k: split(s, k), "k"), "s"))


@scalar_function("tl_logf", ("float32",), "float32")
def _log(x: Any) -> Any:
    return _logarithm(x, lambda f, y, e: f + (y + e * f32(LN2_LOW)) + e * f32(LN2_HIGH))


@scalar_function("tl_log2f", ("float32",), "float32")
def _log2(x: Any) -> Any:
    rest = LOG2_E - 1.4423828125

    def combine(f: Any, y: Any, e: Any) -> Any:
        # log2(e) in a part of 10 bits and the rest: the leading product keeps the digits that e does not cover.
        return f * f32(1.4423828125) + e + (f * f32(rest) + y * f32(LOG2_E))

    return _logarithm(x, combine)


@scalar_function("tl_log10f", ("float32",), "float32")
def _log10(x: Any) -> Any:
    scale, high = math.log10(math.e), 0.301025390625
    low = math.log10(2.0) - high
    return _logarithm(x, lambda f, y, e: (f + y) * f32(scale) + e * f32(low) + e * f32(high))


@scalar_function("tl_tanhf", ("float32",), "float32", scales=True)
def _tanh(x: Any, scale: Any = scale_in_steps) -> Any:
    def branches(a: Any) -> Any:
        # Near zero, the difference of 1 and the quotient would cancel most digits.
        small = let(x * x, lambda z: horner(z, _TANH) * z * x + x, "z")
        # tanh(a) = 1 - 2 / (exp(2 a) + 1).
        large = f32(1.0) - f32(2.0) / (_inline_exp(a + a, scale) + f32(1.0))
        signed = select(x < f32(0.0), f32(0.0) - large, large)
        return select(a > f32(0.0), select(a < f32(0.625), small, signed), x)  # NaN and both zeros stay

    return let(unary("fabs", x), branches, "a")


@scalar_function("tl_erff", ("float32",), "float32")
def _erf(x: Any) -> Any:
    """Of small arguments an odd polynomial; of large ones ``1 - 2**p``, where ``p`` is a polynomial of ``abs(x)``, too."""

    def branches(a: Any) -> Any:
        small = let(x * x, lambda z: horner(z, _ERF_SMALL) * x + x, "z")
        bounded = select(a > f32(ERF_ONE), f32(ERF_ONE), a)
        # The last coefficient is larger by two, so that the sum before the last one is small, and its error with it.
        power = let(bounded, lambda b: horner(b, _LOG2_ERFC) * b - (b + b), "b")
        large = f32(1.0) - let(power, _small_power_of_two, "p")
        # `large` is not negative, so the sign is set by its bit.
        signed = bits(bits(large) | (bits(x) & i32(-(2**31))), "float32")
        return select(a >= f32(0.927734375), signed, small)  # a NaN stays one

    return let(unary("fabs", x), branches, "a")


def _small_power_of_two(p: Any) -> Any:
    """``2**p`` of a variable between -126 and 0, with an error of 2**-22 of it: without the ends of the range, and cheaper."""

    def scaled(t: Any) -> Any:
        rest = p - (t - f32(_ROUND))
        # The rounded p stands in the low bits of t, where those of the constant are zero. Shifted to the exponent field and added
        # there, modulo 2**32, it scales the result.
        return bits(bits(let(rest, lambda r: horner(r, _EXP2), "r")) + (bits(t) << i32(23)), "float32")

    return let(p + f32(_ROUND), scaled, "t")


@scalar_function("tl_sigmoidf", ("float32",), "float32", scales=True)
def _sigmoid(x: Any, scale: Any = scale_in_steps) -> Any:
    def quotient(power: Any) -> Any:
        # 1 / (1 + exp(-x)), and exp(x) / (1 + exp(x)) of a negative x.
        return select(x < f32(0.0), power, f32(1.0)) / (f32(1.0) + power)

    # The power never overflows, so that results below the normal numbers are right.
    return let(_inline_exp(f32(0.0) - unary("fabs", x), scale), quotient, "power")


def _inline_exp(x: Any, scale: Any) -> Any:
    return let(x, lambda v: _exp(v, scale), "x")
