"""A strong write precedes what comes after the read that sees it (PTX ISA, "Causality order"): no race of the simulator."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate
from tilelang.errors import SimulatorError

ARCHES = ["sm_80", "sm_90a"]


def flag_of_blocks(waits: bool, writer: int):
    """Block 0 raises a flag; a thread of block 1, which one thread lets wait or not, sets it without an atomic operation."""

    @T.prim_func
    def main(flag: T.Tensor((1,), "int32")):
        with T.Kernel(2, threads=64) as block:
            tx = T.get_thread_binding()
            if block == 0:
                if tx == 0:
                    T.atomic_add(flag[0], 1, memory_order="acq_rel")
            else:
                if waits:
                    if tx == 0:
                        while T.atomic_load(flag[0], memory_order="acquire") == 0:
                            pass
                if tx == writer:
                    flag[0] = 7

    return main


def flag_of_warps(waits: bool):
    """The same in shared memory between two warps."""

    @T.prim_func
    def main(y: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            flag = T.alloc_shared((1,), "int32")
            if tx == 0:
                flag[0] = 0
            T.sync_threads()
            if tx == 32:
                T.atomic_add(flag[0], 1, memory_order="acq_rel")
            if tx == 0:
                if waits:
                    while T.atomic_load(flag[0], memory_order="acquire") == 0:
                        pass
                flag[0] = 7
                y[0] = flag[0]

    return main


def last_of_blocks(by_all: bool):
    """The block that gets the last ticket sets the counter back: the thread that drew it, or after a barrier another one."""

    @T.prim_func
    def main(counter: T.Tensor((1,), "int32")):
        with T.Kernel(8, threads=64):
            tx = T.get_thread_binding()
            ticket = T.alloc_shared((1,), "int32")
            if tx == 0:
                ticket[0] = T.atomic_add(counter[0], 1, memory_order="acq_rel", return_prev=True)
            T.sync_threads()
            if ticket[0] == 7:
                if tx == (37 if by_all else 0):
                    counter[0] = 0

    return main


UNORDERED = {"tl.disable_thread_storage_sync": True}


@pytest.mark.parametrize("arch", ARCHES)
def test_the_thread_that_has_seen_the_write_may_write(arch):
    flag = torch.zeros(1, dtype=torch.int32)
    simulate(flag_of_blocks(True, 0), flag, arch=arch, pass_configs=UNORDERED)
    assert flag.item() == 7
    simulate(flag_of_warps(True), flag.zero_(), arch=arch, pass_configs=UNORDERED)
    assert flag.item() == 7


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("by_all", [False, True])
def test_the_last_block_sets_the_counter_back(by_all, arch):
    counter = torch.zeros(1, dtype=torch.int32)
    for _ in range(3):
        simulate(last_of_blocks(by_all), counter, arch=arch)
        assert counter.item() == 0


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize(
    "program",
    [flag_of_blocks(False, 0), flag_of_blocks(True, 33), flag_of_warps(False)],
    ids=["unseen", "seen by another thread", "unseen by the other warp"],
)
def test_others_race(program, arch):
    with pytest.raises(SimulatorError, match="race"):
        simulate(program, torch.zeros(1, dtype=torch.int32), arch=arch, pass_configs=UNORDERED)
