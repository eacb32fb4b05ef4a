"""Floating-point instructions against NumPy, which rounds to nearest even in the same formats."""

import math
import zlib
from fractions import Fraction

import numpy as np
import pytest

from testing.python.simulator.models import formats, scalar

F32, F64 = np.float32, np.float64


def flush(x):
    return np.where(np.abs(x) < np.finfo(F32).tiny, np.copysign(F32(0), x), x).astype(F32)


def exact_fma(dtype):
    def one(a, b, c):
        if not all(map(math.isfinite, (a, b, c))):
            return dtype(float(a) * float(b) + float(c)) if dtype is F64 else dtype(F64(a) * F64(b) + F64(c))
        value = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        if value == 0:
            return dtype(F64(a) * F64(b) + F64(c)) if a == 0 or b == 0 else dtype(0.0)
        return round_fraction(value, dtype)

    return lambda a, b, c: np.array([one(*v) for v in zip(a, b, c, strict=True)], dtype)


def round_fraction(value, dtype):
    """The nearest element of dtype, ties to even."""
    info = np.finfo(dtype)
    magnitude = abs(value)
    exponent = max(magnitude.numerator.bit_length() - magnitude.denominator.bit_length(), info.minexp)
    if magnitude < Fraction(2) ** exponent:
        exponent = max(exponent - 1, info.minexp)
    unit = Fraction(2) ** (exponent - info.nmant)
    count = round(magnitude / unit)  # Python rounds ties to even
    result = float(count * unit) if count * unit < Fraction(2) ** info.maxexp else math.inf
    return dtype(math.copysign(result, -1 if value < 0 else 1))


def minimum(a, b):
    r = np.where(np.isnan(a), b, np.where(np.isnan(b), a, np.where(a == b, np.where(np.signbit(a), a, b), np.where(a < b, a, b))))
    return r.astype(a.dtype)


def maximum(a, b):
    return -minimum(-a, -b)


def saturate(x):
    return np.where(x > 0, np.where(x < 1, x, 1), 0).astype(F32)


