"""Reductions along contiguous lines, in registers of every width, with the values that comparisons treat differently."""

from __future__ import annotations

import math

import pytest
import torch

import tilelang.language as T

from .support import build

LENGTHS = (7, 40, 311)
"""Less than a register has lanes; registers and a narrower one; chunks of registers, single registers, and all narrower ones."""

KINDS = {
    "float32": ("sum", "abssum", "max", "absmax", "min"),
    "float64": ("sum", "max", "min"),
    "int32": ("sum", "max", "min", "bitand", "bitor", "bitxor"),
    "uint32": ("max", "min"),
    "int64": ("sum", "max", "min"),
}


def program(rows: int, length: int, dtype: str, clear: bool):
    kinds = KINDS[dtype]

    @T.prim_func
    def main(X: T.Tensor((rows, length), dtype), Y: T.Tensor((len(kinds), rows), dtype)):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((rows, length), dtype)
            y = T.alloc_fragment((rows,), dtype)
            T.copy(X, x)
            for number, kind in enumerate(kinds):
                T.fill(y, 2)
                getattr(T, f"reduce_{kind}")(x, y, dim=1, **({} if kind in _ALWAYS else {"clear": clear}))
                T.copy(y, Y[number, :])

    return main


_ALWAYS = ("abssum", "absmax")
"""Kinds that are tested as they are by default."""


@pytest.mark.parametrize(("dtype", "clear"), [*((dtype, True) for dtype in KINDS), ("float32", False)])
def test_results_equal_those_of_the_interpreter(dtype, clear):
    torch.manual_seed(3)
    for length in LENGTHS:
        x = torch.randint(0 if dtype.startswith("u") else -50, 50, (5, length)).to(getattr(torch, dtype))
        func = program(5, length, dtype, clear)
        results = [torch.zeros(len(KINDS[dtype]), 5, dtype=x.dtype) for _ in range(2)]
        for target, result in zip(("cpu", "interpret"), results):
            build(func, target)(x, result)
        assert torch.equal(*results), f"{dtype} {length}"


def test_specials():
    """NaN is skipped by max and min wherever it lies; infinities stay what they are."""
    length = 50
    x = torch.randn(length, length)
    x[torch.arange(length), torch.arange(length)] = math.nan
    x[4], x[5, 7] = -math.inf, math.inf
    results = [torch.zeros(len(KINDS["float32"]), length) for _ in range(2)]
    func = program(length, length, "float32", True)
    for target, result in zip(("cpu", "interpret"), results):
        build(func, target)(x, result)
    torch.testing.assert_close(*results, equal_nan=True)


@pytest.mark.parametrize("target", ["cpu", "c", "interpret"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_an_extreme_takes_the_place_of_nan(dtype, dim, target):
    """What the destination holds counts as one more element, and is skipped where it is NaN."""

    @T.prim_func
    def main(X: T.Tensor((4, 4), dtype), Y: T.Tensor((4,), dtype)):
        with T.Kernel(1, threads=128):
            x, y = T.alloc_fragment((4, 4), dtype), T.alloc_fragment((4,), dtype)
            T.copy(X, x)
            T.copy(Y, y)
            T.reduce_max(x, y, dim=dim, clear=False)
            T.copy(y, Y)

    x = torch.arange(16.0).reshape(4, 4).to(getattr(torch, dtype))
    y = torch.tensor([math.nan, math.nan, 99, -1]).to(x.dtype)
    build(main, target)(x, y)
    assert y.tolist() == [12 if dim == 0 else 3, 13 if dim == 0 else 7, 99, 15]
