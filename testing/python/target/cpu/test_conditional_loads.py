"""Conditional loads whose values are stored in another order than they have in memory keep their places (target ``c``)."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.target.cpu.conditional_loads import QUALIFIER


def edge_of_transposed_rows(rows, depth, width, dtype):
    """Each row lies in memory as its transpose; the last block has fewer rows than the tile."""

    @T.prim_func
    def main(
        A: T.StridedTensor((rows, depth, width), (depth * width, 1, depth), dtype),
        out: T.Tensor((T.ceildiv(rows, 4) * 4, depth, width), dtype),
    ):
        with T.Kernel(T.ceildiv(rows, 4), threads=32) as bx:
            tile = T.alloc_fragment((4, depth, width), dtype)
            T.copy(A[bx * 4, 0, 0], tile)
            for i, j, k in T.Parallel(4, depth, width):
                out[bx * 4 + i, j, k] = tile[i, j, k]

    return main


@pytest.mark.parametrize("dtype", ["int64", "float32", "int16", "uint8"])
@pytest.mark.parametrize("depth, width", [(2, 4), (4, 2), (4, 4), (2, 8), (3, 4), (8, 8)])
def test_edges_of_strided_tensors(depth, width, dtype):
    rows = 11
    kernel = tilelang.compile(edge_of_transposed_rows(rows, depth, width, dtype), target="c")
    values = (torch.arange(rows * depth * width) % 251).reshape(rows, depth, width).to(getattr(torch, dtype))
    a = values.transpose(1, 2).contiguous().transpose(1, 2)
    out = torch.full((12, depth, width), 7, dtype=values.dtype)
    kernel(a, out)
    wanted = torch.zeros_like(out)
    wanted[:rows] = values
    assert torch.equal(out, wanted)


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (3, 2, 1, 0), (1, 0, 3, 2), (2, 3, 0, 1)])
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_unrolled_statements(order, dtype):
    @T.prim_func
    def main(A: T.Tensor((256,), dtype), out: T.Tensor((256,), dtype), n: T.int32):
        with T.Kernel(1, threads=32):
            for i in T.serial(64):
                for place, source in enumerate(order):
                    out[4 * i + place] = T.if_then_else(i < n, A[4 * i + source], T.cast(0, dtype))

    kernel = tilelang.compile(main, target="c")
    a = torch.arange(1, 257).to(getattr(torch, dtype))
    out = torch.empty_like(a)
    kernel(a, out, 61)
    wanted = a.reshape(64, 4)[:, list(order)].clone()
    wanted[61:] = 0
    assert torch.equal(out, wanted.reshape(-1))


def test_rows_are_left_to_the_vectoriser():
    """Loads of neighbours, and those of whole tiles, are ordinary ones."""

    @T.prim_func
    def main(A: T.Tensor((100, 200), "float32"), out: T.Tensor((128, 256), "float32")):
        with T.Kernel(4, 2, threads=32) as (bx, by):
            tile = T.alloc_shared((64, 64), "float32")
            T.copy(A[by * 64, bx * 64], tile)
            T.copy(tile, out[by * 64, bx * 64])

    source = tilelang.compile(main, target="c").get_kernel_source()
    assert "?" in source and QUALIFIER not in source
