"""cp.async.bulk of consecutive bytes: both ways, between blocks, reductions, and the reports of misuse."""

import numpy as np
import pytest

from testing.python.simulator.models import cuda, kernels

SEED = 20240617
LOAD = """
DEVICE void bulk_load(void* to, const void* from, u32 bytes, u64* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
    :: "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}
DEVICE void bulk_store(void* to, const void* from, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
    :: "l"(to), "r"(shared_address(from)), "r"(bytes) : "memory");
}
"""
ROUND_TRIP = (
    LOAD
    + """
extern "C" __global__ void k(const u32* in, u32* out) {
  __shared__ alignas(16) u32 tile[1024];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  if (t == 0) { barrier_init(&barrier, 1); fence_barrier_init(); }
  __syncthreads();
  if (t == 0) { barrier_expect(&barrier, 4096); bulk_load(tile, in, 4096, &barrier); }
  WAIT
  for (int i = t; i < 1024; i += 64) tile[i] += 1;
  FENCE
  __syncthreads();
  if (t == 0) { bulk_store(out, tile, 4096); bulk_commit(); DRAIN }
  __syncthreads();
  AFTER
}"""
)


def round_trip(wait="barrier_wait(&barrier, 0);", fence="fence_async();", drain="bulk_wait();", after="", **options):
    source = ROUND_TRIP.replace("WAIT", wait).replace("FENCE", fence).replace("DRAIN", drain).replace("AFTER", after)
    data, out = cuda.arange(1024, np.uint32), np.zeros(1024, np.uint32)
    return cuda.run(source, [data, out], 64, **options), data, out


def test_round_trip():
    for seed in range(4):
        report, data, out = round_trip(seed=seed)
        kernels.clean(report)
        assert np.array_equal(out, data + 1)


def test_reading_before_the_barrier_completes_is_found():
    report, data, out = round_trip(wait="")
    assert cuda.kinds(report) & {"uninitialised", "race"}
    assert not np.array_equal(out, data + 1)


def test_missing_proxy_fence_is_seen():
    report, _, _ = round_trip(fence="")
    assert "async" in cuda.kinds(report)


FENCED = (
    LOAD
    + """
extern "C" __global__ void k(const u32* in, u32* out) {
  __shared__ alignas(16) u32 tile[64], other[64];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  if (t == 0) { barrier_init(&barrier, 1); fence_barrier_init(); }
  tile[t] = in[t];
  out[64 + t] = t;
  FENCE
  __syncthreads();
  if (t == 0) { barrier_expect(&barrier, 256); bulk_load(TO, FROM, 256, &barrier); }
  barrier_wait(&barrier, 0);
  out[t] = TO[t];
}"""
)


@pytest.mark.parametrize("to, source", [("tile", "in"), ("other", "out + 64")])
def test_a_load_over_or_of_what_threads_wrote_needs_a_proxy_fence(to, source):
    for fence, kinds in (("", {"async"}), ("fence_async();", set())):
        text = FENCED.replace("TO", to).replace("FROM", source).replace("FENCE", fence)
        report = cuda.run(text, [cuda.arange(64, np.uint32), np.zeros(128, np.uint32)], 64)
        assert cuda.kinds(report) == kinds


STORES = (
    LOAD
    + """
extern "C" __global__ void k(const u32* in, u32* out) {
  __shared__ alignas(16) u32 tile[64];
  int t = threadIdx.x, warp = t / 32;
  if (t < 64) tile[t] = in[t];
  fence_async();
  __syncthreads();
  if (t % 32 == 0) { bulk_store(out + 64 * warp, tile, 256); bulk_commit(); if (warp != HASTY) bulk_wait(); }
  __syncthreads();
  if (t < 64) tile[t] = 0;
  if (t % 32 == 0) bulk_wait();
}"""
)


@pytest.mark.parametrize("hasty", [-1, 0, 1, 2, 3])
def test_each_store_that_reads_a_tile_is_remembered(hasty):
    for seed in range(4):
        source = STORES.replace("HASTY", str(hasty))
        report = cuda.run(source, [cuda.arange(64, np.uint32), np.zeros(256, np.uint32)], 128, seed=seed)
        assert cuda.kinds(report) == (set() if hasty < 0 else {"race"})


def test_overwriting_the_source_of_a_store_is_seen():
    report, data, out = round_trip(drain="", after="for (int i = t; i < 1024; i += 64) tile[i] = 0; if (t == 0) bulk_wait();")
    assert "race" in cuda.kinds(report)
    assert not np.array_equal(out, data + 1)
    report, data, out = round_trip(drain="bulk_wait_read();", after="for (int i = t; i < 1024; i += 64) tile[i] = 0;")
    kernels.clean(report)
    assert np.array_equal(out, data + 1)


def test_a_bulk_store_without_a_wait_is_reported_and_completed():
    report, data, out = round_trip(drain="")
    assert cuda.kinds(report) == {"async"}
    assert np.array_equal(out, data + 1)


