"""Functions of float64 are computed in float64, on every target."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.definition import EVERY

FUNCTIONS = {
    "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "exp": torch.exp, "exp2": torch.exp2, "log": torch.log, "log2": torch.log2,
    "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh, "erf": torch.erf, "floor": torch.floor, "ceil": torch.ceil,
    "trunc": torch.trunc, "abs": torch.abs,
}  # fmt: skip


@pytest.mark.parametrize("target", EVERY.values(), ids=EVERY)
def test_functions_of_float64(target):
    @T.prim_func
    def main(A: T.Tensor((32,), "float64"), Y: T.Tensor((len(FUNCTIONS), 32), "float64")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                for row, name in enumerate(FUNCTIONS):
                    Y[row, i] = getattr(T, name)(A[i])

    values = torch.linspace(0.1, 3.7, 32, dtype=torch.float64)
    found = torch.zeros(len(FUNCTIONS), 32, dtype=torch.float64)
    with tilelang.simulator():
        tilelang.compile(main, target=target)(values, found)
    for row, function in enumerate(FUNCTIONS.values()):
        torch.testing.assert_close(found[row], function(values), rtol=1e-13, atol=1e-14)
