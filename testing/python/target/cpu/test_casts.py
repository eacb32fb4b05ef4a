"""Conversions between element types: every bit pattern of the narrow formats, and rounding, as torch does them."""

import pytest
import torch

import tilelang.language as T
from tilelang.ir.rounding import round_constant
from tilelang.target.cpu import formats

from .support import build, on_both

NARROW = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
}


def conversion(N, source, target):
    @T.prim_func
    def main(X: T.Tensor((N,), source), Y: T.Tensor((N,), target)):
        with T.Kernel(T.ceildiv(N, 1024), threads=128) as bx:
            for i in T.Parallel(1024):
                Y[bx * 1024 + i] = T.cast(X[bx * 1024 + i], target)

    return main


def every_value(dtype: torch.dtype) -> torch.Tensor:
    if dtype.itemsize == 1:
        return torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype)
    return torch.arange(65536, dtype=torch.int32).to(torch.int16).view(dtype)


def assert_same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal, NaN counting as equal to NaN, and zeros by sign."""
    a, b = actual.double(), expected.double()
    assert torch.equal(torch.isnan(a), torch.isnan(b))
    kept = ~torch.isnan(a)
    assert torch.equal(a[kept], b[kept])
    assert torch.equal(torch.signbit(a[kept]), torch.signbit(b[kept]))


@on_both
@pytest.mark.parametrize("name", NARROW)
def test_widening_every_value(name, target):
    x = every_value(NARROW[name])
    y = build(conversion(x.numel(), name, "float32"), target, out_idx=-1)(x)
    assert_same(y, x.float())


@on_both
@pytest.mark.parametrize("name", NARROW)
def test_narrowing_rounds_as_torch(name, target):
    """Around every value of the format: the value, its neighbours in float32, and the midpoints between values."""
    dtype = NARROW[name]
    values = every_value(dtype).float()
    values = values[torch.isfinite(values)].sort().values
    middles = ((values[1:].double() + values[:-1].double()) / 2).float()
    around = torch.cat([values, middles])
    nudged = [torch.nextafter(around, torch.tensor(limit)) for limit in (float("inf"), float("-inf"))]
    beyond = torch.tensor([float("inf"), -float("inf"), float("nan"), 449.0, 464.0, 464.1, 480.0, 57345.0, 61440.0,
                           65519.0, 65520.0, 3.4e38, -3.4e38, 1e-45, -1e-45, 0.0, -0.0])  # fmt: skip
    x = torch.cat([around, *nudged, beyond])
    y = build(conversion(x.numel(), "float32", name), target, out_idx=-1)(x)
    assert_same(y, x.to(dtype))


@on_both
@pytest.mark.parametrize("name", NARROW)
def test_float64_is_rounded_once(name, target):
    """Next to the middle between two values; as a float32 it would be the middle itself."""
    dtype = NARROW[name]
    values = every_value(dtype).float()
    values = values[torch.isfinite(values)].double().sort().values
    low, high = values[:-1], values[1:]
    middle, infinity = (low + high) / 2, torch.tensor(float("inf"), dtype=torch.float64)
    special = torch.tensor([float("inf"), -float("inf"), float("nan"), 1e300, -1e300, 1e-300, -1e-300, 0.0], dtype=torch.float64)
    x = torch.cat([torch.nextafter(middle, -infinity), middle, torch.nextafter(middle, infinity), special])
    expected = torch.cat([low, middle.float().to(dtype).double(), high, special.float().to(dtype).double()])
    # Of zeros, the sign is that of the number.
    expected = torch.where(expected == 0, torch.copysign(expected, x), expected)
    y = build(conversion(x.numel(), "float64", name), target, out_idx=-1)(x)
    assert_same(y, expected)


@pytest.mark.parametrize("name", NARROW)
def test_constants_are_rounded_like_run_time_values(name):
    values = [0.0, 1.0, -1.5, 0.1, 1e-3, 3.14159, 447.9, 1e-8, 60000.0, -(2.0**-9), float("inf"), -float("inf")]
    for value in values:
        rounded = round_constant(value, name)
        expected = torch.tensor(value).to(NARROW[name])
        assert_same(torch.tensor(rounded), expected.float())
        pattern = formats.bit_pattern(rounded, name)
        width = torch.uint8 if expected.itemsize == 1 else torch.int16
        stored = expected.view(width).item() & (0xFF if width == torch.uint8 else 0xFFFF)
        assert pattern == stored or torch.isnan(expected.float())


@on_both
@pytest.mark.parametrize("source", ["int8", "uint8", "int16", "int32", "int64", "bool"])
@pytest.mark.parametrize("result", ["float16", "float32", "float64", "int32", "uint8", "bool"])
def test_integer_conversions(source, result, target):
    x = torch.tensor([0, 1, 2, 3, 5, 100, 127] * 3).to(getattr(torch, source))
    y = build(conversion(x.numel(), source, result), target, out_idx=-1)(x)
    assert torch.equal(y, x.to(getattr(torch, result)))


@on_both
@pytest.mark.parametrize(("result", "digits"), [("float64", 53), ("float32", 24)])
def test_uint64_is_rounded_once(result, digits, target):
    numbers = [0, 1, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**63 + 1025, 2**64 - 1024, 2**64 - 1]
    near = [513, 1025, *(1 << k for k in range(64 - digits))]
    numbers += [(2**k + sign * d) % 2**64 for k in range(digits - 1, 64) for d in near for sign in (-1, 1)]
    numbers += [2**63 + 3 * 2 ** (63 - digits) + d for d in (-1, 0, 1)]
    x = torch.tensor([n - 2**64 if n >= 2**63 else n for n in numbers]).view(torch.uint64)
    y = build(conversion(x.numel(), "uint64", result), target, out_idx=-1)(x)
    assert y.tolist() == [float(rounded(n, digits)) for n in numbers]


def rounded(number: int, digits: int) -> int:
    """An integer rounded to so many binary digits, ties to even."""
    shift = max(number.bit_length() - digits, 0)
    kept, half = number >> shift, (1 << shift) >> 1
    rest = number - (kept << shift)
    return kept + (rest > half or (rest == half and shift and kept & 1)) << shift


@on_both
def test_float_to_integer_truncates(target):
    x = torch.tensor([0.0, 0.9, -0.9, 1.5, -1.5, 1000.7, -1000.7])
    y = build(conversion(x.numel(), "float32", "int32"), target, out_idx=-1)(x)
    assert y.tolist() == [0, 0, 0, 1, -1, 1000, -1000]


@on_both
@pytest.mark.parametrize("clamp", [T.clamp, lambda x, low, high: T.min(T.max(x, low), high)])
@pytest.mark.parametrize(("result", "largest"), [("int32", 2**31 - 1), ("uint32", 2**32 - 1), ("int64", 2**63 - 1)])
def test_limits_are_rounded_before_a_conversion(result, largest, clamp, target):
    """The largest integer is no float32: the limit is the first number that the integer type does not have."""

    @T.prim_func
    def main(X: T.Tensor((16,), "float32"), Y: T.Tensor((16,), result)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                Y[i] = T.cast(clamp(X[i], T.float32(0.0), T.float32(float(largest))), result)

    y = build(main, target, out_idx=-1)(torch.full((16,), 1e20))
    assert y.tolist() == [largest] * 16


@on_both
@pytest.mark.parametrize("integer", ["int32", "int64"])
@pytest.mark.parametrize("real", ["float32", "float64"])
def test_an_integer_zero_has_no_sign(real, integer, target):
    """GCC takes a float that was an integer in between for the float without its fraction, which is -0.0."""

    @T.prim_func
    def main(X: T.Tensor((1,), real), Y: T.Tensor((5,), real)):
        with T.Kernel(1, threads=32):
            Y[0] = T.cast(T.cast(X[0], integer), real)
            named = T.cast(X[0], integer)
            Y[1] = T.cast(named, real)
            variable = T.alloc_var(integer)
            variable = T.cast(X[0], integer)
            Y[2] = T.cast(variable, real)
            Y[3] = T.cast(T.if_then_else(X[0] > -100, T.cast(X[0], integer), 5), real)
            Y[4] = T.cast(T.cast(T.cast(X[0], integer), "int64"), real)

    y = torch.ones(5, dtype=getattr(torch, real))
    build(main, target)(torch.full((1,), -0.5, dtype=y.dtype), y)
    assert torch.equal(y, torch.zeros_like(y)) and not y.signbit().any()
