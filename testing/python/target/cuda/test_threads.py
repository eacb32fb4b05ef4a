"""What a program says to threads itself: votes, named barriers, and the barrier of the whole grid."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda, simulate, source
from tilelang import interpreter

ARCHES = ("sm_80", "sm_90a")


@pytest.mark.parametrize("arch", ARCHES)
def test_votes_are_64_bits_wide_and_their_bits_are_found(arch):
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            lane = T.launch_thread("threadIdx.x", 32)
            votes = T.ballot_sync(lane >= 7)
            narrow = T.cast(votes, "uint32")
            if lane == 0:
                A[0] = T.__ffs(votes)
                A[1] = T.clz(votes)
                A[2] = T.cast(T.__fns(narrow, 0, 3), "int32")
                A[3] = T.cast(T.__fns(narrow, 31, -2), "int32")

    a = torch.zeros(4, dtype=torch.int32)
    simulate(main, a, arch=arch)
    assert a.tolist() == [8, 32, 9, 30]


def test_named_barriers_take_run_time_numbers():
    @T.prim_func
    def main(A: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            words = T.alloc_shared((128,), "int32")
            words[t] = t
            T.sync_threads(t // 64 + 1, 64)
            A[t] = words[t // 64 * 64 + 63 - t % 64]
            T.sync_threads(3)

    a = torch.zeros(128, dtype=torch.int32)
    simulate(main, a)
    assert a.tolist() == [*range(63, -1, -1), *range(127, 63, -1)]


@pytest.mark.parametrize("arch", ARCHES)
def test_all_blocks_of_the_grid_meet(arch):
    @T.prim_func
    def main(A: T.Tensor((1024,), "float32"), B: T.Tensor((1024,), "float32")):
        with T.Kernel(16, threads=64) as bx:
            for i in T.Parallel(64):
                A[bx * 64 + i] = bx * 64 + i
            T.sync_grid()
            for i in T.Parallel(64):
                B[bx * 64 + i] = A[1023 - bx * 64 - i]
            T.sync_grid()
            for i in T.Parallel(64):
                A[bx * 64 + i] = B[1023 - bx * 64 - i] + 1

    kernel = tilelang.compile(main, target=cuda(arch))
    a, b = torch.zeros(1024), torch.zeros(1024)
    with tilelang.simulator():
        for _ in range(2):  # the barrier's word goes on from one launch to the next
            kernel(a, b)
            assert torch.equal(a, torch.arange(1024.0) + 1)


@pytest.mark.parametrize("arch", ARCHES)
def test_a_copy_is_complete_before_blocks_that_overwrite_its_source_go_on(arch):
    """Blocks exchange their tiles: what one loads is what the other stores to after the next barrier of the grid."""

    @T.prim_func
    def main(A: T.Tensor((2, 32), "float32"), B: T.Tensor((2, 32), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_shared((32,), "float32")
            T.copy(A[bx, 0], tile)
            for _ in T.serial(3):
                T.copy(tile, B[bx, 0])
                T.sync_grid()
                T.copy(B[1 - bx, 0], tile)
                T.sync_grid()

    a, b = torch.arange(64.0).reshape(2, 32), torch.zeros(2, 32)
    simulate(main, a, b, arch=arch)
    assert torch.equal(b, a)


def waiting(wait):
    """Blocks 0 to 3 hand over a tile each; block 4 adds them up, and ``wait(flag, block, thread)`` says how it waits for each."""
    inside = T.macro(wait)

    @T.prim_func
    def main(flag: T.Tensor((4,), "int32"), P: T.Tensor((4, 64, 64), "float32"), Y: T.Tensor((64, 64), "float32")):
        with T.Kernel(5, threads=128) as bx:
            tile, total = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            if bx < 4:
                T.fill(tile, bx + 1)
                T.copy(tile, P[bx, :, :])
                T.atomic_store(flag[bx], 1, memory_order="release")
            else:
                T.clear(total)
                for block in T.serial(4):
                    inside(flag, block, T.get_thread_binding())
                    T.copy(P[block, :, :], tile)
                    for i, j in T.Parallel(64, 64):
                        total[i, j] += tile[i, j]
                T.copy(total, Y)

    return main


def _one_thread(flag, block, tx):
    if tx == 5:
        while T.atomic_load(flag[block], memory_order="acquire") == 0:
            pass


def _one_warp(flag, block, tx):
    if tx // 32 == 1:
        while T.atomic_load(flag[block], memory_order="seq_cst") == 0:
            pass


def _one_thread_by_an_update(flag, block, tx):
    if tx == 0:
        while T.atomic_add(flag[block], 0, memory_order="acq_rel", return_prev=True) == 0:
            pass


def _with_a_barrier(flag, block, tx):
    T.macro(_one_thread)(flag, block, tx)
    T.sync_threads()


WAITS = {_one_thread: 1, _one_warp: 1, _one_thread_by_an_update: 1, _with_a_barrier: 1}
"""How a block waits -> barriers of an iteration."""


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("wait", WAITS)
def test_all_threads_see_what_one_has_waited_for(wait, arch):
    main = waiting(wait)
    y, expected = torch.zeros(64, 64), torch.full((64, 64), 10.0)
    assert interpreter.run(main, torch.zeros(4, dtype=torch.int32), torch.zeros(4, 64, 64), y) == []
    assert torch.equal(y, expected)
    simulate(main, torch.zeros(4, dtype=torch.int32), torch.zeros(4, 64, 64), y.zero_(), arch=arch)
    assert torch.equal(y, expected)
    text = source(main, arch)
    assert text[text.rindex("while") :].count("__syncthreads()") == WAITS[wait]


@pytest.mark.parametrize("arch", ARCHES)
def test_a_group_of_threads_sees_what_one_of_them_has_waited_for(arch):
    @T.prim_func
    def main(flag: T.Tensor((1,), "int32"), P: T.Tensor((64, 64), "float32"), Y: T.Tensor((64, 64), "float32")):
        with T.Kernel(2, threads=256) as bx:
            tile = T.alloc_fragment((64, 64), "float32")
            if bx == 1:
                T.fill(tile, 3)
                T.copy(tile, P)
                T.atomic_store(flag[0], 1, memory_order="release")
            else:
                with T.ws(1):
                    if T.get_thread_binding() == 128:
                        while T.atomic_load(flag[0], memory_order="acquire") == 0:
                            pass
                    T.copy(P, tile)
                    T.copy(tile, Y)

    y = torch.zeros(64, 64)
    simulate(main, torch.zeros(1, dtype=torch.int32), torch.zeros(64, 64), y, arch=arch)
    assert (y == 3).all()


@pytest.mark.parametrize("arch", ARCHES)
def test_a_copy_is_complete_before_a_flag_says_that_its_source_may_be_overwritten(arch):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), flag: T.Tensor((1,), "int32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_shared((64,), "float32")
            if bx == 0:
                T.copy(X, tile)
                T.atomic_store(flag[0], 1, memory_order="release")
                T.copy(tile, Y)
            else:
                while T.atomic_load(flag[0], memory_order="acquire") != 1:
                    pass
                T.fill(tile, 5.0)
                T.copy(tile, X)

    text = source(main, arch)
    wait = text.find("tl::cp_async_wait<0>()")
    assert -1 < wait < text.index("tl::atomic_store")
    x, y = torch.arange(64.0), torch.zeros(64)
    simulate(main, x, torch.zeros(1, dtype=torch.int32), y, arch=arch)
    assert torch.equal(y, torch.arange(64.0)) and torch.equal(x, torch.full((64,), 5.0))


def test_read_only_loads():
    @T.prim_func
    def main(A: T.Tensor((64,), "float16"), B: T.Tensor((64,), "float16")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            B[t] = T.__ldg(A[63 - t]) + T.__ldg(A, t)

    a, b = torch.arange(64).half(), torch.zeros(64, dtype=torch.float16)
    simulate(main, a, b)
    assert torch.equal(b, a + a.flip(0))


@pytest.mark.parametrize("shape", [(16, 16), (2, 4, 32)])
def test_warps_and_their_groups_are_numbered_over_all_axes_of_the_block(shape):
    @T.prim_func
    def main(A: T.Tensor((256, 3), "int32")):
        with T.Kernel(1, threads=shape):
            lengths = T.get_thread_extents()
            x, y, z = T.get_thread_bindings()
            tx = x + lengths[0] * (y + lengths[1] * z)
            A[tx, 0] = T.get_warp_group_idx()
            A[tx, 1] = T.get_warp_idx()
            A[tx, 2] = 0
            with T.ws(1):
                A[tx, 2] = 1

    a = torch.zeros(256, 3, dtype=torch.int32)
    simulate(main, a)
    rank = torch.arange(256)
    assert torch.equal(a, torch.stack([rank // 128, rank // 32, rank // 128], 1).int())


BRANCHES = {
    # the outer branch, the inner one, whether a thread takes both
    "one thread, two warps": (lambda tx, x: tx == 3, lambda tx: tx < 64, True),
    "one thread, another warp": (lambda tx, x: tx == 3, lambda tx: tx // 32 == 1, False),
    "one thread of the second warp": (lambda tx, x: tx == 40, lambda tx: tx < 64, True),
    "data, a warp": (lambda tx, x: x == 3, lambda tx: tx < 32, True),
    "data, two warps": (lambda tx, x: x == 3, lambda tx: tx < 64, True),
}


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", BRANCHES)
def test_a_branch_of_warps_below_one_that_single_threads_take(name, arch):
    """Each thread asks for its own number: the rank of a warp is computed by all of its threads together."""
    outer, inner, taken = BRANCHES[name]

    @T.prim_func
    def main(X: T.Tensor((128,), "int32"), Y: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            left = T.alloc_shared((1,), "int32")
            T.fill(left, 50)
            if outer(tx, X[tx]):
                if inner(tx):
                    left[0] = left[0] - X[1]
            T.copy(left, Y)

    x, expected, y = torch.arange(128).int(), torch.zeros(1).int(), torch.zeros(1).int()
    assert interpreter.run(main, x, expected) == [] and expected[0] == (49 if taken else 50)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, expected)


@pytest.mark.parametrize("arch", ARCHES)
def test_an_operand_that_python_might_skip_is_exchanged_by_all(arch):
    @T.prim_func
    def main(X: T.Tensor((64,), "int32"), Y: T.Tensor((4, 64), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            x = X[tx]
            Y[0, tx] = T.shfl_xor(x, 1) if tx % 4 == 0 else -1
            Y[1, tx] = tx % 2 == 0 or T.match_any_sync(x) == 1 << tx % 32
            if tx < 40 and T.any_sync(x > 50) and T.warp_reduce_sum(x) > 10:
                Y[2, tx] = 1
            Y[3, tx] = 5 if x > 60 or T.syncthreads_count(x > 3) > 100 else 6

    x = torch.arange(64).int()
    y = torch.stack([torch.where(x % 4 == 0, x + 1, -1), x * 0 + 1, ((x >= 32) & (x < 40)).int(), torch.where(x > 60, 5, 6)])
    for run in (lambda *given: interpreter.run(main, *given), lambda *given: simulate(main, *given, arch=arch)):
        found = torch.zeros(4, 64, dtype=torch.int32)
        run(x, found)
        assert torch.equal(found, y)
