"""Divergence, reconvergence, calls, barriers and exchange between lanes."""

import numpy as np
import pytest

from testing.python.simulator.models import cuda, kernels

SEEDS = [0, 1, 2]


@pytest.mark.parametrize("seed", SEEDS)
def test_nested_divergence_with_loops(seed):
    source = """
extern "C" __global__ void k(int* out) {
  int t = threadIdx.x, sum = 0;
  for (int i = 0; i < t % 7; ++i) {
    if (i % 2) { for (int j = 0; j < t % 3; ++j) sum += j * i; continue; }
    if (t % 5 == 4 && i == 3) break;
    sum += i + 1;
  }
  out[t] = sum;
}"""
    out = np.zeros(64, np.int32)
    kernels.clean(cuda.run(source, [out], 64, seed=seed))

    def model(t):
        total = 0
        for i in range(t % 7):
            if i % 2:
                total += sum(j * i for j in range(t % 3))
                continue
            if t % 5 == 4 and i == 3:
                break
            total += i + 1
        return total

    assert list(out) == [model(t) for t in range(64)]


def test_switch_through_a_branch_table():
    cases = " ".join(f"case {i}: x = x * {i + 3} + {i}; break;" for i in range(12))
    source = f"""extern "C" __global__ void k(int* out) {{
      int x = threadIdx.x + 1;
      switch (threadIdx.x % 13) {{ {cases} default: x = -1; }}
      out[threadIdx.x] = x;
    }}"""
    out = np.zeros(64, np.int32)
    kernels.clean(cuda.run(source, [out], 64))
    assert list(out) == [(t + 1) * (t % 13 + 3) + t % 13 if t % 13 < 12 else -1 for t in range(64)]
    body = """
.visible .entry k(.param .u64 o) {
  .reg .b32 %t, %x; .reg .b64 %p, %w;
  mov.u32 %t, %tid.x; and.b32 %x, %t, 3; ld.param.u64 %p, [o]; mul.wide.u32 %w, %t, 4; add.u64 %p, %p, %w;
  L: .branchtargets A, B, C, D;
  brx.idx %x, L;
  A: mov.u32 %x, 10; bra.uni E; B: mov.u32 %x, 20; bra.uni E; C: mov.u32 %x, 30; bra.uni E; D: mov.u32 %x, 40;
  E: st.global.u32 [%p], %x; ret;
}"""
    kernels.clean(kernels.launch(body, "k", [out], 64))
    assert list(out) == [10 * (t % 4 + 1) for t in range(64)]


def test_recursion_and_function_pointers_with_divergence():
    source = """
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ __noinline__ int twice(int n) { return 2 * n; }
__device__ __noinline__ int negate(int n) { return -n; }
typedef int (*Function)(int);
__device__ Function table[3] = {fib, twice, negate};
extern "C" __global__ void k(int* out) { int t = threadIdx.x; out[t] = table[t % 3](t % 11); }
"""
    out = np.zeros(64, np.int32)
    kernels.clean(cuda.run(source, [out], 64))
    fib = [0, 1]
    while len(fib) < 12:
        fib.append(fib[-1] + fib[-2])
    assert list(out) == [(fib[t % 11], 2 * (t % 11), -(t % 11))[t % 3] for t in range(64)]


@pytest.mark.parametrize("seed", SEEDS)
def test_forward_progress_within_a_warp(seed):
    """Lane 0 waits for lane 31 of its own warp: fine with independent thread scheduling."""
    source = """
extern "C" __global__ void k(volatile int* flag, int* out) {
  if (threadIdx.x == 0) { while (*flag == 0) {} out[0] = *flag; }
  if (threadIdx.x == 31) { *flag = 7; }
}"""
    flag, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
    cuda.run(source, [flag, out], 32, seed=seed)
    assert out[0] == 7


@pytest.mark.parametrize("seed", SEEDS)
def test_sleeping_warp_wakes_while_another_spins(seed):
    source = """
extern "C" __global__ void k(volatile int* flag, int* out) {
  if (threadIdx.x < 32) { while (*flag == 0) {} if (threadIdx.x == 0) out[0] = *flag; }
  else { __nanosleep(100); if (threadIdx.x == 32) *flag = 3; }
}"""
    flag, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
    kernels.clean(cuda.run(source, [flag, out], 64, seed=seed, max_instructions=1_000_000))
    assert out[0] == 3


