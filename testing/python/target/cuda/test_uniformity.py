"""Uniformity: what the threads of a block agree on, and programs whose barriers depend on it."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from testing.python.target.definition import check_meaning
from tilelang.errors import CompileError
from tilelang.ir import nodes as ir
from tilelang.target.cuda.analysis.uniformity import BLOCK, Uniformity
from tilelang.target.cuda.arch import WARP
from tilelang.target.cuda.tile.program import split_kernels
from tilelang.target.cuda.tile.read import read_tree
from tilelang.target.cuda.tile.tree import Branch, Loop, Repeat, Scalar, walk

ARCHES = ("sm_80", "sm_90a")


def _analysed(program):
    kernel = split_kernels(program)[0]
    tree = read_tree(kernel.body)
    return tree, Uniformity(tree, dict(kernel.threads))


def test_values_of_threads_warps_and_the_block():
    @T.prim_func
    def main(A: T.Tensor((128,), "int32")):
        with T.Kernel(4, threads=128) as bx:
            tx = T.get_thread_binding()
            A[0] = tx % 32
            A[1] = A[tx]
            A[2] = tx >> 1
            A[3] = tx // 32 + bx
            A[4] = T.any_sync(A[tx] > 0)
            A[5] = A[bx] + 1
            A[6] = T.syncthreads_count(A[tx])

    tree, uniformity = _analysed(main)
    stored = [node.stmt for node in walk(tree.root) if isinstance(node, Scalar) and isinstance(node.stmt, ir.BufferStore)]
    assert [uniformity.group([stmt.value]) for stmt in stored] == [1, 1, 2, WARP, WARP, BLOCK, BLOCK]


def test_variables_are_as_uniform_as_the_conditions_that_they_are_stored_under():
    @T.prim_func
    def main(A: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            total = T.alloc_var("int32", init=0)
            mine = T.alloc_var("int32", init=0)
            found = T.alloc_var("int32", init=0)
            for k in T.serial(4):
                total = total + A[k]
            if A[tx] > 0:
                mine = 1
            while found < A[tx]:
                found = found + 1
            A[tx] = total + mine + found

    tree, uniformity = _analysed(main)
    assert [uniformity.group([buffer]) for buffer in tree.allocations] == [BLOCK, 1, 1]
    assert not uniformity.divergent & set(tree.root.inside)
    below = {
        type(node): node.inside[0] in uniformity.divergent for node in walk(tree.root) if isinstance(node, (Branch, Loop, Repeat))
    }
    assert below == {Branch: True, Repeat: True, Loop: False}


def test_an_array_of_an_iteration_makes_nothing_each_threads_own():
    @T.prim_func
    def main(C: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((4,), "float32")
            s = T.alloc_shared((1,), "float32")
            T.fill(s, 1)
            for i in T.Parallel(4):
                w = T.alloc_local((2,), "float32")
                for q in T.serial(2):
                    w[q] = 1
                f[i] = w[1]
            T.atomic_add(C[0], f[0])
            s[0] += f[0]
            C[1] = s[0]

    for arch in ARCHES:
        o = torch.zeros(2)
        simulate(main, o, arch=arch)
        assert o.tolist() == [1, 2]


@pytest.mark.parametrize("arch", ARCHES)
def test_shared_atomics_in_a_loop_that_threads_leave_at_different_times(arch):
    @T.prim_func
    def main(X: T.Tensor((100,), "int32"), C: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            h = T.alloc_shared((64,), "int32")
            h[tx] = 0
            for i in T.serial(tx, 100, 64):
                T.atomic_add(h[X[i]], 1)
            C[tx] = h[tx]

    x, o = torch.randint(0, 64, (100,), dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    simulate(main, x, o, arch=arch)
    assert torch.equal(o, torch.bincount(x, minlength=64).int())


@pytest.mark.parametrize("arch", ARCHES)
def test_threads_rewrite_their_own_rows_in_loops_of_different_lengths(arch):
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n, 4), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            for i in T.serial(tx, n, 64):
                for j in T.unroll(4):
                    v = X[i, j]
                    if v > 5:
                        X[i, j] = -1

    x = torch.randint(0, 10, (100, 4), dtype=torch.int32)
    want = torch.where(x > 5, -1, x)
    simulate(main, x, arch=arch)
    assert torch.equal(x, want)


def _below(kind):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "float32")
            n = T.alloc_var("int32", init=0)
            s[tx] = X[tx]
            if kind == "variable":
                n = tx % 3
                if n == 1:
                    s[tx] = s[tx] + 1
            elif kind == "lane":
                if T.get_lane_idx() % 3 == 1:
                    s[tx] = s[tx] + 1
            elif kind == "while":
                n = tx % 3
                while n > 0:
                    s[tx] = s[tx] + 1
                    n = n - 1
            elif kind == "loaded":
                if X[tx] > 0:
                    s[tx] = s[tx] + 1
            T.sync_threads()
            C[tx] = s[63 - tx]

    return main


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("kind", ["variable", "lane", "while", "loaded"])
def test_no_barrier_is_placed_in_divergent_control_flow(kind, arch):
    x, t, o = torch.randn(64), torch.arange(64), torch.zeros(64)
    more = {"variable": t % 3 == 1, "lane": t % 32 % 3 == 1, "while": t % 3, "loaded": x > 0}[kind]
    simulate(_below(kind), x, o, arch=arch)
    torch.testing.assert_close(o, (x + more).flip(0))


def test_a_tile_operator_below_a_condition_on_data_of_threads_is_refused():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "float32")
            n = T.alloc_var("float32", init=X[tx])
            while n > 0:
                T.copy(X, s)
                n = n - 1
            C[tx] = s[tx]

    with pytest.raises(CompileError, match="a tile operator below a condition that only some threads meet"):
        source(main)


@pytest.mark.parametrize("arch", ARCHES)
def test_a_condition_on_an_atomic_access_is_decided_once_for_the_block(arch):
    """The last block to arrive sums what all have written: a stream-K or split-K epilogue."""
    blocks = 4

    @T.prim_func
    def main(
        X: T.Tensor((blocks, 64), "float32"), P: T.Tensor((blocks, 64), "float32"), N: T.Tensor((1,), "int32"),
        C: T.Tensor((64,), "float32"),
    ):  # fmt: skip
        with T.Kernel(blocks, threads=64) as bx:
            part, total = T.alloc_fragment((64,), "float32"), T.alloc_fragment((64,), "float32")
            T.copy(X[bx, :], part)
            T.copy(part, P[bx, :])
            if T.atomic_add(N[0], 1, memory_order="acq_rel", return_prev=True) == blocks - 1:
                T.clear(total)
                for b in T.serial(blocks):
                    T.copy(P[b, :], part)
                    for i in T.Parallel(64):
                        total[i] += part[i]
                T.copy(total, C)

    x, p, n, o = (
        torch.randint(-9, 9, (blocks, 64)).float(),
        torch.zeros(blocks, 64),
        torch.zeros(1, dtype=torch.int32),
        torch.zeros(64),
    )
    simulate(main, x, p, n, o, arch=arch)
    assert n.item() == blocks and torch.equal(o, x.sum(0))


@pytest.mark.parametrize("arch", ARCHES)
def test_the_bounds_of_a_loop_are_computed_once(arch):
    @T.prim_func
    def main(C: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((1,), "int32")
            n, steps = T.alloc_var("int32", init=4), T.alloc_var("int32", init=0)
            s[0] = 3
            for _ in T.serial(n):
                n = n - 1
                steps = steps + 1
            C[0] = steps
            for _ in T.serial(s[0]):
                s[0] = s[0] - 1
                steps = steps + 1
            C[1] = steps

    o = torch.zeros(2, dtype=torch.int32)
    simulate(main, o, arch=arch)
    assert o.tolist() == [4, 7]


@pytest.mark.parametrize("arch", ARCHES)
def test_a_variable_that_a_statement_only_reads_stays_the_block_s(arch):
    """A T.Parallel that reads it is the block's as well: its iterations are shared out, and run once."""

    @T.prim_func
    def main(S: T.Tensor((3, 2), "float32")):
        with T.Kernel(1, threads=64):
            tile, barrier = T.alloc_shared((3, 2), "float32"), T.alloc_barrier(64)
            parity, row, claimed = (T.alloc_var("int32", init=first) for first in (0, 1, 2))
            T.clear(tile)
            T.barrier_arrive(barrier)
            T.mbarrier_wait_parity(barrier, parity % 2)
            T.assume(claimed > 0)
            T.device_assert(row == 1)
            for i in T.Parallel(2):
                tile[parity, i] += 1
            for i in T.Parallel(2):
                tile[row, i] += 1
            for i in T.Parallel(2):
                tile[claimed, i] += 1
            parity, row, claimed = 0, 0, 0
            T.copy(tile, S)

    o = torch.zeros(3, 2)
    simulate(main, o, arch=arch)
    assert o.tolist() == [[1, 1]] * 3


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", ["its own", "another's", "in a loop"])
def test_single_threads_read_elements_of_a_fragment(kind, arch):
    """Whoever holds the elements: all threads come to the condition, and the fragment is copied to shared memory before it."""

    @T.prim_func
    def main(A: T.Tensor((2, 64), "float32"), B: T.Tensor((2, 64), "float32")):
        with T.Kernel(1, threads=128):
            thread = T.get_thread_binding()
            row, place = thread // 64, thread % 64
            tile = T.alloc_fragment((2, 64), "float32")
            T.copy(A, tile)
            if kind == "in a loop":
                for k in T.serial(place % 3):
                    B[row, place] += tile[row, place ^ k]
            elif place < 5:
                B[row, place] = tile[row, place] if kind == "its own" else tile[1 - row, 63 - place]

    a, b = torch.randn(2, 64), torch.zeros(2, 64)
    simulate(main, a, b, arch=arch)
    expected, column = torch.zeros(2, 64), torch.arange(64)
    if kind == "in a loop":
        for k in range(2):
            expected += torch.where(column % 3 > k, a[:, column ^ k], 0)
    else:
        expected[:, :5] = a[:, :5] if kind == "its own" else a.flip(0, 1)[:, :5]
    assert torch.equal(b, expected)


