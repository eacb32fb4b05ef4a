"""Clusters: distributed shared memory, multicast loads, copies between blocks, remote barriers."""

import numpy as np

from testing.python.simulator.models import cuda, kernels, tensors

SEED = 20240618


def test_block_to_block_copy_and_remote_arrival():
    """Each block sends its tile to its neighbour; the neighbour's barrier counts the bytes."""
    source = """
extern "C" __global__ void __cluster_dims__(4, 1, 1) k(const u32* in, u32* out) {
  __shared__ alignas(16) u32 mine[64], received[64];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  u32 rank; asm("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  if (t == 0) { barrier_init(&barrier, 1); fence_barrier_init(); }
  mine[t] = in[rank * 64 + t];
  fence_async();
  cluster_sync();
  u32 neighbour = (rank + 1) % 4, to, bar;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(shared_address(received)), "r"(neighbour));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bar) : "r"(shared_address(&barrier)), "r"(neighbour));
  if (t == 0) {
    barrier_expect(&barrier, 256);
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :: "r"(to), "r"(shared_address(mine)), "r"(256), "r"(bar) : "memory");
  }
  barrier_wait(&barrier, 0);
  out[rank * 64 + t] = received[t];
  cluster_sync();
}"""
    data, out = cuda.arange(256, np.uint32), np.zeros(256, np.uint32)
    for seed in range(4):
        kernels.clean(cuda.run(source, [data, out], 64, grid=(4, 1, 1), cluster=(4, 1, 1), seed=seed))
        assert np.array_equal(out.reshape(4, 64), np.roll(data.reshape(4, 64), 1, axis=0))


def test_multicast_reaches_every_block_of_the_mask():
    source = """
extern "C" __global__ void __cluster_dims__(4, 1, 1) k(const u32* in, u32* out) {
  __shared__ alignas(16) u32 tile[64];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  u32 rank; asm("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  if (t == 0) { barrier_init(&barrier, 1); fence_barrier_init(); }
  tile[t] = 7;
  fence_async();
  cluster_sync();
  bool receives = rank != 2;
  if (t == 0 && receives) barrier_expect(&barrier, 256);
  cluster_sync();
  if (t == 0 && rank == 2) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
      :: "r"(shared_address(tile)), "l"(in), "r"(256), "r"(shared_address(&barrier)), "h"((u16)0xb) : "memory");
  }
  if (receives) barrier_wait(&barrier, 0);
  out[rank * 64 + t] = tile[t];
  cluster_sync();
}"""
    data, out = np.arange(100, 164, dtype=np.uint32), np.zeros((4, 64), np.uint32)
    kernels.clean(cuda.run(source, [data, out], 64, grid=(4, 1, 1), cluster=(4, 1, 1)))
    for rank in range(4):
        assert np.array_equal(out[rank], np.full(64, 7) if rank == 2 else data)


def test_remote_arrive():
    """Every block arrives on the barrier of block 0."""
    source = """
extern "C" __global__ void __cluster_dims__(2, 1, 1) k(u32* out) {
  __shared__ u64 barrier;
  __shared__ u32 value;
  int t = threadIdx.x;
  u32 rank; asm("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  if (t == 0) { barrier_init(&barrier, 64); fence_barrier_init(); }
  cluster_sync();
  u32 remote, remote_value;
  asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(remote) : "r"(shared_address(&barrier)));
  asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(remote_value) : "r"(shared_address(&value)));
  if (rank == 1 && t == 0) asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(remote_value), "r"(42) : "memory");
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(remote) : "memory");
  if (rank == 0) {
    asm volatile("{.reg .pred p;\\nW: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0;\\n"
      "@p bra D;\\nbra W;\\nD: }"
      :: "r"(shared_address(&barrier)) : "memory");
    out[t] = value;
  }
  cluster_sync();
}"""
    out = np.zeros(32, np.uint32)
    for seed in range(4):
        kernels.clean(cuda.run(source, [out], 32, grid=(2, 1, 1), cluster=(2, 1, 1), seed=seed))
        assert np.all(out == 42)


def test_multicast_tensor_load():
    """Block 1 loads half a tile for both blocks, block 0 the other half: the barriers count both halves."""
    source = """
extern "C" __global__ void __cluster_dims__(2, 1, 1) k(u16* out, const u16* in, const __grid_constant__ Map map) {
  __shared__ __align__(1024) u16 tile[16 * 64];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  u32 rank; asm("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  if (t == 0) { barrier_init(&barrier, 1); fence_barrier_init(); barrier_expect(&barrier, 2048); }
  cluster_sync();
  if (t == 0) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint "
      "[%0], [%1, {%2, %3}], [%4], %5, %6;"
      :: "r"(shared_address(tile + rank * 512)), "l"(&map), "r"(0), "r"(rank * 8), "r"(shared_address(&barrier)), "h"((u16)3),
         "l"(0x1000000000000000ull) : "memory");
  }
  barrier_wait(&barrier, 0);
  for (int i = t; i < 1024; i += 64) out[rank * 1024 + i] = tile[i];
  cluster_sync();
}"""
    data = np.random.default_rng(SEED).integers(0, 2**16, (16, 64)).astype(np.uint16)
    out = np.zeros((2, 1024), np.uint16)
    blob = tensors.encode("u16", data, (64, 8), swizzle=128)
    want = tensors.shared_image(data, 128, 2048, 0).view(np.uint16)
    for seed in range(4):
        report = cuda.run(source, [out, data], 64, scalars=[blob], grid=(2, 1, 1), cluster=(2, 1, 1), seed=seed)
        kernels.clean(report)
        assert np.array_equal(out, np.stack([want, want]))
