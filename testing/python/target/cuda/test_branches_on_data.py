"""Branches on data among groups of threads that wait for each other."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.definition import check_meaning


def two_groups(parts):
    """``parts(A, C, s, full, tx)`` of 64 threads."""

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), C: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s, full = T.alloc_shared((64,), "int32"), T.alloc_barrier([32, 32])
            parts(A, C, s, full, tx)

    return main


@T.macro
def send(A, s, full, tx):
    if tx < 32:
        s[tx] = A[tx]
        T.mbarrier_arrive(full[0])


@T.macro
def receive(C, s, full, tx):
    if tx >= 32:
        T.mbarrier_wait_parity(full[0], 0)
        C[tx] += s[tx - 32]


@T.macro
def condition_on_what_others_store(A, C, s, full, tx):
    send(A, s, full, tx)
    if s[31 - tx % 32] > 2:
        C[tx] = 1
    receive(C, s, full, tx)


@T.macro
def branch_that_reads_what_others_store(A, C, s, full, tx):
    send(A, s, full, tx)
    if A[tx] > 2:
        C[tx] = s[31 - tx % 32]
    receive(C, s, full, tx)


@T.macro
def condition_on_a_tensor(A, C, s, full, tx):
    if tx < 32:
        A[tx] -= 2
        T.mbarrier_arrive(full[0])
    if A[31 - tx % 32] > 2:
        C[tx] = 1
    receive(C, A, full, tx)


@T.macro
def in_each_iteration(A, C, s, full, tx):
    for k in T.serial(3):
        if tx < 32:
            s[tx] = A[tx] - k
            T.mbarrier_arrive(full[0])
        if s[31 - tx % 32] > 2:
            C[tx] += 1
        if tx >= 32:
            T.mbarrier_wait_parity(full[0], k % 2)
            C[tx] += s[tx - 32]
        T.sync_threads()


@T.macro
def of_a_group(A, C, s, full, tx):
    send(A, s, full, tx)
    if tx >= 32 and s[5] > 0:
        T.mbarrier_wait_parity(full[0], 0)
        C[tx] = s[tx - 32]


@T.macro
def tile_operators_of_a_group(A, C, s, full, tx):
    if tx < 32:
        T.copy(A[0:32], s[0:32])
        T.mbarrier_arrive(full[0])
    if tx >= 32 and s[5] > 0:
        T.mbarrier_wait_parity(full[0], 0)
        T.copy(s[0:32], C[32:64])


@pytest.mark.parametrize(
    "parts",
    [
        condition_on_what_others_store,
        branch_that_reads_what_others_store,
        condition_on_a_tensor,
        in_each_iteration,
        of_a_group,
        tile_operators_of_a_group,
    ],
)
def test_a_branch_on_data_comes_after_groups_that_only_signal(parts) -> None:
    """Each group read in its own branch, beside the one that stores."""
    check_meaning(two_groups(parts), torch.randint(1, 6, (64,)).int(), torch.zeros(64).int())


@T.macro
def arrives_for_a_group_before_it(A, C, s, full, tx):
    if tx < 32:
        s[tx] = A[tx]
        T.mbarrier_arrive(full[0])
        T.mbarrier_wait_parity(full[1], 0)
        C[tx] = s[31 - tx]
    if tx >= 32:
        T.mbarrier_wait_parity(full[0], 0)
    if tx >= 32 and s[5] > 0:
        C[tx] = s[tx - 32]
        T.mbarrier_arrive(full[1])


@T.macro
def before_what_a_group_waits_for(A, C, s, full, tx):
    if tx < 32:
        s[tx] = A[tx]
        T.mbarrier_arrive(full[0])
        T.mbarrier_wait_parity(full[1], 0)
    if tx >= 32:
        T.mbarrier_wait_parity(full[0], 0)
    if tx >= 32 and s[5] > 0:
        C[tx] = s[tx - 32]
    if tx >= 32:
        T.mbarrier_arrive(full[1])


@T.macro
def behind_another_barrier(A, C, s, full, tx):
    send(A, s, full, tx)
    receive(C, s, full, tx)
    if s[31 - tx % 32] > 2:
        C[tx] += s[tx % 32]
    if tx < 32:
        T.mbarrier_arrive(full[1])
    if tx >= 32:
        T.mbarrier_wait_parity(full[1], 0)
        s[tx - 32] = 0


@pytest.mark.parametrize("parts", [arrives_for_a_group_before_it, before_what_a_group_waits_for, behind_another_barrier])
def test_no_barrier_stands_before_a_branch_on_data_that_groups_wait_for(parts) -> None:
    check_meaning(two_groups(parts), torch.randint(1, 6, (64,)).int(), torch.zeros(64).int())


def test_what_a_branch_of_a_group_tests_beside_its_threads_is_for_it_alone() -> None:
    """Behind the first one, all that the group did was below its condition."""

    @T.macro
    def parts(A, C, s, full, tx):
        n = T.alloc_var("int32")
        n = A[7] - 100
        if tx >= 32 and n > 0:
            T.mbarrier_wait_parity(full[0], 1)
        if tx >= 32:
            C[tx] = A[tx]
        if tx >= 32 and n > 0:
            C[tx] = 0
        if tx >= 32 and n < 0:
            C[tx] += 10
        if tx < 32:
            T.mbarrier_arrive(full[0])
            C[tx] = 3

    check_meaning(two_groups(parts), torch.arange(64).int(), torch.zeros(64).int())
