"""Conversions, half arithmetic and approximations against models that share no code with them."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from testing.python.simulator.models import formats
from testing.python.simulator.models.native import call

SEED = 20240611
NARROW = ["f16", "bf16", "tf32", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1"]
HALVES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def convert(to, source, values, mode="rn", flags=""):
    out = np.empty(len(values), dtype=np.uint64)
    call("convert", to, source, mode, flags, np.ascontiguousarray(values, dtype=np.uint64), out)
    return out


def float_bits(values):
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values).astype(np.float32).view(np.uint32).astype(np.uint64)


def double_bits(values):
    return np.asarray(values, dtype=np.float64).view(np.uint64)


def assert_codes(got, want, inputs):
    wrong = np.flatnonzero(got != want)
    assert len(wrong) == 0, [(inputs[i], hex(got[i]), hex(want[i])) for i in wrong[:5]]


@pytest.mark.parametrize("satfinite", [False, True])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp", "rna"])
@pytest.mark.parametrize("name", NARROW)
def test_float_to_narrow(name, mode, satfinite):
    values = formats.interesting_floats(name, np.random.default_rng(SEED), 4000)
    got = convert(name, "f32", float_bits(values), mode, "satfinite" if satfinite else "")
    assert_codes(got, formats.encode(values, name, mode, satfinite), values)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_double_to_half_rounds_once(name):
    rng = np.random.default_rng(SEED)
    table = formats.magnitudes(name)
    middle = rng.choice((table[:-1] + table[1:]) / 2, 4000)
    values = np.concatenate([middle, np.nextafter(middle, np.inf), np.nextafter(middle, 0)])
    assert_codes(convert(name, "f64", double_bits(values)), formats.encode(values, name, "rn", False), values)


@pytest.mark.parametrize("name", ["f16", "bf16", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1"])
def test_narrow_to_float_is_exact(name):
    codes = np.arange(2 << formats.MAGNITUDE_BITS[name], dtype=np.uint64)
    want = formats.decode(codes, name)
    bits = np.where(np.isnan(want), np.uint64(0x7FFFFFFF), float_bits(want))
    assert_codes(convert("f32", name, codes), bits, codes)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_double_to_float(mode):
    rng = np.random.default_rng(SEED)
    single = rng.integers(0, 2**32, 20000, dtype=np.uint32).view(np.float32)
    single = single[np.isfinite(single)].astype(np.float64)
    values = np.concatenate([single, single * (1 + 2.0**-24), single * (1 + 2.0**-30), [1e39, -1e39, 1e-46, -1e-46, 0.0]])
    with np.errstate(over="ignore"):
        nearest = values.astype(np.float32)
        signs = np.copysign(np.float32(0), nearest)
    up = np.where(nearest < values, np.nextafter(nearest, np.float32(np.inf)), nearest)
    down = np.where(nearest > values, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    toward = np.where(values > 0, down, up)
    want = {"rn": nearest, "rz": toward, "rm": down, "rp": up}[mode]
    want = np.where(want == 0, signs, want).astype(np.float32)
    assert_codes(convert("f32", "f64", double_bits(values), mode), float_bits(want), values)


INTEGERS = {
    "u8": (0, 2**8),
    "s8": (-(2**7), 2**7),
    "u16": (0, 2**16),
    "s16": (-(2**15), 2**15),
    "u32": (0, 2**32),
    "s32": (-(2**31), 2**31),
    "u64": (0, 2**64),
    "s64": (-(2**63), 2**63),
}
ROUNDERS = {"rn": round, "rz": math.trunc, "rm": math.floor, "rp": math.ceil}


@pytest.mark.parametrize("mode", list(ROUNDERS))
@pytest.mark.parametrize("to", list(INTEGERS))
def test_float_to_integer_saturates(to, mode):
    rng = np.random.default_rng(SEED)
    low, high = INTEGERS[to]
    edges = [low, high, low - 1, high - 1, 0, -0.5, 0.5, 1.5, 2.5, -1.5, 0.49999997, 1e30, -1e30]
    values = np.concatenate([np.array(edges, dtype=np.float64), rng.normal(0, 300, 500), rng.normal(0, float(high), 500)])
    values = values.astype(np.float32).astype(np.float64)
    want = [min(max(ROUNDERS[mode](v), low), high - 1) % 2**64 for v in values]
    assert_codes(convert(to, "f32", float_bits(values), mode), np.array(want, dtype=np.uint64), values)
    assert list(convert(to, "f32", float_bits([np.nan, np.inf, -np.inf]), mode)) == [0, high - 1, low % 2**64]


def _integer_inputs(source, rng):
    low, high = INTEGERS[source]
    random = [int(v) % (high - low) + low for v in rng.integers(0, 2**64, 300, dtype=np.uint64)]
    return [low, high - 1, 0, 1, *random, *(v >> 20 for v in random)]


@pytest.mark.parametrize("to", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("source", ["s8", "u16", "s32", "u32", "s64", "u64"])
def test_integer_to_float(to, source):
    integers = _integer_inputs(source, np.random.default_rng(SEED))
    got = convert(to, source, np.array([v % 2**64 for v in integers], dtype=np.uint64))
    if to in HALVES:
        want = formats.encode(np.array([formats.double_rounded_to_odd(Fraction(v)) for v in integers]), to, "rn", False)
    elif to == "f32":
        want = float_bits([formats.double_rounded_to_odd(Fraction(v)) for v in integers])
    else:
        want = double_bits([float(v) for v in integers])
    assert_codes(got, want, integers)


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("to", list(INTEGERS))
@pytest.mark.parametrize("source", list(INTEGERS))
def test_integer_to_integer(source, to, saturate):
    integers = _integer_inputs(source, np.random.default_rng(SEED))
    low, high = INTEGERS[to]
    if saturate:
        want = [min(max(v, low), high - 1) for v in integers]
    else:
        want = [(v - low) % (high - low) + low for v in integers]
    got = convert(to, source, np.array([v % 2**64 for v in integers], dtype=np.uint64), "rn", "sat" if saturate else "")
    assert_codes(got, np.array([v % 2**64 for v in want], dtype=np.uint64), integers)


def test_saturation_relu_and_flushing():
    values = float_bits([-1.5, -0.0, 0.25, 1.5, np.nan, np.inf, -np.inf, 1e-40, -1e-40])
    one = 0x3F800000
    assert list(convert("f32", "f32", values, "rn", "sat")) == [
        0,
        0,
        0x3E800000,
        one,
        0,
        one,
        0,
        int(float_bits([1e-40])[0]),
        0,
    ]
    assert list(convert("f16", "f32", values, "rn", "relu")) == [
        0,
        0,
        0x3400,
        0x3E00,
        0x7FFF,
        0x7C00,
        0,
        0,
        0,
    ]
    assert list(convert("f32", "f32", values, "rn", "int ftz"))[-2:] == [0, 0x80000000]
    assert list(convert("s32", "f32", float_bits([1e-40, -1e-40]), "rp", "ftz")) == [0, 0]
    assert list(convert("s32", "f32", float_bits([1e-40]), "rp")) == [1]
    assert list(convert("f32", "f64", double_bits([1e-40, -1e-40]), "rn", "ftz")) == [0, 0x80000000]


@pytest.mark.parametrize("to,width", [("f16", 16), ("bf16", 16), ("e4m3", 8), ("e5m2", 8), ("e2m1", 4)])
def test_packed_pairs(to, width):
    rng = np.random.default_rng(SEED)
    high, low = (rng.normal(0, 10, 500).astype(np.float32) for _ in range(2))
    out = np.empty(500, dtype=np.uint32)
    call("convert_pair", to, "rn", "satfinite", high.view(np.uint32), low.view(np.uint32), out)
    upper, lower = (formats.encode(v.astype(np.float64), to, "rn", True) for v in (high, low))
    assert_codes(out, upper << np.uint64(width) | lower, high)


@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_packed_round_trip_through_f16(name):
    codes = np.arange(256, dtype=np.uint32)
    codes = codes[~np.isnan(formats.decode(codes, name))]
    packed = (codes << 8 | codes[::-1]).astype(np.uint32)
    halves, back = np.empty_like(packed), np.empty_like(packed)
    call("convert_packed", "f16", name, "", packed, halves)
    call("convert_packed", name, "f16", "", halves, back)
    decoded = halves.view(np.float16).astype(np.float64).reshape(-1, 2)
    assert np.array_equal(decoded[:, 1], formats.decode(codes, name))
    assert np.array_equal(decoded[:, 0], formats.decode(codes[::-1], name))
    assert_codes(back, packed, packed)
