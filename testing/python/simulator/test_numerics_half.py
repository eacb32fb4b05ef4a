"""f16 and bf16 arithmetic: one rounding of the exact result, PTX's NaN and zero rules."""

from fractions import Fraction

import numpy as np
import pytest

from testing.python.simulator.models import formats
from testing.python.simulator.models.native import call

SEED = 20240612
COUNT = 4000
SPECIALS = {
    "f16": [
        0x0000,
        0x8000,
        0x0001,
        0x8001,
        0x03FF,
        0x0400,
        0x3C00,
        0xBC00,
        0x7BFF,
        0xFBFF,
        0x7C00,
        0xFC00,
        0x7E00,
    ],
    "bf16": [
        0x0000,
        0x8000,
        0x0001,
        0x8001,
        0x007F,
        0x0080,
        0x3F80,
        0xBF80,
        0x7F7F,
        0xFF7F,
        0x7F80,
        0xFF80,
        0x7FC0,
    ],
}


def half(name, fmt, flags, a, b, c=None):
    out = np.empty_like(a)
    call("half", name, fmt, flags, a, b, a if c is None else c, out)
    return out


def operands(fmt):
    rng = np.random.default_rng(SEED)
    specials = np.array(SPECIALS[fmt], dtype=np.uint16)
    grid = np.stack(np.meshgrid(specials, specials, specials)).reshape(3, -1)
    # Exponents near one another make carries and cancellations likely.
    near = {"f16": 0x3C00, "bf16": 0x3F80}[fmt] + rng.integers(-0x800, 0x800, (3, COUNT))
    signs = rng.integers(0, 2, (3, COUNT)) << 15
    noise = rng.integers(0, 2**16, (3, COUNT))
    return np.ascontiguousarray(np.concatenate([grid, near | signs, noise], axis=1).astype(np.uint16))


def exact(operation, fmt, *codes):
    """Codes of the exact result rounded once; operations on infinities and NaNs go through float64."""
    values = [formats.decode(c, fmt) for c in codes]
    with np.errstate(invalid="ignore", over="ignore"):
        rough = operation(*values)
    finite = np.all([np.isfinite(v) for v in values], axis=0)
    result = rough.copy()
    for i in np.flatnonzero(finite):
        precise = operation(*[Fraction(float(v[i])) for v in values])
        if precise != 0:
            result[i] = formats.double_rounded_to_odd(precise)
    return formats.encode(result, fmt, "rn", False).astype(np.uint16)


OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: a * b + c,
}


@pytest.mark.parametrize("fmt", ["f16", "bf16"])
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_arithmetic_rounds_once(name, fmt):
    a, b, c = operands(fmt)
    codes = (a, b, c) if name == "fma" else (a, b)
    want = exact(OPERATIONS[name], fmt, *codes)
    got = half(name, fmt, "", *codes)
    wrong = np.flatnonzero(got != want)
    assert len(wrong) == 0, [(name, *[hex(x[i]) for x in codes], hex(got[i]), hex(want[i])) for i in wrong[:5]]


def test_fma_sees_an_addend_far_below_a_tie():
    # 7 * 37 / 128 = 2.0234375 lies half-way between two bfloat16 numbers; the tiny addend decides.
    a, b = np.array([0x40E0] * 3, np.uint16), np.array([0x3E94] * 3, np.uint16)
    c = np.array([0x0000, 0x0001, 0x8001], np.uint16)
    assert list(half("fma", "bf16", "", a, b, c)) == [0x4002, 0x4002, 0x4001]


@pytest.mark.parametrize("fmt", ["f16", "bf16"])
def test_modes(fmt):
    one = {"f16": 0x3C00, "bf16": 0x3F80}[fmt]
    nan, tiny = 0x7FFF, 0x0001
    a = np.array([one, one | 0x8000, nan, tiny, 0x8000 | tiny], np.uint16)
    zero = np.zeros_like(a)
    assert list(half("add", fmt, "sat", a, a)) == [one, 0, 0, tiny * 2, 0]
    assert list(half("fma", fmt, "relu", a, np.full_like(a, one), zero)) == [one, 0, nan, tiny, 0]
    assert list(half("add", fmt, "ftz", a, zero))[3:] == [0, 0]


@pytest.mark.parametrize("propagate", [False, True])
@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("fmt", ["f16", "bf16"])
def test_minimum_and_maximum(fmt, name, propagate):
    a, b, _ = operands(fmt)
    x, y = formats.decode(a, fmt), formats.decode(b, fmt)
    # Rank -0 below +0.
    rank_a, rank_b = (np.where(v == 0, np.where(np.signbit(v), -1e-300, 1e-300), v) for v in (x, y))
    take_a = rank_a < rank_b if name == "min" else rank_a > rank_b
    want = np.where(take_a, a, b)
    want = np.where(np.isnan(x), b, np.where(np.isnan(y), a, want))
    nan = (np.isnan(x) | np.isnan(y)) if propagate else (np.isnan(x) & np.isnan(y))
    want = np.where(nan, 0x7FFF, want).astype(np.uint16)
    assert np.array_equal(half(name, fmt, "nan" if propagate else "", a, b), want)


def test_xorsign_compares_magnitudes():
    a = np.array([0x3C00, 0xC000, 0xBC00], np.uint16)  # 1, -2, -1
    b = np.array([0xC000, 0x3C00, 0xC000], np.uint16)  # -2, 1, -2
    assert list(half("max", "f16", "xorsign", a, b)) == [0xC000, 0xC000, 0x4000]
    assert list(half("min", "f16", "xorsign", a, b)) == [0xBC00, 0xBC00, 0x3C00]


@pytest.mark.parametrize("fmt", ["f16", "bf16"])
@pytest.mark.parametrize("name,function", [("ex2", np.exp2), ("tanh", np.tanh)])
def test_half_approximations(fmt, name, function):
    codes = np.arange(65536, dtype=np.uint16)
    with np.errstate(over="ignore", invalid="ignore"):
        want = formats.encode(function(formats.decode(codes, fmt)), fmt, "rn", False).astype(np.int64)
    got = half(name, fmt, "", codes, codes).astype(np.int64)
    assert np.abs(got - want).max() <= 1
