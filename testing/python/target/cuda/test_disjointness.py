"""Disjointness: which statements touch different parts of a tensor, and what follows for barriers and schedules."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from testing.python.target.definition import check_meaning
from tilelang.errors import PipelineScheduleError
from tilelang.target.cuda.analysis.disjointness import Iterations, communicating_tensors
from tilelang.target.cuda.tile.program import split_kernels
from tilelang.target.cuda.tile.read import read_tree
from tilelang.target.cuda.tile.tree import Loop, walk


def _communicating(program):
    kernel = split_kernels(program)[0]
    tree, facts = read_tree(kernel.body), kernel.facts()
    for node in walk(tree.root):
        if isinstance(node, Loop):
            facts.bind_range(node.stmt.loop_var, node.stmt.extent, node.stmt.min)
    return {buffer.name for buffer in communicating_tensors(tree, Iterations(tree, facts, dict(kernel.threads)))}


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


def test_iterations_on_disjoint_parts_may_be_reordered():
    x = torch.arange(1024.0)
    expected = torch.cat([x[:256] * 2, x[256:]])
    simulate(_in_place(64), x)
    torch.testing.assert_close(x, expected)


def test_iterations_that_share_elements_may_not():
    with pytest.raises(PipelineScheduleError, match="X"):
        simulate(_in_place(32), torch.zeros(1024))


def _stores_in_a_loop(place, element=lambda A, k, i: A[i], extent=64):
    """A loop whose iterations store ``extent`` elements each, the thread's ``i``-th at ``place(k, i)``."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for k in T.serial(4):
                for i in T.Parallel(extent):
                    B[place(k, i)] = element(A, k, i) + k

    return main


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "place, extent, barriers",
    [
        (lambda k, i: (i + k) % 64, 64, 1),
        (lambda k, i: i + 8 * k, 32, 1),
        (lambda k, i: 40 - 8 * k + i, 16, 1),
        (lambda k, i: i + 16 * k, 16, 0),
        (lambda k, i: 48 - 16 * k + i, 16, 0),
        (lambda k, i: i, 64, 0),
    ],
)
def test_iterations_that_store_to_elements_of_other_threads_are_ordered(place, extent, barriers, arch):
    """The element that an iteration stores to was another thread's in the iteration before, or each thread has its own."""
    program = _stores_in_a_loop(place, extent=extent)
    assert source(program, arch).count("__syncthreads()") == barriers
    a, b = torch.arange(64.0), torch.zeros(64)
    simulate(program, a, b, arch=arch)
    expected = torch.zeros(64)
    for k in range(4):
        expected[[place(k, i) for i in range(extent)]] = a[:extent] + k
    torch.testing.assert_close(b, expected)


def test_the_thread_that_stores_may_be_another_in_each_iteration():
    """Each iteration is run by the threads that have the fragment's element ``k``."""

    @T.prim_func
    def main(A: T.Tensor((2, 2, 2), "bfloat16"), X: T.Tensor((4, 2), "int32"), B: T.Tensor((2, 2), "int32")):
        with T.Kernel(1, threads=32):
            rows = T.alloc_fragment((2, 2), "int32")
            T.copy(X[0, 0], rows)
            for k in T.serial(2):
                values = T.alloc_fragment((2, 2), "bfloat16")
                T.copy(A[k, 0, 0], values)
                B[:, :] = T.max(rows[:, :], T.cast(values[k, 1], "int32"))

    a = torch.arange(8).reshape(2, 2, 2).to(torch.bfloat16)
    x, b = torch.full((4, 2), 2, dtype=torch.int32), torch.zeros(2, 2, dtype=torch.int32)
    simulate(main, a, x, b)
    assert torch.equal(b, torch.full((2, 2), 7, dtype=torch.int32))


def _with_moved_places(kind):
    """Copies to places whose distance in the text is not the one that they have, as what they are computed from changes."""

    @T.prim_func
    def main(place: T.Tensor((4,), "int32"), A: T.Tensor((1024,), "float32"), B: T.Tensor((2048,), "float32")):
        with T.Kernel(1, threads=128):
            x, y = T.alloc_shared((512,), "float32"), T.alloc_shared((512,), "float32")
            T.copy(A[0:512], x)
            T.copy(A[512:1024], y)
            if kind == "a tensor's element":
                T.copy(x, B[place[0] + 512])
                place[0] = place[0] + 512
                T.copy(y, B[place[0]], coalesced_width=1)
            else:
                at = T.alloc_var("int32", init=0)
                for k in T.serial(4):
                    T.copy(A[k * 128 : k * 128 + 512], x)
                    T.copy(x, B[k * 512 + at])
                    at -= 512

    return main


def _of_threads(kind):
    """Copies of each thread to places that other threads copy to in another statement, or iteration."""

    @T.prim_func
    def main(A: T.Tensor((512,), "float32"), B: T.Tensor((1024,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            own, double = T.alloc_local((4,), "float32"), T.alloc_local((4,), "float32")
            T.copy(A[tx * 4 : tx * 4 + 4], own)
            for i in T.serial(4):
                double[i] = own[i] * 2
            if kind == "statements":
                T.copy(own, B[tx * 4 : tx * 4 + 4])
                T.copy(double, B[tx * 4 + 4 : tx * 4 + 8])
            else:
                for k in T.serial(3):
                    T.copy(own, B[(k + tx) * 4 : (k + tx) * 4 + 4])

    return main


@pytest.mark.parametrize("kind", ["a tensor's element", "a variable"])
def test_places_that_a_stored_value_moves_may_be_the_same(kind):
    check_meaning(_with_moved_places(kind), torch.zeros(4, dtype=torch.int32), torch.randn(1024), torch.zeros(2048))


@pytest.mark.parametrize("kind", ["statements", "iterations"])
def test_places_of_threads_may_be_those_of_others(kind):
    check_meaning(_of_threads(kind), torch.randn(512), torch.zeros(1024))


@pytest.mark.parametrize("kind", ["bound", "inner loop", "threads"])
def test_an_index_that_grows_by_more_than_the_loop_shares_nothing_out(kind):
    """``k * 64 + row`` is one place in all iterations where ``row`` falls by 64 in each."""

    @T.prim_func
    def main(rows: T.Tensor((8,), "int32"), X: T.Tensor((2048,), "float32")):
        with T.Kernel(1, threads=64):
            tile, total = T.alloc_shared((64,), "float32"), T.alloc_shared((64,), "float32")
            own = T.alloc_local((4,), "float32")
            T.clear(total)
            for k in T.Pipelined(8, order=[0, 1, 2], stage=[0, 1, 1]):
                if kind == "bound":
                    row = rows[k]
                    T.copy(X[k * 64 + row], tile)
                    for i in T.Parallel(64):
                        total[i] += tile[i]
                    T.copy(total, X[k * 64 + row])
                elif kind == "inner loop":
                    for j in T.serial(2):
                        T.copy(X[k * 64 + j * 64], tile)
                    for i in T.Parallel(64):
                        total[i] += tile[i]
                    for j in T.serial(2):
                        T.copy(total, X[k * 64 + j * 64])
                else:
                    at = (k + T.get_thread_binding()) * 4
                    T.copy(X[at : at + 4], own)
                    for i in T.serial(4):
                        own[i] += 1.0
                    T.copy(own, X[at : at + 4])

    with pytest.raises(PipelineScheduleError, match="this statement would touch X before"):
        source(main)
