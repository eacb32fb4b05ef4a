"""Atomics on elements of one byte, whose neighbours in the word are stored without them; atomics beyond the end of a tensor."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate


@pytest.mark.parametrize("kind", ["add", "max", "or"])
@pytest.mark.parametrize("place", ["shared", "global"])
def test_neighbours_of_an_atomic_byte_are_stored_plainly(kind, place):
    """No race: they are different elements."""

    @T.prim_func
    def main(A: T.Tensor((63,), "int8"), B: T.Tensor((63,), "int8")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((63,), "int8")
            T.fill(tile, 0)
            for i in T.Parallel(63):
                if i % 2 == 0:
                    (tile if place == "shared" else B)[i] = A[i]
                else:
                    getattr(T, f"atomic_{kind}")((tile if place == "shared" else B)[i], A[i])
            if place == "shared":
                T.copy(tile, B)

    a = (torch.arange(63) % 5).to(torch.int8)
    b = torch.zeros_like(a)
    simulate(main, a, b)
    assert torch.equal(a, b)


def test_bytes_updated_by_many_threads():
    @T.prim_func
    def main(A: T.Tensor((64, 6), "int8"), B: T.Tensor((2, 6), "int8")):
        with T.Kernel(1, threads=64):
            for i, j in T.Parallel(64, 6):
                T.atomic_add(B[0, j], A[i, j])
                T.atomic_max(B[1, j], A[i, j])

    a = torch.randint(-2, 3, (64, 6), dtype=torch.int8, generator=torch.Generator().manual_seed(0))
    b = torch.zeros(2, 6, dtype=torch.int8)
    simulate(main, a, b)
    assert torch.equal(b[0], a.sum(0).to(torch.int8)) and torch.equal(b[1], a.amax(0).clamp(min=0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_pairs_updated_by_several_blocks(arch, dtype):
    """Also by atomics of four elements, which no barrier orders with those of two."""
    name = str(dtype).removeprefix("torch.")

    @T.prim_func
    def main(A: T.Tensor((128,), name), B: T.Tensor((4,), name)):
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(16):
                T.atomic_addx2(B[2], A[bx * 64 + i * 2])
            for i in T.Parallel(16):
                T.atomic_addx4(B[0], A[bx * 64 + i * 4])

    a = torch.randint(0, 3, (2, 64), generator=torch.Generator().manual_seed(0)).to(dtype)
    b = torch.zeros(4, dtype=dtype)
    simulate(main, a.view(128), b, arch=arch)
    expected = a.view(-1, 4).sum(0)
    expected[2:] += a[:, :32].reshape(-1, 2).sum(0)
    assert torch.equal(b, expected)


@pytest.mark.parametrize("kind", ["add", "max", "store"])
def test_atomics_beyond_the_end_of_a_tensor_do_nothing(kind):
    """The end is that of the tensor that is updated, not of the one with the values."""

    @T.prim_func
    def main(A: T.Tensor((128,), "int32"), B: T.Tensor((100,), "int32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                getattr(T, f"atomic_{kind}")(B[i], A[i])

    a, b = torch.arange(128, dtype=torch.int32), torch.zeros(100, dtype=torch.int32)
    simulate(main, a, b)
    assert torch.equal(b, a[:100])
