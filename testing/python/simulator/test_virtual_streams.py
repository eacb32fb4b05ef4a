"""Kernels on several streams of the virtual device that wait for each other in memory."""

from __future__ import annotations

import copy
import io

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


WAITS = {
    "synchronize": lambda total: torch.cuda.synchronize(),
    "cpu": lambda total: total.cpu(),
    "item": lambda total: total[0].item(),
    "sizes": lambda total: total.nonzero(),
    "repr": repr,
    "save": lambda total: torch.save(total, io.BytesIO()),
    "host": lambda total: total + torch.tensor(1),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_waiting_for_a_kernel_that_nothing_lets_go_on_is_a_deadlock(wait):
    flags, total, first, _ = game()
    with torch.cuda.stream(first):
        player(1, 1)(flags, total)
        with pytest.raises(SimulatorError, match="deadlock"):
            wait(total)
        assert total.tolist() == [0] * 32


def picked(total: torch.Tensor) -> torch.Tensor:
    return torch.tensor([1, 2], device="cuda", dtype=torch.int32)[total]


QUEUED = {
    "new": (lambda total: total * 2, [6] * 32),
    "in place": (lambda total: total.mul_(2), [7] * 32),
    "view": (lambda total: total[::2].mul_(2)[:0], [7, 6] * 16),
    "several": (lambda total: torch.topk(total.float() + torch.ones_like(total), 32)[0], [6] * 32),
    "out": (lambda total: torch.mul(total, 2, out=torch.empty_like(total)), [6] * 32),
    "foreach": (lambda total: torch._foreach_mul([total], 2)[0], [6] * 32),
    "dtype": (lambda total: total.to(torch.float32, copy=True) * 2, [6] * 32),
    "index": (picked, [6] * 32),
    "copy": (lambda total: copy.deepcopy(total) * 2, [6] * 32),
    "kernel after": (lambda total: doubled()(total + 1) - 2, [6] * 32),
}


@pytest.mark.parametrize("work, expected", QUEUED.values(), ids=QUEUED)
def test_operations_behind_a_waiting_kernel_are_queued(work, expected):
    flags, total, first, _ = game()
    with torch.cuda.stream(first):
        player(1, 1)(flags, total)
        result = work(total)
        total.add_(5)
        event = first.record_event()
    assert not event.query() and not first.query()
    flags[0] = 1  # by the default stream
    event.synchronize()
    assert total.tolist() == expected and (result is total or result.tolist() == [2] * len(result))


def test_queued_operations_take_part_in_autograd_and_in_the_sequence_of_random_numbers():
    def run(wait: bool) -> tuple[torch.Tensor, ...]:
        torch.manual_seed(0)
        flags, total, first, _ = game()
        weight = torch.ones(32, device="cuda", requires_grad=True)
        with torch.cuda.stream(first):
            if wait:
                player(1, 1)(flags, total)
            else:
                total += 1
            loss = (torch.nn.functional.dropout(total * weight, 0.5) * torch.sigmoid(weight * total)).sum()
            loss.backward()
            with torch.no_grad():
                weight -= weight.grad
            weight.grad = None
            noise = torch.rand_like(weight)
        after = torch.rand(3, device="cuda")
        flags[0] = 1
        first.synchronize()
        return loss.detach().cpu(), weight.detach().cpu(), noise.cpu(), after.cpu()

    for queued, at_once in zip(run(True), run(False)):
        assert torch.equal(queued, at_once)


def test_an_operation_that_fails_when_it_is_its_turn_is_reported_where_the_host_waits():
    flags, total, first, _ = game()
    with torch.cuda.stream(first):
        player(1, 1)(flags, total)
        torch.arange(1, device="cuda")[total]  # no element 1
    flags[0] = 1
    with pytest.raises(IndexError, match="index 1 is out of bounds"):
        first.synchronize()


def test_an_operation_that_the_data_of_now_does_not_allow_waits():
    flags, total, first, _ = game()
    total += 1
    with torch.cuda.stream(first):
        player(1, 1)(flags, total)
        total += 5
        with pytest.raises(SimulatorError, match="deadlock"):
            torch.arange(7, device="cuda")[total * -8]


def test_a_device_that_is_left_waits_for_its_kernels(gpu):
    with pytest.raises(SimulatorError, match="deadlock"), virtual_device("a100"):
        flags, total, first, _ = game()
        with torch.cuda.stream(first):
            player(1, 1)(flags, total)
