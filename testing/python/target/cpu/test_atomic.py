"""Atomic updates of a block's own buffers, which are plain ones, and of tensors: their values, what they return, NaN."""

from __future__ import annotations

import math

import pytest
import torch

import tilelang.language as T

from .support import build, on_both


def updates(dtype: str, operations: tuple[str, ...], scope: str):
    @T.prim_func
    def main(X: T.Tensor((64,), dtype), Y: T.Tensor((len(operations), 5), dtype), Old: T.Tensor((len(operations), 64), dtype)):
        with T.Kernel(1, threads=128):
            own = T.alloc_shared((5,), dtype)
            for number, operation in enumerate(operations):
                for i in T.serial(5):
                    own[i] = 3
                    Y[number, i] = 3
                for i in T.serial(64):
                    if scope == "shared":
                        Old[number, i] = getattr(T, f"atomic_{operation}")(own[i % 5], X[i], return_prev=True)
                    else:
                        Old[number, i] = getattr(T, f"atomic_{operation}")(Y[number, i % 5], X[i], return_prev=True)
                if scope == "shared":
                    T.copy(own, Y[number, :])

    return main


@on_both
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint32", "int64"])
def test_shared_global_and_interpreted_updates_agree(dtype, target):
    torch.manual_seed(5)
    operations = ("add", "max", "min")
    x = torch.randint(0, 9, (64,)).to(getattr(torch, dtype))
    results = []
    for scope, name in (("shared", target), ("global", target), ("shared", "interpret")):
        y, old = torch.zeros(len(operations), 5, dtype=x.dtype), torch.zeros(len(operations), 64, dtype=x.dtype)
        build(updates(dtype, operations, scope), name)(x, y, old)
        results.append((y, old))
    for y, old in results[:2]:
        assert torch.equal(y, results[2][0])
        assert torch.equal(old, results[2][1])


@on_both
def test_an_extreme_skips_nan(target):
    x = torch.arange(64.0)
    x[::3] = math.nan
    y, old = torch.zeros(2, 5), torch.zeros(2, 64)
    build(updates("float32", ("max", "min"), "shared"), target)(x, y, old)
    assert not y.isnan().any()


def extremes(rows, columns, dtype):
    """The extremes of a column's values, by updates in a loop over the rows."""

    @T.prim_func
    def main(X: T.Tensor((rows,), dtype), High: T.Tensor((columns,), dtype), Low: T.Tensor((columns,), dtype)):
        with T.Kernel(1, threads=128):
            high, low = T.alloc_shared((columns,), dtype), T.alloc_shared((columns,), dtype)
            T.fill(high, -9)
            T.fill(low, 9)
            for i, j in T.Parallel(rows, columns):
                T.atomic_max(high[j], X[i])
                T.atomic_min(low[j], X[i])
            T.copy(high, High)
            T.copy(low, Low)

    return main


@on_both
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows, columns", [(3, 16), (5, 16), (9, 8), (9, 17)])
def test_the_last_iteration_of_an_extreme_counts(rows, columns, dtype, target):
    kernel = build(extremes(rows, columns, dtype), target)
    for place in range(rows):
        x = torch.zeros(rows, dtype=getattr(torch, dtype))
        high, low = torch.zeros(columns, dtype=x.dtype), torch.zeros(columns, dtype=x.dtype)
        x[place] = 1
        kernel(x, high, low)
        assert high.eq(1).all() and low.eq(0).all()
        kernel(-x, high, low)
        assert high.eq(0).all() and low.eq(-1).all()


@pytest.mark.parametrize("target", ["cpu", "c", "interpret"])
@pytest.mark.parametrize("scope", ["shared", "global"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_an_extreme_takes_the_place_of_nan(dtype, scope, target):
    @T.prim_func
    def main(X: T.Tensor((4,), dtype), Y: T.Tensor((2,), dtype)):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((2,), dtype)
            T.copy(Y, tile)
            memory = tile if scope == "shared" else Y
            for i in T.serial(4):
                T.atomic_max(memory[0], X[i])
                T.atomic_min(memory[1], X[i])
            if scope == "shared":
                T.copy(tile, Y)

    x = torch.tensor([math.nan, -2, 3, math.nan], dtype=getattr(torch, dtype))
    y = torch.full((2,), math.nan, dtype=x.dtype)
    build(main, target)(x, y)
    assert y.tolist() == [3, -2]


@on_both
def test_an_index_of_an_update_that_is_loaded_outside_of_a_tensor(target):
    @T.prim_func
    def main(Place: T.Tensor((4,), "int32"), Y: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=128):
            own = T.alloc_shared((8,), "int32")
            T.clear(own)
            for i in T.serial(16):
                T.atomic_add(Y[Place[i] + 1], 1)
                T.atomic_add(own[Place[i] + 1], i)
            for i in T.Parallel(8):
                Y[i] = Y[i] + own[i]

    # Four rows of a larger tensor: what is behind them are other indices than the zeros of reads outside.
    places = torch.tensor([6, 6, 6, 6] + [3] * 16, dtype=torch.int32)
    y = torch.zeros(8, dtype=torch.int32)
    build(main, target)(places[:4], y)
    assert y.tolist() == [0, 12 + sum(range(4, 16)), 0, 0, 0, 0, 0, 4 + sum(range(4))]
