"""CUDA sources of larger kernels: pipelined GEMM (mma.sync), warp-specialised GEMM (wgmma), flash attention."""

_MMA_HELPERS = """
typedef unsigned short half_bits;
DEVICE void load_matrix4(u32* r, const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
    : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)));
}
DEVICE void load_matrix4_trans(u32* r, const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
    : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)));
}
DEVICE void multiply_add(float* d, const u32* a, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE u32 pack_half(float low, float high) {
  u32 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r;
}
"""

#: C[M, N] = A[M, K] B[N, K]^T in 128 x 128 x 32 tiles, three cp.async stages, XOR swizzle; 128 threads.
GEMM_MMA = (
    _MMA_HELPERS
    + """
DEVICE int swizzled(int row, int chunk) { return row * 32 + ((chunk ^ (row >> 1 & 3)) << 3); }
DEVICE void copy16(half_bits* to, const half_bits* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared_address(to)), "l"(from) : "memory");
}
extern "C" __global__ void __launch_bounds__(128) k(const half_bits* A, const half_bits* B, float* C, int M, int N, int K) {
  extern __shared__ __align__(128) half_bits memory[];
  const int stage_size = 256 * 32;
  int t = threadIdx.x, warp = t / 32, lane = t % 32, bm = blockIdx.y * 128, bn = blockIdx.x * 128;
  auto load = [&](int stage, int k0) {
    half_bits* a = memory + stage * stage_size; half_bits* b = a + 128 * 32;
    for (int i = t; i < 512; i += 128) copy16(a + swizzled(i / 4, i % 4), A + (size_t)(bm + i / 4) * K + k0 + i % 4 * 8);
    for (int i = t; i < 512; i += 128) copy16(b + swizzled(i / 4, i % 4), B + (size_t)(bn + i / 4) * K + k0 + i % 4 * 8);
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  float acc[4][8][4] = {};
  int wm = warp / 2 * 64, wn = warp % 2 * 64, steps = K / 32;
  load(0, 0);
  load(1, 32);
  for (int step = 0; step < steps; ++step) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    if (step + 2 < steps) load((step + 2) % 3, (step + 2) * 32); else asm volatile("cp.async.commit_group;" ::: "memory");
    half_bits* a = memory + step % 3 * stage_size; half_bits* b = a + 128 * 32;
#pragma unroll
    for (int kk = 0; kk < 2; ++kk) {
      u32 fa[4][4], fb[4][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) load_matrix4(fa[i], a + swizzled(wm + i * 16 + lane % 16, kk * 2 + lane / 16));
#pragma unroll
      for (int j = 0; j < 4; ++j)
        load_matrix4(fb[j], b + swizzled(wn + j * 16 + lane % 8 + lane / 16 * 8, kk * 2 + lane / 8 % 2));
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) multiply_add(acc[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
    }
  }
  for (int i = 0; i < 4; ++i) for (int j = 0; j < 8; ++j) {
    float* c = C + (size_t)(bm + wm + i * 16 + lane / 4) * N + bn + wn + j * 8 + lane % 4 * 2;
    c[0] = acc[i][j][0]; c[1] = acc[i][j][1]; c[8 * (size_t)N] = acc[i][j][2]; c[8 * (size_t)N + 1] = acc[i][j][3];
  }
}
"""
)

#: C[M, N] = A[M, K] B[N, K]^T in 64 x 64 x 64 tiles: one producer warp issues TMA loads (128-byte swizzle) into a ring
#: of two stages, one warpgroup consumes them with wgmma; 256 threads.
GEMM_WGMMA = """
DEVICE void tma_load(u32 to, const Map* map, u64* barrier, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
    :: "r"(to), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y) : "memory");
}
DEVICE u64 descriptor(u32 address) { return (u64)((address & 0x3ffff) >> 4) | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62; }
extern "C" __global__ void __launch_bounds__(256) k(
    const __grid_constant__ Map A, const __grid_constant__ Map B, float* C, int N, int K) {
  extern __shared__ u8 raw[];
  __shared__ u64 full[2], empty[2];
  u32 base = (shared_address(raw) + 1023) & ~1023u;
  int t = threadIdx.x, steps = K / 64;
  if (t == 0) {
    for (int s = 0; s < 2; ++s) { barrier_init(&full[s], 1); barrier_init(&empty[s], 128); }
    fence_barrier_init();
  }
  __syncthreads();
  if (t >= 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (t == 128) for (int i = 0; i < steps; ++i) {
      int s = i % 2;
      barrier_wait(&empty[s], (i / 2 + 1) & 1);
      barrier_expect(&full[s], 16384);
      tma_load(base + s * 16384, &A, &full[s], i * 64, blockIdx.y * 64);
      tma_load(base + s * 16384 + 8192, &B, &full[s], i * 64, blockIdx.x * 64);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float d[32];
    for (int i = 0; i < 32; ++i) d[i] = 0;
    for (int i = 0; i < steps; ++i) {
      int s = i % 2;
      barrier_wait(&full[s], i / 2 & 1);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int kk = 0; kk < 4; ++kk) {
        asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0;\\n"
          "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
          "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,"
          "%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0;}"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
            "+f"(d[9]),
            "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),
            "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
            "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
          : "l"(descriptor(base + s * 16384 + kk * 32)), "l"(descriptor(base + s * 16384 + 8192 + kk * 32)) : "memory");
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
      for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
      barrier_arrive(&empty[s]);
    }
    int lane = t % 32, row = blockIdx.y * 64 + t / 32 * 16 + lane / 4, column = blockIdx.x * 64 + lane % 4 * 2;
    for (int j = 0; j < 8; ++j) for (int i = 0; i < 4; ++i) {
      C[(size_t)(row + i / 2 * 8) * N + column + j * 8 + i % 2] = d[j * 4 + i];
    }
  }
}
"""

