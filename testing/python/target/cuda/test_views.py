"""Memory that has two shapes means the same bytes in both, whatever layout is asked for."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import simulate

ARCHES = ("sm_80", "sm_90a")


@pytest.mark.parametrize("arch", ARCHES)
def test_a_swizzled_tile_is_read_through_a_view_of_another_type(arch):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 128), "bfloat16")):
        with T.Kernel(1, threads=128):
            words = T.alloc_shared((64, 64), "float32")
            halves = T.view(words, (64, 128), dtype="bfloat16")
            T.annotate_layout({words: tilelang.layout.make_swizzled_layout(words)})
            T.copy(A, words)
            T.copy(halves, B)

    a, b = torch.randn(64, 64), torch.zeros(64, 128, dtype=torch.bfloat16)
    simulate(main, a, b, arch=arch)
    assert torch.equal(b.view(torch.int16), a.view(torch.int16))


@pytest.mark.parametrize("arch", ARCHES)
def test_a_fragment_with_a_layout_is_changed_through_a_reshaped_view(arch):
    @T.prim_func
    def main(A: T.Tensor((16, 8), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((16, 8), "float32")
            T.annotate_layout({tile: T.Fragment((16, 8), forward_fn=lambda i, j: ((i * 8 + j) % 32, (i * 8 + j) // 32))})
            flat = T.reshape(tile, (128,))
            T.copy(A, tile)
            for i in T.Parallel(128):
                flat[i] = flat[i] + 1
            T.copy(flat, B)

    a, b = torch.randn(16, 8), torch.zeros(128)
    simulate(main, a, b, arch=arch)
    assert torch.equal(b, a.reshape(-1) + 1)