@pytest.mark.parametrize("seed", range(3))
def test_two_blocks_that_store_the_same_value_do_not_race(seed):
    report, data, out = round_trip(grid=2, seed=seed)
    kernels.clean(report)
    assert np.array_equal(out, data + 1)
    report, _, _ = round_trip(fence="tile[0] += blockIdx.x; fence_async();", grid=2, seed=seed)
    assert cuda.kinds(report) == {"race"}


REDUCE = """
extern "C" __global__ void k(TYPE* target, const TYPE* values) {
  __shared__ alignas(16) TYPE tile[64];
  int t = threadIdx.x;
  tile[t] = values[blockIdx.x * 64 + t];
  fence_async();
  __syncthreads();
  if (t == 0) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.OP [%0], [%1], %2;"
      :: "l"(target), "r"(shared_address(tile)), "r"((u32)sizeof(tile)) : "memory");
    bulk_commit(); bulk_wait();
  }
}"""
REDUCTIONS = [
    ("add.u32", "unsigned", np.uint32, np.add),
    ("add.s32", "int", np.int32, np.add),
    ("add.u64", "unsigned long long", np.uint64, np.add),
    ("add.f32", "float", np.float32, np.add),
    ("add.f64", "double", np.float64, np.add),
    ("add.noftz.f16", "u16", np.float16, np.add),
    ("min.f16", "u16", np.float16, np.minimum),
    ("min.s32", "int", np.int32, np.minimum),
    ("max.u64", "unsigned long long", np.uint64, np.maximum),
    ("max.s64", "long long", np.int64, np.maximum),
    ("and.b32", "unsigned", np.uint32, np.bitwise_and),
    ("or.b64", "unsigned long long", np.uint64, np.bitwise_or),
    ("xor.b32", "unsigned", np.uint32, np.bitwise_xor),
]


@pytest.mark.parametrize("operation,ctype,dtype,function", REDUCTIONS, ids=[r[0] for r in REDUCTIONS])
def test_reduction_to_global(operation, ctype, dtype, function):
    rng = np.random.default_rng(SEED)
    # Small integers keep floating-point sums exact in any order.
    target, values = rng.integers(0, 50, 64).astype(dtype), rng.integers(0, 50, (4, 64)).astype(dtype)
    want = target.copy()
    for row in values:
        want = function(want, row)
    source = REDUCE.replace("TYPE", ctype).replace("OP", operation)
    kernels.clean(cuda.run(source, [target, values], 64, grid=(4, 1, 1)))
    assert np.array_equal(target, want)


@pytest.mark.parametrize("operation", ["inc", "dec"])
def test_wrapping_counters(operation):
    target = np.array([0, 1, 2, 3] * 16, np.uint32)
    values = np.full((1, 64), 2, np.uint32)
    want = {"inc": [1, 2, 0, 0], "dec": [2, 0, 1, 2]}[operation] * 16
    source = REDUCE.replace("TYPE", "unsigned").replace("OP", operation + ".u32")
    kernels.clean(cuda.run(source, [target, values], 64))
    assert list(target) == want


def test_byte_mask():
    source = """
extern "C" __global__ void k(u8* out) {
  __shared__ alignas(16) u8 tile[32];
  tile[threadIdx.x] = threadIdx.x + 1;
  fence_async();
  __syncwarp();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%0], [%1], 32, %2;"
      :: "l"(out), "r"(shared_address(tile)), "h"((u16)0x8005) : "memory");
    bulk_commit(); bulk_wait();
  }
}"""
    out = np.zeros(32, np.uint8)
    kernels.clean(cuda.run(source.replace("sm_90a", "sm_100"), [out], 32, arch="sm_100"))
    want = np.where(np.isin(np.arange(32) % 16, [0, 2, 15]), np.arange(32) + 1, 0)
    assert np.array_equal(out, want)


@pytest.mark.parametrize(
    "offset,bytes,kind",
    [(0, 256, None), (4, 256, "misaligned"), (0, 40, "misaligned"), (4096, 256, "out-of-bounds")],
)
def test_ranges_are_checked(offset, bytes, kind):
    source = (
        LOAD
        + """
extern "C" __global__ void k(const u8* in, int offset, int bytes) {
  __shared__ alignas(16) u8 tile[256];
  __shared__ u64 barrier;
  if (threadIdx.x == 0) {
    barrier_init(&barrier, 1); fence_barrier_init();
    if (bytes % 16 == 0) barrier_expect(&barrier, bytes); else barrier_arrive(&barrier);
    bulk_load(tile, in + offset, bytes, &barrier);
    barrier_wait(&barrier, 0);
  }
}"""
    )
    report = cuda.run(source, [np.zeros(4096, np.uint8)], 32, scalars=[offset, bytes])
    assert cuda.kinds(report) == ({kind} if kind else set())
