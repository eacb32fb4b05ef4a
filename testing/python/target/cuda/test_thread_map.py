"""Which thread touches which element: what indices tell, and the barriers that this saves."""

from __future__ import annotations

import itertools

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from tilelang.ir import nodes as ir
from tilelang.target.cuda.analysis.thread_map import ThreadMaps
from tilelang.target.cuda.tile.program import split_kernels
from tilelang.target.cuda.tile.read import read_tree
from tilelang.target.cuda.tile.tree import Scalar, walk

ARCHES = ("sm_80", "sm_90a")


def _maps(program):
    """The map of each store to shared memory, in program order."""
    kernel = split_kernels(program)[0]
    tree = read_tree(kernel.body)
    maps = ThreadMaps(tree, dict(kernel.threads))
    stores = [node.stmt for node in walk(tree.root) if isinstance(node, Scalar) and isinstance(node.stmt, ir.BufferStore)]
    shared = [stmt for stmt in stores if stmt.buffer.scope().startswith("shared")]
    return [maps.of(stmt.buffer, stmt.indices, range(maps.size)) for stmt in shared]


def test_indices_that_determine_the_thread_are_disjoint():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((4096,), "float32")
            s[tx] = X[0]
            for i in T.serial(16):
                s[i * 64 + tx] = X[1]
            for i in T.serial(tx, 1000, 64):
                s[i] = X[2]
            s[T.get_lane_idx() + T.get_warp_idx() * 32] = X[3]

    assert all(one.separates(other) for one, other in itertools.product(_maps(main), repeat=2))


def test_chunks_of_different_threads_are_disjoint_for_any_trip_count():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=(8, 8)):
            tx = T.get_thread_binding(0)
            ty = T.get_thread_binding(1)
            s = T.alloc_shared((8, 64), "float32")
            for i in T.serial(8):
                s[ty, tx * 8 + i] = X[0]
            for i in T.serial(3):
                s[ty, tx * 8 + i + 0] = X[1]
            s[ty, tx * 8 + ty] = X[2]
            s[tx, ty * 8] = X[3]

    one, two, three, transposed = _maps(main)
    assert one.separates(two) and one.separates(three) and two.separates(three) and three.separates(three)
    assert transposed.separates(transposed) and not transposed.separates(one)


def test_parts_of_a_buffer_are_told_apart_by_their_bounds():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((2, 256), "float32")
            s[0, tx] = X[0]  # 0 to 63
            s[0, tx + 64] = X[1]  # 64 to 127
            for i in T.serial(3):
                s[0, i * 30 + 63] = X[2]  # 63 to 123
            s[1, tx] = X[3]
            s[0, n + 128] = X[4]  # anywhere

    low, high, steps, second, unknown = _maps(main)
    assert [each.box for each in (low, high, steps, second)] == [
        ((0, 0), (lo, hi)) for lo, hi in ((0, 63), (64, 127), (63, 123))
    ] + [((1, 1), (0, 63))]
    pairs = {frozenset(pair) for pair in ((low, high), (low, second), (high, second), (steps, second), (unknown, second))}
    for one, other in itertools.product((low, high, steps, second, unknown), repeat=2):
        assert one.never_overlaps(other) == (frozenset((one, other)) in pairs)


def test_indices_that_do_not_determine_the_thread_may_overlap():
    @T.prim_func
    def main(X: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((4096,), "int32")
            s[tx] = 0
            s[63 - tx] = 1
            s[tx + 1] = 2
            s[tx // 2] = 3
            s[X[tx]] = 4
            s[0] = 5
            for i in T.serial(4):
                s[i + tx] = 6
            for i in T.serial(4):
                s[i * 32 + tx] = 7

    first, *others = _maps(main)
    assert first.separates(first) and not any(first.separates(other) for other in others)
    assert not any(other.separates(other) for other in [others[0], *others[2:]])


@pytest.mark.parametrize("arch", ARCHES)
def test_threads_that_fill_their_own_elements_need_no_barrier(arch):
    @T.prim_func
    def main(X: T.Tensor((16, 128), "float32"), Y: T.Tensor((16, 128), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((16, 128), "float32")
            for i in T.serial(16):
                s[i, tx] = X[i, tx]
            for i in T.serial(16):
                s[i, tx] = s[i, tx] * 2
            for i in T.serial(16):
                Y[i, tx] = s[15 - i, 127 - tx]

    x, y = torch.randn(16, 128), torch.zeros(16, 128)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, 2 * x.flip(0, 1)) and source(main, arch).count("__syncthreads") == 1


@pytest.mark.parametrize("arch", ARCHES)
def test_nests_with_the_same_distribution_need_no_barrier(arch):
    @T.prim_func
    def main(X: T.Tensor((64, 64), "float32"), Y: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((64, 64), "float32")
            T.copy(X, s)
            for i, j in T.Parallel(64, 64):
                s[i, j] = s[i, j] + 1
            for i, j in T.Parallel(64, 64):
                s[i, j] = s[i, j] * 2
            for i, j in T.Parallel(64, 64):
                Y[i, j] = s[j, i]

    x, y = torch.randn(64, 64), torch.zeros(64, 64)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, 2 * (x + 1).T) and source(main, arch).count("__syncthreads") == 1


@pytest.mark.parametrize("arch", ARCHES)
def test_maps_of_a_warp_group_know_its_threads_only(arch):
    """Two groups that run the same statement on one tile are told apart by no digit of it; within each no barrier is needed."""

    @T.prim_func
    def main(X: T.Tensor((256,), "float32"), Y: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            s = T.alloc_shared((256,), "float32")
            with T.ws(1):
                s[tx] = X[tx]
                s[tx] = s[tx] * 2
            T.sync_threads()
            with T.ws(0):
                s[tx] = X[tx] + 1
                Y[tx] = s[tx]

    x, y = torch.randn(256), torch.zeros(256)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y[:128], x[:128] + 1) and source(main, arch).count("_sync(") == 0


def test_neighbours_of_a_thread_in_a_row_are_its_own():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((4096,), "float32")
            s[2 * tx] = X[0]
            s[2 * tx + 1] = X[1]
            s[2 * tx + 2] = X[2]

    even, odd, following = _maps(main)
    assert even.separates(odd) and not even.separates(following) and not odd.separates(following)
