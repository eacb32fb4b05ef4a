"""Branches of groups of threads with branches of other groups between them: no barrier of the block may part those of a group."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from testing.python.target.definition import check_meaning
from tilelang.errors import DivergenceError
from tilelang.interpreter.survey import TAKING_PART
from tilelang.target.cuda.intrinsics.table import intrinsic
from tilelang.tileop.thread import INTRINSICS, intrinsic_call

STEPS, SLOTS = 4, 2


@T.macro
def load(A, tile, full, empty):
    """The loader's side of a ring."""
    for k in T.serial(STEPS):
        T.mbarrier_wait_parity(empty[k % SLOTS], (k // SLOTS + 1) % 2)
        T.copy(A[0, k * 32], tile[k % SLOTS, :, :])
        T.mbarrier_arrive(full[k % SLOTS])


@T.macro
def multiply(tile, acc, full, empty):
    """The other side: it sums the products of tiles with themselves."""
    for k in T.serial(STEPS):
        T.mbarrier_wait_parity(full[k % SLOTS], k // SLOTS % 2)
        T.gemm(tile[k % SLOTS, :, :], tile[k % SLOTS, :, :], acc, transpose_B=True)
        T.mbarrier_arrive(empty[k % SLOTS])


@T.macro
def cleared_before_the_loader(A, C, D, tile, acc, full, empty, tx):
    with T.ws(0):
        T.clear(acc)
    with T.ws(1):
        load(A, tile, full, empty)
    with T.ws(0):
        multiply(tile, acc, full, empty)
    with T.ws(0):
        T.copy(acc, C)


@T.macro
def stored_by_a_part_of_the_group(A, C, D, tile, acc, full, empty, tx):
    with T.ws(1):
        load(A, tile, full, empty)
    with T.ws(0):
        T.clear(acc)
        multiply(tile, acc, full, empty)
        if tx < 64:
            T.copy(acc, C)


@T.macro
def parts_of_a_group(A, C, D, tile, acc, full, empty, tx):
    if tx < 32:
        T.fill(D[0:32], 1)
    with T.ws(1):
        load(A, tile, full, empty)
    if tx < 64:
        T.fill(D[32:64], 2)
    with T.ws(0):
        T.clear(acc)
        multiply(tile, acc, full, empty)
        T.copy(acc, C)


@T.macro
def below_a_wider_group(A, C, D, tile, acc, full, empty, tx):
    with T.ws(0):
        load(A, tile, full, empty)
    with T.ws(1, 2):
        if tx < 256:
            T.clear(acc)
            multiply(tile, acc, full, empty)
            T.copy(acc, C)


def kernel(roles, threads):
    @T.prim_func
    def main(A: T.Tensor((64, STEPS * 32), "float16"), C: T.Tensor((64, 64), "float32"), D: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=threads):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((SLOTS, 64, 32), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            full, empty = T.alloc_barrier([128] * SLOTS), T.alloc_barrier([128] * SLOTS)
            roles(A, C, D, tile, acc, full, empty, tx)

    return main


@T.macro
def below_groups_that_are_no_neighbours(A, C, D, tile, acc, full, empty, tx):
    with T.ws(1):
        load(A, tile, full, empty)
    with T.ws(0, 2):
        with T.ws(2):
            T.fill(D, 1)
        if tx < 128:
            T.clear(acc)
            multiply(tile, acc, full, empty)
            T.copy(acc, C)


ROLES = {
    "cleared before the loader": kernel(cleared_before_the_loader, 256),
    "stored by a part of the group": kernel(stored_by_a_part_of_the_group, 256),
    "parts of a group": kernel(parts_of_a_group, 256),
    "below a wider group": kernel(below_a_wider_group, 384),
    "below groups that are no neighbours": kernel(below_groups_that_are_no_neighbours, 384),
}


@pytest.mark.parametrize("name", ROLES)
def test_a_group_goes_on_while_another_one_waits_for_it(name: str) -> None:
    """A barrier of the block in front of its next branch waited for the loader, which waited for what that branch does.

    Of the products below a wider group the fence was missing that lets the tensor cores see what the loader stored."""
    a, c, d = torch.randint(-3, 4, (64, STEPS * 32)).half(), torch.zeros(64, 64), torch.zeros(64)
    _, found, _ = check_meaning(ROLES[name], a, c, d)
    assert torch.equal(found, a.float() @ a.float().T)


def of_threads(parts, senders):
    """Each thread stores for another one, through two slots: a ring without tile operators."""

    @T.prim_func
    def main(A: T.Tensor((STEPS, 32), "float32"), C: T.Tensor((STEPS, 32), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((SLOTS, 32), "float32")
            full, empty = T.alloc_barrier([senders] * SLOTS), T.alloc_barrier([32] * SLOTS)
            parts(A, C, s, full, empty, tx)

    return main


@T.macro
def send(A, s, full, empty, lane):
    for k in T.serial(STEPS):
        T.mbarrier_wait_parity(empty[k % SLOTS], (k // SLOTS + 1) % 2)
        s[k % SLOTS, lane] = A[k, lane]
        T.mbarrier_arrive(full[k % SLOTS])


@T.macro
def receive(C, s, full, empty, lane):
    for k in T.serial(STEPS):
        T.mbarrier_wait_parity(full[k % SLOTS], k // SLOTS % 2)
        C[k, lane] = s[k % SLOTS, 31 - lane] * 2
        T.mbarrier_arrive(empty[k % SLOTS])


@T.macro
def two_branches(A, C, s, full, empty, tx):
    if tx < 32:
        send(A, s, full, empty, tx)
    if tx >= 32:
        receive(C, s, full, empty, tx - 32)


@T.macro
def one_thread_sends(A, C, s, full, empty, tx):
    if tx == 32:
        for k in T.serial(STEPS):
            T.mbarrier_wait_parity(empty[k % SLOTS], (k // SLOTS + 1) % 2)
            for lane in T.serial(32):
                s[k % SLOTS, lane] = A[k, lane]
            T.mbarrier_arrive(full[k % SLOTS])
    if tx < 32:
        receive(C, s, full, empty, tx)


@T.macro
def nested(A, C, s, full, empty, tx):
    if tx < 64:
        if tx < 32:
            send(A, s, full, empty, tx)
        if tx >= 32:
            receive(C, s, full, empty, tx - 32)


@T.macro
def with_values_between(A, C, s, full, empty, tx):
    if tx < 32:
        send(A, s, full, empty, tx)
    first = T.alloc_var("int32", init=0)
    lane = T.alloc_var("int32")
    lane = tx - 32
    own = T.alloc_local((2,), "int32")
    own[1] = first + lane
    if tx >= 32:
        receive(C, s, full, empty, own[1])


@pytest.mark.parametrize(
    ("parts", "senders"), [(two_branches, 32), (one_thread_sends, 1), (nested, 32), (with_values_between, 32)]
)
def test_a_ring_of_threads_in_branches(parts, senders: int) -> None:
    """A barrier of the block stood between the two branches, and the first one waits for the second."""
    a, c = torch.randn(STEPS, 32), torch.zeros(STEPS, 32)
    _, found = check_meaning(of_threads(parts, senders), a, c)
    assert torch.equal(found, a.flip(1) * 2)


@pytest.mark.parametrize("leave", ["break", "continue"])
def test_a_value_behind_a_branch_that_leaves_the_iteration(leave: str) -> None:
    """It is computed only where the iteration goes on."""

    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), C: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s, n = T.alloc_shared((64,), "int32"), T.alloc_var("int32", init=0)
            T.clear(s)
            for k in T.serial(8):
                if leave == "break":
                    if A[k] > 3:
                        break
                else:
                    if A[k] > 3:
                        continue
                n = n + 1
                if tx < 32:
                    s[tx] = s[tx] + n
            C[tx] = n * 1000 + s[tx]

    check_meaning(main, torch.tensor([0, 1, 2, 9, 1, 9, 2, 1], dtype=torch.int32), torch.zeros(64, dtype=torch.int32))


@pytest.mark.parametrize("tiles", [True, False])
def test_branches_without_barriers_take_effect_in_program_order(tiles: bool) -> None:
    """What other groups store is used behind a barrier of the block, and before what waits for them."""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), C: T.Tensor((128,), "float32"), D: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            s, done = T.alloc_shared((128,), "float32"), T.alloc_barrier([128])
            if tiles:
                with T.ws(0):
                    T.copy(A, s)
                with T.ws(1):
                    for i in T.Parallel(128):
                        C[i] = s[127 - i]
                with T.ws(0):
                    for i in T.Parallel(128):
                        s[i] = s[i] * 2
            else:
                if tx < 128:
                    s[tx] = A[tx]
                if tx >= 128:
                    C[tx - 128] = s[255 - tx]
                if tx < 128:
                    s[tx] = s[tx] * 2
            with T.ws(1):
                T.mbarrier_wait_parity(done[0], 0)
                for i in T.Parallel(128):
                    D[i] = s[127 - i]
            with T.ws(0):
                for i in T.Parallel(128):
                    s[i] = s[i] + 1
                T.mbarrier_arrive(done[0])

    a = torch.randn(128)
    _, c, d = check_meaning(main, a, torch.zeros(128), torch.zeros(128))
    assert torch.equal(c, a.flip(0)) and torch.equal(d, a.flip(0) * 2 + 1)


def test_no_barrier_of_the_block_stands_behind_foreign_code_of_a_group() -> None:
    """It may wait for the next branch."""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), C: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=256):
            s = T.alloc_shared((128,), "float32")
            with T.ws(0):
                T.call_extern("int32", "wait_and_read", T.address_of(s[0]), T.address_of(C[0]))
            with T.ws(1):
                T.copy(A, s)

    assert "__syncthreads" not in source(main)


def test_no_barrier_of_the_block_stands_behind_iterations_that_wait() -> None:
    """What a ``T.Parallel`` of the threads does counts, too."""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), C: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=256):
            s, full = T.alloc_shared((128,), "float32"), T.alloc_barrier([128])
            with T.ws(0):
                for i in T.Parallel(128):
                    T.mbarrier_wait_parity(full[0], 0)
                    C[i] = s[i]
            with T.ws(1):
                T.copy(A, s)
                T.mbarrier_arrive(full[0])

    assert "__syncthreads" not in source(main).split("mbarrier_wait")[-1]


def test_the_interpreter_and_the_target_agree_on_what_takes_part() -> None:
    """Which branches are in program order is one rule, written down twice."""
    orders = {name for name in INTRINSICS if intrinsic(intrinsic_call(name, dtype="int32")).orders}
    assert orders == TAKING_PART


@T.prim_func
def of_the_first_and_the_third_group(C: T.Tensor((384,), "float32")):
    with T.Kernel(1, threads=384):
        with T.ws(0, 2):
            C[T.get_thread_binding()] = 1


def test_warp_groups_that_are_no_neighbours() -> None:
    """The group between them ran the branch, too."""
    (found,) = check_meaning(of_the_first_and_the_third_group, torch.zeros(384))
    assert torch.equal(found, (torch.arange(384) // 128 != 1).float())


def test_a_tile_operator_of_warp_groups_that_are_no_neighbours() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=384):
            with T.ws(0, 2):
                T.copy(A, C)

    with pytest.raises(DivergenceError, match="only some threads between others meet"):
        source(main)


def test_values_between_branches_that_depend_on_them() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), C: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            v, w = T.alloc_var("int32", init=1), T.alloc_var("int32", init=0)
            if tx < 32:
                v = A[tx]
                w = 3
            w = v + w
            x = T.bind(w * 2)
            if tx >= 32:
                v = A[tx]
                w = 5
            C[tx] = v * 10000 + w * 100 + x

    a = torch.arange(64, dtype=torch.int32)
    check_meaning(main, a, torch.zeros(64, dtype=torch.int32))


def test_a_warp_group_of_which_the_block_has_a_part() -> None:
    """It has a barrier of its own: of the threads that there are."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=64):
            tile, values = T.alloc_shared((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            T.clear(values)
            with T.ws(0):
                T.copy(A, tile)
                T.copy(tile, values)
            T.copy(values, B)

    check_meaning(main, torch.arange(4096.0).reshape(64, 64), torch.zeros(64, 64))


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("exchanges", [False, True])
def test_a_ring_of_warps_that_are_no_neighbours(swapped, exchanges) -> None:
    """Warps 1 and 3 wait for what warps 0 and 2 load: no barrier of the block may stand between the two branches. What warps 1
    and 3 exchange needs one of these two."""

    @T.prim_func
    def main(A: T.Tensor((STEPS, 64), "float32"), C: T.Tensor((STEPS, 64), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((SLOTS, 64), "float32")
            row = T.alloc_shared((64,), "float32")
            full, empty = T.alloc_barrier([64] * SLOTS), T.alloc_barrier([64] * SLOTS)
            lane = tx // 64 * 32 + tx % 32
            if tx // 32 % 2 == (0 if swapped else 1):
                for k in T.serial(STEPS):
                    T.mbarrier_wait_parity(full[k % SLOTS], k // SLOTS % 2)
                    if exchanges:
                        row[lane] = tile[k % SLOTS, lane]
                        C[k, lane] = row[63 - lane]
                    else:
                        C[k, lane] = tile[k % SLOTS, 63 - lane]
                    T.mbarrier_arrive(empty[k % SLOTS])
            if tx // 32 % 2 == (1 if swapped else 0):
                for k in T.serial(STEPS):
                    T.mbarrier_wait_parity(empty[k % SLOTS], (k // SLOTS + 1) % 2)
                    tile[k % SLOTS, lane] = A[k, lane]
                    T.mbarrier_arrive(full[k % SLOTS])

    check_meaning(main, torch.arange(256.0).reshape(STEPS, 64), torch.zeros(STEPS, 64))


@pytest.mark.parametrize("first", [0, 32])
@pytest.mark.parametrize("count", [16, 32])
def test_a_branch_without_barriers_between_those_of_a_ring(first, count) -> None:
    """Threads of the loader exchange elements before they begin; the others wait for what they load meanwhile."""

    @T.prim_func
    def main(A: T.Tensor((STEPS, 32), "float32"), C: T.Tensor((STEPS, 32), "float32"), D: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=96):
            tx = T.get_thread_binding()
            tile, row = T.alloc_shared((SLOTS, 32), "float32"), T.alloc_shared((32,), "float32")
            full, empty = T.alloc_barrier([32] * SLOTS), T.alloc_barrier([32] * SLOTS)
            if tx >= 64:
                for k in T.serial(STEPS):
                    T.mbarrier_wait_parity(full[k % SLOTS], k // SLOTS % 2)
                    C[k, tx - 64] = tile[k % SLOTS, 95 - tx]
                    T.mbarrier_arrive(empty[k % SLOTS])
            if (tx >= first) & (tx < first + count):
                row[tx - first] = A[0, tx - first]
                D[tx] = row[count - 1 - (tx - first)]
            if tx < 32:
                for k in T.serial(STEPS):
                    T.mbarrier_wait_parity(empty[k % SLOTS], (k // SLOTS + 1) % 2)
                    tile[k % SLOTS, tx] = A[k, tx]
                    T.mbarrier_arrive(full[k % SLOTS])

    a, c, d = torch.arange(128.0).reshape(STEPS, 32), torch.zeros(STEPS, 32), torch.zeros(64)
    check_meaning(main, a, c, d)


@T.macro
def of_an_mbarrier(A, B, s, full, tx):
    with T.ws(1):
        T.copy(A, s)
        T.mbarrier_arrive(full)
    with T.ws(0):
        if tx >= 32:
            T.mbarrier_wait_parity(full, 0)
        for i in T.Parallel(64):
            B[i] = s[63 - i]


@T.macro
def of_one_thread(A, B, s, full, tx):
    with T.ws(1):
        T.copy(A, s)
        T.mbarrier_arrive(full)
    with T.ws(0):
        if tx == 5:
            T.mbarrier_wait_parity(full, 0)
        B[tx % 64] = s[63 - tx % 64]


@T.macro
def before_a_write(A, B, s, full, tx):
    with T.ws(1):
        B[tx - 128 if tx < 192 else 0] = s[63 - (tx - 128 if tx < 192 else 0)]
        T.mbarrier_arrive(full)
    with T.ws(0):
        if tx >= 32:  # the others write
            T.mbarrier_wait_parity(full, 0)
        T.copy(A, s)


@T.macro
def of_a_named_barrier(A, B, s, full, tx):
    with T.ws(1):
        T.copy(A, s)
        T.named_barrier_arrive(3, 160)
    with T.ws(0):
        if tx < 32:
            T.sync_threads(3, 160)
        B[tx % 64] = s[63 - tx % 64]


@T.macro
def of_a_flag(A, B, s, full, tx):
    flag = T.alloc_shared((1,), "int32")
    if tx == 0:
        flag[0] = 0
    T.sync_threads()
    with T.ws(1):
        T.copy(A, s)
        T.sync_threads(1, 128)
        if tx == 128:
            T.atomic_store(flag[0], 1, memory_order="release")
    with T.ws(0):
        if tx == 0:
            while T.atomic_load(flag[0], memory_order="acquire") == 0:
                pass
        B[tx % 64] = s[63 - tx % 64]


WAITS = (of_an_mbarrier, of_one_thread, before_a_write, of_a_named_barrier, of_a_flag)


@pytest.mark.parametrize("wait", WAITS, ids=lambda macro: macro.__name__)
def test_what_some_threads_have_waited_for_all_see_in_the_next_statement(wait) -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=256):
            tx, s = T.get_thread_binding(), T.alloc_shared((64,), "float32")
            full = T.alloc_barrier(128)
            T.fill(s, 3)
            wait(A, B, s, full, tx)

    check_meaning(main, torch.arange(64.0), torch.zeros(64))


def test_a_bulk_copy_that_some_threads_have_waited_for_all_see_in_the_next_statement() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=256):
            tx, s = T.get_thread_binding(), T.alloc_shared((64,), "float32")
            full = T.alloc_barrier(1)
            if tx == 0:
                T.tma_copy(A, s, barrier=full)
                T.mbarrier_arrive(full)
            if tx >= 32:
                T.mbarrier_wait_parity(full, 0)
            B[tx % 64] = s[63 - tx % 64]

    a, b = torch.arange(64.0), torch.zeros(64)
    simulate(main, a, b, arch="sm_90a")
    assert torch.equal(b, a.flip(0))


@T.macro
def by_a_branch(A, B, s, u, full, tx):
    if tx % 2 == 0:
        s[tx] = A[tx]


@T.macro
def by_two_sides(A, B, s, u, full, tx):
    if tx % 2 == 0:
        s[tx] = A[tx]
    else:
        s[tx] = -A[tx]


@T.macro
def by_data(A, B, s, u, full, tx):
    if A[tx] % 3 == 0:
        s[tx] = A[tx]


@pytest.mark.parametrize("store", [by_a_branch, by_two_sides, by_data], ids=lambda macro: macro.__name__)
def test_scattered_threads_store_between_groups_that_wait_for_each_other(store) -> None:
    """A barrier of the block stood before the next branch."""

    @T.prim_func
    def main(A: T.Tensor((256,), "int32"), B: T.Tensor((256,), "int32")):
        with T.Kernel(1, threads=256):
            tx, s, u = T.get_thread_binding(), T.alloc_shared((256,), "int32"), T.alloc_shared((128,), "int32")
            full = T.alloc_barrier(128)
            T.clear(s)
            if tx < 128:
                T.mbarrier_wait_parity(full, 0)
                B[tx] = u[127 - tx]
            store(A, B, s, u, full, tx)
            if tx >= 128:
                u[tx - 128] = A[tx]
                T.mbarrier_arrive(full)
            if tx % 2 == 0:
                B[128 + tx // 2] = s[tx ^ 2]

    a = torch.arange(256, dtype=torch.int32)
    _, b = check_meaning(main, a, torch.zeros_like(a))
    assert torch.equal(b[:128], a[128:].flip(0))


def test_lanes_of_several_warps_wait_for_another_group() -> None:
    """Those of the warps are no neighbours, and the branch of the group that signals to them follows."""

    @T.prim_func
    def main(A: T.Tensor((128,), "int32"), B: T.Tensor((256,), "int32")):
        with T.Kernel(1, threads=256):
            tx, s, full = T.get_thread_binding(), T.alloc_shared((128,), "int32"), T.alloc_barrier(4)
            if tx % 32 == 0 and tx >= 128:
                T.mbarrier_wait_parity(full, 0)
            with T.ws(0):
                T.copy(A, s)
                T.sync_threads(1, 128)
                if tx % 32 == 0:
                    T.mbarrier_arrive(full)
            B[tx] = s[tx // 2]

    a = torch.arange(128, dtype=torch.int32)
    _, b = check_meaning(main, a, torch.zeros(256, dtype=torch.int32))
    assert torch.equal(b, a.repeat_interleave(2))


def test_groups_of_one_branch_meet_within_a_role() -> None:
    """They have one barrier; that of the role stood between two of them, which waited for each other at different ones."""

    @T.prim_func
    def main(A: T.Tensor((256,), "int32"), B: T.Tensor((256,), "int32")):
        with T.Kernel(1, threads=256):
            tx, s, free = T.get_thread_binding(), T.alloc_shared((256,), "int32"), T.alloc_barrier(1)
            s[tx] = A[tx]
            with T.ws(0):
                T.copy(s[0:128], B[0:128])
                T.mbarrier_wait_parity(free, 1)
            if tx % 64 < 32:
                s[tx] = A[tx] + 1
                B[tx] = s[223 - tx]

    a = torch.arange(256, dtype=torch.int32)
    _, b = check_meaning(main, a, torch.zeros_like(a))
    assert torch.equal(b[:32], a[192:224].flip(0) + 1)
