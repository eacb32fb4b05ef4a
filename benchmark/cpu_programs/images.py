"""Convolution, histogram and chains of elementwise operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

import tilelang.language as T
from cpu_programs.case import Case, nbytes


def convolution(N: int, H: int, W: int, C: int, F: int, kernel: int = 3, block_M: int = 64, block_K: int = 576) -> Any:
    """Stride 1, same size, channels last: a product whose left operand is gathered from the image.

    ``block_K`` columns of it at a time: all filter positions of 64 channels.
    """

    @T.prim_func
    def main(
        data: T.Tensor((N, H, W, C), "float32"),
        weight: T.Tensor((kernel, kernel, C, F), "float32"),
        out: T.Tensor((N, H, W, F), "float32"),
    ):
        with T.Kernel(T.ceildiv(N * H * W, block_M), threads=128) as by:
            data_shared = T.alloc_shared((block_M, block_K), "float32")
            weight_shared = T.alloc_shared((block_K, F), "float32")
            out_local = T.alloc_fragment((block_M, F), "float32")
            weight_flat = T.reshape(weight, (kernel * kernel * C, F))
            out_flat = T.reshape(out, (N * H * W, F))
            T.clear(out_local)
            for k in T.Pipelined(T.ceildiv(kernel * kernel * C, block_K), num_stages=2):
                T.c2d_im2col(data, data_shared, by, k, kernel, 1, 1, kernel // 2)
                T.copy(weight_flat[k * block_K, 0], weight_shared)
                T.gemm(data_shared, weight_shared, out_local)
            T.copy(out_local, out_flat[by * block_M, 0])

    return main


def depthwise(N: int, H: int, W: int, C: int) -> Any:
    """3 x 3, stride 1, no padding, channels last."""

    @T.prim_func
    def main(
        data: T.Tensor((N, H + 2, W + 2, C), "float32"),
        weight: T.Tensor((3, 3, C), "float32"),
        out: T.Tensor((N, H, W, C), "float32"),
    ):
        with T.Kernel(H, N, threads=128) as (y, n):
            for x in T.serial(W):
                acc = T.alloc_fragment((C,), "float32")
                T.clear(acc)
                for i, j in T.grid(3, 3):
                    for c in T.Parallel(C):
                        acc[c] += data[n, y + i, x + j, c] * weight[i, j, c]
                for c in T.Parallel(C):
                    out[n, y, x, c] = acc[c]

    return main


def histogram(N: int, bins: int, block: int) -> Any:
    """Each block counts for itself, then adds its counts to the result."""

    @T.prim_func
    def main(X: T.Tensor((N,), "int32"), counts: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            own = T.alloc_shared((bins,), "int32")
            T.clear(own)
            for i in T.Parallel(block):
                T.atomic_add(own[X[bx * block + i]], 1)
            T.atomic_add(counts[0], own)

    return main


def add(N: int, block: int = 4096) -> Any:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return main


def gelu(N: int, block: int = 4096) -> Any:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                a = A[bx * block + i]
                C[bx * block + i] = 0.5 * a * (1.0 + T.erf(a * 0.7071067811865476))

    return main


def _convolution() -> Case:
    N, H, W, C, F = 1, 56, 56, 64, 64
    data, weight, out = torch.randn(N, H, W, C), torch.randn(3, 3, C, F), torch.empty(N, H, W, F)
    image = data.permute(0, 3, 1, 2)
    filters = weight.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    theirs = lambda: torch.nn.functional.conv2d(image, filters, padding=1).permute(0, 2, 3, 1)  # noqa: E731
    program = convolution(N, H, W, C, F)
    return Case(
        "conv2d 3x3 float32", f"{H}x{W}x{C}", program, (data, weight, out), theirs, "float32", 2 * out.numel() * 9 * C, 1e-4
    )


def _depthwise() -> Case:
    N, H, W, C = 1, 56, 56, 128
    data, weight, out = torch.randn(N, H + 2, W + 2, C), torch.randn(3, 3, C), torch.empty(N, H, W, C)
    image, filters = data.permute(0, 3, 1, 2), weight.permute(2, 0, 1)[:, None].contiguous()
    theirs = lambda: torch.nn.functional.conv2d(image, filters, groups=C).permute(0, 2, 3, 1)  # noqa: E731
    return Case(
        "depthwise 3x3 float32", f"{H}x{W}x{C}", depthwise(N, H, W, C), (data, weight, out), theirs, "copy", nbytes(data, out)
    )


def _histogram() -> Case:
    N, bins = 1 << 20, 256
    x, counts = torch.randint(0, bins, (N,), dtype=torch.int32), torch.zeros(bins, dtype=torch.int32)
    theirs = lambda: torch.bincount(x, minlength=bins)  # noqa: E731
    return Case("histogram int32", f"{N}", histogram(N, bins, 1 << 16), (x, counts), theirs, "read", nbytes(x))


def _add(N: int) -> Case:
    a, b, c = torch.randn(N), torch.randn(N), torch.empty(N)
    own = torch.empty(N)
    return Case("addition float32", f"{N}", add(N), (a, b, c), lambda: torch.add(a, b, out=own), "sum", nbytes(a, b, c))


def _gelu() -> Case:
    N = 1 << 20
    a = torch.randn(N)
    theirs = lambda: torch.nn.functional.gelu(a)  # noqa: E731
    return Case("GELU float32", f"{N}", gelu(N), (a, torch.empty(N)), theirs, "copy", 2 * nbytes(a))


def cases() -> Iterator[Callable[[], Case]]:
    """All rows."""
    yield from (_convolution, _depthwise, _histogram, _gelu)
    yield from (lambda: _add(1 << 16), lambda: _add(1 << 24))
