"""Elementary functions of float32: at most two units in the last place from the exact value, and torch's special values."""

import pytest
import torch

import tilelang.language as T

from .support import build, on_both

N = 1 << 15
RANGES = {
    "exp": (-104.0, 89.0, torch.exp),
    "exp2": (-150.0, 129.0, torch.exp2),
    "log": (0.0, 100.0, torch.log),
    "log2": (0.0, 100.0, torch.log2),
    "log10": (0.0, 1e5, torch.log10),
    "tanh": (-12.0, 12.0, torch.tanh),
    "erf": (-5.0, 5.0, torch.erf),
    "sigmoid": (-80.0, 80.0, torch.sigmoid),
    "rsqrt": (1e-3, 100.0, torch.rsqrt),
    "sin": (-30.0, 30.0, torch.sin),
}
SPECIAL = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1.0, -1.0, 0.5, 8.0, 1e-45, 2.0**-126, 88.72, 88.73, -103.9]


def program(function, low):
    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 1024), threads=128) as bx:
            for i in T.Parallel(1024):
                Y[bx * 1024 + i] = function(X[bx * 1024 + i])

    return main


@on_both
@pytest.mark.parametrize("name", RANGES)
def test_within_two_units_in_the_last_place(name, target):
    low, high, reference = RANGES[name]
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(N, generator=generator) * (high - low) + low
    tiny = torch.randn(1024, generator=generator) * torch.exp2(torch.randint(-140, 4, (1024,), generator=generator).float())
    x[:1024] = tiny.abs() if low >= 0 else tiny
    x[1024 : 1024 + len(SPECIAL)] = torch.tensor(SPECIAL)
    y = build(program(getattr(T, name), low), target, out_idx=-1)(x)
    exact = reference(x.double())
    expected = exact.float()
    assert torch.equal(torch.isnan(y), torch.isnan(expected))
    assert torch.equal(torch.isinf(y), torch.isinf(expected))
    finite = torch.isfinite(expected)
    unit = torch.exp2(torch.floor(torch.log2(exact.abs().clamp_min(2.0**-126))) - 23)
    error = ((y.double() - exact).abs() / unit)[finite]
    assert error.max() <= 2.0, f"{error.max():.2f} at {x[finite][error.argmax()]:.9g}"


@on_both
def test_max_and_min_prefer_the_number_over_nan(target):
    @T.prim_func
    def main(X: T.Tensor((4,), "float32"), Y: T.Tensor((4,), "float32"), Z: T.Tensor((2, 4), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(4):
                Z[0, i] = T.max(X[i], Y[i])
                Z[1, i] = T.min(X[i], Y[i])

    nan = float("nan")
    z = build(main, target, out_idx=-1)(torch.tensor([nan, 1.0, 2.0, nan]), torch.tensor([1.0, nan, 3.0, nan]))
    assert z[:, :3].tolist() == [[1.0, 1.0, 3.0], [1.0, 1.0, 2.0]]
    assert torch.isnan(z[:, 3]).all()


@on_both
def test_nan_is_seen(target):
    @T.prim_func
    def main(X: T.Tensor((4,), "float32"), Y: T.Tensor((3, 4), "int32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(4):
                Y[0, i] = T.if_then_else(T.isnan(X[i]), 1, 0)
                Y[1, i] = T.if_then_else(X[i] != X[i], 1, 0)
                Y[2, i] = T.if_then_else(not X[i] < 2.0, 1, 0)

    y = build(main, target, out_idx=-1)(torch.tensor([1.0, float("nan"), float("inf"), -1.0]))
    assert y[0].tolist() == [0, 1, 0, 0]
    assert y[1].tolist() == [0, 1, 0, 0]
    assert y[2].tolist() == [0, 1, 1, 0]
