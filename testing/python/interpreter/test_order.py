"""What orders accesses of different threads and blocks: barriers, and not plain accesses beside atomic ones."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T

from .support import kinds, run


def beside_updates(access, synchronised):
    """Warp 0 accesses a tile plainly, warp 1 updates it atomically."""

    @T.prim_func
    def main(Y: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((32,), "float32")
            T.clear(s)
            if tx < 32:
                access(s, Y, tx)
                if synchronised:
                    T.sync_threads()
            else:
                if synchronised:
                    T.sync_threads()
                T.atomic_add(s[tx - 32], 1)
            T.sync_threads()
            T.copy(s, Y)

    return main


@T.macro
def in_a_loop(s, Y, tx):
    for j in T.Parallel(32):
        s[j] += j


@T.macro
def reading(s, Y, tx):
    Y[tx] = s[tx]


@T.macro
def storing(s, Y, tx):
    s[tx] = 1


@T.macro
def updating(s, Y, tx):
    T.atomic_add(s[tx], 2)


@pytest.mark.parametrize("synchronised", [False, True])
@pytest.mark.parametrize("access", [in_a_loop, reading, storing])
def test_plain_accesses_beside_atomic_updates(access, synchronised):
    assert kinds(beside_updates(access, synchronised), torch.zeros(32)) == ([] if synchronised else ["race"])


def test_atomic_updates_beside_each_other():
    assert kinds(beside_updates(updating, False), torch.zeros(32)) == []


@pytest.mark.parametrize(("read", "found"), [(lambda place: T.atomic_load(place), []), (lambda place: place, ["race"])])
def test_iterations_that_read_what_others_update(read, found):
    @T.prim_func
    def main(Y: T.Tensor((64,), "int32"), S: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                T.atomic_add(S[i % 4], 1)
                Y[i] = T.min(read(S[(i + 1) % 4]), 0)

    assert kinds(main, torch.zeros(64, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)) == found


def counted(ordered):
    """Every block counts itself; the last one to come, or the first, resets the counter."""

    @T.prim_func
    def main(C: T.Tensor((1,), "int32"), Y: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=32) as b:
            before = T.atomic_add(C[0], 1, return_prev=True)
            Y[b] = 1
            if before == (3 if ordered else 0):
                C[0] = 0

    return main


@pytest.mark.parametrize(("ordered", "found"), [(True, set()), (False, {"race"})])
def test_blocks_that_store_what_others_update(ordered, found):
    assert set(kinds(counted(ordered), torch.zeros(1, dtype=torch.int32), torch.zeros(4, dtype=torch.int32))) == found


def test_blocks_that_read_what_others_update():
    @T.prim_func
    def main(C: T.Tensor((1,), "int32"), Y: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=32) as b:
            T.atomic_add(C[0], 1)
            Y[b] = C[0]

    assert kinds(main, torch.zeros(1, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)) == ["race"]


CONDITIONS = {
    "number": lambda tx: tx < 32,
    "quotient": lambda tx: tx // 32 == 0,
    "warp": lambda tx: T.get_warp_idx() == 0,
    "warp_sync": lambda tx: T.get_warp_idx_sync() == 0,
    "warps_of_16": lambda tx: T.get_warp_idx(16) < 2,
    "group": lambda tx: T.get_warp_group_idx(32, 1) == 0,
    "vote": lambda tx: T.any_sync(tx < 32) != 0,
}


@pytest.mark.parametrize(("order", "found"), [("signal", ["race"]), ("signal, barrier", []), ("none", [])])
@pytest.mark.parametrize("name", CONDITIONS)
def test_branches_behind_one_that_signals_are_in_no_order(name, order, found):
    condition = CONDITIONS[name]

    @T.prim_func
    def main(Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s, full = T.alloc_shared((64,), "float32"), T.alloc_barrier([32])
            T.clear(s)
            if condition(tx):
                s[tx % 32] = tx
                if "signal" in order:
                    T.mbarrier_arrive(full[0])
            if "barrier" in order:
                T.sync_threads()
            if T.Not(condition(tx)):
                Y[tx] = s[tx % 32]

    assert kinds(main, torch.zeros(64)) == found


def test_an_array_that_some_threads_read_before_it_has_a_value():
    @T.prim_func
    def main(Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx, v = T.get_thread_binding(), T.alloc_local((1,), "float32")
            if tx < 32:
                Y[tx] = v[0]

    assert kinds(main, torch.zeros(64)) == ["uninitialised"]


@pytest.mark.parametrize(
    ("releases", "acquires", "found"),
    [("release", "acquire", []), ("seq_cst", "seq_cst", []), ("relaxed", "acquire", ["race"]), ("release", "relaxed", ["race"])],
)
def test_what_an_atomic_flag_orders_between_blocks(releases, acquires, found):
    """One block writes data and raises a flag; the other waits for the flag and reads the data."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), flag: T.Tensor((2,), "int32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(2, threads=64) as b:
            if b == 0:
                T.fill(A, 3)
                T.atomic_store(flag[1], 1, memory_order=releases)
            else:
                while T.atomic_load(flag[1], memory_order=acquires) == 0:
                    pass
                T.copy(A, C)

    c = torch.zeros(64)
    assert set(kinds(main, torch.zeros(64), torch.zeros(2, dtype=torch.int32), c)) == set(found)
    assert c.tolist() == [3] * 64


