"""What operators mean for bools, and for narrow integers with Python numbers, on every target."""

import operator

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.every_target import every_target, run
from tilelang.errors import CompileError, OperandError
from tilelang.ir import nodes as ir


@every_target
def test_narrow_integers_shifted_by_python_ints_are_int32(target):
    @T.prim_func
    def main(X: T.Tensor((64,), "uint16"), B: T.Tensor((64,), "int8"), Y: T.Tensor((4, 64), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                wide = X[i] << 12
                Y[0, i] = wide
                Y[1, i] = T.shift_left(B[i], 20)
                Y[2, i] = 1 << (X[i] & 15)
                Y[3, i] = (X[i] | 65536) + (B[i] & -256)

    x = torch.arange(64) * 1000
    b = torch.arange(64) - 32
    want = torch.stack([x << 12, b << 20, 1 << (x & 15), (x | 65536) + (b & -256)]).int()
    assert torch.equal(run(main, target, x.to(torch.uint16), b.to(torch.int8)), want)


@every_target
def test_inverted_conditions(target):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), F: T.Tensor((64,), "bool"), Y: T.Tensor((4, 64), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                Y[0, i] = T.if_then_else(~(X[i] > 0), 1, 0)
                Y[1, i] = T.if_then_else(not F[i], 1, 0)
                flag = ~F[i] & (X[i] > 0)
                if flag:
                    Y[2, i] = 1
                else:
                    Y[2, i] = 0
                Y[3, i] = T.if_then_else(~(X[i] == 1.0) ^ F[i], 1, 0)

    x = torch.arange(64).float() % 5 - 2
    f = torch.arange(64) % 3 == 0
    want = torch.stack([~(x > 0), ~f, ~f & (x > 0), (x != 1) ^ f]).int()
    assert torch.equal(run(main, target, x, f), want)


@every_target
def test_bools_are_numbers_in_arithmetic_and_comparisons(target):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), F: T.Tensor((64,), "bool"), Y: T.Tensor((8, 64), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                Y[0, i] = (X[i] > 0) - (X[i] < 0)
                Y[1, i] = (X[i] > 0) + F[i] + F[i]
                Y[2, i] = (X[i] > 0) == F[i]
                Y[3, i] = F[i] < (X[i] > 0)
                Y[4, i] = F[i] << 3
                Y[5, i] = -F[i] + F[i] * 5
                Y[6, i] = T.max(F[i], X[i] > 0)
                Y[7, i] = T.min(F[i], X[i] > 0, True) + T.max(F[i], 3)

    x = torch.arange(64).float() % 5 - 2
    f = torch.arange(64) % 3 == 0
    p, n, g = (x > 0).int(), (x < 0).int(), f.int()
    want = torch.stack([p - n, p + 2 * g, (p == g).int(), (g < p).int(), g << 3, 4 * g, p | g, (p & g) + 3])
    assert torch.equal(run(main, target, x, f), want.int())


@every_target
@pytest.mark.parametrize("kind", ["max", "min", "sum"])
def test_reductions_of_bools(kind, target):
    @T.prim_func
    def main(F: T.Tensor((8, 32), "bool"), Y: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            f, r = T.alloc_fragment((8, 32), "int32"), T.alloc_fragment((8,), "int32")
            T.copy(F, f)
            getattr(T, f"reduce_{kind}")(f, r, dim=1)
            T.copy(r, Y)

    f = torch.arange(256).reshape(8, 32) % 9 > torch.arange(8).reshape(8, 1)
    want = {"max": f.any(1), "min": f.all(1), "sum": f.sum(1)}[kind]
    assert torch.equal(run(main, target, f), want.int())


@pytest.mark.parametrize(
    "left, right, operation, kind",
    [
        ("uint8", 3, operator.add, "int32"),
        ("uint8", 3, operator.lshift, "int32"),
        ("uint8", 3, operator.rshift, "uint8"),
        ("uint8", 3, operator.and_, "uint8"),
        ("uint8", 256, operator.or_, "int32"),
        ("uint32", -16, operator.and_, "uint32"),
        ("uint32", "int32", operator.add, "uint32"),
        ("uint32", 2654435761, operator.mul, "uint32"),
        ("uint32", 2**32 - 1, operator.mod, "uint32"),
        ("uint64", 2**64 - 1, operator.floordiv, "uint64"),
        ("int32", 2**31, operator.add, "int64"),
        ("uint32", 2**32, operator.add, "int64"),
        ("int64", 1, operator.lshift, "int64"),
        ("int64", 2**32 - 1, operator.and_, "int64"),
        ("int32", 2**32 - 1, operator.and_, "int32"),
        ("bool", "int8", operator.add, "int8"),
        ("bool", "bool", operator.add, "int32"),
        ("bool", "uint16", operator.floordiv, "uint16"),
        ("int8", "bool", operator.mod, "int8"),
        ("int8", "bool", operator.rshift, "int8"),
        ("int8", "bool", operator.lshift, "int32"),
        ("bool", "bool", operator.lshift, "int32"),
        ("bool", "bool", operator.and_, "bool"),
        ("bool", 3, operator.floordiv, "int32"),
        ("float16", "bfloat16", operator.add, "float32"),
        ("float16", "bfloat16", operator.truediv, "float32"),
        ("float8_e5m2", "float8_e4m3fn", operator.truediv, "float32"),
        ("float8_e4m3fn", "float8_e5m2", operator.mul, "float32"),
    ],
)
def test_types(left, right, operation, kind):
    x = ir.Var("x", left)
    y = ir.Var("y", right) if isinstance(right, str) else right
    assert str(operation(x, y).ty) == kind


@every_target
def test_unsigned_integers_wrap_around_at_large_python_ints(target):
    @T.prim_func
    def main(X: T.Tensor((64,), "uint32"), Y: T.Tensor((4, 64), "uint32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                Y[0, i] = (X[i] * 2654435761) >> 16
                Y[1, i] = T.max(X[i] * 0xFFFFFFFF, 2) // 3
                Y[2, i] = (3000000000 + X[i]) % 0xFFFFFFFB
                Y[3, i] = T.if_then_else(X[i] + 0x80000000 > 0x80000007, 1, 0)

    x = torch.arange(64) * 0x9E3779B1 % 2**32
    x[:8] = torch.arange(8)
    low = 2**32 - 1
    want = torch.stack(
        [
            (x * 2654435761 & low) >> 16,
            (-x & low).clamp(min=2) // 3,
            (x + 3000000000 & low) % 0xFFFFFFFB,
            ((x + 2**31 & low) > 2**31 + 7).long(),
        ]
    )
    got = run(main, target, x.to(torch.uint32))
    assert torch.equal(got.long(), want)


@every_target
def test_bits_of_64_bit_integers_and_large_python_ints(target):
    @T.prim_func
    def main(X: T.Tensor((64,), "int64"), U: T.Tensor((64,), "uint64"), Y: T.Tensor((6, 64), "int64")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                Y[0, i] = X[i] & 0xFFFFFFFF
                Y[1, i] = 0x1234567890 ^ X[i]
                Y[2, i] = X[i] | 1 << 40
                Y[3, i] = X[i] & -(1 << 40)
                Y[4, i] = (1 << 40) >> (X[i] & 15)
                Y[5, i] = T.cast(U[i] & -(1 << 40), "int64")

    x = torch.arange(64) * 0x1E3779B97F4A7C15
    want = [x & 0xFFFFFFFF, x ^ 0x1234567890, x | 1 << 40, x & -(1 << 40), (1 << 40) >> (x & 15), x & -(1 << 40)]
    assert torch.equal(run(main, target, x, x.view(torch.uint64)), torch.stack(want))


@pytest.mark.parametrize("divide", [operator.floordiv, operator.mod, T.truncdiv, T.truncmod, T.ceildiv, T.floordiv])
@pytest.mark.parametrize("zero", [lambda x: 0, lambda x: x % 1, lambda x: T.abs(x % 1)], ids=["number", "folded", "absolute"])
def test_a_constant_zero_is_no_divisor(zero, divide):
    with pytest.raises(CompileError, match=r"(?s)division by zero.*test_promotion.py:\d+.*the divisor is the constant 0"):

        @T.prim_func
        def main(A: T.Tensor((8,), "int32")):
            with T.Kernel(1, threads=8):
                for i in T.Parallel(8):
                    A[i] = divide(A[i], zero(A[i]))


@every_target
def test_float16_and_bfloat16_meet_in_float32(target):
    @T.prim_func
    def main(X: T.Tensor((4,), "float16"), Y: T.Tensor((4,), "bfloat16"), Z: T.Tensor((3, 4), "float32")):
        with T.Kernel(1, threads=4):
            for i in T.Parallel(4):
                Z[0, i] = X[i] / Y[i]
                Z[1, i] = 1 if X[i] < Y[i] else 0
                Z[2, i] = Y[i] == X[i]

    x, y = torch.tensor([1.0, 65504.0, 1.00390625, 2.0]).half(), torch.tensor([65536.0, 131072.0, 1.0, 2.0]).bfloat16()
    left, right = x.float(), y.float()
    assert torch.equal(run(main, target, x, y), torch.stack([left / right, (left < right).float(), (left == right).float()]))


def test_functions_promote_as_operators():
    u, i, small = ir.Var("u", "uint32"), ir.Var("i", "int32"), ir.Var("s", "uint8")
    assert str(T.max(u, -1).ty) == "int64" and str(T.min(u, 2**32 - 1).ty) == "uint32"
    assert str(T.max(u, i).ty) == str((u + i).ty) == "uint32"
    assert str(T.ceildiv(small, 16).ty) == "int32"


@every_target
def test_choices_and_extrema_with_python_ints_are_int32(target):
    """As ``x + 0`` is: the product of a clamped int8 and an int8 does not wrap around."""

    @T.prim_func
    def main(A: T.Tensor((4,), "int8"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            B[0] = T.max(A[0], 0) * A[1]
            B[1] = T.if_then_else(A[0] > 0, A[0], 0) * A[1]
            B[2] = T.clamp(A[0], -100, 100) * A[1]
            B[3] = (A[0] if A[1] > 0 else 1) * A[1]

    got = run(main, target, torch.tensor([100, 90, 0, 0], dtype=torch.int8))
    assert got.tolist() == [9000] * 4


def test_narrow_tiles_are_clamped_in_their_type():
    """A store converts back: where the sides were promoted only, nothing is."""

    @T.prim_func
    def main(A: T.Tensor((64,), "int8"), B: T.Tensor((64,), "int8")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                B[i] = T.if_then_else(i < 50, T.min(T.max(A[i], -5), 5), 0)

    assert "int32_t)(A" not in tilelang.compile(main, target="c").get_kernel_source()


@every_target
def test_unary_plus_is_the_number(target):
    @T.prim_func
    def main(X: T.Tensor((4,), "float32"), F: T.Tensor((4,), "bool"), Y: T.Tensor((4, 4), "float32")):
        with T.Kernel(1, threads=4):
            three = T.alloc_var("int32", init=3)
            Y[0, 0:4] = +X[0:4]
            for i in T.Parallel(4):
                Y[1, i] = +F[i] + +F[i]
                Y[2, i] = +(X[i] > 1) + +three
                Y[3, i] = +(X[i] * 2) + +i

    x, f = torch.arange(4.0), torch.tensor([True, False, True, True])
    assert torch.equal(run(main, target, x, f), torch.stack([x, f * 2.0, (x > 1) + 3.0, x * 3]))


def test_constants_shifted_into_the_sign_are_int32():
    assert [int(T.int32(a) << b) for a, b in ((1, 31), (3, 31), (5, 30), (-1, 4))] == [-(2**31), -(2**31), 2**30, -16]
    assert int(T.int32(1) << T.int32(31)) == -(2**31)


@every_target
def test_typed_constants_of_different_types_are_as_elements_of_these_types(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "int8"), B: T.Tensor((64,), "uint8"), Y: T.Tensor((2, 5, 64), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                for row, (a, b) in enumerate([(A[i], B[i]), (T.int8(-1), T.uint8(5))]):
                    Y[row, 0, i] = a + b
                    Y[row, 1, i] = b * a
                    Y[row, 2, i] = T.if_then_else(a < b, 1, 0)
                    Y[row, 3, i] = b ^ a
                    Y[row, 4, i] = b - a

    a, b = torch.full((64,), -1, dtype=torch.int8), torch.full((64,), 5, dtype=torch.uint8)
    elements, constants = run(main, target, a, b)
    assert torch.equal(constants, elements)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("operation", [operator.add, operator.and_, operator.lt, operator.eq])
@pytest.mark.parametrize("number", [1 << 64, -(1 << 63) - 1], ids=["large", "low"])
def test_a_number_that_no_integer_of_64_bits_holds_is_refused(dtype, operation, number):
    with pytest.raises(OperandError, match=f"{number} beside a value of type {dtype}"):
        found = operation(ir.Var("x", dtype), number)
        getattr(found, "asobject", list)()  # TVM defers equality


def test_numbers_of_64_bits():
    """Arithmetic takes them modulo the range of int64; a comparison would be with another number."""
    signed, unsigned, number = ir.Var("x", "int64"), ir.Var("x", "uint64"), (1 << 63) + 5
    assert (signed ^ number).b.value == 5 - (1 << 63)
    assert (unsigned < number).b.value == number
    for narrow in (signed, ir.Var("x", "int32")):
        with pytest.raises(OperandError, match="in which it does not fit"):
            _ = number > narrow


@every_target
def test_a_bool_beside_a_large_number_is_of_64_bits(target):
    large = 1 << 32

    @T.prim_func
    def main(F: T.Tensor((4,), "bool"), Y: T.Tensor((6, 4), "int64")):
        with T.Kernel(1, threads=4):
            for i in T.Parallel(4):
                Y[0, i] = F[i] % large
                Y[1, i] = F[i] // -large
                Y[2, i] = (large + 7) // (F[i] + 1)
                Y[3, i] = -large % (F[i] + 2)
                Y[4, i] = F[i] * large - 1
                Y[5, i] = F[i] < large

    f = torch.tensor([True, False, True, True])
    rows = [[x % large, x // -large, (large + 7) // (x + 1), -large % (x + 2), x * large - 1, True] for x in map(int, f)]
    assert run(main, target, f).tolist() == torch.tensor(rows).T.tolist()


def test_a_large_number_beside_a_float_is_a_float():
    assert (ir.Var("x", "float32") < 1 << 64).b.value == 2.0**64
