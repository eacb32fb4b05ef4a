"""Whole kernels, compiled by NVRTC, against NumPy and torch."""

import numpy as np
import pytest
import torch

import tilelang.simulator
from testing.python.simulator.models import cuda, kernels
from testing.python.simulator.models.tiles import FLASH, GEMM_MMA, GEMM_WGMMA

SEED = 5


def launch(source, grid, threads, args, **options):
    name = options.pop("name", "k")
    return kernels.clean(cuda.function(source, name, options.pop("arch", "sm_80")).launch(grid, threads, args, **options))


@pytest.mark.parametrize("n", [1, 255, 1000])
def test_vector_add(n):
    source = """extern "C" __global__ void k(const float* a, const float* b, float* c, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[i] + b[i]; }"""
    a, b = torch.randn(2, n, generator=torch.Generator().manual_seed(SEED))
    c = torch.zeros(n)
    launch(source, (n + 127) // 128, 128, [a.contiguous(), b.contiguous(), c, n])
    assert torch.equal(c, a + b)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_tree_and_shuffle_reductions(seed):
    source = """
extern "C" __global__ void k(const float* x, float* out, int n) {
  __shared__ float s[8];
  float v = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) v += x[i];
  for (int d = 16; d; d >>= 1) v += __shfl_down_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 8) {
    v = s[threadIdx.x];
    for (int d = 4; d; d >>= 1) v += __shfl_down_sync(0xffu, v, d);
    if (threadIdx.x == 0) atomicAdd(out, v);
  }
}"""
    x = torch.randint(-50, 50, (5000,), generator=torch.Generator().manual_seed(SEED)).float()
    out = torch.zeros(1)
    launch(source, 4, 256, [x, out, 5000], seed=seed)
    assert out.item() == x.sum().item()


def test_histogram():
    source = """
extern "C" __global__ void k(const int* x, int* bins, int n) {
  __shared__ int h[64];
  if (threadIdx.x < 64) h[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) atomicAdd(&h[x[i]], 1);
  __syncthreads();
  if (threadIdx.x < 64) atomicAdd(&bins[threadIdx.x], h[threadIdx.x]);
}"""
    x = torch.randint(0, 64, (4000,), generator=torch.Generator().manual_seed(SEED), dtype=torch.int32)
    bins = torch.zeros(64, dtype=torch.int32)
    launch(source, 6, 128, [x, bins, 4000])
    assert torch.equal(bins, torch.bincount(x, minlength=64).int())


@pytest.mark.parametrize("m,n,k,seed", [(128, 128, 64, 0), (256, 128, 96, 1)])
def test_pipelined_gemm_with_mma_ldmatrix_and_cp_async(m, n, k, seed):
    generator = torch.Generator().manual_seed(SEED)
    a, b = torch.randn(m, k, generator=generator).half(), torch.randn(n, k, generator=generator).half()
    c = torch.zeros(m, n)
    report = launch(GEMM_MMA, (n // 128, m // 128), 128, [a, b, c, m, n, k], shared_bytes=3 * 256 * 32 * 2, seed=seed)
    torch.testing.assert_close(c, a.float() @ b.float().T, rtol=1e-3, atol=1e-3)
    assert report.counters.total["tensor_multiply_adds"] == m * n * k
    assert report.counters.total["bank_conflicts"] == 0


@pytest.mark.parametrize("seed", [0, 3])
def test_warp_specialised_gemm_with_tma_mbarrier_and_wgmma(seed):
    m, n, k = 128, 128, 256
    generator = torch.Generator().manual_seed(SEED)
    a, b = torch.randn(m, k, generator=generator).half(), torch.randn(n, k, generator=generator).half()
    c = torch.zeros(m, n)
    maps = [tilelang.simulator.encode_tensor_map(t, (64, 64), swizzle=128) for t in (a, b)]
    grid = (n // 64, m // 64)
    launch(GEMM_WGMMA, grid, 256, [*maps, c, n, k], shared_bytes=2 * 16384 + 1024, arch="sm_90a", seed=seed)
    torch.testing.assert_close(c, a.float() @ b.float().T, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("causal", [0, 1])
def test_flash_attention(causal):
    length, width = 128, 32
    generator = torch.Generator().manual_seed(SEED)
    q, k, v = torch.randn(3, length, width, generator=generator).half()
    out = torch.zeros(length, width)
    launch(FLASH, (length // 64, 1), 128, [q.contiguous(), k.contiguous(), v.contiguous(), out, length, causal])
    scores = q.float() @ k.float().T / width**0.5
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    torch.testing.assert_close(out, scores.softmax(-1) @ v.float(), rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("size", [2, 4])
def test_cluster_reduction_through_distributed_shared_memory(size):
    source = """
extern "C" __global__ void k(const int* x, int* out) {
  __shared__ int mine;
  unsigned rank, size;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank)); asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  if (threadIdx.x == 0) mine = 0;
  __syncthreads();
  atomicAdd(&mine, x[blockIdx.x * 64 + threadIdx.x]);
  cluster_sync();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (unsigned r = 0; r < size; ++r) {
      unsigned a; int v;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(shared_address(&mine)), "r"(r));
      asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(a));
      sum += v;
    }
    out[blockIdx.x] = sum;
  }
  cluster_sync();
}"""
    x = torch.arange(8 * 64, dtype=torch.int32)
    out = torch.zeros(8, dtype=torch.int32)
    launch(source, 8, 64, [x, out], cluster=(size, 1, 1), arch="sm_90a")
    want = x.view(8 // size, -1).sum(1).repeat_interleave(size).int()
    assert torch.equal(out, want)


def test_cluster_size_of_the_kernel_is_the_default():
    source = """extern "C" __global__ void __cluster_dims__(2, 1, 1) k(int* out) {
      unsigned size; asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size)); out[blockIdx.x] = size; }"""
    out = torch.zeros(4, dtype=torch.int32)
    launch(source, 4, 1, [out], arch="sm_90a")
    assert out.tolist() == [2, 2, 2, 2]


def test_same_seed_same_report():
    function = cuda.function(GEMM_MMA, arch="sm_80")
    a, b, c = torch.randn(128, 64).half(), torch.randn(128, 64).half(), torch.zeros(128, 128)
    reports = [function.launch((1, 1), 128, [a, b, c, 128, 128, 64], shared_bytes=49152, seed=s) for s in (4, 4)]
    assert reports[0].counters == reports[1].counters
    assert np.isfinite(c.numpy()).all()
