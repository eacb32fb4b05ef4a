"""``T.ieee_*`` in every rounding mode against exact rational arithmetic."""

import math
from fractions import Fraction

import pytest
import torch

import tilelang
import tilelang.language as T

MODES = ["rn", "rz", "ru", "rd"]
X = [1.0, 1 / 3, -1 / 3, 1e-30, 3e38, -3e38, 1e-45, 1.5e-38, 0.1, 123456.789, -7.25, 2.0, 5.0, 1e20, -1e-20, 1 + 2**-23]
Y = [3.0, 3.0, 3.0, 1e-30, 3e38, 3e38, 0.5, 0.3, 0.2, 1e-3, 1e-9, 2**-30, 7.0, -1e20, 3e-20, 1 - 2**-24]
OPERATIONS = {
    "add": (T.ieee_add, lambda x, y: x + y),
    "sub": (T.ieee_sub, lambda x, y: x - y),
    "mul": (T.ieee_mul, lambda x, y: x * y),
    "div": (T.ieee_fdiv, lambda x, y: x / y),
    "fma": (lambda x, y, rounding_mode: T.ieee_fmaf(x, y, y, rounding_mode=rounding_mode), lambda x, y: x * y + y),
    "rcp": (lambda x, y, rounding_mode: T.ieee_frcp(y, rounding_mode=rounding_mode), lambda x, y: 1 / y),
}


def rounded(exact: Fraction, mode: str) -> float:
    """The float32 that ``exact`` rounds to."""
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = max(math.frexp(float(size))[1] - 1 if size < 2**1000 else 1000, -126)
    while Fraction(2) ** exponent > size and exponent > -126:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= size:
        exponent += 1
    quantum = Fraction(2) ** (exponent - 23)
    count, rest = divmod(size, quantum)
    away = {"rz": False, "ru": exact > 0, "rd": exact < 0}.get(mode, rest * 2 > quantum or (rest * 2 == quantum and count % 2))
    result = (count + (1 if rest and away else 0)) * quantum
    if result >= Fraction(2) ** 128:
        stays = mode == "rz" or (mode == "ru" and exact < 0) or (mode == "rd" and exact > 0)
        return math.copysign(3.4028234663852886e38 if stays else math.inf, exact)
    return math.copysign(float(result), exact)


def program(operations, mode, dtype="float32"):
    rows = len(operations)

    @T.prim_func
    def main(A: T.Tensor((16,), dtype), B: T.Tensor((16,), dtype), C: T.Tensor((rows, 16), dtype)):
        with T.Kernel(1, threads=16):
            for i in T.Parallel(16):
                for row, operation in enumerate(operations):
                    C[row, i] = operation(A[i], B[i], rounding_mode=mode)

    return main


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", ["cpu", "c", "simulator"])
def test_exact(target, mode):
    x, y, z = torch.tensor(X), torch.tensor(Y), torch.zeros(len(OPERATIONS) + 1, 16)
    root = lambda x, y, rounding_mode: T.ieee_fsqrt(T.abs(x), rounding_mode=rounding_mode)  # noqa: E731
    run(target, program([*(operation for operation, _ in OPERATIONS.values()), root], mode), x, y, z)
    for row, (name, (_, exact)) in enumerate(OPERATIONS.items()):
        want = [rounded(exact(Fraction(a), Fraction(b)), mode) for a, b in zip(x.tolist(), y.tolist())]
        assert z[row].tolist() == want, name
    for a, result in zip(x.abs().tolist(), z[-1].tolist()):
        assert is_root(result, Fraction(a), mode)


def is_root(root: float, square: Fraction, mode: str) -> bool:
    """Whether ``root`` is the square root rounded."""
    here = Fraction(root)
    below = Fraction(torch.nextafter(torch.tensor(root), torch.tensor(0.0)).item())
    above = Fraction(torch.nextafter(torch.tensor(root), torch.tensor(math.inf)).item())
    if mode == "rn":
        return (below + here) ** 2 <= 4 * square <= (above + here) ** 2
    return below**2 < square <= here**2 if mode == "ru" else here**2 <= square < above**2


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_operations_are_never_contracted(target):
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32"), C: T.Tensor((3, 16), "float32")):
        with T.Kernel(1, threads=16):
            for i in T.Parallel(16):
                C[0, i] = T.ieee_mul(A[i], B[i]) - T.ieee_mul(A[i], B[i])
                C[1, i] = T.fmul(A[i], B[i]) + B[i]
                C[2, i] = T.ieee_add(A[i] * B[i], B[i])

    a, b, c = torch.randn(16), torch.randn(16), torch.zeros(3, 16)
    run(target, main, a, b, c)
    assert not c[0].any() and torch.equal(c[1], a * b + b) and torch.equal(c[2], a * b + b)


@pytest.mark.parametrize("target", ["cpu", "c"])
@pytest.mark.parametrize("apart", [lambda a, b: T.fmul(a, b) + b, lambda a, b: T.ieee_add(a * b, b)])
def test_a_product_that_is_used_once_is_not_contracted(target, apart):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                C[i] = apart(A[i], B[i])

    a, b, c = torch.randn(64), torch.randn(64), torch.zeros(64)
    run(target, main, a, b, c)
    assert torch.equal(c, a * b + b)


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_double_and_the_mode_afterwards(target):
    x, y, z = (
        torch.full((16,), 1.0, dtype=torch.float64),
        torch.full((16,), 3.0, dtype=torch.float64),
        torch.zeros(1, 16).double(),
    )
    run(target, program([T.ieee_fdiv], "ru", "float64"), x, y, z)
    third = 1.0 / 3.0
    assert z[0, 0].item() == math.nextafter(third, 1) and torch.equal(x / y, torch.full((16,), third, dtype=torch.float64))


def run(target, program, *tensors):
    if target != "simulator":
        tilelang.compile(program, target=target)(*tensors)
        return
    with tilelang.simulator(strict=True):
        tilelang.compile(program, target={"kind": "cuda", "arch": "sm_80"})(*tensors)
