"""Disjointness: which statements touch different parts of a tensor, and what follows for barriers and schedules."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate
from tilelang.errors import PipelineScheduleError
from tilelang.target.cuda.analysis.disjointness import Iterations, communicating_tensors
from tilelang.target.cuda.tile.program import split_kernels
from tilelang.target.cuda.tile.tree import Loop, read_tree, walk


def _communicating(program):
    kernel = split_kernels(program)[0]
    tree, facts = read_tree(kernel.body), kernel.facts()
    for node in walk(tree.root):
        if isinstance(node, Loop):
            facts.bind_range(node.stmt.loop_var, node.stmt.extent, node.stmt.min)
    return {buffer.name for buffer in communicating_tensors(tree, tree.root_of, Iterations(tree.root, facts))}


def _two_stores(step, distance):
    """A loop that stores two tiles of 64 elements, ``distance`` apart, and goes on by ``step`` elements."""

    @T.prim_func
    def main(C: T.Tensor((4096,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((64,), "float32")
            T.clear(tile)
            for k in T.serial(8):
                T.copy(tile, C[k * step : k * step + 64])
                T.copy(tile, C[k * step + distance : k * step + distance + 64])

    return main


@pytest.mark.parametrize(
    "step, distance, meet", [(128, 64, False), (256, 192, False), (64, 64, True), (128, 32, True), (96, 64, True)]
)
def test_parts_of_one_step_are_disjoint_in_all_steps(step, distance, meet):
    assert _communicating(_two_stores(step, distance)) == ({"C"} if meet else set())


def _in_place(step, length=64):
    """A loop that loads the tile of the next iteration before it has stored the one of this iteration, in the same tensor."""

    @T.prim_func
    def main(X: T.Tensor((1024,), "float32")):
        with T.Kernel(1, threads=64):
            loaded = T.alloc_shared((length,), "float32")
            doubled = T.alloc_fragment((length,), "float32")
            for k in T.Pipelined(4, order=[0, 1, 2], stage=[0, 1, 1]):
                T.copy(X[k * step], loaded)
                for i in T.Parallel(length):
                    doubled[i] = loaded[i] * 2.0
                T.copy(doubled, X[k * step])

    return main


def test_iterations_that_have_parts_of_their_own_may_overtake_each_other():
    x = torch.arange(1024.0)
    expected = torch.cat([x[:256] * 2, x[256:]])
    simulate(_in_place(64), x)
    torch.testing.assert_close(x, expected)


def test_iterations_that_share_elements_may_not():
    with pytest.raises(PipelineScheduleError, match="X"):
        simulate(_in_place(32), torch.zeros(1024))