@pytest.mark.parametrize("kind", ["uniform", "of data", "of threads", "left by threads", "below a condition", "of a warp group"])
def test_what_an_instruction_stores_is_as_uniform_as_its_operands(kind):
    """`T.dp4a` adds to an array of each thread: the update of a tensor by it is the block's where the operands are."""

    @T.prim_func
    def main(A: T.Tensor((4,), "int8"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=256):
            thread = T.get_thread_binding()
            bytes_, total = T.alloc_local((4,), "int8"), T.alloc_local((1,), "int32")
            total[0] = 2
            for i in T.serial(4):
                bytes_[i] = A[i] if kind == "of data" else 1
            if kind in ("of threads", "left by threads"):
                bytes_[0] = T.cast(thread // 256 + 1, "int8")  # 1 in every thread, which the rule does not ask
            if kind == "below a condition":
                if thread < 8:
                    T.dp4a(bytes_, bytes_, total)
            elif kind == "of a warp group":
                with T.ws(0):
                    T.dp4a(bytes_, bytes_, total)
            else:
                T.dp4a(bytes_, bytes_, total)
            if kind == "left by threads":
                for _ in T.serial(3):
                    if total[0] > 9:
                        break
                    T.atomic_add(B[0], 1)
            else:
                T.atomic_add(B[0], total[0])

    values = torch.arange(1, 5, dtype=torch.int8)
    _, b = check_meaning(main, values, torch.zeros(1, dtype=torch.int32))
    expected = {"uniform": 6, "of data": 32, "of threads": 256 * 6, "left by threads": 256 * 3}
    assert b.item() == {**expected, "below a condition": 256 * 2 + 8 * 4, "of a warp group": 256 * 2 + 128 * 4}[kind]
