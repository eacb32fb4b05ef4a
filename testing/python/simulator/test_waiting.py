"""Blocks that wait for each other, and callers that do not want to wait any longer."""

import os
import signal
import threading

import numpy as np
import pytest

from testing.python.simulator.models import cuda, kernels

GRID_BARRIER = """
extern "C" __global__ void k(int* count, int* out, int blocks) {
  if (threadIdx.x == 0) {
    atomicAdd(count, 1);
    int seen;
    do asm volatile("ld.acquire.gpu.b32 %0, [%1];" : "=r"(seen) : "l"(count) : "memory"); while (seen < blocks);
  }
  __syncthreads();
  out[blockIdx.x * 32 + threadIdx.x] = *(volatile int*)count;
}"""

SPIN_LOCK = """
extern "C" __global__ void k(int* lock, int* out) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    *(volatile int*)out = *(volatile int*)out + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
}"""

ENDLESS = """
extern "C" __global__ void k(int* out) {
  for (unsigned i = 0; ; ++i) out[threadIdx.x] = out[threadIdx.x] * 3 + i;
}"""


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("checks", ["all", "none"])
def test_a_barrier_over_the_grid_costs_few_instructions(checks, workers):
    count, out = np.zeros(1, np.int32), np.zeros(132 * 32, np.int32)
    report = cuda.run(GRID_BARRIER, [count, out], 32, grid=132, scalars=[132], checks=checks, workers=workers)
    assert (out == 132).all()
    assert report.warp_instructions < 200_000


@pytest.mark.parametrize("workers", [1, 2])
def test_a_spin_lock(workers):
    lock, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
    report = cuda.run(SPIN_LOCK, [lock, out], 32, grid=64, checks="none", workers=workers)
    assert out[0] == 64
    assert report.warp_instructions < 500_000


@pytest.mark.parametrize("workers", [1, 2])
def test_a_grid_that_can_never_go_on_is_a_deadlock(workers):
    count, out = np.zeros(1, np.int32), np.zeros(8 * 32, np.int32)
    report = cuda.run(GRID_BARRIER, [count, out], 32, grid=8, scalars=[9], workers=workers)
    assert "deadlock" in [finding.kind for finding in report.findings]
    assert "waits for another one" in str(report)


class Alarm(Exception):
    pass


def _raise_alarm(*_):
    raise Alarm


def test_the_exception_of_a_signal_handler_ends_a_launch():
    before = signal.signal(signal.SIGALRM, _raise_alarm)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Alarm):
            cuda.run(ENDLESS, [np.zeros(32, np.int32)], 32, grid=4, workers=2)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_keyboard_interrupts_end_launches_one_after_the_other():
    # A shell starts background jobs with interrupts ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for _ in range(2):
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                cuda.run(ENDLESS, [np.zeros(32, np.int32)], 32, grid=4, workers=2)
    finally:
        signal.signal(signal.SIGINT, before)
    count, out = np.zeros(1, np.int32), np.zeros(64, np.int32)
    kernels.clean(cuda.run(GRID_BARRIER, [count, out], 32, grid=2, scalars=[2], checks="none"))