CASES = []
for t, dtype in (("f32", F32), ("f64", F64)):
    CASES += [
        (f"add.{t} {{d}}, {{a}}, {{b}};", t, 2, lambda a, b: a + b),
        (f"add.rn.{t} {{d}}, {{a}}, {{b}};", t, 2, lambda a, b: a + b),
        (f"sub.{t} {{d}}, {{a}}, {{b}};", t, 2, lambda a, b: a - b),
        (f"mul.{t} {{d}}, {{a}}, {{b}};", t, 2, lambda a, b: a * b),
        (f"fma.rn.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, 3, exact_fma(dtype)),
        (f"mad.rn.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, 3, exact_fma(dtype)),
        (f"div.rn.{t} {{d}}, {{a}}, {{b}};", t, 2, lambda a, b: a / b),
        (f"rcp.rn.{t} {{d}}, {{a}};", t, 1, lambda a: 1 / a),
        (f"sqrt.rn.{t} {{d}}, {{a}};", t, 1, np.sqrt),
        (f"min.{t} {{d}}, {{a}}, {{b}};", t, 2, minimum),
        (f"max.{t} {{d}}, {{a}}, {{b}};", t, 2, maximum),
        (f"abs.{t} {{d}}, {{a}};", t, 1, np.abs),
        (f"neg.{t} {{d}}, {{a}};", t, 1, np.negative),
    ]
CASES += [
    ("add.ftz.f32 {d}, {a}, {b};", "f32", 2, lambda a, b: flush(flush(a) + flush(b))),
    ("mul.ftz.f32 {d}, {a}, {b};", "f32", 2, lambda a, b: flush(flush(a) * flush(b))),
    ("add.sat.f32 {d}, {a}, {b};", "f32", 2, lambda a, b: saturate(a + b)),
    ("mul.ftz.sat.f32 {d}, {a}, {b};", "f32", 2, lambda a, b: saturate(flush(flush(a) * flush(b)))),
    ("abs.ftz.f32 {d}, {a};", "f32", 1, lambda a: np.abs(flush(a))),
    ("min.NaN.f32 {d}, {a}, {b};", "f32", 2, lambda a, b: np.where(np.isnan(a) | np.isnan(b), F32(np.nan), minimum(a, b))),
    ("copysign.f32 {d}, {a}, {b};", "f32", 2, lambda a, b: np.copysign(b, a)),
]


@pytest.mark.parametrize("text,t,count,model", CASES, ids=[c[0].split(" ")[0] for c in CASES])
def test_instruction(text, t, count, model):
    seed = zlib.crc32(text.encode())
    arrays = scalar.operands([t] * count, seed)
    with np.errstate(all="ignore"):
        want = np.asarray(model(*arrays), scalar.DTYPES[t])
    got = scalar.run(text, t, [t] * count, arrays)
    assert scalar.same(got, want), f"seed {seed}: " + scalar.explain(got, want, arrays)


@pytest.mark.parametrize("operation,model", [("add", np.add), ("sub", np.subtract), ("mul", np.multiply)])
def test_half_precision_scalar_and_packed(operation, model):
    a, b = scalar.operands(["f16", "f16"], 7)
    with np.errstate(all="ignore"):
        want = model(a, b)
    got = scalar.run(f"{operation}.f16 {{d}}, {{a}}, {{b}};", "f16", ["f16", "f16"], [a, b])
    assert scalar.same(got, want), scalar.explain(got, want, [a, b])
    pair = [np.repeat(x.view(np.uint16).astype(np.uint32), 1) * 0x10001 for x in (a, b)]
    packed = scalar.run(f"{operation}.rn.f16x2 {{d}}, {{a}}, {{b}};", "b32", ["b32", "b32"], pair)
    for half in (packed & 0xFFFF, packed >> 16):
        assert scalar.same(half.astype(np.uint16).view(np.float16), want)


APPROXIMATIONS = {
    "ex2.approx.f32": (np.exp2, 2.0**-22), "lg2.approx.f32": (np.log2, 2.0**-20), "rcp.approx.f32": (lambda x: 1 / x, 2.0**-22),
    "rsqrt.approx.f32": (lambda x: 1 / np.sqrt(x), 2.0**-21), "sqrt.approx.f32": (np.sqrt, 2.0**-22),
    "tanh.approx.f32": (np.tanh, 2.0**-10), "sin.approx.f32": (np.sin, 2.0**-18), "cos.approx.f32": (np.cos, 2.0**-18),
}  # fmt: skip


@pytest.mark.parametrize("name", APPROXIMATIONS)
def test_approximation_is_close(name):
    function, bound = APPROXIMATIONS[name]
    x = np.random.default_rng(8).uniform(0.01, 3.0, scalar.LANES).astype(F32)
    got = scalar.run(f"{name} {{d}}, {{a}};", "f32", ["f32"], [x])
    want = function(x.astype(F64))
    assert np.all(np.abs(got - want) <= bound * np.maximum(np.abs(want), 1)), name


def test_division_approximations():
    rng = np.random.default_rng(9)
    a, b = rng.standard_normal((2, scalar.LANES)).astype(F32)
    for form in ("approx", "full", "approx.ftz", "full.ftz"):
        got = scalar.run(f"div.{form}.f32 {{d}}, {{a}}, {{b}};", "f32", ["f32", "f32"], [a, b])
        assert np.allclose(got, a / b, rtol=2.0**-21)


@pytest.mark.parametrize("rounding,direction", [("rz", 0), ("rm", -1), ("rp", 1)])
def test_directed_rounding(rounding, direction):
    a, b = scalar.operands(["f32", "f32"], 10)
    keep = np.isfinite(a) & np.isfinite(b)
    a, b = np.where(keep, a, 1).astype(F32), np.where(keep, b, 1).astype(F32)
    got = scalar.run(f"add.{rounding}.f32 {{d}}, {{a}}, {{b}};", "f32", ["f32", "f32"], [a, b])
    for x, y, r in zip(a, b, got, strict=True):
        exact = Fraction(float(x)) + Fraction(float(y))
        rounded = Fraction(float(r))
        toward = (exact > 0) * -1 + (exact < 0) * 1 if direction == 0 else direction
        assert rounded == exact or (rounded > exact) == (toward > 0)
        neighbour = Fraction(float(np.nextafter(r, F32(-np.inf if toward > 0 else np.inf))))
        assert rounded == exact or (neighbour - exact) * (rounded - exact) < 0 or neighbour == exact


COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


@pytest.mark.parametrize("t", ["u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64", "f16"])
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparison(name, t):
    a, b = scalar.operands([t, t], 11)
    b[::3] = a[::3]
    want = COMPARISONS[name](a, b)
    if np.dtype(scalar.DTYPES[t]).kind == "f":
        unordered = np.isnan(a) | np.isnan(b)
        got = scalar.run(f"setp.{name}u.{t} {{d}}, {{a}}, {{b}};", "pred", [t, t], [a, b])
        assert np.array_equal(got, want | unordered)
        want = want & ~unordered
    got = scalar.run(f"setp.{name}.{t} {{d}}, {{a}}, {{b}};", "pred", [t, t], [a, b])
    assert np.array_equal(got, want)


def test_comparison_with_boolean_operator_and_second_result():
    a, b = scalar.operands(["s32", "s32"], 12)
    text = "{{.reg .pred p, q, r; setp.gt.s32 r, {a}, 0; setp.lt.and.s32 p|q, {a}, {b}, r; xor.pred {d}, p, q; }}"
    assert np.array_equal(scalar.run(text, "pred", ["s32", "s32"], [a, b]), (a > 0))
    text = "setp.num.f32 {d}, {a}, {b};"
    x, y = scalar.operands(["f32", "f32"], 13)
    assert np.array_equal(scalar.run(text, "pred", ["f32", "f32"], [x, y]), ~(np.isnan(x) | np.isnan(y)))


def test_selection():
    a, b, c = scalar.operands(["b32", "b32", "s32"], 14)
    want = np.where(c >= 0, a, b)
    assert np.array_equal(scalar.run("slct.b32.s32 {d}, {a}, {b}, {c};", "b32", ["b32", "b32", "s32"], [a, b, c]), want)
    text = "{{.reg .pred p; setp.ge.s32 p, {c}, 0; selp.b32 {d}, {a}, {b}, p; }}"
    assert np.array_equal(scalar.run(text, "b32", ["b32", "b32", "s32"], [a, b, c]), want)
    text = "set.ge.u32.s32 {d}, {a}, 0;"
    assert np.array_equal(scalar.run(text, "u32", ["s32"], [c]), np.where(c >= 0, np.uint32(0xFFFFFFFF), np.uint32(0)))
    text = "set.ge.f32.s32 {d}, {a}, 0;"
    assert np.array_equal(scalar.run(text, "f32", ["s32"], [c]), (c >= 0).astype(F32))


INTEGER_RANGES = {f"s{n}": (-(2 ** (n - 1)), 2 ** (n - 1) - 1) for n in (8, 16, 32, 64)}
INTEGER_RANGES |= {f"u{n}": (0, 2**n - 1) for n in (8, 16, 32, 64)}


@pytest.mark.parametrize("t", ["s32", "u32", "s64", "u64", "s16", "u16"])
@pytest.mark.parametrize("rounding,f", [("rni", round), ("rzi", int), ("rmi", math.floor), ("rpi", math.ceil)])
def test_float_to_integer_clamps(t, rounding, f):
    (x,) = scalar.operands(["f32"], 15)
    low, high = INTEGER_RANGES[t]
    got = scalar.run(f"cvt.{rounding}.{t}.f32 {{d}}, {{a}};", t, ["f32"], [x])
    for value, result in zip(x, got, strict=True):
        if math.isnan(value):
            # PTX: NaN becomes 0, but all ones of the sign bit for 64-bit results.
            assert int(result) in (0, -(2**63), 2**63, 2**64 - 1)
            continue
        exact = value if math.isinf(value) else f(float(value))
        assert int(result) == int(max(low, min(high, exact)))


@pytest.mark.parametrize("source", ["s32", "u32", "s64", "u64", "s16", "u16"])
@pytest.mark.parametrize("target", ["f32", "f64", "f16"])
def test_integer_to_float(source, target):
    (x,) = scalar.operands([source], 16)
    got = scalar.run(f"cvt.rn.{target}.{source} {{d}}, {{a}};", target, [source], [x])
    with np.errstate(over="ignore"):
        want = np.array([round_fraction(Fraction(int(v)), scalar.DTYPES[target]) if v else 0 for v in x], scalar.DTYPES[target])
    assert scalar.same(got, want), scalar.explain(got, want, [x])


@pytest.mark.parametrize("source", ["s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("target", ["s16", "u16", "s32", "u32", "s64", "u64"])
def test_integer_to_integer(source, target):
    (x,) = scalar.operands([source], 17)
    got = scalar.run(f"cvt.{target}.{source} {{d}}, {{a}};", target, [source], [x])
    assert np.array_equal(got, np.array([scalar.wrap(int(v), target) for v in x], got.dtype))
    if target != source:
        low, high = INTEGER_RANGES[target]
        got = scalar.run(f"cvt.sat.{target}.{source} {{d}}, {{a}};", target, [source], [x])
        assert np.array_equal(got, np.array([max(low, min(high, int(v))) for v in x], got.dtype))


def test_narrow_integers_in_wide_registers():
    (x,) = scalar.operands(["u32"], 18)
    for text, want in (
        ("cvt.s32.s8 {d}, {a};", x.astype(np.uint8).view(np.int8).astype(np.int32)),
        ("cvt.u32.u8 {d}, {a};", (x & 0xFF).astype(np.int32)),
        ("cvt.s32.s16 {d}, {a};", x.astype(np.uint16).view(np.int16).astype(np.int32)),
        ("cvt.u32.u16 {d}, {a};", (x & 0xFFFF).astype(np.int32)),
    ):
        assert np.array_equal(scalar.run(text, "s32", ["u32"], [x]), want), text


@pytest.mark.parametrize("name", ["f16", "bf16", "e4m3", "e5m2"])
def test_packed_conversions_round_trip(name):
    """Every code of the format survives widening and narrowing; the widened values are the format's."""
    codes = np.arange(256, dtype=np.uint32) * (257 if name in ("f16", "bf16") else 1)
    with np.errstate(invalid="ignore"):
        values = np.array([formats.decode(int(c), name) for c in codes], F32)
    if name in ("f16", "bf16"):
        low = scalar.run(f"cvt.rn.{name}x2.f32 {{d}}, {{b}}, {{a}};", "b32", ["f32", "f32"], [values, values])
        good = ~np.isnan(values)
        assert np.array_equal((low & 0xFFFF)[good], codes[good])
        assert np.array_equal((low >> 16)[good], codes[good])
    else:
        text = f"{{{{.reg .b16 h; cvt.rn.satfinite.{name}x2.f32 h, {{a}}, {{a}}; cvt.u32.u16 {{d}}, h; }}}}"
        low = scalar.run(text, "b32", ["f32"], [values])
        good = np.isfinite(values)
        assert np.array_equal((low & 0xFF)[good], codes[good])
        text = f"{{{{.reg .b16 h; .reg .b32 w; cvt.u16.u32 h, {{a}}; cvt.rn.f16x2.{name}x2 w, h; mov.b32 {{d}}, w; }}}}"
        wide = scalar.run(text, "b32", ["b32"], [codes * 257])
        halves = (wide & 0xFFFF).astype(np.uint16).view(np.float16).astype(F32)
        assert scalar.same(halves[good], values[good])
