"""Tiles that are written by rows and read by columns have no bank conflict, for every width of element."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda
from tilelang.execution.simulated import last_reports
from tilelang.layout.swizzle import conflicts, word_swizzled


@pytest.mark.parametrize(
    ("shape", "bits"), [((32, 32), 32), ((64, 64), 16), ((64, 32), 8), ((32, 16), 32), ((32, 32), 64), ((32, 96), 32)]
)
def test_neither_rows_nor_columns_conflict(shape, bits):
    layout, width = word_swizzled(shape, bits), max(bits // 8, 1)
    places = {(row, column): layout.offset([row, column]) for row in range(shape[0]) for column in range(shape[1])}
    assert sorted(places.values()) == list(range(shape[0] * shape[1]))
    column = [places[row, 5] * bits // 8 for row in range(32)]
    row = [places[5, column] * bits // 8 for column in range(min(32, shape[1]))]
    assert conflicts(column, width) == conflicts(row, width) == 0


def transposed(rows, columns, block, dtype):
    @T.prim_func
    def main(A: T.Tensor((rows, columns), dtype), B: T.Tensor((columns, rows), dtype)):
        with T.Kernel(T.ceildiv(columns, block[1]), T.ceildiv(rows, block[0]), threads=128) as (bx, by):
            tile = T.alloc_shared(block, dtype)
            T.copy(A[by * block[0], bx * block[1]], tile)
            for j, i in T.Parallel(block[1], block[0]):
                B[bx * block[1] + j, by * block[0] + i] = tile[i, j]

    return main


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("block", "dtype"), [((32, 32), "float32"), ((64, 64), "float16"), ((64, 32), "int8"), ((32, 16), "float64")]
)
def test_a_transpose_by_a_tile(block, dtype, arch):
    kernel = tilelang.compile(transposed(128, 64, block, dtype), target=cuda(arch))
    a, b = torch.randint(-9, 9, (128, 64)).to(getattr(torch, dtype)), torch.zeros(64, 128, dtype=getattr(torch, dtype))
    with tilelang.simulator(strict=True, counters=True):
        kernel(a, b)
    assert torch.equal(b, a.T)
    assert last_reports()[0].counters.total["bank_conflicts"] == 0
