"""Kernels on several streams of the virtual device that wait for each other in memory."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import SimulatorError
from tilelang.simulator.virtual.session import virtual_device


@pytest.fixture(autouse=True)
def gpu():
    with virtual_device("a100") as usage:
        yield usage


@tilelang.jit
def player(me: int, rounds: int):
    """Adds in turns with another kernel, which it follows by a flag and leads by its own."""

    @T.prim_func
    def main(flags: T.Tensor((2,), "int32"), total: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            thread = T.get_thread_binding()
            for turn in T.serial(rounds):
                if thread == 0:
                    while T.atomic_load(flags[1 - me], memory_order="acquire") < turn + me:
                        T.evaluate(0)
                T.sync_threads()
                total[thread] += 1
                T.sync_threads()
                if thread == 0:
                    T.atomic_store(flags[me], turn + 1, memory_order="release")

    return main


@tilelang.jit(out_idx=[-1])
def doubled():
    @T.prim_func
    def main(x: T.Tensor((32,), "int32"), y: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                y[i] = x[i] * 2

    return main


def game() -> tuple[torch.Tensor, torch.Tensor, torch.cuda.Stream, torch.cuda.Stream]:
    flags, total = (torch.zeros(size, device="cuda", dtype=torch.int32) for size in (2, 32))
    return flags, total, torch.cuda.Stream(), torch.cuda.Stream()


def test_kernels_of_two_streams_wait_for_each_other():
    flags, total, first, second = game()
    with torch.cuda.stream(second):
        player(1, 3)(flags, total)
    assert not second.query() and total.tolist() == [0] * 32
    with torch.cuda.stream(first):
        player(0, 3)(flags, total)
    torch.cuda.synchronize()
    assert flags.tolist() == [3, 3] and total.tolist() == [6] * 32


def test_what_comes_after_a_waiting_kernel_waits_too():
    flags, total, first, second = game()
    with torch.cuda.stream(second):
        player(1, 1)(flags, total)
        behind, event = doubled()(total), second.record_event()
    first.wait_event(event)
    with torch.cuda.stream(first):
        last = doubled()(behind)
    assert not event.query() and not first.query()
    player(0, 1)(flags, total)  # on the default stream, which nothing holds back
    torch.cuda.current_stream().wait_stream(first)
    assert (last == 8).all() and event.query() and second.query()


@pytest.mark.parametrize("wait", [lambda total: torch.cuda.synchronize(), lambda total: total + 1, lambda total: total.cpu()])
def test_waiting_for_a_kernel_that_nothing_lets_go_on_is_a_deadlock(wait):
    flags, total, first, _ = game()
    with torch.cuda.stream(first):
        player(1, 1)(flags, total)
        with pytest.raises(SimulatorError, match="deadlock"):
            wait(total)
        assert total.tolist() == [0] * 32


def test_a_device_that_is_left_waits_for_its_kernels(gpu):
    with pytest.raises(SimulatorError, match="deadlock"), virtual_device("a100"):
        flags, total, first, _ = game()
        with torch.cuda.stream(first):
            player(1, 1)(flags, total)
