"""cp.async: data, zero fill, groups, mbarrier arrival, and what happens without the wait."""

import numpy as np
import pytest

from testing.python.simulator.models import cuda, kernels

SEED = 20240616
COPY = """
DEVICE void copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared_address(to)), "l"(from) : "memory");
}
DEVICE void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEVICE void wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }
"""


FORMS = [("ca", 4), ("ca", 8), ("ca", 16), ("ca.L2::128B", 8), ("cg", 16), ("cg.L2::256B", 16)]


@pytest.mark.parametrize("form,size", FORMS)
@pytest.mark.parametrize("source_size", [None, 0, 3, "size"])
def test_sizes_and_zero_fill(form, size, source_size):
    head, _, prefetch = form.partition(".")
    extra = "" if source_size is None else ", %2"
    bytes_read = size if source_size in (None, "size") else source_size
    source = f"""
extern "C" __global__ void k(const u8* in, u8* out, int bytes) {{
  __shared__ alignas(16) u8 tile[32 * {size}];
  int t = threadIdx.x;
  asm volatile("cp.async.{head}.shared.global{"." + prefetch if prefetch else ""} [%0], [%1], {size}{extra};"
    :: "r"(shared_address(tile + t * {size})), "l"(in + t * {size}), "r"(bytes) : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  for (int i = 0; i < {size}; ++i) out[t * {size} + i] = tile[t * {size} + i];
}}"""
    data = np.random.default_rng(SEED).integers(0, 256, (32, size)).astype(np.uint8)
    out = np.zeros_like(data)
    kernels.clean(cuda.run(source, [data, out], 32, scalars=[bytes_read], arch="sm_80"))
    want = data.copy()
    want[:, bytes_read:] = 0
    assert np.array_equal(out, want)


def test_ignored_source_is_not_read():
    """Lanes past the end of the tensor ignore their source and get zeros."""
    source = """
extern "C" __global__ void k(const u8* in, u8* out) {
  __shared__ alignas(16) u8 tile[512];
  int t = threadIdx.x;
  asm volatile("{.reg .pred p; setp.ge.s32 p, %2, 20; cp.async.ca.shared.global [%0], [%1], 16, p;}"
    :: "r"(shared_address(tile + t * 16)), "l"(in + t * 16), "r"(t) : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  for (int i = 0; i < 16; ++i) out[t * 16 + i] = tile[t * 16 + i];
}"""
    data = np.random.default_rng(SEED).integers(1, 256, (20, 16)).astype(np.uint8)
    out = np.full((32, 16), 9, np.uint8)
    kernels.clean(cuda.run(source, [data, out], 32, arch="sm_80"))
    assert np.array_equal(out[:20], data)
    assert not out[20:].any()


PIPELINE = (
    COPY
    + """
extern "C" __global__ void k(const u32* in, u32* out) {
  __shared__ alignas(16) u32 stage[2][128];
  int t = threadIdx.x;
  copy16(&stage[0][t * 4], in + t * 4); commit();
  for (int i = 0; i < 4; ++i) {
    if (i < 3) { copy16(&stage[(i + 1) % 2][t * 4], in + (i + 1) * 128 + t * 4); commit(); }
    WAIT;
    __syncwarp();
    for (int j = 0; j < 4; ++j) out[i * 128 + j * 32 + t] = stage[i % 2][j * 32 + t];
    __syncwarp();
  }
}"""
)


def test_double_buffering():
    data, out = cuda.arange(512, np.uint32), np.zeros(512, np.uint32)
    source = PIPELINE.replace("WAIT", "if (i < 3) wait<1>(); else wait<0>()")
    for seed in range(4):
        kernels.clean(cuda.run(source, [data, out], 32, arch="sm_80", seed=seed))
        assert np.array_equal(out, data)


@pytest.mark.parametrize("wrong", ["wait<1>()", "(void)0"])
def test_missing_wait_is_seen(wrong):
    data, out = cuda.arange(512, np.uint32), np.zeros(512, np.uint32)
    report = cuda.run(PIPELINE.replace("WAIT", wrong), [data, out], 32, arch="sm_80")
    assert cuda.kinds(report) & {"uninitialised", "race"}
    assert not np.array_equal(out, data)
    assert np.all(out[-128:] == 0xFFFFFFFF)  # poison, not old data


def test_missing_commit_is_seen():
    source = PIPELINE.replace("commit();", ";").replace("WAIT", "wait<0>()")
    data, out = cuda.arange(512, np.uint32), np.zeros(512, np.uint32)
    assert cuda.kinds(cuda.run(source, [data, out], 32, arch="sm_80"))
    assert not np.array_equal(out, data)


ARRIVAL = (
    COPY
    + """
extern "C" __global__ void k(const u32* in, u32* out) {
  __shared__ alignas(16) u32 tile[256];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  if (t == 0) barrier_init(&barrier, COUNT);
  __syncthreads();
  if (t < 64) {
    copy16(&tile[t * 4], in + t * 4);
    asm volatile("cp.async.mbarrier.arrive.NOINC.b64 [%0];" :: "r"(shared_address(&barrier)) : "memory");
    ARRIVE
  }
  barrier_wait(&barrier, 0);
  for (int i = t; i < 256; i += 128) out[i] = tile[255 - i];
}"""
)


@pytest.mark.parametrize("noinc", [False, True])
def test_mbarrier_arrival(noinc):
    source = ARRIVAL.replace("COUNT", "64").replace("ARRIVE\n", "\n" if noinc else "barrier_arrive(&barrier);\n")
    source = source.replace(".NOINC", ".noinc.shared" if noinc else ".shared")
    data, out = cuda.arange(256, np.uint32), np.zeros(256, np.uint32)
    for seed in range(4):
        kernels.clean(cuda.run(source, [data, out], 128, arch="sm_80", seed=seed))
        assert np.array_equal(out, data[::-1])


@pytest.mark.parametrize("offset,kind", [(0, None), (8, "misaligned"), (4096, "out-of-bounds")])
def test_source_addresses_are_checked(offset, kind):
    source = (
        COPY
        + """
extern "C" __global__ void k(const u8* in, int offset) {
  __shared__ alignas(16) u8 tile[512];
  copy16(tile + threadIdx.x * 16, in + offset + threadIdx.x * 16);
  asm volatile("cp.async.wait_all;" ::: "memory");
}"""
    )
    report = cuda.run(source, [np.zeros(1024, np.uint8)], 32, scalars=[offset], arch="sm_80")
    assert cuda.kinds(report) == ({kind} if kind else set())