@pytest.mark.parametrize(
    ("together", "releases", "acquires", "found"),
    [
        (True, "release", "acquire", []),
        (False, "release", "acquire", ["race"]),
        (True, "relaxed", "acquire", ["race"]),
        (True, "release", "relaxed", ["race"]),
    ],
)
def test_what_an_atomic_flag_orders_between_groups_of_threads(together, releases, acquires, found):
    """A thread publishes what it did itself, and what others did before a barrier that it has come to."""

    @T.prim_func
    def main(given: T.Tensor((2,), "int32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            tile, flag = T.alloc_shared((64,), "float32"), T.alloc_shared((2,), "int32")
            T.copy(given, flag)
            with T.ws(0):
                T.fill(tile, 3)
                if together:
                    T.sync_threads(1, 128)
                if tx == 0:
                    T.atomic_add(flag[1], 1, memory_order=releases)
            with T.ws(1):
                while T.atomic_load(flag[1], memory_order=acquires) == 0:
                    pass
                T.copy(tile, C)

    c = torch.zeros(64)
    assert set(kinds(main, torch.zeros(2, dtype=torch.int32), c)) == set(found)
    assert c.tolist() == [3] * 64


def test_a_flag_orders_nothing_for_those_who_take_another():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), flag: T.Tensor((2,), "int32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(2, threads=64) as b:
            if b == 0:
                T.fill(A, 3)
                T.atomic_store(flag[1], 1)
            else:
                T.atomic_add(flag[0], 1, memory_order="seq_cst")
                T.copy(A, C)

    assert kinds(main, torch.zeros(64), torch.zeros(2, dtype=torch.int32), torch.zeros(64)) == ["race"]


def test_a_thread_reads_what_its_group_has_stored():
    @T.prim_func
    def main(C: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((64,), "float32")
            with T.ws(0):
                T.fill(tile, 3)
                if tx == 0:
                    C[0] = tile[5]

    c = torch.zeros(1)
    assert kinds(main, c) == [] and c.tolist() == [3]


@pytest.mark.parametrize(("acquires", "found"), [("acq_rel", []), ("release", ["race"])])
def test_a_block_that_comes_after_several_readers(acquires, found):
    """All blocks read a tensor and count themselves; the one that comes last writes it."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), count: T.Tensor((1,), "int32"), B: T.Tensor((4, 64), "float32")):
        with T.Kernel(4, threads=64) as b:
            tile = T.alloc_shared((64,), "float32")
            T.copy(A, tile)
            T.copy(tile, B[b, 0])
            seen = T.atomic_add(count[0], 1, return_prev=True, memory_order=acquires)
            if seen == 3:
                T.fill(A, 5)

    a = torch.ones(64)
    assert set(kinds(main, a, torch.zeros(1, dtype=torch.int32), torch.zeros(4, 64))) == set(found)
    assert a.tolist() == [5] * 64


def test_blocks_that_change_a_tensor_in_turns():
    @T.prim_func
    def main(turn: T.Tensor((1,), "int32"), A: T.Tensor((64,), "float32")):
        with T.Kernel(4, threads=64) as b:
            tile = T.alloc_fragment((64,), "float32")
            while T.atomic_load(turn[0], memory_order="acquire") != b:
                pass
            T.copy(A, tile)
            for i in T.Parallel(64):
                tile[i] += 1
            T.copy(tile, A)
            T.atomic_store(turn[0], b + 1, memory_order="release")

    a = torch.ones(64)
    assert kinds(main, torch.zeros(1, dtype=torch.int32), a) == []
    assert a.tolist() == [5] * 64


def below_branches(meet, blocks=4):
    """Some threads of each block store to a tensor, and some of the next block load that after ``meet``."""

    @T.prim_func
    def main(Y: T.Tensor((blocks * 32,), "float32"), W: T.Tensor((blocks * 32,), "float32")):
        with T.ClusterKernel(blocks, threads=32, cluster_dims=(2, 1, 1)) as b:
            tx = T.get_thread_binding()
            if tx < 20:
                W[b * 32 + tx] = tx
            meet()
            if tx < 10:
                Y[b * 32 + tx] = W[(b + 1) % blocks * 32 + tx + 1]

    return main


def cluster_in_two_steps():
    T.cluster_arrive()
    T.cluster_wait()


@pytest.mark.parametrize(
    "meet, blocks, found",
    [
        (T.sync_grid, 4, []),
        (T.cluster_sync, 2, []),
        (cluster_in_two_steps, 2, []),
        (T.cluster_sync, 4, ["race"]),
        (T.sync_threads, 2, ["race"]),
    ],
)
def test_barriers_between_blocks_order_branches_of_their_threads(meet, blocks, found):
    w = torch.zeros(blocks * 32)
    assert set(kinds(below_branches(meet, blocks), torch.zeros(blocks * 32), w)) == set(found)


def test_branches_of_the_next_kernel_come_after_those_of_the_last_one():
    @T.prim_func
    def main(Y: T.Tensor((32,), "float32"), W: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            if tx < 20:
                W[tx] = tx
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            if tx < 10:
                Y[tx] = W[tx + 5]
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            if tx < 30:
                W[tx + 1] = 3

    assert kinds(main, torch.zeros(32), torch.zeros(32)) == []


@pytest.mark.parametrize("order", ["release", "relaxed"])
def test_an_update_of_the_block_publishes_what_a_branch_did_before(order):
    @T.prim_func
    def main(flag: T.Tensor((1,), "int32"), W: T.Tensor((32,), "float32"), Y: T.Tensor((32,), "float32")):
        with T.Kernel(2, threads=32) as b:
            tx = T.get_thread_binding()
            if b == 0:
                if tx < 20:
                    W[tx] = tx
                T.sync_threads()
                T.atomic_add(flag[0], 1, memory_order=order)
            else:
                while T.atomic_load(flag[0], memory_order="acquire") == 0:
                    pass
                if tx < 10:
                    Y[tx] = W[tx + 5]

    found = kinds(main, torch.zeros(1, dtype=torch.int32), torch.zeros(32), torch.zeros(32))
    assert set(found) == ({"race"} if order == "relaxed" else set())


@pytest.mark.parametrize("between", ["nothing", "a branch", "a barrier"])
@pytest.mark.parametrize("published", [True, False])
def test_threads_see_what_they_did_in_branches_before_others_waited(between, published):
    """A group goes on through the branches of others while these wait: its accesses stay its own, and it can publish them."""

    @T.prim_func
    def main(C: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=384):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((256,), "float32")
            go, full = T.alloc_barrier([128]), T.alloc_barrier([128])
            with T.ws(0):
                T.mbarrier_wait_parity(go[0], 0)
                T.fill(tile, 1)
            with T.ws(1):
                T.mbarrier_wait_parity(go[0], 1)
                T.mbarrier_arrive(go[0])
            if between == "a branch":
                if tx < 64:
                    T.mbarrier_wait_parity(go[0], 0)
            with T.ws(0):
                for i in T.Parallel(256):
                    tile[i] = tile[i] + 1
                T.mbarrier_arrive(full[0])
            if between == "a barrier":
                T.sync_threads()
            with T.ws(2):
                if published:
                    T.mbarrier_wait_parity(full[0], 0)
                T.copy(tile, C)

    c = torch.zeros(256)
    assert set(kinds(main, c)) == (set() if published or between == "a barrier" else {"race"})
    assert not published or c.tolist() == [2] * 256


@T.macro
def a_named_barrier(A, B, s, bar, tx, ordered):
    if tx < 128:
        T.sync_threads(1, 256)
        s[tx] = A[tx]
        T.sync_threads(1, 256)
    else:
        T.sync_threads(1, 256)
        if ordered:
            T.sync_threads(1, 256)
        B[tx - 128] = s[255 - tx]
        if not ordered:
            T.sync_threads(1, 256)


@T.macro
def an_mbarrier(A, B, s, bar, tx, ordered):
    if tx < 128:
        s[tx] = A[tx]
        T.mbarrier_arrive(bar)
        if tx < 32:
            if not ordered:
                s[tx] = 0
            T.mbarrier_arrive(bar)
    else:
        T.mbarrier_wait_parity(bar, 0)
        B[tx - 128] = s[255 - tx]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("body", [a_named_barrier, an_mbarrier], ids=lambda body: body.__name__)
def test_a_wait_orders_nothing_that_comes_after_its_phase(body, ordered):
    """Threads may arrive at the next phase of a barrier before those that waited for the last one go on."""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=256):
            s, bar = T.alloc_shared((128,), "float32"), T.alloc_barrier(128)
            T.clear(s)
            T.sync_threads()
            body(A, B, s, bar, T.get_thread_binding(), ordered)

    assert kinds(main, torch.ones(128), torch.zeros(128)) == ([] if ordered else ["race"])


def handed_back(sync, step):
    """A group of threads reads a tile; of each ``step`` of its threads, one says that the other group may write it again."""

    @T.prim_func
    def main(A: T.Tensor((2, 16, 32), "float32"), B: T.Tensor((16, 32), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            tile, total = T.alloc_shared((16, 32), "float32"), T.alloc_fragment((16, 32), "float32")
            full, empty = T.alloc_barrier(128), T.alloc_barrier(128 // step)
            with T.ws(0):
                for k in T.serial(2):
                    T.mbarrier_wait_parity(empty, (k + 1) % 2)
                    T.copy(A[k, :, :], tile)
                    T.barrier_arrive(full)
            with T.ws(1):
                T.clear(total)
                for k in T.serial(2):
                    T.mbarrier_wait_parity(full, k % 2)
                    for i, j in T.Parallel(16, 32):
                        total[i, j] += tile[i, j]
                    sync()
                    if tx % step == 0:
                        T.barrier_arrive(empty)
                T.copy(total, B)

    return main


@T.macro
def of_the_group():
    T.sync_threads(3, 128)


@pytest.mark.parametrize(
    ("sync", "step", "found"),
    [(T.sync_warp, 32, []), (T.sync_warp, 128, ["race"]), (of_the_group, 128, []), (lambda: None, 32, ["race"])],
)
def test_one_thread_arrives_for_its_warp_or_its_group(sync, step, found):
    assert kinds(handed_back(sync, step), torch.ones(2, 16, 32), torch.zeros(16, 32)) == found


@pytest.mark.parametrize("arrive", [False, True])
def test_a_bulk_store_is_a_group_of_its_own(arrive):
    """So that a wait alone completes it."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64,), "float32")
            T.copy(A, tile)
            T.tma_copy(tile, B)
            if arrive:
                T.tma_store_arrive()
            T.tma_store_wait()

    a, b = torch.randn(64), torch.zeros(64)
    run(main, a, b)
    assert torch.equal(a, b)
