"""Order among threads below conditions that only some of them meet, and in loops that they leave at different times."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import leaf_of, simulate, source
from testing.python.target.definition import check_meaning
from tilelang.errors import CompileError
from tilelang.target.cuda.ir.code import Barrier, Block, BranchCode, GroupCode, LoopCode
from tilelang.target.cuda.ir.instructions import NamedBarrier
from tilelang.target.cuda.ir.values import Name
from tilelang.target.cuda.schedule.barriers import with_barriers
from tilelang.target.cuda.schedule.conflicts import Conflicts

ARCHES = ("sm_80", "sm_90a")


def _exchange():
    return Block([leaf_of(["w"], writes="s"), leaf_of(["r"], reads="s")])


def _inserted(*items):
    block = with_barriers(Block(list(items)), Conflicts(lambda a, b: a == b))
    return block


# On hand-made trees ----------------------------------------------------------------------------------------------------


def test_a_branch_of_known_threads_gets_a_named_barrier():
    (group,) = _inserted(BranchCode(Name("tid < 64"), _exchange(), None, True, range(64))).items
    assert isinstance(group, GroupCode) and [type(item) for item in group.body.items][1] is Barrier
    assert group.barrier == NamedBarrier(0, 64)


def test_a_divergent_branch_is_split_at_a_block_barrier():
    block = _inserted(BranchCode(Name("c"), _exchange(), None, True))
    assert [type(item).__name__ for item in block.items] == ["Leaf", "BranchCode", "Barrier", "BranchCode"]
    assert [item.condition for item in block.items if isinstance(item, BranchCode)] == [Name("taken")] * 2


def test_a_branch_without_an_order_inside_stays_one():
    branch = BranchCode(Name("c"), Block([leaf_of(["w"], writes="s"), leaf_of(["r"], reads="t")]), None, True)
    (same,) = _inserted(branch).items
    assert same.condition == branch.condition and same.then.items == branch.then.items


def test_one_thread_has_no_order_with_itself():
    branch = BranchCode(Name("tid == 5"), _exchange(), None, True, range(5, 6))
    (same,) = _inserted(branch).items
    assert same.condition == branch.condition and same.then.items == branch.then.items


def test_a_loop_that_all_threads_run_moves_out_of_the_branch():
    block = _inserted(BranchCode(Name("c"), Block([LoopCode(Name("for (;;)"), _exchange())]), None, True))
    (loop,) = (item for item in block.items if isinstance(item, LoopCode))
    assert [type(item).__name__ for item in loop.body.items] == ["Barrier", "BranchCode", "Barrier", "BranchCode"]


# Programs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHES)
def test_threads_of_a_branch_exchange_values(arch):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "float32")
            if tx < 64:
                s[tx] = X[tx] * 2
                Y[tx] = s[63 - tx]

    x, y = torch.randn(64), torch.zeros(64)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, (2 * x).flip(0)) and "named_barrier_sync" in source(main, arch)


@pytest.mark.parametrize("arch", ARCHES)
def test_threads_of_a_branch_put_a_result_where_others_have_read(arch):
    @T.prim_func
    def main(X: T.Tensor((4, 128), "float32"), Y: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((4, 128), "float32")
            for i in T.unroll(4):
                s[i, tx] = X[i, tx]
            total = T.alloc_var("float32", init=0.0)
            if tx < 64:
                for i in T.serial(4):
                    total = total + s[i, 63 - tx] + s[i, 64 + tx]
                s[0, tx] = total
            T.sync_threads()
            Y[tx] = s[0, tx % 64]

    x, y = torch.randint(-9, 9, (4, 128)).float(), torch.zeros(128)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, (x[:, :64].flip(1).sum(0) + x[:, 64:].sum(0)).repeat(2))


@pytest.mark.parametrize("arch", ARCHES)
def test_consecutive_branches_of_different_threads_keep_their_order(arch):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s, r = T.alloc_shared((64,), "float32"), T.alloc_shared((64,), "float32")
            if tx < 64:
                s[tx] = X[tx]
                r[tx] = s[63 - tx] * 2
            if tx >= 64:
                s[tx - 64] = r[(tx + 1) % 64]
                Y[tx - 64] = s[127 - tx]

    x, y = torch.randn(64), torch.zeros(64)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, (2 * x.flip(0)).roll(-1).flip(0)) and source(main, arch).count("__syncthreads") == 1


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("otherwise", [False, True])
def test_threads_chosen_by_data_exchange_values(arch, otherwise):
    @T.prim_func
    def main(X: T.Tensor((128,), "int32"), Y: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "int32")
            s[tx] = -1
            v = X[tx]
            if v > 0:
                for i in T.serial(3):
                    s[tx] = v + i
                    w = s[(tx + 1) % 128]
                    if w > 0:
                        Y[tx] = Y[tx] + w
            elif otherwise:
                Y[tx] = 1000

    x = torch.randint(-3, 4, (128,), dtype=torch.int32)
    y = torch.zeros(128, dtype=torch.int32)
    simulate(main, x, y, arch=arch)
    following = x.roll(-1)
    met = torch.where(following > 0, 3 * following + 3, 0)
    assert torch.equal(y, torch.where(x > 0, met, 1000 if otherwise else 0).int())


@pytest.mark.parametrize("arch", ARCHES)
def test_every_second_thread_reduces_a_tile_in_a_tree(arch):
    @T.prim_func
    def main(X: T.Tensor((128,), "float32"), Y: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "float32")
            s[tx] = X[tx]
            for k in T.serial(7):
                if tx % (2 << k) == 0:
                    s[tx] = s[tx] + s[tx + (1 << k)]
            if tx == 0:
                Y[0] = s[0]

    x, y = torch.randint(-9, 9, (128,)).float(), torch.zeros(1)
    simulate(main, x, y, arch=arch)
    assert y.item() == x.sum()


def test_races_in_a_loop_with_divergent_exits_are_refused():
    @T.prim_func
    def main(X: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            s[tx] = 0
            for i in T.serial(X[tx]):
                s[tx] = i
                X[tx] = s[63 - tx]

    with pytest.raises(
        CompileError, match="threads run this at different times, and one may touch an element of s that another"
    ) as error:
        source(main)
    assert error.value.location is not None


@pytest.mark.parametrize("arch", ARCHES)
def test_a_program_may_order_threads_by_itself_in_such_a_loop(arch):
    @T.prim_func
    def main(X: T.Tensor((2,), "int32"), Y: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            for i in T.serial(X[tx // 32]):
                s[tx] = tx + i
                T.sync_warp()
                Y[tx] = s[tx ^ 1]
                T.sync_warp()

    x, y = torch.tensor([2, 5], dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, (torch.arange(64) ^ 1).int() + torch.tensor([1] * 32 + [4] * 32).int())


# Early exits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHES)
def test_statements_after_a_return_run_in_the_remaining_threads(arch):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "float32")
            if tx >= 64:
                T.thread_return()
            T.copy(X, s)
            for i in T.Parallel(64):
                Y[i] = s[63 - i]

    x, y = torch.randn(64), torch.zeros(64)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, x.flip(0))


@pytest.mark.parametrize("arch", ARCHES)
def test_threads_that_data_lets_return_are_not_waited_for(arch):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "float32")
            s[tx] = X[tx]
            if X[tx] < 0:
                T.thread_return()
            Y[tx] = s[63 - tx]

    x, y = torch.randn(64), torch.zeros(64)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, torch.where(x < 0, 0, x.flip(0)))


@pytest.mark.parametrize("last", [1, 4, 32])
@pytest.mark.parametrize("arch", ARCHES)
def test_the_barriers_after_a_return_are_not_below_its_condition(arch, last):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "float32")
            T.clear(s)
            if tx < last:
                T.thread_return()
            mine = X[tx] * 2
            s[tx] = mine
            T.sync_threads()
            if T.get_block_binding() == 2:
                return
            T.sync_threads()
            if tx % 4 == 2:
                return
            for k in T.serial(2):
                s[tx] = s[tx] + k
                T.sync_threads()
            Y[tx] = s[63 - tx] + mine

    x, y = torch.randint(-4, 9, (64,)).float(), torch.zeros(64)
    simulate(main, x, y, arch=arch)
    tx = torch.arange(64)
    stays = (tx >= last) & (tx % 4 != 2)
    s = torch.where(tx >= last, x * 2, 0) + stays
    assert torch.equal(y, torch.where(stays, s.flip(0) + x * 2, 0))


@pytest.mark.parametrize("arch", ARCHES)
def test_threads_that_continue_are_waited_for_in_the_next_iteration(arch):
    @T.prim_func
    def main(X: T.Tensor((8, 64), "int32"), Y: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            total = T.alloc_var("int32", init=0)
            s = T.alloc_shared((64,), "int32")
            for i in T.serial(8):
                s[tx] = X[i, tx]
                if X[i, tx] < 0:
                    continue
                total = total + s[63 - tx]
            Y[tx] = total

    x, y = torch.randint(-2, 6, (8, 64), dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, (x.flip(1) * (x >= 0)).sum(0).int())


@pytest.mark.parametrize("arch", ARCHES)
def test_threads_that_return_from_a_loop_are_not_waited_for(arch):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s, t = T.alloc_shared((64,), "float32"), T.alloc_shared((64,), "float32")
            T.clear(t)
            s[tx] = X[tx]
            for i in T.serial(4):
                if X[tx] < i:
                    T.thread_return()
            t[tx] = s[63 - tx]
            Y[tx] = t[63 - tx]

    x, y = torch.randint(-4, 9, (64,)).float(), torch.zeros(64)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, torch.where((x >= 3) & (x.flip(0) >= 3), x, 0))


def test_a_tile_operator_in_a_loop_that_threads_return_from_is_refused():
    @T.prim_func
    def main(X: T.Tensor((4, 64), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "float32")
            for i in T.Pipelined(4, num_stages=2):
                T.copy(X[i, :], s)
                if s[tx] < i:
                    T.thread_return()
            Y[tx] = s[63 - tx]

    with pytest.raises(CompileError, match="some threads return here, and the others of their block have to wait") as error:
        source(main)
    assert error.value.location is not None


def test_a_return_from_a_pipelined_loop_before_a_barrier_is_refused():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "float32")
            s[tx] = X[tx]
            for i in T.Pipelined(4, num_stages=2):
                if X[tx] < i:
                    T.thread_return()
            Y[tx] = s[63 - tx]

    with pytest.raises(CompileError, match="some threads return here, and the others of their block have to wait") as error:
        source(main)
    assert error.value.location is not None


@pytest.mark.parametrize("arch", ARCHES)
def test_threads_sort_a_tile_by_exchanges_below_conditions_on_data(arch):
    """A bitonic network: nested conditions on the thread's number and on data, in loops that all threads run."""

    @T.prim_func
    def main(X: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            s[tx] = X[tx]
            for k in T.serial(6):
                for j in T.serial(k + 1):
                    other = tx ^ (1 << (k - j))
                    if other > tx:
                        mine, theirs = s[tx], s[other]
                        if (mine > theirs) == ((tx >> (k + 1)) % 2 == 0):
                            s[tx] = theirs
                            s[other] = mine
            Y[tx] = s[tx]

    x, y = torch.randint(-99, 99, (64,), dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    simulate(main, x, y, arch=arch)
    assert torch.equal(y, x.sort().values)


@pytest.mark.parametrize("arch", ARCHES)
def test_threads_write_two_halves_and_pairs_in_loops_of_different_lengths(arch):
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n,), "int32"), Y: T.Tensor((2 * n,), "int32"), Z: T.Tensor((2 * n,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            for i in T.serial(tx, n, 64):
                Y[i] = X[i]
                Y[i + n] = -X[i]
                Z[2 * i] = X[i]
                Z[2 * i + 1] = -X[i]

    x = torch.randint(-9, 9, (100,), dtype=torch.int32)
    y, z = torch.zeros(200, dtype=torch.int32), torch.zeros(200, dtype=torch.int32)
    simulate(main, x, y, z, arch=arch)
    assert torch.equal(y, torch.cat([x, -x])) and torch.equal(z, torch.stack([x, -x], 1).flatten())


def test_a_thread_that_the_program_elects_starts_a_bulk_copy():
    @T.prim_func
    def main(X: T.Tensor((64, 64), "float16"), Y: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            s, ready = T.alloc_shared((64, 64), "float16"), T.alloc_barrier([1])
            if T.shuffle_elect(128):
                T.tma_copy(X, s, barrier=ready[0])
                T.barrier_arrive(ready[0])
            T.barrier_wait(ready[0], 0)
            for i, j in T.Parallel(64, 64):
                Y[i, j] = s[j, i]

    x, y = torch.randn(64, 64).half(), torch.zeros(64, 64).half()
    simulate(main, x, y, arch="sm_90a")
    assert torch.equal(y, x.T)


# Warps -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHES)
def test_warps_exchange_values_in_loops_of_their_own_lengths(arch):
    @T.prim_func
    def main(L: T.Tensor((4,), "int32"), X: T.Tensor((4, 8, 32), "int32"), Y: T.Tensor((4, 32), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            warp, lane = tx // 32, tx % 32
            s = T.alloc_shared((4, 32), "int32")
            total = T.alloc_var("int32", init=0)
            for k in T.serial(L[warp]):
                s[warp, lane] = X[warp, k, lane]
                total = total + s[warp, 31 - lane]
            Y[warp, lane] = total

    lengths, x = torch.tensor([1, 8, 0, 5], dtype=torch.int32), torch.randint(-9, 9, (4, 8, 32), dtype=torch.int32)
    y = torch.zeros(4, 32, dtype=torch.int32)
    simulate(main, lengths, x, y, arch=arch)
    assert torch.equal(y, torch.stack([x[i, :n].sum(0).flip(0) for i, n in enumerate(lengths.tolist())]).int())
    text = source(main, arch)
    assert text.count("__syncwarp") == 2 and "__syncthreads" not in text


def test_warps_that_meet_in_such_a_loop_are_refused():
    @T.prim_func
    def main(L: T.Tensor((4,), "int32"), Y: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "int32")
            for k in T.serial(L[tx // 32]):
                s[tx] = k
                Y[tx] = s[127 - tx]

    with pytest.raises(CompileError, match="threads run this at different times, and one may touch an element of s that another"):
        source(main)


@pytest.mark.parametrize("arch", ARCHES)
def test_a_thread_asks_for_its_warp_group_where_its_warp_has_diverged(arch):
    @T.prim_func
    def main(A: T.Tensor((256,), "int32"), B: T.Tensor((256,), "int32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            group = T.alloc_var("int32", init=-1)
            if A[tx] == 1:
                group = T.get_warp_group_idx()
            B[tx] = group

    a, b = torch.arange(256, dtype=torch.int32) % 2, torch.zeros(256, dtype=torch.int32)
    simulate(main, a, b, arch=arch)
    assert torch.equal(b, torch.where(a == 1, torch.arange(256) // 128, -1).int())


@pytest.mark.parametrize("arch", ARCHES)
def test_a_value_in_a_split_branch_is_computed_under_its_condition(arch):
    @T.prim_func
    def main(count: T.Tensor((4,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            if tx % 2 == 0:
                x = T.atomic_add(count[tx // 16], 1, return_prev=True)
                s[tx] = T.min(x, 0) + tx
                B[tx] = s[62 - tx]

    count, b = torch.zeros(4, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    simulate(main, count, b, arch=arch)
    assert count.tolist() == [8] * 4
    assert b[::2].tolist() == [*range(62, -1, -2)]


@T.macro
def signalling_others(full, tx):
    T.mbarrier_arrive(full)


@T.macro
def waiting_for_others(full, tx):
    T.mbarrier_wait_parity(full, 1)


@T.macro
def ordering_warps(full, tx):
    T.sync_warp()


@T.macro
def signalling_by_some(full, tx):
    if tx < 32:
        T.mbarrier_arrive(full)


@pytest.mark.parametrize(
    "between", [signalling_others, waiting_for_others, ordering_warps, signalling_by_some], ids=lambda m: m.__name__
)
@pytest.mark.parametrize("group", [True, False], ids=["T.ws", "if"])
def test_what_threads_tell_others_orders_none_among_themselves(between, group: bool) -> None:
    """A statement sees what the one before has stored, whatever stands between the two."""

    @T.prim_func
    def main(A: T.Tensor((128,), "int32"), B: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=256):
            tx, s, full = T.get_thread_binding(), T.alloc_shared((128,), "int32"), T.alloc_barrier(128)
            if group:
                with T.ws(0):
                    s[tx] = A[tx]
                    between(full, tx)
                    B[tx] = s[127 - tx]
            else:
                if tx < 128:
                    s[tx] = A[tx]
                    between(full, tx)
                    B[tx] = s[127 - tx]

    a = torch.arange(128, dtype=torch.int32)
    _, b = check_meaning(main, a, torch.zeros_like(a))
    assert torch.equal(b, a.flip(0))


def test_a_barrier_of_the_program_for_a_group_is_the_only_one() -> None:
    @T.prim_func
    def main(A: T.Tensor((128,), "int32"), B: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=256):
            tx, s = T.get_thread_binding(), T.alloc_shared((128,), "int32")
            with T.ws(0):
                s[tx] = A[tx]
                T.sync_threads(1, 128)
                B[tx] = s[127 - tx]

    assert source(main).count("barrier_sync") == 1
