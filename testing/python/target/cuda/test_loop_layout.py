"""``loop_layout``: the program says which thread runs which iteration."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from tilelang.errors import LoopLayoutError


def copied(shape, layout, threads=64, half=False):
    @T.prim_func
    def main(A: T.Tensor(shape, "float32"), B: T.Tensor(shape, "float32")):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_shared(shape, "float32")
            if half:
                if T.get_thread_binding() < threads // 2:
                    T.copy(A, tile, loop_layout=layout)
            else:
                T.copy(A, tile, loop_layout=layout)
            T.copy(tile, B)

    return main


def rows(shape, width=2):
    """Neighbouring threads hold neighbours of ``width`` elements of a row."""
    return T.Fragment(shape, forward_fn=lambda i, j: (i % 8 * (shape[1] // width) + j // width, i // 8 * width + j % width))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "shape, layout",
    [
        ((16, 16), rows((16, 16))),
        ((16, 16), T.Fragment((16, 16), forward_fn=lambda i, j: (j, i))),
        ((1, 64), T.Fragment((1, 64), forward_fn=lambda i, j: (j, i))),
        ((1, 1), T.Fragment((1, 1), forward_fn=lambda i, j: (i, j))),
        ((64, 1), T.Fragment((64, 1), forward_fn=lambda i, j: (i, j))),
    ],
)
def test_elements_are_distributed_as_the_program_annotates(shape, layout, arch):
    a, b = torch.randn(shape), torch.zeros(shape)
    simulate(copied(shape, layout), a, b, arch=arch)
    assert torch.equal(a, b)


@pytest.mark.parametrize(
    "shape, layout, half",
    [
        ((16, 16), rows((16, 32)), False),
        ((16, 16), T.Fragment((16,), forward_fn=lambda i: (i, 0)), False),
        ((128, 1), T.Fragment((128, 1), forward_fn=lambda i, j: (i, j)), False),
        ((16, 16), rows((16, 16)), True),
    ],
)
def test_a_layout_of_another_loop_is_refused(shape, layout, half):
    with pytest.raises(LoopLayoutError, match="loop_layout of T.copy distributes .* threads"):
        source(copied(shape, layout, half=half), "sm_80")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_two_axes_may_walk_one_axis_of_a_fragment(arch):
    @T.prim_func
    def main(A: T.Tensor((256,), "float32"), B: T.Tensor((32, 8), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((256,), "float32")
            T.copy(A, tile)
            for i, j in T.Parallel(32, 8):
                B[i, j] = tile[i * 8 + j] * 2.0

    a, b = torch.randn(256), torch.zeros(32, 8)
    simulate(main, a, b, arch=arch)
    assert torch.equal(b, a.reshape(32, 8) * 2)
    assert "__shared__" not in source(main, arch)  # each thread stores what it holds
