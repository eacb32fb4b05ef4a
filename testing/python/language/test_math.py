"""Scalar arithmetic: elementary functions against torch, integers against Python, folding of Python numbers."""

import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
from testing.python.frontend.support import error_at_mark
from tilelang.errors import CompileError

from .support import assert_close, name_of, random, run

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
UNARY = {
    # function -> (torch's, lowest and highest argument)
    "exp": (torch.exp, -4, 4),
    "exp2": (torch.exp2, -5, 5),
    "exp10": (lambda x: torch.pow(torch.tensor(10.0, dtype=x.dtype), x), -2, 2),
    "log": (torch.log, 0.01, 50),
    "log2": (torch.log2, 0.01, 50),
    "log10": (torch.log10, 0.01, 50),
    "log1p": (torch.log1p, -0.9, 50),
    "sqrt": (torch.sqrt, 0, 50),
    "rsqrt": (torch.rsqrt, 0.01, 50),
    "sin": (torch.sin, -6, 6),
    "cos": (torch.cos, -6, 6),
    "tan": (torch.tan, -1.3, 1.3),
    "asin": (torch.asin, -1, 1),
    "acos": (torch.acos, -1, 1),
    "atan": (torch.atan, -9, 9),
    "sinh": (torch.sinh, -4, 4),
    "cosh": (torch.cosh, -4, 4),
    "tanh": (torch.tanh, -4, 4),
    "asinh": (torch.asinh, -9, 9),
    "acosh": (torch.acosh, 1, 9),
    "atanh": (torch.atanh, -0.9, 0.9),
    "sigmoid": (torch.sigmoid, -8, 8),
    "erf": (torch.erf, -3, 3),
    "abs": (torch.abs, -9, 9),
    "ceil": (torch.ceil, -9, 9),
    "floor": (torch.floor, -9, 9),
    "trunc": (torch.trunc, -9, 9),
    "nearbyint": (torch.round, -9, 9),
    "round": (torch.round, -9, 9),
}
N = 512


def elementwise(function, dtype, arity=1, out=None):
    """A program that applies ``function`` to ``arity`` tensors of N elements."""
    out = out or dtype
    if arity == 1:

        @T.prim_func
        def unary(A: T.Tensor((N,), dtype), C: T.Tensor((N,), out)):
            with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
                for i in T.Parallel(128):
                    C[bx * 128 + i] = function(A[bx * 128 + i])

        return unary

    @T.prim_func
    def binary(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), out)):
        with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
            for i in T.Parallel(128):
                C[bx * 128 + i] = function(A[bx * 128 + i], B[bx * 128 + i])

    return binary


@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
@pytest.mark.parametrize("name", UNARY)
def test_elementary_function(name, dtype):
    reference, low, high = UNARY[name]
    x = torch.linspace(low, high, N, dtype=torch.float64).to(dtype)
    y = run(elementwise(getattr(T, name), name_of(dtype)), x, out_idx=-1)
    assert_close(y, reference(x.double()).to(dtype), factor=4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=name_of)
@pytest.mark.parametrize("name", ["atan2", "fmod", "hypot", "copysign", "pow", "max", "min"])
def test_binary_function(name, dtype):
    references = {"fmod": torch.fmod, "max": torch.maximum, "min": torch.minimum}
    a, b = random((N,), dtype, 1), random((N,), dtype, 2)
    a, b = (a.abs() + 0.5, b) if name == "pow" else (a, b)
    reference = references.get(name) or getattr(torch, name)
    y = run(elementwise(getattr(T, name), name_of(dtype), arity=2), a, b, out_idx=-1)
    assert_close(y, reference(a.double(), b.double()).to(dtype), factor=4)


