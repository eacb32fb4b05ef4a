"""Products of matrices, and images as matrices, that are slices of tiles of three axes: an index may stand at any of them."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda
from testing.python.target.definition import check_meaning
from tilelang.errors import CompileError


def slab(shape, at, count=2):
    """The shape of ``count`` matrices side by side along a new axis ``at``."""
    return (*shape[:at], count, *shape[at:])


def one(tile, at, index):
    """The matrix of a tile at an index of axis ``at``."""
    places = [slice(None)] * 3
    places[at] = index
    return tile[tuple(places)]


@pytest.mark.parametrize("at", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1), (2, 2, 2)], ids=str)
@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize("dtype, into", [("float16", "float32"), ("int8", "int32"), ("bfloat16", "bfloat16")])
def test_an_index_at_any_axis(at, transposed, dtype, into):
    m, n, k = 16, 32, 64
    a_shape, b_shape, c_shape = (k, m) if transposed else (m, k), (n, k) if transposed else (k, n), (m, n)
    shapes = [slab(shape, axis) for shape, axis in zip((a_shape, b_shape, c_shape), at)]

    @T.prim_func
    def main(A: T.Tensor(shapes[0], dtype), B: T.Tensor(shapes[1], dtype), C: T.Tensor(shapes[2], into)):
        with T.Kernel(1, threads=64):
            a, b = T.alloc_shared(shapes[0], dtype), T.alloc_shared(shapes[1], dtype)
            c = T.alloc_fragment(shapes[2], into)
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            for i in T.serial(2):
                T.gemm(one(a, at[0], i), one(b, at[1], 1 - i), one(c, at[2], 1), transpose_A=transposed, transpose_B=transposed)
            T.copy(c, C)

    a, b = (torch.randint(-1, 2, shape).to(getattr(torch, dtype)) for shape in shapes[:2])
    check_meaning(main, a, b, torch.zeros(shapes[2], dtype=getattr(torch, into)))


@pytest.mark.parametrize("scope", [T.alloc_shared, T.alloc_fragment], ids=lambda scope: scope.__name__)
@pytest.mark.parametrize("at", [0, 1])
def test_an_accumulator_of_one_row(scope, at):
    """The last axis of length one completes a matrix."""

    @T.prim_func
    def main(A: T.Tensor((1, 32), "float32"), B: T.Tensor((32, 16), "float32"), C: T.Tensor(slab((1, 16), at), "float32")):
        with T.Kernel(1, threads=32):
            a, b, c = T.alloc_shared((1, 32), "float32"), T.alloc_shared((32, 16), "float32"), scope(slab((1, 16), at), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, one(c, at, 1))
            T.copy(c, C)

    a, b = torch.randint(-3, 4, (1, 32)).float(), torch.randint(-3, 4, (32, 16)).float()
    check_meaning(main, a, b, torch.zeros(slab((1, 16), at)))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_image_as_a_matrix_of_patches(at):
    @T.prim_func
    def main(A: T.Tensor((1, 5, 6, 4), "float32"), B: T.Tensor(slab((16, 8), at), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared(slab((16, 8), at), "float32")
            T.clear(tile)
            T.c2d_im2col(A, one(tile, at, 1), 0, 1, 3, 1, 1, 1)
            T.copy(tile, B)

    check_meaning(main, torch.randint(-3, 4, (1, 5, 6, 4)).float(), torch.zeros(slab((16, 8), at)))


def product_of_rows(rows):
    """``C = A B`` of the first rows of a tile, which a call counts."""

    @T.prim_func
    def main(A: T.Tensor((rows, 32), "float16"), B: T.Tensor((32, 16), "float16"), C: T.Tensor((rows, 16), "float32")):
        with T.Kernel(1, threads=32):
            count = T.min(rows, 16)
            a, b = T.alloc_shared((16, 32), "float16"), T.alloc_shared((32, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.copy(A[0:count, 0:32], a[0:count, :])
            T.copy(B, b)
            T.gemm(a[0:count, :], b, c[0:count, :], clear_accum=True)
            T.copy(c[0:count, :], C[0:count, 0:16])

    return main


@pytest.mark.parametrize("target", ["cpu", "c", "interpret"])
def test_rows_that_a_call_counts(target):
    kernel = tilelang.compile(product_of_rows(T.dynamic("m")), target=target)
    for m in (0, 1, 7, 16):
        a, b = torch.randint(-2, 3, (m, 32)).half(), torch.randint(-2, 3, (32, 16)).half()
        c = torch.zeros(m, 16)
        kernel(a, b, c)
        assert torch.equal(c, a.float() @ b.float())


def test_rows_that_a_call_counts_are_an_error_on_cuda():
    with pytest.raises(
        CompileError, match=r"on CUDA this operator takes tiles of compile-time sizes, and c has \(min\(m, 16\), 16\)"
    ):
        tilelang.compile(product_of_rows(T.dynamic("m")), target=cuda("sm_80"))
