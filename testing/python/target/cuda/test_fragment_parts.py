"""Operators on parts of fragments, and products of fragments that no instruction takes, against the CPU."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import simulate
from testing.python.target.definition import check_meaning


def _agree(program, *inputs, results, arch):
    found = []
    for target in ("cpu", arch):
        outputs = [torch.zeros(shape) for shape in results]
        if target == "cpu":
            tilelang.compile(program, target="cpu")(*inputs, *outputs)
        else:
            simulate(program, *inputs, *outputs, arch=arch)
        found.append(outputs)
    for ours, expected in zip(*found[::-1]):
        assert expected.abs().sum() > 0
        torch.testing.assert_close(ours, expected, rtol=0, atol=0)


def _integers(*shape, dtype=torch.float32):
    return torch.randint(-3, 4, shape).to(dtype)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dim, clear", [(1, True), (1, False), (0, True)])
def test_reductions_of_parts(arch, dim, clear):
    rows, length = (32, 64) if dim == 1 else (64, 32)

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), R: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((64, 64), "float32")
            found = T.alloc_fragment((64,), "float32")
            T.copy(A, tile)
            T.fill(found, 1)
            if dim == 1:
                T.reduce_sum(tile[16:48, :], found[8:40], dim=1, clear=clear)
            else:
                T.reduce_max(tile[32:64, :], found, dim=0, clear=clear)
            T.copy(found, R)

    _agree(main, _integers(64, 64), results=[(64,)], arch=arch)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_padding_of_a_fragment_in_local_memory_is_defined(arch):
    """NVVM keeps the array of the last loop in registers, and loads it without the condition that each of its uses has."""

    @T.prim_func
    def main(A: T.Tensor((33, 63), "float32"), B: T.Tensor((2, 2, 33, 64), "float32")):
        with T.Kernel(2, threads=256) as bx:
            tile = T.alloc_fragment((2, 33, 64), "float32")
            T.fill(tile, 1)
            for i, j in T.Parallel(33, 63):
                tile[bx, i, j] = tile[bx, i, j] + A[i, j]
            for k in T.serial(2):
                tile[1 - bx, 0, bx] = A[bx, k]
            T.copy(tile, B[bx, :, :, :])

    _agree(main, _integers(33, 63), results=[(2, 2, 33, 64)], arch=arch)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_copies_of_parts(arch):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((64, 64), "float32")
            other = T.alloc_fragment((64, 64), "float32")
            corner = T.alloc_fragment((32, 32), "float32")
            shared = T.alloc_shared((64, 64), "float32")
            T.copy(A, tile)
            T.clear(other)
            T.copy(tile[0:32, :], other[32:64, :])
            T.copy(tile[32:64, 32:64], corner)
            T.copy(corner, other[0:32, 0:32])
            T.copy(other[16:48, :], shared[0:32, :])
            T.copy(tile[0:32, 16:48], shared[32:64, 0:32])
            T.copy(shared[:, 0:32], other[:, 32:64])
            T.copy(other, B)
            T.copy(corner, C)

    a = _integers(64, 64)
    program = main
    outputs = [torch.zeros(64, 64), torch.zeros(32, 32)]
    # One quarter of the shared tile is never written, and never read.
    simulate(program, a, *outputs, arch=arch)
    expected = [torch.zeros(64, 64), torch.zeros(32, 32)]
    tilelang.compile(program, target="cpu")(a, *expected)
    for ours, wanted in zip(outputs, expected):
        torch.testing.assert_close(ours, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("tile, part", [((64, 32, 32), 32), ((20, 12, 12), 10)])
def test_products_of_parts(arch, tile, part):
    """A, B and C are parts of fragments; the smaller sizes are none of an instruction."""
    m, n, k = tile

    @T.prim_func
    def main(A: T.Tensor((m, k), "float16"), B: T.Tensor((2 * k, n), "float16"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=64):
            left = T.alloc_fragment((m, k), "float16")
            right = T.alloc_fragment((2 * k, n), "float16")
            total = T.alloc_fragment((m, n), "float32")
            T.copy(A, left)
            T.copy(B, right)
            T.fill(total, 2)
            T.gemm(left[m - part : m, :], right[k : 2 * k, :], total[0:part, :])
            T.copy(total, C)

    _agree(main, _integers(m, k, dtype=torch.float16), _integers(2 * k, n, dtype=torch.float16), results=[(m, n)], arch=arch)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("fragments", ["a", "b", "ab"])
def test_scalar_products_of_fragments(arch, fragments):
    @T.prim_func
    def main(A: T.Tensor((20, 12), "float32"), B: T.Tensor((10, 12), "float32"), C: T.Tensor((20, 10), "float32")):
        with T.Kernel(1, threads=96):
            left = (T.alloc_fragment if "a" in fragments else T.alloc_shared)((20, 12), "float32")
            right = (T.alloc_fragment if "b" in fragments else T.alloc_shared)((10, 12), "float32")
            total = T.alloc_fragment((20, 10), "float32")
            T.copy(A, left)
            T.copy(B, right)
            for i, j in T.Parallel(20, 12):
                left[i, j] = left[i, j] + 1
            T.gemm(left, right, total, transpose_B=True, clear_accum=True)
            T.copy(total, C)

    _agree(main, _integers(20, 12), _integers(10, 12), results=[(20, 10)], arch=arch)


def test_rows_of_a_fragment_reach_a_swizzled_tile():
    """A thread's first row may lie before the part: the swizzle must not be simplified for rows of the tile there."""

    @T.prim_func
    def main(A: T.Tensor((10, 8), "int32"), B: T.Tensor((8, 8), "int32")):
        with T.Kernel(1, threads=32):
            rows = T.alloc_fragment((10, 8), "int32")
            part = T.alloc_shared((8, 8), "int32")
            T.copy(A, rows)
            T.copy(rows[2:10, :], part)
            T.copy(part, B)

    rows = torch.arange(80, dtype=torch.int32).reshape(10, 8)
    assert torch.equal(check_meaning(main, rows, torch.zeros(8, 8, dtype=torch.int32))[1], rows[2:])
