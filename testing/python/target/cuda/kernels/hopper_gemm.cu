// C (M, N) = A (M, K) @ B (K, N), float16 with float accumulation: what the sm_90a lowering aims at, by hand.
//
// 128 x 128 x 64 tiles in a ring of STAGES; threads 0-127 multiply, one of 128-159 loads. A is K-major: rows of 128 bytes, one panel.
// B is N-major: two panels of 64 columns. Both under the 128-byte swizzle.
extern "C" __global__ void __launch_bounds__(256, 1) hopper_gemm(const __grid_constant__ CUtensorMap A_map,
                                                              const __grid_constant__ CUtensorMap B_map, half* C, int M,
                                                              int N, int K) {
  constexpr int kStages = 3, kTileBytes = 128 * 64 * 2;
  extern __shared__ __align__(1024) uchar pool[];
  uchar* A_tiles = pool;
  uchar* B_tiles = pool + kStages * kTileBytes;
  uint64_t* full = reinterpret_cast<uint64_t*>(pool + 2 * kStages * kTileBytes);
  uint64_t* empty = full + kStages;
  const int thread = threadIdx.x;
  const int group = __shfl_sync(0xffffffffu, thread / 128, 0);  // the same value in all lanes, and the compiler knows it
  const int row = blockIdx.y * 128, column = blockIdx.x * 128;
  const int steps = (K + 63) / 64;

  if (thread == 0) {
    tl::tma_prefetch(A_map);
    tl::tma_prefetch(B_map);
    for (int s = 0; s < kStages; ++s) {
      tl::mbarrier_init(&full[s], 1);
      tl::mbarrier_init(&empty[s], 128);
    }
    tl::mbarrier_fence_init();
  }
  __syncthreads();

  if (group == 1) {
    tl::set_max_nreg_dec<24>();
    if (thread / 32 == 4 && tl::elect_one()) {
#pragma unroll 1
      for (int step = 0; step < steps; ++step) {
        const int s = step % kStages;
        tl::mbarrier_wait(&empty[s], ((step / kStages) & 1) ^ 1);
        tl::mbarrier_arrive_expect_tx(&full[s], 2 * kTileBytes);
        tl::tma_load_2d(A_tiles + s * kTileBytes, A_map, &full[s], step * 64, row);
        tl::tma_load_2d(B_tiles + s * kTileBytes, B_map, &full[s], column, step * 64);
        tl::tma_load_2d(B_tiles + s * kTileBytes + kTileBytes / 2, B_map, &full[s], column + 64, step * 64);
      }
    }
  } else {
    tl::set_max_nreg_inc<240>();
    float c[128];
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      const int s = step % kStages;
      tl::mbarrier_wait(&full[s], (step / kStages) & 1);
      const uint64_t a = tl::wgmma_desc<128>(A_tiles + s * kTileBytes, 16, 1024);
      const uint64_t b = tl::wgmma_desc<128>(B_tiles + s * kTileBytes, kTileBytes / 2, 1024);
      tl::wgmma_fence();
#pragma unroll
      for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          tl::wgmma_m64n128k16_f32_f16_f16_ss_tb(c + m * 64, tl::wgmma_desc_advance(a, m * 64 * 128 + k * 32),
                                                 tl::wgmma_desc_advance(b, k * 16 * 128), step > 0 || k > 0);
        }
      }
      tl::wgmma_commit();
      if (step > 0) {
        tl::wgmma_wait<1>();
        tl::mbarrier_arrive(&empty[(step - 1) % kStages]);
      }
    }
    tl::wgmma_wait<0>();
    const int warp = thread / 32, lane = thread % 32;
#pragma unroll
    for (int i = 0; i < 128; i += 2) {
      const int m = i / 64, j = i % 64;
      const int r = row + m * 64 + warp * 16 + lane / 4 + (j / 2 % 2) * 8;
      const int n = column + j / 4 * 8 + lane % 4 * 2;
      if (r < M && n < N) {
        *reinterpret_cast<uint*>(C + static_cast<int64_t>(r) * N + n) = tl::cvt_f16x2_f32(c[i], c[i + 1]);
      }
    }
  }
}
