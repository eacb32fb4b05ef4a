// mbarrier objects in shared memory: arrival counts, transaction bytes, phases (sm_80; transactions sm_90).
//
// A barrier is one aligned 64-bit word. `parity` is the low bit of the phase's number, counted from zero.
#pragma once
#include "common.h"

namespace tl {

TL_DEVICE void mbarrier_init(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// A barrier in use has to be invalidated before it is initialised again.
TL_DEVICE void mbarrier_restart(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
  mbarrier_init(barrier, arrivals);
}

TL_DEVICE void mbarrier_arrive(uint64_t* barrier) {
  asm volatile(
      "{\n"
      "  .reg .b64 state;\n"
      "  mbarrier.arrive.shared::cta.b64 state, [%0];\n"
      "}\n" ::"r"(shared_address(barrier))
      : "memory");
}

// One arrival for a converged warp, after all of its lanes have come here.
TL_DEVICE void mbarrier_arrive_warp(uint64_t* barrier) {
  __syncwarp();
  if (elect_one()) mbarrier_arrive(barrier);
}

// Makes initialised barriers visible to the asynchronous proxy and to the cluster; before sm_90 there is neither, and the
// block's barrier that follows is enough.
TL_DEVICE void mbarrier_fence_init() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

#if __CUDA_ARCH__ >= 900
// Orders this thread's earlier generic accesses of shared memory before later ones of the asynchronous proxy.
TL_DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The same, of global memory, too.
TL_DEVICE void fence_proxy_async_tensors() { asm volatile("fence.proxy.async;" ::: "memory"); }

TL_DEVICE void mbarrier_expect_tx(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

TL_DEVICE void mbarrier_arrive_expect_tx(uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "{\n"
      "  .reg .b64 state;\n"
      "  mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

// Arrives at the same barrier of block `rank` of the cluster.
TL_DEVICE void mbarrier_arrive_remote(uint64_t* barrier, uint32_t rank) {
  asm volatile(
      "{\n"
      "  .reg .b32 remote;\n"
      "  mapa.shared::cluster.u32 remote, %0, %1;\n"
      "  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
}

#endif

TL_DEVICE bool mbarrier_test(uint64_t* barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n"
      "  .reg .pred p;\n"
#if __CUDA_ARCH__ >= 900
      "  mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
#else
      "  mbarrier.test_wait.parity.shared.b64 p, [%1], %2;\n"
#endif
      "  selp.b32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

// Waits until the phase of that parity is complete.
TL_DEVICE void mbarrier_wait(uint64_t* barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      "  .reg .pred p;\n"
      "TL_WAIT:\n"
      "  mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "  @p bra TL_DONE;\n"
      "  bra TL_WAIT;\n"
      "TL_DONE:\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
#else
  while (!mbarrier_test(barrier, parity)) {
  }
#endif
}

}  // namespace tl
