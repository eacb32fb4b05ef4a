// Named barriers of a block (PTX bar/barrier, 16 a block; 0 is __syncthreads) and the warp barrier.
#pragma once
#include "common.h"

namespace tl {

// All `threads` threads (a multiple of 32) that use barrier `id` meet.
TL_DEVICE void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Counts as an arrival without waiting.
TL_DEVICE void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

TL_DEVICE void sync_warp(uint32_t mask = 0xffffffffu) { __syncwarp(mask); }

// A barrier of all blocks of a cooperative launch. `state` is one zero-initialised word of global memory: block 0 adds
// what makes the sum of all arrivals 2^31, so the top bit flips once a round.
TL_DEVICE void grid_sync(uint32_t* state) {
  __syncthreads();
  if (thread_rank() == 0) {
    uint32_t blocks = gridDim.x * gridDim.y * gridDim.z;
    uint32_t step = block_rank() == 0 ? 0x80000000u - (blocks - 1) : 1u;
    __threadfence();
    uint32_t before = atomicAdd(state, step);
    uint32_t now;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(state) : "memory");
    } while (((before ^ now) & 0x80000000u) == 0);
  }
  __syncthreads();
}

}  // namespace tl
