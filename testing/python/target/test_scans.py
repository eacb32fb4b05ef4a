"""Scans between memories of every kind: on CUDA they work in shared memory, on every target the result is the same."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.test_found_programs import check, every_target

SCOPES = {"shared": "shared", "fragment": "local.fragment"}


@every_target
@pytest.mark.parametrize("source", SCOPES)
@pytest.mark.parametrize("result", SCOPES)
@pytest.mark.parametrize(("dim", "reverse"), [(0, False), (1, True)])
def test_scans_from_memory_to_memory(dim, reverse, result, source, target):
    @T.prim_func
    def main(A: T.Tensor((5, 48), "float32"), B: T.Tensor((5, 48), "float32"), C: T.Tensor((5, 48), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_buffer((5, 48), "float32", scope=SCOPES[source])
            b = T.alloc_buffer((5, 48), "float32", scope=SCOPES[result])
            T.copy(A, a)
            T.cumsum(a, b, dim=dim, reverse=reverse)
            T.copy(b, B)
            T.cummax(a, dim=dim, reverse=reverse)
            T.copy(a, C)

    check(main, target, torch.randint(-4, 4, (5, 48)).float(), torch.zeros(5, 48), torch.zeros(5, 48))


@every_target
def test_scans_of_slices_count_their_own_axes(target):
    @T.prim_func
    def main(A: T.Tensor((3, 4, 8), "int32"), B: T.Tensor((2, 4, 8), "int32"), C: T.Tensor((3, 4, 8), "int32")):
        with T.Kernel(1, threads=64):
            a, b = T.alloc_shared((3, 4, 8), "int32"), T.alloc_shared((4, 8), "int32")
            T.copy(A, a)
            for dim in (0, 1):
                T.cumsum(a[1, :, :], b, dim=dim)
                T.copy(b, B[dim, :, :])
            T.cumsum(a[1, :, :], a[2, :, :], dim=1)
            T.copy(a, C)

    a = torch.randint(-4, 4, (3, 4, 8), dtype=torch.int32)
    b, c = torch.zeros(2, 4, 8, dtype=torch.int32), torch.zeros(3, 4, 8, dtype=torch.int32)
    check(main, target, a, b, c)
    assert torch.equal(b, torch.stack([a[1].cumsum(0), a[1].cumsum(1)]).int())
    assert torch.equal(c[2], a[1].cumsum(0).int())  # both slices have the axis that an index names


@every_target
@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn"])
def test_scans_of_elements_that_share_a_byte(dtype, target):
    @T.prim_func
    def main(A: T.Tensor((8, 16), dtype), B: T.Tensor((8, 16), dtype), C: T.Tensor((8, 16), dtype)):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((8, 16), dtype)
            T.copy(A, tile)
            T.cummax(tile, dim=1)
            T.copy(tile, B)
            T.cumsum(tile, dim=0)
            T.copy(tile, C)

    packed = torch.randint(0, 256, (8, 8), dtype=torch.uint8) & 0x33
    check(main, target, packed, torch.zeros_like(packed), torch.zeros_like(packed))


@every_target
@pytest.mark.parametrize("threads", [33, 100])
def test_scans_where_the_last_warp_is_not_whole(threads, target):
    @T.prim_func
    def main(A: T.Tensor((8, 40), "int32"), B: T.Tensor((8, 40), "int32")):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_shared((8, 40), "int32")
            T.copy(A, tile)
            T.cumsum(tile, dim=1)
            T.copy(tile, B)

    check(main, target, torch.randint(-4, 4, (8, 40), dtype=torch.int32), torch.zeros(8, 40, dtype=torch.int32))