@pytest.mark.parametrize("workers", [1, 2])
def test_forward_progress_between_blocks(workers):
    """Every block waits for the next one."""
    source = """
extern "C" __global__ void k(int* ready, int* out, int n) {
  int b = blockIdx.x;
  if (threadIdx.x == 0) {
    if (b + 1 < n) {
      int v;
      do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(ready + b + 1) : "memory"); while (v == 0);
      out[b] = out[b + 1] + 1;
    } else {
      out[b] = 1;
    }
    asm volatile("st.release.gpu.global.s32 [%0], %1;" :: "l"(ready + b), "r"(1) : "memory");
  }
}"""
    n = 20
    ready, out = np.zeros(n, np.int32), np.zeros(n, np.int32)
    kernels.clean(cuda.run(source, [ready, out], 32, grid=(n, 1, 1), scalars=[n], workers=workers))
    assert list(out) == list(range(n, 0, -1))


def test_grid_reduction_by_the_last_block():
    source = """
__device__ unsigned arrived;
extern "C" __global__ void k(const int* values, int* partial, int* out, int blocks) {
  __shared__ bool last;
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, values[blockIdx.x * 64 + threadIdx.x]);
  __syncthreads();
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(&arrived, 1u) == blocks - 1;
    __threadfence();
  }
  __syncthreads();
  if (last && threadIdx.x == 0) { int s = 0; for (int i = 0; i < blocks; ++i) s += partial[i]; *out = s; }
}"""
    values = np.arange(640, dtype=np.int32)
    partial, out = np.zeros(10, np.int32), np.zeros(1, np.int32)
    kernels.clean(cuda.run(source, [values, partial, out], 64, grid=(10, 1, 1), scalars=[10]))
    assert out[0] == values.sum()


