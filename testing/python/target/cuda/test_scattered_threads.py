"""Branches of threads that wait for each other: scattered threads, both sides of a branch, and branches inside of others."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import source
from testing.python.target.definition import check_meaning
from tilelang.errors import DivergenceError

STEPS, SLOTS, LANES = 4, 2, 32


def two_kinds(parts):
    """``parts(A, C, s, full, empty, tx)`` of 64 threads, of which half wait for what the others store."""

    @T.prim_func
    def main(A: T.Tensor((STEPS, LANES), "float32"), C: T.Tensor((STEPS, LANES), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((SLOTS, LANES), "float32")
            full, empty = T.alloc_barrier([LANES] * SLOTS), T.alloc_barrier([LANES] * SLOTS)
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
def each_for_its_neighbour(A, C, s, full, empty, tx):
    if tx % 2 == 0:
        s[0, tx // 2] = A[0, tx // 2]
        T.mbarrier_arrive(full[0])
        T.mbarrier_wait_parity(full[1], 0)
        C[1, tx // 2] = s[1, tx // 2]
    if tx % 2 == 1:
        T.mbarrier_wait_parity(full[0], 0)
        C[0, tx // 2] = s[0, tx // 2]
        s[1, tx // 2] = A[1, tx // 2]
        T.mbarrier_arrive(full[1])


@T.macro
def ring_of_lanes(A, C, s, full, empty, tx):
    if tx % 2 == 0:
        send(A, s, full, empty, tx // 2)
    if tx % 2 == 1:
        receive(C, s, full, empty, tx // 2)


@T.macro
def behind_a_group(A, C, s, full, empty, tx):
    done = T.alloc_barrier(32)
    if tx < 32:
        T.mbarrier_arrive(done)
    ring_of_lanes(A, C, s, full, empty, tx)


@T.macro
def inside_of_a_group(A, C, s, full, empty, tx):
    with T.ws(0):
        ring_of_lanes(A, C, s, full, empty, tx)


@T.macro
def behind_branches_in_order(A, C, s, full, empty, tx):
    row = T.alloc_shared((32,), "float32")
    if tx % 2 == 0:
        row[tx // 2] = A[0, tx // 2]
    if tx % 2 == 1:
        A[0, tx // 2] = row[31 - tx // 2]
    ring_of_lanes(A, C, s, full, empty, tx)


@T.macro
def before_a_branch_of_the_senders(A, C, s, full, empty, tx):
    ring_of_lanes(A, C, s, full, empty, tx)
    if tx % 2 == 0:
        C[0, tx // 2] = s[1, 31 - tx // 2]


@pytest.mark.parametrize(
    "parts",
    [
        each_for_its_neighbour,
        ring_of_lanes,
        behind_a_group,
        inside_of_a_group,
        behind_branches_in_order,
        before_a_branch_of_the_senders,
    ],
)
def test_scattered_threads_that_wait_for_each_other(parts) -> None:
    """A barrier of the block stood between the two branches, or inside of one where the other's threads seemed to meet it."""
    check_meaning(two_kinds(parts), torch.randn(STEPS, 32), torch.zeros(STEPS, 32))


