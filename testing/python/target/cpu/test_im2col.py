"""Tiles of the im2col matrix: columns that are channels of one filter position, and columns of several; edges and padding."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T

from .support import build, on_both

ROWS = 20


def program(images, height, width, channels, columns, kernel, stride, dilation, pad):
    span = dilation * (kernel - 1) + 1
    positions = images * ((height + 2 * pad - span) // stride + 1) * ((width + 2 * pad - span) // stride + 1)
    blocks, steps = -(-positions // ROWS), -(-kernel * kernel * channels // columns)

    @T.prim_func
    def main(X: T.Tensor((images, height, width, channels), "float32"), Y: T.Tensor((blocks, steps, ROWS, columns), "float32")):
        with T.Kernel(steps, blocks, threads=128) as (bx, by):
            tile = T.alloc_shared((ROWS, columns), "float32")
            T.c2d_im2col(X, tile, by, bx, kernel, stride, dilation, pad)
            T.copy(tile, Y[by, bx, :, :])

    return main, (blocks, steps, ROWS, columns)


@on_both
@pytest.mark.parametrize("columns", [4, 8, 12, 16, 24])
@pytest.mark.parametrize("form", [(3, 1, 1, 1), (3, 2, 2, 2), (1, 1, 1, 0)], ids=str)
def test_results_equal_those_of_the_interpreter(form, columns, target):
    torch.manual_seed(0)
    shape = (2, 7, 9, 8)
    func, result = program(*shape, columns, *form)
    x, results = torch.randn(shape), [torch.full(result, 9.0) for _ in range(2)]
    for name, y in zip((target, "interpret"), results):
        build(func, name)(x, y)
    assert torch.equal(*results)
