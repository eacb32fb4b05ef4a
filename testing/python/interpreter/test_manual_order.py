"""Programs that order their threads themselves, as with tl.disable_thread_storage_sync."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import interpreter
from tilelang.errors import InterpreterError


@T.macro
def own_elements(A, B, s, f, bar, tx):
    s[tx] = A[tx]
    s[tx] += 1
    B[tx] = s[tx]


@T.macro
def a_barrier(A, B, s, f, bar, tx):
    s[tx] = A[tx]
    T.sync_threads()
    B[tx] = s[63 - tx]


@T.macro
def warps(A, B, s, f, bar, tx):
    s[tx] = A[tx]
    T.sync_warp()
    B[tx] = s[tx // 32 * 32 + 31 - tx % 32]


@T.macro
def an_mbarrier(A, B, s, f, bar, tx):
    s[tx] = A[tx]
    T.mbarrier_arrive(bar[0])
    T.mbarrier_wait_parity(bar[0], 0)
    B[tx] = s[63 - tx]


@T.macro
def loops(A, B, s, f, bar, tx):
    for i in T.Parallel(64):
        s[i] = A[i]
    T.sync_threads()
    for i in T.Parallel(64):
        B[i] = s[63 - i]


@T.macro
def fragments(A, B, s, f, bar, tx):
    for i in T.Parallel(64):
        f[i] = A[i]
    for i in T.Parallel(64):
        B[i] = f[63 - i]


@T.macro
def two_in_turns(A, B, s, f, bar, tx):
    with T.ws(0):
        s[tx % 64] = A[tx % 64]
        T.mbarrier_arrive(bar[1])
    with T.ws(1):
        T.mbarrier_wait_parity(bar[1], 0)
        B[tx % 64] = s[63 - tx % 64]


def program(body, threads=64):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=threads):
            s, f = T.alloc_shared((64,), "float32"), T.alloc_fragment((64,), "float32")
            bar = T.alloc_barrier([64, 128])
            body(A, B, s, f, bar, T.get_thread_binding())

    return main


def found(body, threads=64):
    manual = interpreter.Program(program(body, threads), manual=True)
    return [finding.kind for finding in interpreter.run(manual, torch.arange(64.0), torch.zeros(64))]


@pytest.mark.parametrize("body", [own_elements, a_barrier, warps, an_mbarrier, loops, fragments], ids=lambda body: body.__name__)
def test_programs_with_their_own_barriers(body):
    assert found(body) == []


def test_groups_of_threads_that_hand_over_by_an_mbarrier():
    assert found(two_in_turns, 256) == []


@T.macro
def no_barrier(A, B, s, f, bar, tx):
    s[tx] = A[tx]
    B[tx] = s[63 - tx]


@T.macro
def overwritten(A, B, s, f, bar, tx):
    s[tx] = A[tx]
    T.sync_threads()
    B[tx] = s[63 - tx]
    s[tx] = 0


@T.macro
def of_the_block(A, B, s, f, bar, tx):
    s[0] = A[0]
    B[tx] = s[0]


@T.macro
def unordered_loops(A, B, s, f, bar, tx):
    for i in T.Parallel(64):
        s[i] = A[i]
    for i in T.Parallel(64):
        B[i] = s[i]


@pytest.mark.parametrize("body", [no_barrier, overwritten, of_the_block, unordered_loops], ids=lambda body: body.__name__)
def test_a_missing_barrier_is_a_race(body):
    assert found(body) == ["race"]
    assert interpreter.run(program(body), torch.arange(64.0), torch.zeros(64)) == []


def test_the_pass_configuration_reaches_the_interpreter():
    kernel = tilelang.compile(program(no_barrier), target="interpret", pass_configs={"tl.disable_thread_storage_sync": True})
    with pytest.raises(InterpreterError, match="thread 0 reads s.63., which thread 63 writes"):
        kernel(torch.arange(64.0), torch.zeros(64))
