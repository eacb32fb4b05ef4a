"""Floats are IEEE 754 numbers: no pass treats them as real numbers. Each target against torch, on values that show it."""

import math

import pytest
import torch

import tilelang
import tilelang.language as T

NAN, INF = math.nan, math.inf
X = torch.tensor([0.0, -0.0, 1.0, -1.0, NAN, INF, -INF, 1e30, 1e-30, 3.3, 1e8, 7.1e-3, 123456.7, -2.5, 1e38, 0.1])
Y = torch.tensor([1e8, NAN, -0.0, 0.0, 1.0, INF, 5.0, 1e30, 1.0, -3.3, 1e8, 1e5, -123456.7, 1e20, 1e38, INF])

SAME = {
    # the same text means the same for expressions and for tensors
    "x * 0": lambda x, y: x * 0.0,
    "0 * x": lambda x, y: 0 * x,
    "x + 0": lambda x, y: x + 0.0,
    "x - 0": lambda x, y: x - 0.0,
    "0 - x": lambda x, y: 0.0 - x,
    "-x": lambda x, y: -x,
    "0 / x": lambda x, y: 0.0 / x,
    "x / 0": lambda x, y: x / 0.0,
    "x / -0": lambda x, y: x / -0.0,
    "x - x": lambda x, y: x - x,
    "x / x": lambda x, y: x / x,
    "(x + y) - y": lambda x, y: (x + y) - y,
    "(x - y) + y": lambda x, y: (x - y) + y,
    "(x * y) / y": lambda x, y: (x * y) / y,
    "(x + 1e8) - 1e8": lambda x, y: (x + 1e8) - 1e8,
    "(x + 1e8) + 1e-3": lambda x, y: (x + 1e8) + 1e-3,
    "x * 3 * (1 / 3)": lambda x, y: x * 3.0 * (1.0 / 3.0),
    "x * 1e30 * 1e30": lambda x, y: x * 1e30 * 1e30 * 1e-30,
}
CONDITIONS = {
    "x != y": lambda x, y: x != y,
    "x == y": lambda x, y: x == y,
    "x != x": lambda x, y: x != x,
    "x == x": lambda x, y: x == x,
    "x - x != 0": lambda x, y: x - x != 0.0,
    "x < x + 1": lambda x, y: x < x + 1.0,
    "x <= x": lambda x, y: x <= x,
    "x > y": lambda x, y: x > y,
}


def every_operation(named: bool):
    rows = len(SAME) + len(CONDITIONS)

    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32"), C: T.Tensor((rows, 16), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                if named:
                    x = A[i]
                    y = B[i]
                for row, operation in enumerate(SAME.values()):
                    C[row, i] = operation(x, y) if named else operation(A[i], B[i])
                for row, condition in enumerate(CONDITIONS.values()):
                    holds = condition(x, y) if named else condition(A[i], B[i])
                    C[len(SAME) + row, i] = T.if_then_else(holds, 1.0, 0.0)

    return main


@pytest.mark.parametrize("named", [False, True], ids=["loads", "names"])
@pytest.mark.parametrize("target", ["cpu", "c", "simulator"])
def test_operators_are_ieee(target, named):
    result = torch.zeros(len(SAME) + len(CONDITIONS), 16)
    run(target, every_operation(named), X, Y, result)
    for row, (name, operation) in enumerate({**SAME, **CONDITIONS}.items()):
        torch.testing.assert_close(result[row], operation(X, Y).float(), rtol=0, atol=0, equal_nan=True, msg=name)
        signs = torch.signbit(result[row]) == torch.signbit(operation(X, Y).float())
        assert (signs | result[row].isnan()).all(), name


@pytest.mark.parametrize("target", ["cpu", "c", "simulator"])
def test_a_condition_over_floats_proves_nothing_about_indices(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), At: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            v = A[0]
            if v != v:
                B[At[0]] = 1
            if v - v != 0.0:
                B[At[1]] = 1

    memory = torch.zeros(64, dtype=torch.int32)
    at = torch.tensor([40, 3] + [0] * 6, dtype=torch.int32)
    run(target, main, torch.full((8,), NAN), at, memory[:8])
    assert memory.nonzero().flatten().tolist() == [3]


@pytest.mark.parametrize("target", ["cpu", "c", "simulator"])
def test_integers_in_elementary_functions(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.serial(8):
                y = A[i]
                B[i] = T.exp2((i + 1) * y) + T.exp2((i + 1) * A[i])

    a, b = torch.linspace(-1, 1, 8), torch.zeros(8)
    run(target, main, a, b)
    torch.testing.assert_close(b, 2 * torch.exp2(torch.arange(1, 9) * a))


def run(target, program, *tensors):
    """Calls the program; on the simulator, for sm_80."""
    if target != "simulator":
        tilelang.compile(program, target=target)(*tensors)
        return
    with tilelang.simulator(strict=True):
        tilelang.compile(program, target={"kind": "cuda", "arch": "sm_80"})(*tensors)
