"""Sums along contiguous lines, which advance by a register."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T

from .support import build, lowered, on_both


def running_sum(shape, dtype, reverse, in_place=False):
    @T.prim_func
    def main(A: T.Tensor(shape, dtype), B: T.Tensor(shape, dtype)):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared(shape, dtype), T.alloc_shared(shape, dtype)
            T.copy(A, a)
            if in_place:
                T.cumsum(a, dim=1, reverse=reverse)
                T.copy(a, B)
            else:
                T.cumsum(a, b, dim=1, reverse=reverse)
                T.copy(b, B)

    return main


def expected(a, reverse):
    wide = a.double() if a.is_floating_point() else a.long()
    return (wide.flip(1).cumsum(1).flip(1) if reverse else wide.cumsum(1)).to(a.dtype)


@on_both
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 2, 5, 16, 31, 71, 1000])
def test_every_length(length, reverse, target):
    a, b = torch.randint(-9, 10, (3, length)).float(), torch.zeros(3, length)
    build(running_sum((3, length), "float32", reverse), target)(a, b)
    assert torch.equal(b, expected(a, reverse))


@on_both
@pytest.mark.parametrize("dtype", ["float64", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "int8"])
def test_every_type(dtype, target):
    a = torch.randint(0, 2, (3, 45)).to(getattr(torch, dtype))
    b = torch.zeros_like(a)
    build(running_sum((3, 45), dtype, False, in_place=True), target)(a, b)
    assert torch.equal(b, expected(a, False))


@on_both
def test_an_infinity_and_a_nan_stay_in_what_follows(target):
    a = torch.ones(1, 40)
    a[0, 5], a[0, 20] = float("inf"), float("nan")
    b = torch.zeros(1, 40)
    build(running_sum((1, 40), "float32", False), target)(a, b)
    torch.testing.assert_close(b, a.cumsum(1), equal_nan=True)


@on_both
def test_parts_of_one_tile_in_order(target):
    @T.prim_func
    def main(A: T.Tensor((2, 64), "float32"), B: T.Tensor((2, 64), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((2, 64), "float32")
            T.copy(A, a)
            T.cumsum(a[0:1, :], a[1:2, :], dim=1)
            T.copy(a, B)

    a, b = torch.randint(-9, 10, (2, 64)).float(), torch.zeros(2, 64)
    build(main, target)(a, b)
    assert torch.equal(b, torch.stack([a[0], a[0].cumsum(0)]))


def test_contiguous_lines_are_summed_in_registers():
    assert "tl_scan_float32_16" in str(lowered(running_sum((3, 71), "float32", False)))
