"""Races between blocks are found although the shadow of memory is summarised when a block has ended, and it stays small."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.simulator.models import cuda
from tilelang.errors import SimulatorError

SOURCE = """
extern "C" __global__ void words(int* data, int step, int length) {
  for (int i = threadIdx.x; i < length; i += blockDim.x) data[blockIdx.x * step + i] = blockIdx.x + 1;
}
extern "C" __global__ void bytes(char* data, int step, int length) {
  for (int i = threadIdx.x; i < length; i += blockDim.x) data[blockIdx.x * step + i] = blockIdx.x + 1;
}
extern "C" __global__ void alike(int* data, int step, int length) {
  for (int i = threadIdx.x; i < length; i += blockDim.x) data[i] = blockIdx.x < step ? 7 : 8;
}
extern "C" __global__ void pass_on(int* data, int step, int length) {
  int* own = data + blockIdx.x * 64;
  for (int i = threadIdx.x; i < length; i += blockDim.x) own[i] = blockIdx.x % 2 == 0 ? 7 : own[i - 64 * step];
}
extern "C" __global__ void add(int* data, int step, int length) {
  for (int i = threadIdx.x; i < length; i += blockDim.x) atomicAdd(data + blockIdx.x * step + i, 1);
}
extern "C" __global__ void tell(int* data, int word, int length) {
  int* flag = data + 1024;
  if (threadIdx.x != 0 || blockIdx.x > 1) return;
  if (blockIdx.x == 0) {
    data[0] = 1;
    __threadfence();
    atomicExch(flag, 1);
    __threadfence();
    data[1] = 2;
  } else {
    while (atomicAdd(flag, 0) == 0) {}
    __threadfence();
    data[2048] = data[word];
  }
}
extern "C" __global__ void tell_too_much(int* data, int word, int length) {
  int* flag = data + 1024;
  if (threadIdx.x != 0 || blockIdx.x > 1) return;
  if (blockIdx.x == 0) {
    data[0] = 1;
    __threadfence();
    data[1] = 2;
    atomicExch(flag, 1);
    data[2] = 3;
  } else {
    while (atomicAdd(flag, 0) == 0) {}
    __threadfence();
    data[2048] = data[word];
  }
}
extern "C" __global__ void release(int* data, int word, int length) {
  int* flag = data + 1024;
  if (threadIdx.x != 0 || blockIdx.x > 1) return;
  if (blockIdx.x == 0) {
    data[0] = 1;
    asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
    data[1] = 2;
  } else {
    int seen = 0;
    while (seen == 0) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    data[2048] = data[word];
  }
}
extern "C" __global__ void tell_together(int* data, int way, int length) {
  int* flag = data + 1024;
  int t = threadIdx.x;
  if (blockIdx.x > 1) return;
  if (blockIdx.x == 0) {
    data[t] = t;
    if (way & 1) __syncthreads();
    if (way & 4) { __threadfence(); __syncthreads(); }
    if (t == 0) {
      if (way & 2) __threadfence();
      if (length) asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory"); else atomicExch(flag, 1);
    }
  } else {
    int seen = 0;
    while (t == 0 && seen == 0) {
      if (!length) seen = atomicAdd(flag, 0);
      else asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    }
    if (way & 2) __threadfence();
    if (!(way & 8)) __syncthreads();
    if (way & 16 && t >= 32) return;
    data[2048 + t] = data[way & 16 ? t : t ^ 1];
  }
}
extern "C" __global__ void parts(int* data, int word, int length) {
  __shared__ int4 tile[64];
  int t = threadIdx.x;
  tile[t] = make_int4(t, t, t, t);
  __syncthreads();
  int4 other = tile[t ^ 32];
  if (t < length) ((volatile int*)tile)[4 * t + word] = 5;
  data[blockIdx.x * 64 + t] = other.x + other.w;
}
extern "C" __global__ void neighbours(int* data, int word, int length) {
  __shared__ int4 tile[64];
  int t = threadIdx.x;
  tile[t] = make_int4(t, t, t, t);
  __syncthreads();
  int4 first = tile[0];
  __syncthreads();
  int sum = first.y;
  int* words = (int*)tile;
  if (t == 0) {
    for (int i = 0; i < 64; ++i) { words[0] = i; __threadfence_block(); }
  } else if (t % 32 == 1) {
    for (int i = 0; i < 16; ++i) { sum += words[word]; __threadfence_block(); }
  }
  data[blockIdx.x * 64 + t] = sum;
}
extern "C" __global__ void regroup(int* data, int sync, int length) {
  int t = threadIdx.x;
  ((int4*)data)[t] = make_int4(t, t, t, t);
  if (sync) __syncthreads();
  data[1024 + t] = data[t + length];
}
extern "C" __global__ void exchange(int* data, int sync, int length) {
  int t = threadIdx.x;
  data[t] = t;
  if (sync) __syncthreads();
  data[t ^ length] += 1;
}
extern "C" __global__ void broadcast(int* data, int sync, int length) {
  __shared__ int tile[64];
  int t = threadIdx.x;
  tile[t] = t + 3;
  __syncthreads();
  int first = tile[0];
  if (sync) __syncthreads();
  if (t == length) ((volatile int*)tile)[0] = 5;
  data[blockIdx.x * 64 + t] = first;
}
extern "C" __global__ void halves(int* data, int step, int length) {
  int* own = data + blockIdx.x * step;
  int t = threadIdx.x;
  if (t < 8) own[t] = 1;
  __syncthreads();
  if (t >= 8 && t < length) own[t] = 2;
}
extern "C" __global__ void sum(float* out, const float* a, const float* b) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = a[i] + b[i];
}
extern "C" __global__ void sum_in_halves(float* out, const float* a, const float* b) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i & 8) out[i] = a[i] + b[i];
  __syncthreads();
  if (!(i & 8)) out[i] = a[i] + b[i];
}
"""


def races(name: str, step: int, length: int, workers: int = 1) -> int:
    """Findings of eight blocks; with one worker a block has ended, and its pages are summarised, before the next begins."""
    data = torch.zeros(4096, dtype=torch.int32)
    report = cuda.function(SOURCE, name, "sm_80").launch(8, 64, [data, step, length], checks="race", workers=workers)
    assert {finding.kind for finding in report.findings} <= {"race"}
    return len(report.findings)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("step", [64, 20, 7])
@pytest.mark.parametrize("name", ["words", "bytes"])
def test_blocks_on_disjoint_parts_are_clean_and_overlapping_ones_race(name, step, workers):
    assert races(name, step, step, workers) == 0
    assert races(name, step, step + 1, workers) > 0


@pytest.mark.parametrize("length", [1, 64, 100])
def test_blocks_that_write_the_same_values_are_clean(length):
    assert races("alike", 8, length) == 0
    assert races("alike", 4, length) > 0


def test_two_workers_that_write_the_same_values_at_once_are_clean():
    """A worker may be stopped between the record of its store and the data: once in a hundred launches, so here are many."""
    data, alike = torch.zeros(1 << 15, dtype=torch.int32), cuda.function(SOURCE, "alike", "sm_80")
    for seed in range(150):
        report = alike.launch(2, 128, [data.zero_(), 8, data.numel()], checks="race", workers=2, seed=seed)
        assert not report.findings


@pytest.mark.parametrize("length", [1, 16, 64])
def test_a_block_that_reads_what_another_wrote_is_found(length):
    assert races("pass_on", 1, length) > 0
    assert races("pass_on", 0, length) == 0


def test_atomic_operations_of_several_blocks_on_the_same_words_are_clean():
    assert races("add", 5, 64) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_writes_before_a_signal_to_another_block_are_ordered_and_later_ones_race(workers):
    assert races("tell", 0, 0, workers) == 0
    assert races("tell", 1, 0, workers) > 0


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name, words", [("tell_too_much", 3), ("release", 2)])
def test_accesses_after_the_fence_or_the_release_are_not_published(name, words, workers):
    assert races(name, 0, 0, workers) == 0
    for word in range(1, words):
        assert races(name, word, 0, workers) > 0


@pytest.mark.parametrize("workers", [1, 2])
def test_a_thread_tells_other_blocks_what_its_block_has_told_it(workers):
    """Bits: writers meet; both flags are fenced; each writer fences, then they meet; readers do not meet; one warp reads."""
    release, relaxed = 1, 0
    assert races("tell_together", 1, release, workers) == races("tell_together", 3, relaxed, workers) == 0
    assert races("tell_together", 6, relaxed, workers) == 0
    assert races("tell_together", 0, release, workers) > 0
    assert races("tell_together", 2, relaxed, workers) > 0
    assert races("tell_together", 9, release, workers) > 0
    assert races("tell_together", 11, relaxed, workers) > 0
    assert races("tell_together", 17, release, workers) == 0
    assert races("tell_together", 25, release, workers) > 0


def test_a_narrow_write_races_with_a_wide_read():
    assert races("parts", 3, 0) == 0
    assert races("parts", 3, 1) > 0


def test_words_of_a_vector_load_race_separately():
    assert races("neighbours", 1, 0) == 0
    assert races("neighbours", 0, 0) > 0


@pytest.mark.parametrize("name, length", [("regroup", 0), ("regroup", 16), ("regroup", 7), ("exchange", 32), ("exchange", 33)])
def test_writes_of_a_warp_race_with_other_threads_until_a_barrier(name, length):
    for synchronised in (0, 1):
        data = torch.zeros(4096, dtype=torch.int32)
        report = cuda.function(SOURCE, name, "sm_80").launch(1, 64, [data, synchronised, length], checks="race")
        assert bool(report.findings) == (not synchronised)


@pytest.mark.parametrize("writer", [0, 1, 15, 30, 31, 32, 62, 63])
def test_a_write_races_with_earlier_reads_of_other_threads(writer):
    assert races("broadcast", 1, writer) == 0
    assert races("broadcast", 0, writer) > 0


@pytest.mark.parametrize("workers", [1, 2])
def test_pages_that_several_instructions_have_written_are_remembered(workers):
    assert races("halves", 16, 16, workers) == 0
    assert races("halves", 16, 17, workers) > 0
    assert races("halves", 15, 16, workers) > 0


def test_a_thread_does_not_race_with_itself():
    data = torch.zeros(4096, dtype=torch.int32)
    assert not cuda.function(SOURCE, "exchange", "sm_80").launch(1, 64, [data, 0, 0], checks="race").findings


MEMORY = """
import resource
import sys
import torch
from testing.python.simulator.models import cuda
from testing.python.simulator.test_shadow import SOURCE
kernel = cuda.function(SOURCE, sys.argv[1], "sm_80")
out, a, b = (torch.zeros(1 << 21) for _ in range(3))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
kernel.launch((1 << 21) // 256, 256, [out, a, b], checks="race", counters=False)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(1024 * grown / (3 * out.numel() * 4))
"""


@pytest.mark.parametrize("name", ["sum", "sum_in_halves"])
def test_the_shadow_of_finished_blocks_is_smaller_than_the_tensors(name):
    done = subprocess.run([sys.executable, "-c", MEMORY, name], capture_output=True, text=True, timeout=300, check=True)
    assert float(done.stdout) < 1.0  # cells for every four bytes would take ten times the tensors


def test_a_race_names_the_output_of_a_call():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(2, threads=64) as bx:
            for i in T.Parallel(64):
                B[i] = A[i] + bx

    kernel = tilelang.compile(main, out_idx=[-1], target={"kind": "cuda", "arch": "sm_80"})
    with tilelang.simulator(), pytest.raises(SimulatorError, match="write of 4 bytes at offset 0 of B races with a write"):
        kernel(torch.ones(64))


def test_a_race_in_global_memory_names_the_tensor_and_the_offset():
    data = torch.zeros(4096, dtype=torch.int32)
    report = cuda.function(SOURCE, "alike", "sm_80").launch(2, 64, [data, 1, 64], checks="race", workers=1)
    assert re.search("at offset 0 of argument 0.* races with a write by another block", report.findings[0].message)
