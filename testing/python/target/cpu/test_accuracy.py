"""The error of elementary functions over all of float32, in units in the last place of the exact result.

Every 2**12-th pattern of bits is an argument, and every special value. Each function runs in a loop whose accesses are guarded;
those that have code of their own for whole registers, also in a loop of these. The exact result is a float64's, whose own
error is 2**-29 of such a unit; where the error is largest, and at every 2**20-th pattern, it is computed again by mpmath with
60 digits.
"""

from __future__ import annotations

import math

import mpmath
import pytest
import torch

import tilelang.language as T

from .support import build, on_both

UNITS = {
    # function -> the largest error that docs/cpu.md states; the function in float64, and in mpmath
    "exp": (1.0, torch.exp, mpmath.exp),
    "exp2": (1.0, torch.exp2, lambda x: mpmath.power(2, x)),
    "log": (0.8, torch.log, mpmath.log),
    "log2": (1.1, torch.log2, lambda x: mpmath.log(x) / mpmath.log(2)),
    "tanh": (1.3, torch.tanh, mpmath.tanh),
    "erf": (1.3, torch.erf, mpmath.erf),
    "sigmoid": (2.2, torch.sigmoid, lambda x: 1 / (1 + mpmath.exp(-x))),
    "rsqrt": (1.5, torch.rsqrt, lambda x: 1 / mpmath.sqrt(x)),
}
PATTERNS = torch.arange(-(2**31), 2**31, 2**12).int().view(torch.float32)
SPECIAL = torch.tensor(
    [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0**-149, -(2.0**-149), 2.0**-126, 2.0**-126 - 2.0**-149, -(2.0**-126)]
    + [
        3.4028234663852886e38,
        -3.4028234663852886e38,
        0.5,
        2.0,
        0.625,
        0.92773437,
        128.0,
        127.99999,
        -126.0,
        -149.0,
        -149.5,
        88.72284,
    ]
)


def program(function, count, whole):
    """``whole`` blocks of 4096 elements each are not guarded."""

    @T.prim_func
    def main(X: T.Tensor((count,), "float32"), Y: T.Tensor((count,), "float32")):
        with T.Kernel(T.ceildiv(count, 4096), threads=128) as bx:
            for i in T.Parallel(4096):
                if whole:
                    Y[bx * 4096 + i] = function(X[bx * 4096 + i])
                elif bx * 4096 + i < count:
                    Y[bx * 4096 + i] = function(X[bx * 4096 + i])

    return main


def errors(y: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Errors in units in the last place of float32; results below the normal numbers have the unit of the least of these."""
    exponent = torch.frexp(exact.abs().clamp_min(2.0**-126))[1] - 1
    return (y.double() - exact).abs() / torch.exp2((exponent - 23).double())


def by_mpmath(function, x: float) -> float:
    with mpmath.workdps(60):
        return float(mpmath.mpf(function(mpmath.mpf(x))))


@on_both
@pytest.mark.parametrize("name", UNITS)
def test_whole_range(name, target):
    check(name, target, torch.cat([PATTERNS, SPECIAL]), False)


@pytest.mark.parametrize("name", ["exp", "exp2", "erf"])
def test_whole_registers(name):
    every = torch.cat([PATTERNS, SPECIAL])
    check(name, "cpu", torch.cat([every, torch.ones(-len(every) % 4096)]), True)


def check(name, target, x, whole):
    limit, wide, precise = UNITS[name]
    y = build(program(getattr(T, name), len(x), whole), target, out_idx=-1)(x)
    exact = wide(x.double())
    want = exact.float()
    assert torch.equal(y.isnan(), want.isnan())
    infinite = want.isinf()
    assert torch.equal(y[infinite], want[infinite])
    kept = want.isfinite() & y.isfinite()
    assert (exact[want.isfinite() & ~y.isfinite()].abs() > 3.4028234e38).all()
    x, y, exact = x[kept], y[kept], exact[kept]
    error = errors(y, exact)
    worst = torch.cat([error.topk(50).indices, torch.arange(0, len(x), 2**8)])
    again = torch.tensor([by_mpmath(precise, value) for value in x[worst].tolist()], dtype=torch.float64)
    error = torch.cat([error, errors(y[worst], again)])
    assert error.max() <= limit, f"{error.max():.3f} units at {x[error[: len(x)].argmax()]:.9g}"
