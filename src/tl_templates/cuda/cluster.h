// Thread block clusters (sm_90): barrier, rank, addresses of another block's shared memory.
#pragma once
#include "common.h"

namespace tl {

TL_DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
TL_DEVICE void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
TL_DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
TL_DEVICE void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

// This block's number in its cluster.
TL_DEVICE uint32_t cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// This block's place in its cluster along each axis.
TL_DEVICE int cluster_block_x() {
  int place;
  asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(place));
  return place;
}
TL_DEVICE int cluster_block_y() {
  int place;
  asm("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(place));
  return place;
}
TL_DEVICE int cluster_block_z() {
  int place;
  asm("mov.u32 %0, %%cluster_ctaid.z;" : "=r"(place));
  return place;
}

}  // namespace tl