SHUFFLES = {
    "__shfl_up_sync(~0u, t, 3)": lambda t: t - 3 if t >= 3 else t,
    "__shfl_down_sync(~0u, t, 5)": lambda t: t + 5 if t + 5 < 32 else t,
    "__shfl_xor_sync(~0u, t, 9)": lambda t: t ^ 9,
    "__shfl_sync(~0u, t, 4)": lambda t: 4,
    "__shfl_sync(~0u, t, 3, 8)": lambda t: t // 8 * 8 + 3,
    "__shfl_down_sync(~0u, t, 2, 8)": lambda t: t + 2 if t % 8 + 2 < 8 else t,
    "__shfl_up_sync(~0u, t, 2, 4)": lambda t: t - 2 if t % 4 >= 2 else t,
    "(int)__ballot_sync(~0u, t % 3 == 0)": lambda t: sum(1 << i for i in range(0, 32, 3)) - (1 << 32 if 31 % 3 == 0 else 0),
    "__all_sync(~0u, t < 32)": lambda t: 1,
    "__any_sync(~0u, t > 40)": lambda t: 0,
    "(int)__match_any_sync(~0u, t / 8)": lambda t: np.int64(0xFF << t // 8 * 8).astype(np.int32),
    "(int)__reduce_add_sync(~0u, (unsigned)t)": lambda t: 496,
    "__reduce_max_sync(~0u, -t)": lambda t: 0,
    "__reduce_min_sync(~0u, -t)": lambda t: -31,
    "(int)__reduce_xor_sync(~0u, (unsigned)t)": lambda t: 0,
    "__popc(__activemask())": lambda t: 32,
    # Groups of lanes with masks of their own: halves, and the lanes of each remainder by four.
    "__shfl_xor_sync(t < 16 ? 0xffffu : 0xffff0000u, t, 9)": lambda t: t ^ 9,
    "__shfl_down_sync(0x11111111u << t % 4, t, 4)": lambda t: t + 4 if t + 4 < 32 else t,
    "(int)__ballot_sync(0x11111111u << t % 4, t < 8)": lambda t: 0x11 << t % 4,
    "__any_sync(t < 16 ? 0xffffu : 0xffff0000u, t == 3)": lambda t: int(t < 16),
    "(int)__match_any_sync(0x11111111u << t % 4, t / 16)": lambda t: np.int64(0x1111 << t % 4 << t // 16 * 16).astype(np.int32),
    "(int)__reduce_add_sync(t < 16 ? 0xffffu : 0xffff0000u, (unsigned)t)": lambda t: 120 if t < 16 else 376,
}


@pytest.mark.parametrize("expression", SHUFFLES)
def test_exchange(expression):
    source = f'extern "C" __global__ void k(int* out) {{ int t = threadIdx.x & 31; out[threadIdx.x] = {expression}; }}'
    out = np.zeros(64, np.int32)
    kernels.clean(cuda.run(source, [out], 64))
    assert np.array_equal(out, np.array([SHUFFLES[expression](t % 32) for t in range(64)]).astype(np.int32))


@pytest.mark.parametrize(
    "mask, message",
    [
        ("t < 16 ? 0xffffu : 0xffff8000u", "the member masks of the lanes differ"),
        ("0xfffffffeu", "the thread is not in the member mask"),
    ],
)
def test_masks_that_are_no_partition(mask, message):
    source = f"""
extern "C" __global__ void k(int* out) {{
  int t = threadIdx.x & 31;
  out[t] = __shfl_xor_sync({mask}, t, 1);
}}"""
    report = cuda.run(source, [np.zeros(32, np.int32)], 32)
    assert message in str(report)


def test_exchange_inside_divergent_code():
    source = """
extern "C" __global__ void k(int* out) {
  int t = threadIdx.x, v = t;
  if (t & 1) v += 100; else v -= 100;
  if (t < 16) out[t] = __shfl_xor_sync(0xffffu, v, 1);
  else out[t] = __reduce_add_sync(0xffff0000u, (unsigned)v);
}"""
    out = np.zeros(32, np.int32)
    kernels.clean(cuda.run(source, [out], 32))
    v = [t + 100 if t & 1 else t - 100 for t in range(32)]
    assert list(out) == [v[t ^ 1] for t in range(16)] + [sum(v[16:])] * 16


def test_barrier_reductions_and_named_barriers():
    source = """
extern "C" __global__ void k(int* out) {
  __shared__ int a[128];
  int t = threadIdx.x;
  out[t] = __syncthreads_count(t % 3 == 0) + 1000 * __syncthreads_and(t < 127) + 2000 * __syncthreads_or(t == 5);
  if (t < 64) {
    a[t] = t;
    asm volatile("bar.arrive 1, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 1, 128;" ::: "memory");
    out[t] += 10000 * a[t - 64];
  }
}"""
    out = np.zeros(128, np.int32)
    kernels.clean(cuda.run(source, [out], 128))
    assert list(out) == [43 + 2000 + (10000 * (t - 64) if t >= 64 else 0) for t in range(128)]


def test_elected_thread():
    source = """
extern "C" __global__ void k(int* out) {
  unsigned p; asm volatile("{.reg .pred q; elect.sync _|q, 0xffffffff; selp.u32 %0, 1, 0, q;}" : "=r"(p));
  out[threadIdx.x] = p;
}"""
    out = np.zeros(64, np.int32)
    kernels.clean(cuda.run(source, [out], 64))
    assert out[:32].sum() == 1 and out[32:].sum() == 1


def test_partial_warps_and_three_dimensions():
    source = """
extern "C" __global__ void k(int* out) {
  int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  __syncthreads();
  out[b * blockDim.x * blockDim.y * blockDim.z + t] = 1000 * b + t;
}"""
    out = np.zeros(24 * 45, np.int32)
    function = cuda.function(source)
    kernels.clean(function.launch((2, 3, 4), (5, 3, 3), [kernels.to_torch(out)]))
    assert list(out) == [1000 * b + t for b in range(24) for t in range(45)]


def test_lanes_that_jump_ahead_keep_what_they_defined():
    body = """
.visible .entry k(.param .u64 o) {
  .reg .b16 %h; .reg .b32 %t, %j, %x; .reg .b64 %p, %w; .reg .pred %far, %q;
  mov.u32 %t, %tid.x; and.b32 %j, %t, 7; ld.param.u64 %p, [o]; mul.wide.u32 %w, %t, 2; add.u64 %p, %p, %w;
  setp.gt.u32 %far, %j, 2;
  @%far bra A;
  bra.uni B;
  A: setp.eq.u32 %q, %j, 3; selp.b32 %x, 50, 60, %q; cvt.u16.u32 %h, %x; bra.uni C;
  B: mov.u16 %h, 3;
  C: st.global.u16 [%p], %h; ret;
}"""
    out = np.zeros(32, np.uint16)
    kernels.clean(kernels.launch(body, "k", [out], 32))
    assert list(out) == [3 if t % 8 < 3 else 50 if t % 8 == 3 else 60 for t in range(32)]


def test_a_predicate_outlives_halves_of_lanes_elsewhere():
    """Lane 0 writes a register of 16 bits while the others wait with a predicate that the text reads before it."""
    body = """
.visible .entry k(.param .u64 o) {
  .reg .b32 %t, %x; .reg .b64 %p, %w; .reg .b16 %h, %g; .reg .pred %odd, %rest;
  mov.u32 %t, %tid.x; ld.param.u64 %p, [o]; mul.wide.u32 %w, %t, 4; add.u64 %p, %p, %w;
  and.b32 %x, %t, 1; setp.ne.s32 %odd, %x, 0; setp.ne.s32 %rest, %t, 0;
  mov.u32 %x, 1;
  @%rest bra B; bra.uni A;
  B: @%odd bra C; mov.u32 %x, 2; bra.uni C;
  A: mov.u16 %h, 254; shr.u16 %g, %h, 1; cvt.u32.u16 %x, %g;
  C: st.global.u32 [%p], %x; ret;
}"""
    out = np.zeros(32, np.int32)
    kernels.clean(kernels.launch(body, "k", [out], 32))
    assert list(out) == [127, *(1 if t % 2 else 2 for t in range(1, 32))]