@pytest.mark.parametrize("name", ["__exp", "__exp10", "__log", "__log2", "__log10", "__sin", "__cos", "__tan", "fast_rcp"])
def test_fast_math(name):
    reference = {"fast_rcp": torch.reciprocal, "__exp10": UNARY["exp10"][0]}.get(name) or getattr(torch, name.strip("_"))
    x = torch.linspace(0.1, 1.4, N)
    y = run(elementwise(getattr(T, name), "float32"), x, out_idx=-1)
    torch.testing.assert_close(y, reference(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["ieee_add", "ieee_sub", "ieee_mul", "ieee_fdiv"])
def test_ieee_operations(name):
    reference = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "fdiv": torch.div}[name.removeprefix("ieee_")]
    a, b = random((N,), torch.float32, 3), random((N,), torch.float32, 4)
    assert torch.equal(run(elementwise(getattr(T, name), "float32", arity=2), a, b, out_idx=-1), reference(a, b))


def test_fused_multiply_add_rounds_once():
    a = torch.full((N,), 1 + 2.0**-12)
    c = run(elementwise(lambda x: T.fma(x, x, -1.0), "float32"), a, out_idx=-1)
    assert torch.equal(c, (a.double() * a.double() - 1).float())
    c = run(elementwise(lambda x: T.ieee_fmaf(x, x, -1.0), "float32"), a, out_idx=-1)
    assert torch.equal(c, (a.double() * a.double() - 1).float())


def test_ieee_refuses_an_unknown_rounding_mode():
    with pytest.raises(CompileError, match="rounding_mode='up' is none of rn, rz, ru, rd"):
        elementwise(lambda x: T.ieee_add(x, x, rounding_mode="up"), "float32")


CASTS = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.int32,
    torch.int8,
    torch.uint8,
]


@pytest.mark.parametrize("target", CASTS, ids=name_of)
@pytest.mark.parametrize("source", CASTS, ids=name_of)
def test_cast(source, target):
    x = random((N,), source, 5)
    x = x if target.is_signed or not x.dtype.is_signed else x.abs() if not x.dtype.itemsize == 1 else x.float().abs().to(x.dtype)
    y = run(elementwise(lambda v: T.cast(v, name_of(target)), name_of(source), out=name_of(target)), x, out_idx=-1)
    assert torch.equal(y.float(), x.float().to(target).float())


def test_cast_saturates_nothing_and_rounds_to_even():
    x = torch.tensor([1 + 2.0**-11, 1 + 3 * 2.0**-11, 65519.0, 70000.0] * (N // 4))
    y = run(elementwise(lambda v: T.float16(v), "float32", out="float16"), x, out_idx=-1)
    assert torch.equal(y, x.half())


def test_where_halves_are_rounded_to():
    x = torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.4, 3.6] * (N // 8))
    assert torch.equal(run(elementwise(T.round, "float32"), x, out_idx=-1), torch.round(x))
    away = run(elementwise(lambda v: T.round(v, "ties-away-from-zero"), "float32"), x, out_idx=-1)
    assert away[:8].tolist() == [-3, -2, -1, 1, 2, 3, 3, 4]
    assert (T.round(2.5), T.round(2.5, "ties-away-from-zero")) == (2, 3)
    with pytest.raises(CompileError, match="rounding_mode='up' is none of"):
        T.round(2.5, "up")


def test_logic():
    x = torch.arange(N, dtype=torch.int32) % 4
    y = run(elementwise(lambda v: T.And(T.Not(v == 1), T.Or(v > 2, T.Not(v))), "int32", out="bool"), x, out_idx=-1)
    assert torch.equal(y, (x != 1) & ((x > 2) | (x == 0)))
    assert (T.Not(0), T.And(1, 0), T.Or(1, 0)) == (True, False, True)


def test_bits_of_a_narrow_integer_that_arithmetic_made_wider():
    exponents = torch.arange(N, dtype=torch.int32) % 254 + 1
    made = run(elementwise(lambda v: T.reinterpret(T.uint16(v) << 7, "bfloat16"), "int32", out="bfloat16"), exponents, out_idx=-1)
    assert torch.equal(made.float(), torch.exp2(exponents.float() - 127))


def test_reinterpret_round_trip():
    x = random((N,), torch.float32, 6)
    bits = run(elementwise(lambda v: T.reinterpret("int32", v), "float32", out="int32"), x, out_idx=-1)
    assert torch.equal(bits, x.view(torch.int32))
    again = run(elementwise(lambda v: T.reinterpret(v, T.float32), "int32", out="float32"), bits, out_idx=-1)
    assert torch.equal(again, x)
    with pytest.raises(CompileError, match="float32 has 32 bits, int16 has 16"):
        elementwise(lambda v: T.reinterpret("int16", v), "float32", out="int16")


def test_a_slice_is_not_reinterpreted_element_by_element():
    with error_at_mark(CompileError, r"(?s)float32x64 has 2048 bits, int32 has 32.*T\.view"):

        @T.prim_func
        def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "int32")):
            with T.Kernel(1):
                B[:] = T.reinterpret(A[:], "int32")  # <- error


