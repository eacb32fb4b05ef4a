"""Sums, differences and products of integers wrap around in their type, whatever is done with the result: NumPy is the oracle.

Signed overflow has no meaning in C and C++. Compilers conclude from that, and so may an analysis of ranges here.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tilelang.language as T
from testing.python.target.test_every_target import every_target, run

N = 32
LEAST, MOST = -(2**31), 2**31 - 1


def numbers(dtype: str, seed: int) -> np.ndarray:
    """Numbers of a type over its whole range, its ends among them."""
    ends = np.iinfo(dtype)
    found = np.random.default_rng(seed).integers(ends.min, ends.max, N, dtype, endpoint=True)
    found[:6] = [ends.max, ends.min, ends.max - 1, ends.min + 1, 0, 1]
    return found


EXPRESSIONS = {
    "compared with an operand": (lambda a, b: T.Select(a + 1 > a, 1, 0), lambda a, b: a + 1 > a),
    "a square below zero": (lambda a, b: T.Select(a * a < 0, 1, 0), lambda a, b: a * a < 0),
    "a difference above zero": (lambda a, b: T.Select(a - b > 0, 1, 0), lambda a, b: a - b > 0),
    "multiples compared": (lambda a, b: T.Select(a * 2 == b * 2, 1, 0), lambda a, b: a * 2 == b * 2),
    "negated": (lambda a, b: T.Select(-a > 0, 1, 0), lambda a, b: -a > 0),
    "divided by its factor": (lambda a, b: (a * 6) // 3, lambda a, b: (a * 6) // 3),
    "shifted by its factor": (lambda a, b: (a * 4) >> 2, lambda a, b: (a * 4) >> 2),
    "a remainder": (lambda a, b: (a + b) % 10, lambda a, b: (a + b) % 10),
    "the larger": (lambda a, b: T.max(a + b, 0), lambda a, b: np.maximum(a + b, 0)),
    "a magnitude": (lambda a, b: T.abs(a - 1), lambda a, b: np.abs(a - 1)),
}


@every_target
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_what_is_done_with_a_sum_or_product(dtype, target):
    rules = [rule for rule, _ in EXPRESSIONS.values()]

    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((len(rules), N), dtype)):
        with T.Kernel(1, threads=N):
            for k, rule in enumerate(rules):
                for i in T.Parallel(N):
                    C[k, i] = rule(A[i], B[i])

    a, b = numbers(dtype, 0), numbers(dtype, 1)
    b[8:12] = a[8:12] ^ np.iinfo(dtype).min
    found = run(main, target, torch.from_numpy(a), torch.from_numpy(b)).numpy()
    for row, (name, (_, expected)) in zip(found, EXPRESSIONS.items()):
        np.testing.assert_array_equal(row, expected(a, b), name)


@every_target
def test_a_product_of_narrow_integers_that_their_wider_type_does_not_hold(target):
    """What is known of the operands, that they are not negative, is not true of the product."""

    def wide(x):
        return T.cast(x, "int32") * T.cast(x, "int32")

    @T.prim_func
    def main(A: T.Tensor((N,), "uint16"), C: T.Tensor((7, N), "int32")):
        with T.Kernel(1, threads=N):
            for i in T.Parallel(N):
                a = T.cast(A[i], "int32")
                C[0, i] = (a * a) % 9
                C[1, i] = (a * a) // 7
                C[2, i] = T.cast(A[i], "int32") * T.cast(A[i], "int32") % 9
                C[3, i] = T.Select(a * a < 0, 1, 0)
                C[4, i] = 100 // (a * a)
                C[5, i] = wide(A[i]) // wide(A[(i + 1) % N])
                C[6, i] = wide(A[i]) * 2 % -7

    a = numbers("uint16", 2)
    a[6:10] = [46341, 65535, 3, 32768]
    product = a.astype(np.int32) * a.astype(np.int32)
    next_one = np.roll(product, -1)
    quotient = np.floor_divide(100, product, where=product != 0, out=np.zeros_like(product))
    ratio = np.floor_divide(product, next_one, where=next_one != 0, out=np.zeros_like(product))
    expected = [product % 9, product // 7, product % 9, product < 0, quotient, ratio, (product * np.int32(2)) % np.int32(-7)]
    np.testing.assert_array_equal(run(main, target, torch.from_numpy(a)).numpy(), np.stack(expected))


@every_target
def test_multiples_of_a_loop_variable(target):
    @T.prim_func
    def main(C: T.Tensor((2, N), "int32")):
        with T.Kernel(1, threads=N):
            for i in T.Parallel(N):
                C[0, i] = (i * 100_000_000) % 7
                C[1, i] = T.Select(i * 100_000_000 < 0, 1, 0)

    product = np.arange(N, dtype=np.int32) * np.int32(100_000_000)
    np.testing.assert_array_equal(run(main, target).numpy(), np.stack([product % 7, product < 0]))


@every_target
def test_a_wider_type_and_a_float_of_what_wrapped_around(target):
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), C: T.Tensor((2, N), "int64")):
        with T.Kernel(1, threads=N):
            tile = T.alloc_fragment((N,), "int32")
            T.copy(A, tile)
            for i in T.Parallel(N):
                tile[i] = tile[i] * 3
            for i in T.Parallel(N):
                C[0, i] = T.cast(tile[i] + 1, "int64")
                C[1, i] = T.cast(T.cast(tile[i] - 5, "float64"), "int64")

    a = numbers("int32", 3)
    tripled = a * np.int32(3)
    expected = np.stack([tripled + np.int32(1), tripled - np.int32(5)]).astype(np.int64)
    np.testing.assert_array_equal(run(main, target, torch.from_numpy(a)).numpy(), expected)


@every_target
def test_arguments_and_variables(target):
    """A sequence of pseudo-random numbers, and arithmetic of scalar arguments."""

    @T.prim_func
    def main(seed: T.int32, n: T.int32, C: T.Tensor((3, N), "int32")):
        with T.Kernel(1, threads=N):
            state = T.alloc_var("int32", seed)
            for k in T.serial(N):
                state = state * 1103515245 + 12345
                C[0, k] = T.Select(state < 0, 1, 0)
                C[1, k] = state % 100
                C[2, k] = T.Select(n + k > n, 1, 0)

    states, state = [], 42
    for _ in range(N):
        state = (state * 1103515245 + 12345 - LEAST) % 2**32 + LEAST
        states.append(state)
    later = (MOST + np.arange(N, dtype=np.int64)).astype(np.int32) > MOST
    expected = np.stack([np.array(states) < 0, np.array(states) % 100, later])
    np.testing.assert_array_equal(run(main, target, 42, MOST).numpy(), expected)


@every_target
def test_coefficients_beyond_the_type_of_an_expression(target):
    """In sums of products, ``i // 4 * 2400000000`` and ``i * 2400000000`` would have coefficients that int32 does not hold."""

    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((3, N), "int32")):
        with T.Kernel(1, threads=N):
            for i in T.Parallel(N):
                step = (i - i // 4 * 4) * 600_000_000
                B[0, i] = A[(i - i // 4 * 4) * 600_000_000 // 600_000_000]
                B[1, i] = T.if_then_else((i - i // 4 * 4) * 600_000_000 != 0, step, 7)
                if i * 600_000_000 * 4 < 0:
                    B[2, i] = i * 65536 * 65536
                else:
                    B[2, i] = i + 2147483647 + 5

    table, i = np.array([2, 3, 5, 7], "int32"), np.arange(N, dtype="int32")
    found = run(main, target, torch.from_numpy(table)).numpy()
    np.testing.assert_array_equal(found[0], table[i % 4])
    np.testing.assert_array_equal(found[1], np.where(i % 4 == 0, 7, i % 4 * np.int32(600_000_000)))
    np.testing.assert_array_equal(
        found[2], np.where(i * np.int32(600_000_000) * np.int32(4) < 0, 0, i + np.int32(2147483647) + np.int32(5))
    )


@every_target
def test_what_leaves_an_int32_by_a_shift_or_a_conversion(target):
    """``1 << i`` may be negative or zero, and the low bits of an int64 negative."""

    @T.prim_func
    def main(Y: T.Tensor((7, 48), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(48):
                Y[0, i] = 1 if (1 << i) > 0 else 0
                Y[1, i] = i % (1 << i)
                Y[2, i] = T.truncdiv(i, 1 << i)
                Y[3, i] = (i << 28) // 3
                Y[4, i] = ~(1 << i) // 2
                Y[5, i] = T.int32(T.int64(i) * 100000000) // 3
                Y[6, i] = T.int32(T.int64(i) << 28) % 5

    low = [(i << 28, i * 100000000) for i in range(48)]
    low = [[(number + 2**31) % 2**32 - 2**31 for number in pair] for pair in low]
    power = [-(2**31) if i == 31 else 1 << i if i < 31 else 0 for i in range(48)]
    want = [
        [int(p > 0) for p in power],
        [i % p if p else 0 for i, p in enumerate(power)],
        [int(i / p) if p else 0 for i, p in enumerate(power)],
        [shifted // 3 for shifted, _ in low],
        [~p // 2 for p in power],
        [product // 3 for _, product in low],
        [shifted % 5 for shifted, _ in low],
    ]
    assert run(main, target).tolist() == want