def test_scattered_threads_that_exchange_elements_behind_others() -> None:
    """They have no barrier of their own, so that those of the block stand in the branch: the others only signal."""

    @T.macro
    def parts(A, C, s, full, empty, tx):
        if tx % 2 == 0:
            s[0, tx // 2] = A[0, tx // 2]
            T.mbarrier_arrive(full[0])
        if tx % 2 == 1:
            T.mbarrier_wait_parity(full[0], 0)
            s[1, tx // 2] = s[0, 31 - tx // 2]
            C[0, tx // 2] = s[1, (tx // 2 + 5) % 32]

    check_meaning(two_kinds(parts), torch.randn(STEPS, 32), torch.zeros(STEPS, 32))


@T.macro
def halves(A, C, s, full, empty, tx):
    if tx < 32:
        s[0, tx] = A[0, tx]
        T.mbarrier_arrive(full[0])
        T.mbarrier_wait_parity(full[1], 0)
        C[0, tx] = s[1, 31 - tx] + s[0, 31 - tx]
    else:
        T.mbarrier_wait_parity(full[0], 0)
        s[1, tx - 32] = s[0, 63 - tx] * 2
        C[1, tx - 32] = s[1, 63 - tx]
        T.mbarrier_arrive(full[1])


@T.macro
def even_and_odd(A, C, s, full, empty, tx):
    if tx % 2 == 0:
        s[0, tx // 2] = A[0, tx // 2]
        T.mbarrier_arrive(full[0])
        T.mbarrier_wait_parity(full[1], 0)
        C[0, tx // 2] = s[1, tx // 2]
    else:
        T.mbarrier_wait_parity(full[0], 0)
        s[1, tx // 2] = s[0, tx // 2] * 2
        T.mbarrier_arrive(full[1])


@pytest.mark.parametrize("parts", [halves, even_and_odd])
def test_the_sides_of_a_branch_wait_for_each_other(parts) -> None:
    """They run concurrently: no barrier of the block may stand in one."""
    check_meaning(two_kinds(parts), torch.randn(STEPS, LANES), torch.zeros(STEPS, LANES))


@pytest.mark.parametrize("first", [0, 40])
def test_one_thread_and_the_rest(first: int) -> None:
    @T.prim_func
    def main(A: T.Tensor((128,), "int32"), C: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s, filled, used = T.alloc_shared((128,), "int32"), T.alloc_barrier(1), T.alloc_barrier(127)
            if tx == first:
                for k in T.serial(128):
                    s[k] = A[k]
                T.mbarrier_arrive(filled)
                T.mbarrier_wait_parity(used, 0)
                C[tx] = s[(first + 1) % 128]
            else:
                T.mbarrier_wait_parity(filled, 0)
                s[tx] = s[tx] * 2
                C[tx] = s[tx]
                T.mbarrier_arrive(used)

    check_meaning(main, torch.arange(128, dtype=torch.int32), torch.zeros(128, dtype=torch.int32))


def test_several_sides_that_wait_for_each_other() -> None:
    @T.prim_func
    def main(A: T.Tensor((128,), "int32"), C: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s, full = T.alloc_shared((64,), "int32"), T.alloc_barrier([32, 32])
            if tx < 32:
                s[tx] = A[tx]
                T.mbarrier_arrive(full[0])
                T.mbarrier_wait_parity(full[1], 0)
                C[tx] = s[tx + 32] + s[31 - tx]
            elif tx < 64:
                T.mbarrier_wait_parity(full[0], 0)
                s[tx] = s[tx - 32] * 2
                C[tx] = s[95 - tx]
                T.mbarrier_arrive(full[1])
            else:
                C[tx] = tx

    check_meaning(main, torch.arange(128, dtype=torch.int32), torch.zeros(128, dtype=torch.int32))


@pytest.mark.parametrize("last", [64, 96])
@pytest.mark.parametrize("looped", [False, True])
def test_a_barrier_is_for_the_threads_that_come_to_the_branch(last: int, looped: bool) -> None:
    """It was for all that meet the inner condition, and those below 32 do not come."""

    @T.prim_func
    def main(A: T.Tensor((128,), "int32"), C: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "int32")
            if tx >= 32:
                for k in T.serial(3 if looped else 1):
                    if tx < last:
                        s[tx] = A[tx] + k
                        C[tx] = s[last + 31 - tx]

    check_meaning(main, torch.arange(128, dtype=torch.int32), torch.zeros(128, dtype=torch.int32))


@pytest.mark.parametrize("condition", ["data", "lanes"])
def test_threads_that_perhaps_do_not_come_have_no_barrier(condition: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((128,), "int32"), C: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "int32")
            s[tx] = 0
            if (A[tx] % 4 == 1) if condition == "data" else (tx % 4 == 1):
                if tx < 64:
                    s[tx] = A[tx]
                    C[tx] = s[tx]

    check_meaning(main, torch.arange(128, dtype=torch.int32), torch.zeros(128, dtype=torch.int32))


@T.macro
def handed_on(A, D, tile, full, tx, early):
    if tx % 2 == 0:
        tile[tx] = A[tx]
        if early:
            T.mbarrier_arrive(full)
        D[tx] = tile[126 - tx]
        if not early:
            T.mbarrier_arrive(full)


@T.macro
def taken_over(C, tile, full, tx):
    if tx % 2 == 1:
        T.mbarrier_wait_parity(full, 0)
        C[tx] = tile[tx - 1]


def exchanging(early, first):
    """Scattered threads exchange values, and signal others; these come ``first`` or behind them."""

    @T.prim_func
    def main(A: T.Tensor((128,), "int32"), C: T.Tensor((128,), "int32"), D: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile, full = T.alloc_shared((128,), "int32"), T.alloc_barrier(64)
            if first:
                taken_over(C, tile, full, tx)
            handed_on(A, D, tile, full, tx, early)
            if not first:
                taken_over(C, tile, full, tx)

    return main


@pytest.mark.parametrize("early", [False, True])
def test_scattered_threads_that_exchange_values_may_signal_others(early):
    check_meaning(exchanging(early, False), torch.arange(128).int(), torch.zeros(128).int(), torch.zeros(128).int())


@pytest.mark.parametrize("early", [False, True])
def test_scattered_threads_that_exchange_values_are_refused_behind_others_that_wait_for_them(early):
    with pytest.raises(DivergenceError, match="exchange values in a branch that others may wait for"):
        source(exchanging(early, True))
