"""Tiles of the im2col matrix: columns that are channels of one filter position, and columns of several; edges and padding."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.definition import check_meaning

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


@pytest.mark.parametrize("dtype", ["int64", "uint64", "uint8"])
def test_a_step_of_another_type(dtype):
    @T.prim_func
    def main(first: T.Tensor((2,), dtype), image: T.Tensor((2, 6, 5, 4), "float16"), out: T.Tensor((4, 16, 36), "float16")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((16, 36), "float16")
            for step in T.serial(first[0], first[1]):
                T.c2d_im2col(image, tile, step, 0, 3, 1, 1, 1)
                T.copy(tile, out[step, :, :])

    image = torch.arange(1, 241).reshape(2, 6, 5, 4).half()
    given = torch.tensor([0, 4]).to(getattr(torch, dtype))
    (_, _, out) = check_meaning(main, given, image, torch.zeros(4, 16, 36).half())
    padded = torch.nn.functional.unfold(image.float().permute(0, 3, 1, 2), 3, padding=1)  # (image, channel and tap, position)
    wanted = padded.unflatten(1, (4, 9)).permute(0, 3, 2, 1).reshape(60, 36)
    assert torch.equal(out.reshape(64, 36)[:60].float(), wanted)