@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
def test_classification(dtype):
    x = torch.tensor([0.0, 1.0, -math.inf, math.inf, math.nan, -2.5, 3.0, -0.0] * (N // 8)).to(dtype)
    for name in ("isnan", "isinf", "isfinite"):
        y = run(elementwise(getattr(T, name), name_of(dtype), out="bool"), x, out_idx=-1)
        assert torch.equal(y, getattr(torch, name)(x)), name


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_limits_of_floats(name):
    info = torch.finfo(getattr(torch, name))
    assert T.max_value(name) == info.max
    assert T.min_value(name) == info.min


@pytest.mark.parametrize("name", ["int64", "int32", "int16", "int8", "uint8"])
def test_limits_of_integers(name):
    info = torch.iinfo(getattr(torch, name))
    assert (T.max_value(name), T.min_value(name)) == (info.max, info.min)


def test_infinity():
    assert T.infinity("float16") == math.inf
    with pytest.raises(CompileError, match="float8_e4m3fn has no infinity"):
        T.infinity("float8_e4m3")


@pytest.mark.parametrize("target", ["cpu", {"kind": "cuda", "arch": "sm_90a"}])
def test_infinity_of_float8_is_stored(target):
    @tilelang.jit(target=target, out_idx=[-2, -1])
    def infinities():
        @T.prim_func
        def main(A: T.Tensor((8,), "float8_e5m2"), B: T.Tensor((8,), "float8_e5m2")):
            with T.Kernel(1, threads=32):
                T.fill(A, T.infinity("float8_e5m2"))
                for i in T.Parallel(8):
                    B[i] = -T.infinity("float8_e5m2")

        return main

    with tilelang.simulator():
        high, low = infinities()()
    assert high.float().tolist() == [math.inf] * 8 and low.float().tolist() == [-math.inf] * 8


INTEGERS = {
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "truncdiv": lambda a, b: int(a / b),
    "truncmod": lambda a, b: int(math.fmod(a, b)),
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "max": max,
    "min": min,
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_function(name):
    a = torch.randint(-1000, 1000, (N,), generator=torch.Generator().manual_seed(7), dtype=torch.int32)
    b = torch.randint(1, 50, (N,), generator=torch.Generator().manual_seed(8), dtype=torch.int32)
    b[::2] *= -1
    y = run(elementwise(getattr(T, name), "int32", arity=2), a, b, out_idx=-1)
    assert y.tolist() == [INTEGERS[name](p, q) for p, q in zip(a.tolist(), b.tolist())]


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
def test_remainder_by_an_unsigned_zero(dtype):
    """Of the run-time value it is 0; the constant is a mistake."""
    a = (torch.arange(N) % 128).to(getattr(torch, dtype))
    y = run(elementwise(lambda x: T.floormod(x, T.shift_right(x, 7)), dtype), a, out_idx=-1)
    assert y.tolist() == [0] * N
    with pytest.raises(CompileError, match="division by zero"):
        elementwise(lambda x: T.floormod(x, getattr(T, dtype)(0)), dtype)


def test_shifts_and_bit_counts():
    a = torch.randint(1, 2**30, (N,), generator=torch.Generator().manual_seed(9), dtype=torch.int32)
    cases = {
        "shift_left": (lambda x: T.shift_left(x, 1), lambda x: x << 1),
        "shift_right": (lambda x: T.shift_right(-x, 3), lambda x: -x >> 3),
        "popcount": (T.popcount, lambda x: bin(x).count("1")),
        "clz": (T.clz, lambda x: 32 - x.bit_length()),
        "not": (T.bitwise_not, lambda x: ~x),
        "operators": (lambda x: ((x << 2) ^ (x & 255)) | (x >> 4), lambda x: _int32((x << 2) ^ (x & 255)) | (x >> 4)),
    }
    for name, (function, reference) in cases.items():
        y = run(elementwise(function, "int32"), a, out_idx=-1)
        assert y.tolist() == [_int32(reference(x)) for x in a.tolist()], name


def _int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**6), 10**6), st.integers(-(10**4), 10**4).filter(bool))
def test_python_integers_fold(a, b):
    assert T.floordiv(a, b) == a // b
    assert T.truncdiv(a, b) == (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
    assert T.truncdiv(a, b) * b + T.truncmod(a, b) == a
    if b > 0:
        assert T.ceildiv(a, b) == math.ceil(a / b)
    assert type(T.max(a, b)) is int and T.max(a, b) == max(a, b)


def test_python_numbers_need_no_compiler():
    code = (
        "import sys, tilelang.language as T;"
        "assert (T.ceildiv(1000, 128), T.max(1, 2.5), T.min(3, 2), T.abs(-2), T.pow(2, 5)) == (8, 2.5, 2, 2, 32);"
        "assert T.infinity('float32') == float('inf') and T.exp(0) == 1.0 and T.clamp(5, 0, 3) == 3;"
        "assert T.if_then_else(True, 1, 2) == 1 and T.clz(1) == 31 and T.popcount(7) == 3;"
        "assert 'tvm' not in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_promotion_follows_the_operators():
    @T.prim_func
    def main(x: T.float16, y: T.float32, z: T.bfloat16, i: T.int32, u: T.uint8, out: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            kinds = [
                T.max(x, y), T.max(x, 0), T.max(x, 0.5), T.max(x, z), T.max(i, u), T.max(i, y), T.max(u, 300), T.min(u, 3),
                T.if_then_else(i > 0, x, 0), T.exp(i), T.sqrt(u), x + i, x * 2.5,
            ]  # fmt: skip
            assert [str(kind.ty) for kind in kinds] == [
                "float32", "float16", "float32", "float32", "int32", "float32", "int32", "int32", "float16", "float32", "float32",
                "float16", "float32",
            ]  # fmt: skip
            out[0] = 0.0


@pytest.mark.parametrize("exponent", [1, 2, 3, 4, 0.5, -1.0])
def test_powers(exponent):
    @T.prim_func
    def power(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(N):
                B[i] = A[i] ** exponent

    x = random((N,), torch.float32, 10).abs() + 0.5
    assert_close(run(power, x, out_idx=-1), x.double() ** exponent, factor=4)


@pytest.mark.parametrize("target", ["interpret", "cpu", "c"])
def test_a_power_of_one_half_is_no_root(target):
    """As C has it: of -0.0 it is 0.0, and of -inf inf."""

    @T.prim_func
    def power(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = A[i] ** 0.5

    b = torch.zeros(4)
    tilelang.compile(power, target=target)(torch.tensor([-0.0, -math.inf, 4.0, 0.0]), b)
    assert b.tolist() == [0.0, math.inf, 2.0, 0.0] and not b.signbit().any()


def raised(x, exponent):
    """A helper that is plain Python."""
    return x**exponent + 2.0**x


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_powers_of_every_float_in_helpers(dtype):
    name = name_of(dtype)

    @T.prim_func
    def power(A: T.Tensor((N,), name), B: T.Tensor((N,), name)):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(N):
                B[i] = raised(A[i], 2.5) + T.pow(A[i], A[i])

    x = (random((N,), torch.float32, 10).abs() / 4 + 0.5).to(dtype)
    wide = x.double()
    assert_close(run(power, x, out_idx=-1), (wide**2.5 + 2.0**wide + wide**wide).to(dtype), factor=4)


def test_wrong_number_of_arguments():
    for call in (lambda: T.exp(1, 2), lambda: T.max(), lambda: T.ceildiv(1)):
        with pytest.raises(CompileError, match="argument"):
            call()


def test_integers_only():
    with pytest.raises(CompileError, match="T.ceildiv takes integers, got float32"):
        elementwise(lambda v: T.ceildiv(v, 2), "float32")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_ieee_operations_of_halves_are_rounded_once(dtype):
    @T.prim_func
    def main(A: T.Tensor((64,), dtype), B: T.Tensor((64,), dtype), C: T.Tensor((5, 64), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                C[0, i] = T.ieee_add(A[i], B[i])
                C[1, i] = T.ieee_mul(A[i], B[i])
                C[2, i] = T.ieee_fdiv(A[i], B[i])
                C[3, i] = T.ieee_fsqrt(A[i])
                C[4, i] = T.ieee_fmaf(A[i], B[i], A[i])

    a, b = (torch.rand(64, generator=torch.Generator().manual_seed(s)).add(0.1).to(getattr(torch, dtype)) for s in (1, 2))
    x, y = a.double(), b.double()
    want = torch.stack([x + y, x * y, x / y, x.sqrt(), x * y + x]).to(a.dtype)
    for target in ("cpu", {"kind": "cuda", "arch": "sm_80"}):
        c = torch.zeros(5, 64, dtype=a.dtype)
        with tilelang.simulator():
            tilelang.compile(main, target=target)(a, b, c)
        assert torch.equal(c, want)
    with pytest.raises(CompileError, match="rounds to nearest only"):
        T.ieee_add(T.cast(1.0, dtype), T.cast(1.0, dtype), rounding_mode="rz")


def test_a_choice_of_numbers_that_int32_does_not_hold():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int64")):
        with T.Kernel(1, threads=32):
            B[0] = T.Select(A[0] == 0, 3000000000, 1)
            B[1] = 3000000000 if A[1] == 0 else -1
            B[2] = T.if_then_else(A[0] == 0, 3000000000, A[1] == 0)
            B[3] = max(A[0] == 0, 3000000000)

    found = torch.zeros(4, dtype=torch.int64)
    tilelang.compile(main, target="c")(torch.arange(4, dtype=torch.int32), found)
    assert found.tolist() == [3000000000, -1, 3000000000, 3000000000]


def test_a_typed_constant_becomes_what_its_type_holds():
    @T.prim_func
    def main(A: T.Tensor((5,), "int32")):
        with T.Kernel(1, threads=32):
            A[0] = T.cast(T.float16(2049.0), "int16")
            A[1] = T.cast(T.float16(2049.0), "int8")
            A[2] = T.cast(T.float8_e4m3fn(17.0), "int8")
            A[3] = T.cast(T.float16(1e-10), "bool")
            A[4] = T.float16(2049.0)

    found = torch.zeros(5, dtype=torch.int32)
    tilelang.compile(main, target="c")(found)
    assert found.tolist() == [2048, 0, 16, 0, 2048]


def test_an_integer_to_the_power_of_a_float_is_a_float():
    @T.prim_func
    def main(A: T.Tensor((2,), "int32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(2):
                B[i] = A[i] ** 2.0 / 2

    found = torch.zeros(2)
    tilelang.compile(main, target="c")(torch.tensor([3, 100000], dtype=torch.int32), found)
    assert found.tolist() == [4.5, 5e9]


def test_int_and_float_of_wide_values_keep_them():
    @T.prim_func
    def main(
        A: T.Tensor((2,), "int64"), U: T.Tensor((1,), "uint32"), D: T.Tensor((2,), "float64"),
        B: T.Tensor((6,), "int64"), C: T.Tensor((2,), "float64"),
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            B[0], B[1], B[2], B[3] = int(A[0]), int(U[0]), int(D[0]), int(A[0] > 3) + 1
            B[4:6] = int(A[0:2]) + 1
            C[0:2] = float(D[0:2])
            C[1] = float(D[1])

    wide, real = torch.tensor([5000000000, 7]), torch.tensor([3000000000.5, 0.1], dtype=torch.float64)
    arguments = wide, torch.tensor([3000000000], dtype=torch.uint32), real
    whole, kept = torch.zeros(6, dtype=torch.int64), torch.zeros(2, dtype=torch.float64)
    tilelang.compile(main, target="c")(*arguments, whole, kept)
    assert whole.tolist() == [5000000000, 3000000000, 3000000000, 2, 5000000001, 8]
    assert torch.equal(kept, real)
