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

// Stores to where `place` is in another block's shared memory.
template <typename T>
TL_DEVICE void store_cluster(T* place, T value, uint32_t rank) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(place)), "r"(rank));
  if constexpr (sizeof(T) == 8) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    asm volatile("st.shared::cluster.b64 [%0], %1;" ::"r"(there), "l"(bits) : "memory");
  } else if constexpr (sizeof(T) == 4) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(there), "r"(bits) : "memory");
  } else if constexpr (sizeof(T) == 2) {
    uint16_t bits;
    memcpy(&bits, &value, 2);
    asm volatile("st.shared::cluster.b16 [%0], %1;" ::"r"(there), "h"(bits) : "memory");
  } else {
    uint8_t bits;
    memcpy(&bits, &value, 1);
    asm volatile("st.shared::cluster.b8 [%0], %1;" ::"r"(there), "r"(static_cast<uint32_t>(bits)) : "memory");
  }
}

}  // namespace tl