#: Attention of one head, width 32, with online softmax: 64 queries a block, 16 a warp, keys and values in tiles of 32.
FLASH = (
    _MMA_HELPERS
    + """
extern "C" __global__ void __launch_bounds__(128) k(
    const half_bits* Q, const half_bits* K, const half_bits* V, float* O, int length, int causal) {
  __shared__ __align__(16) half_bits q[64 * 40], kt[32 * 40], vt[32 * 40];
  int t = threadIdx.x, warp = t / 32, lane = t % 32, first = blockIdx.x * 64;
  for (int i = t; i < 64 * 4; i += 128) *(uint4*)&q[i / 4 * 40 + i % 4 * 8] = *(const uint4*)&Q[(first + i / 4) * 32 + i % 4 * 8];
  __syncthreads();
  u32 fq[2][4];
  for (int kk = 0; kk < 2; ++kk) load_matrix4(fq[kk], q + (warp * 16 + lane % 16) * 40 + kk * 16 + lane / 16 * 8);
  float o[4][4] = {}, top[2] = {-1e30f, -1e30f}, sum[2] = {0, 0};
  const float scale = 0.17677669529663687f * 1.4426950408889634f;
  for (int base = 0; base < length; base += 32) {
    __syncthreads();
    for (int i = t; i < 32 * 4; i += 128) {
      *(uint4*)&kt[i / 4 * 40 + i % 4 * 8] = *(const uint4*)&K[(base + i / 4) * 32 + i % 4 * 8];
      *(uint4*)&vt[i / 4 * 40 + i % 4 * 8] = *(const uint4*)&V[(base + i / 4) * 32 + i % 4 * 8];
    }
    __syncthreads();
    float s[4][4] = {};
    for (int j = 0; j < 4; ++j) {
      u32 f[4];
      load_matrix4(f, kt + (j * 8 + lane % 8) * 40 + lane / 8 * 8);
      multiply_add(s[j], fq[0], f[0], f[1]);
      multiply_add(s[j], fq[1], f[2], f[3]);
    }
    for (int h = 0; h < 2; ++h) {
      float m = top[h];
      for (int j = 0; j < 4; ++j) for (int e = 0; e < 2; ++e) {
        int row = first + warp * 16 + lane / 4 + h * 8, column = base + j * 8 + lane % 4 * 2 + e;
        float& x = s[j][h * 2 + e];
        x = causal && column > row ? -1e30f : x * scale;
        m = fmaxf(m, x);
      }
      m = fmaxf(m, __shfl_xor_sync(~0u, m, 1));
      m = fmaxf(m, __shfl_xor_sync(~0u, m, 2));
      float shrink = exp2f(top[h] - m);
      top[h] = m;
      sum[h] *= shrink;
      for (int j = 0; j < 4; ++j) for (int e = 0; e < 2; ++e) {
        s[j][h * 2 + e] = exp2f(s[j][h * 2 + e] - m);
        sum[h] += s[j][h * 2 + e];
        o[j][h * 2 + e] *= shrink;
      }
    }
    for (int kk = 0; kk < 2; ++kk) {
      u32 p[4] = {pack_half(s[kk * 2][0], s[kk * 2][1]), pack_half(s[kk * 2][2], s[kk * 2][3]),
                  pack_half(s[kk * 2 + 1][0], s[kk * 2 + 1][1]), pack_half(s[kk * 2 + 1][2], s[kk * 2 + 1][3])};
      for (int j = 0; j < 2; ++j) {
        u32 f[4];
        load_matrix4_trans(f, vt + (kk * 16 + lane % 16) * 40 + j * 16 + lane / 16 * 8);
        multiply_add(o[j * 2], p, f[0], f[1]);
        multiply_add(o[j * 2 + 1], p, f[2], f[3]);
      }
    }
  }
  for (int h = 0; h < 2; ++h) {
    sum[h] += __shfl_xor_sync(~0u, sum[h], 1);
    sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
    for (int j = 0; j < 4; ++j) for (int e = 0; e < 2; ++e) {
      O[(first + warp * 16 + lane / 4 + h * 8) * 32 + j * 8 + lane % 4 * 2 + e] = o[j][h * 2 + e] / sum[h];
    }
  }
}
"""
)
