"""Values: every operator of an element beside NumPy or torch, written out here."""

import math

import numpy as np
import pytest
import torch

import tilelang.language as T

from .support import run


def elementwise(function, source, result, arity=1):
    """``B[i] = function(A[i], …)`` for 64 elements."""
    if arity == 1:

        @T.prim_func
        def main(A: T.Tensor((64,), source), B: T.Tensor((64,), result)):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(64):
                    B[i] = function(A[i])
    else:

        @T.prim_func
        def main(A: T.Tensor((64,), source), C: T.Tensor((64,), source), B: T.Tensor((64,), result)):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(64):
                    B[i] = function(A[i], C[i])

    return main


def of(dtype):
    return getattr(torch, dtype)


def away(x):
    """10 x - 10.5 to the nearest whole number, halves away from zero."""
    moved = x * 10 - 10.5
    return torch.trunc(moved + 0.5 * torch.sign(moved))


def following(x):
    """The next float32."""
    return torch.nextafter(x.float(), torch.tensor(9.0)).double()


REALS = torch.linspace(0.1, 0.95, 64)
WIDE = torch.linspace(-40.0, 40.0, 64)


@pytest.mark.parametrize("name", [
    "exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "asinh", "atanh", "sigmoid", "erf", "ceil", "floor", "trunc",
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_elementary_functions(name, dtype):
    x, y = REALS.to(of(dtype)), torch.zeros(64, dtype=of(dtype))
    run(elementwise(getattr(T, name), dtype, dtype), x, y)
    torch.testing.assert_close(y, getattr(torch, name)(x.double()).to(y.dtype), rtol=1e-6, atol=0)


@pytest.mark.parametrize(("function", "want"), [
    (T.acosh, torch.acosh), (T.exp10, lambda x: 10.0**x), (T.__exp, torch.exp), (T.__exp10, lambda x: 10.0**x),
    (T.__log, torch.log), (T.__log2, torch.log2), (T.__log10, torch.log10), (T.__sin, torch.sin), (T.__cos, torch.cos),
    (T.__tan, torch.tan), (T.fast_rcp, torch.reciprocal), (T.abs, torch.abs), (T.fabs, torch.abs), (T.round, torch.round),
    (T.nearbyint, torch.round), (lambda x: T.clamp(x, 1.2, 1.5), lambda x: x.clamp(1.2, 1.5)),
    (lambda x: T.round(x * 10 - 10.5, "ties-away-from-zero"), away),
    (lambda x: T.if_then_else(x > 1.5, x, -x), lambda x: torch.where(x > 1.5, x, -x)),
    (lambda x: T.Select(x > 1.5, x, -x), lambda x: torch.where(x > 1.5, x, -x)),
    (lambda x: T.likely(x > 1.5), lambda x: (x > 1.5).double()),
    (lambda x: T.Not(T.And(x > 1.2, T.Or(x < 1.5, x > 1.8))), lambda x: (~((x > 1.2) & ((x < 1.5) | (x > 1.8)))).double()),
    (lambda x: T.isnan(x) + T.isinf(x) + T.isfinite(x), torch.ones_like), (lambda x: T.pow(x, 2.5), lambda x: x**2.5),
    (lambda x: x**3, lambda x: x**3), (lambda x: T.fma(x, x, x), lambda x: x * x + x),
    (lambda x: T.reinterpret(T.reinterpret(x, "int32") + 1, "float32"), following),
])  # fmt: skip
def test_other_functions(function, want):
    x, y = REALS + 1, torch.zeros(64)
    run(elementwise(function, "float32", "float32"), x, y)
    torch.testing.assert_close(y, want(x.double()).float(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("function", "want"), [
    (T.atan2, torch.atan2), (T.fmod, torch.fmod), (T.hypot, torch.hypot), (T.copysign, torch.copysign), (T.max, torch.fmax),
    (T.min, torch.fmin), (T.__pow, torch.pow), (T.ieee_add, torch.add), (T.ieee_sub, torch.sub), (T.ieee_mul, torch.mul),
    (T.ieee_fdiv, torch.div), (lambda a, b: a / b, torch.div), (lambda a, b: a < b, lambda a, b: (a < b).float()),
])  # fmt: skip
def test_functions_of_two(function, want):
    a, b, y = REALS + 1, REALS.flip(0) * 2, torch.zeros(64)
    run(elementwise(function, "float32", "float32", 2), a, b, y)
    torch.testing.assert_close(y, want(a, b), rtol=1e-6, atol=0)


def test_a_number_wins_over_nan():
    a, b, y = REALS.clone(), REALS * 2, torch.zeros(64)
    a[::2], b[1::2] = math.nan, math.nan
    run(elementwise(T.max, "float32", "float32", 2), a, b, y)
    assert torch.equal(y, torch.fmax(a, b))


@pytest.mark.parametrize(("mode", "towards"), [("rz", "0"), ("ru", "inf"), ("rd", "-inf")])
@pytest.mark.parametrize("operation", ["ieee_add", "ieee_mul", "ieee_fdiv"])
def test_rounding_modes(operation, mode, towards):
    a, b, y = REALS.clone(), REALS.flip(0) - 0.5, torch.zeros(64)
    run(elementwise(lambda x, z: getattr(T, operation)(x, z, rounding_mode=mode), "float32", "float32", 2), a, b, y)
    exact = {"ieee_add": a.double() + b.double(), "ieee_mul": a.double() * b.double(), "ieee_fdiv": a.double() / b.double()}
    rest = y.double() - exact[operation]
    if mode == "rz":
        assert ((rest == 0) | (torch.sign(rest) == -torch.sign(exact[operation]))).all()
    else:
        assert ((rest >= 0) if mode == "ru" else (rest <= 0)).all()
    assert (rest.abs() <= 2.0**-23 * exact[operation].abs()).all()


# Integers ------------------------------------------------------------------------------------------------------------

EDGES = [0, 1, -1, 2, 3, -3, 7, 31, 32, 100, 127, -128]


def integers(dtype):
    info = torch.iinfo(of(dtype))
    values = [*EDGES, info.min, info.max, info.min + 1, info.max - 1]
    return torch.tensor([value if info.min <= value <= info.max else value % 5 for value in values * 4], dtype=torch.int64)


def wrap(value, dtype):
    bits, signed = torch.iinfo(of(dtype)).bits, dtype.startswith("int")
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def divided(a, b):
    return 0 if b == 0 else a // b


def truncated(a, b):
    return 0 if b == 0 else int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64"])
@pytest.mark.parametrize(("function", "want"), [
    (lambda a, b: a + b, lambda a, b: a + b), (lambda a, b: a - b, lambda a, b: a - b), (lambda a, b: a * b, lambda a, b: a * b),
    (lambda a, b: a // b, divided), (lambda a, b: a % b, lambda a, b: 0 if b == 0 else a % b),
    (T.truncdiv, truncated), (T.truncmod, lambda a, b: 0 if b == 0 else a - b * truncated(a, b)),
    (lambda a, b: a & b, lambda a, b: a & b), (lambda a, b: a | b, lambda a, b: a | b), (lambda a, b: a ^ b, lambda a, b: a ^ b),
    (T.max, max), (T.min, min),
], ids=["add", "sub", "mul", "floordiv", "mod", "truncdiv", "truncmod", "and", "or", "xor", "max", "min"])  # fmt: skip
def test_integers(function, want, dtype):
    a = integers(dtype).to(of(dtype))
    b, y = a.roll(3), torch.zeros(64, dtype=of(dtype))
    run(elementwise(function, dtype, dtype, 2), a, b, y)
    assert y.tolist() == [wrap(want(p, q), dtype) for p, q in zip(a.tolist(), b.tolist())]


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64"])
@pytest.mark.parametrize("left", [True, False])
def test_shifts_by_any_count(dtype, left):
    bits = torch.iinfo(of(dtype)).bits
    a = integers(dtype).to(of(dtype))
    b = torch.arange(64, dtype=torch.int64).sub(8 if dtype != "uint32" else 0).to(of(dtype))
    y = torch.zeros(64, dtype=of(dtype))
    run(elementwise((lambda p, q: p << q) if left else (lambda p, q: p >> q), dtype, dtype, 2), a, b, y)

    def want(p, q):
        if 0 <= q < bits:
            return wrap(p << q if left else p >> q, dtype)
        return 0 if left or p >= 0 else -1

    assert y.tolist() == [want(p, q) for p, q in zip(a.tolist(), b.tolist())]


@pytest.mark.parametrize(("function", "want"), [
    (T.popcount, lambda v: bin(v & 0xFFFFFFFF).count("1")), (T.clz, lambda v: 32 - (v & 0xFFFFFFFF).bit_length()),
    (T.__ffs, lambda v: (v & -v).bit_length() if v >= 0 else ((v & 0xFFFFFFFF) & -(v & 0xFFFFFFFF)).bit_length()),
    (lambda v: ~v, lambda v: ~v), (T.abs, lambda v: wrap(abs(v), "int32")), (lambda v: -v, lambda v: wrap(-v, "int32")),
    (lambda v: T.ceildiv(v, 7), lambda v: wrap(v + 6, "int32") // 7),
])  # fmt: skip
def test_bits(function, want):
    a, y = integers("int32").to(torch.int32), torch.zeros(64, dtype=torch.int32)
    run(elementwise(function, "int32", "int32"), a, y)
    assert y.tolist() == [want(v) for v in a.tolist()]


# Conversions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "int32", "uint32", "int64", "bool"])
def test_floats_become_integers(target):
    specials = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 300.7, -300.7, 1e10, -1e10, 1e20, -1e20, math.inf, -math.inf, math.nan, 70000.5]
    x, y = torch.tensor(specials * 4), torch.zeros(64, dtype=of(target))
    run(elementwise(lambda v: T.cast(v, target), "float32", target), x, y)

    def want(v):
        if target == "bool":
            return v != 0
        wide = target if target in ("int32", "uint32", "int64") else "int32"
        low, high = torch.iinfo(of(wide)).min, torch.iinfo(of(wide)).max
        whole = 0 if math.isnan(v) else low if v <= low else high if v >= high else int(v)
        return wrap(whole, target)

    assert y.tolist() == [want(v) for v in x.tolist()]


@pytest.mark.parametrize("target", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_floats_are_rounded_as_torch_does(target):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(64, generator=generator) * 2.0 ** torch.randint(-12, 7, (64,), generator=generator)
    y = torch.zeros(64).to(of(target))
    run(elementwise(lambda v: T.cast(v, target), "float32", target), x, y)
    assert torch.equal(y.float(), x.to(of(target)).float())


NARROW = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]


@pytest.mark.parametrize("source", NARROW)
def test_every_code_of_a_narrow_float(source):
    from tilelang.interpreter.numbers import element

    kind = element(source)
    codes = torch.arange(256 if kind.bits == 8 else 65536, dtype=torch.int32).to(torch.uint8 if kind.bits == 8 else torch.uint16)
    want = codes.view(of(source)).float().numpy()
    stored = codes.numpy().view(kind.memory)
    values = np.asarray(kind.decode(stored))
    np.testing.assert_array_equal(values, want)
    kept = ~np.isnan(want)
    np.testing.assert_array_equal(np.asarray(kind.encode(values), kind.memory)[kept], stored[kept])


def test_four_bit_elements_share_bytes():
    @T.prim_func
    def main(A: T.Tensor((4, 8), "int4"), B: T.Tensor((4, 8), "int32"), C: T.Tensor((4, 8), "int4")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((4, 8), "int4")
            T.copy(A, tile)
            for i, j in T.Parallel(4, 8):
                B[i, j] = tile[i, j]
                C[i, j] = tile[i, 7 - j] + 1

    packed = torch.randint(0, 256, (4, 4), dtype=torch.uint8)
    numbers, stored = torch.zeros(4, 8, dtype=torch.int32), torch.zeros(4, 4, dtype=torch.uint8)
    run(main, packed, numbers, stored)
    codes = torch.stack([packed & 15, packed >> 4], -1).flatten(1).int()
    values = torch.where(codes > 7, codes - 16, codes)
    assert torch.equal(numbers, values)
    again = (values.flip(1) + 1) & 15
    assert torch.equal(stored.int(), again[:, ::2] | again[:, 1::2] << 4)


def test_random_numbers_are_those_of_philox():
    @T.prim_func
    def main(B: T.Tensor((8,), "uint32"), U: T.Tensor((4,), "float32"), N: T.Tensor((4,), "float64")):
        with T.Kernel(1, threads=32):
            T.rng_init(1234, 5, 6)
            for i in T.serial(8):
                B[i] = T.rng_rand()
            for i in T.serial(4):
                U[i] = T.rng_rand_float()
                N[i] = T.rng_rand_float(bit=64, dist="normal")

    b, u, n = torch.zeros(8, dtype=torch.uint32), torch.zeros(4), torch.zeros(4, dtype=torch.float64)
    run(main, b, u, n)

    def philox(position):
        counter, key = [position >> 2, 0, 5, 0], [1234, 0]
        for _ in range(10):
            p, q = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
            counter = [(q >> 32) ^ counter[1] ^ key[0], q & 0xFFFFFFFF, (p >> 32) ^ counter[3] ^ key[1], p & 0xFFFFFFFF]
            key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
        return counter[position & 3]

    assert b.long().tolist() == [philox(6 + i) for i in range(8)]
    assert ((u > 0) & (u <= 1)).all() and torch.isfinite(n).all() and len(set(n.tolist())) == 4


@pytest.mark.parametrize(("function", "want"), [
    (lambda x: x + True, lambda v: v + 1), (lambda x: (x > 2) + (x > 4), lambda v: (v > 2) + (v > 4)),
    (lambda x: ~(x > 2), lambda v: v <= 2),
])  # fmt: skip
def test_conditions_are_numbers(function, want):
    a, y = integers("int32").to(torch.int32), torch.zeros(64, dtype=torch.int32)
    run(elementwise(lambda x: T.cast(function(x), "int32"), "int32", "int32"), a, y)
    assert y.tolist() == [wrap(int(want(v)), "int32") for v in a.tolist()]
