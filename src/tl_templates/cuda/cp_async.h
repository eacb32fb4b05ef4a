// cp.async: copies of 4, 8 or 16 bytes from global to shared memory that complete later (sm_80).
//
// Data is visible to the thread that copied after cp_async_wait<N>(), to other threads after a barrier on top.
#pragma once
#include "common.h"

namespace tl {

TL_DEVICE void cp_async_16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared_address(shared)),
               "l"(__cvta_generic_to_global(global))
               : "memory");
}

#define TL_CP_ASYNC_CA(BYTES)                                                                             \
  TL_DEVICE void cp_async_##BYTES(void* shared, const void* global) {                                     \
    asm volatile("cp.async.ca.shared.global [%0], [%1], " #BYTES ";" ::"r"(shared_address(shared)),       \
                 "l"(__cvta_generic_to_global(global))                                                    \
                 : "memory");                                                                             \
  }
TL_CP_ASYNC_CA(8)
TL_CP_ASYNC_CA(4)
#undef TL_CP_ASYNC_CA

// Zeros instead of data where `valid` is false; the global address is not read then.
#define TL_CP_ASYNC_ZFILL(BYTES, CACHE)                                                                   \
  TL_DEVICE void cp_async_##BYTES##_zfill(void* shared, const void* global, bool valid) {                 \
    asm volatile("cp.async." CACHE ".shared.global [%0], [%1], " #BYTES ", %2;" ::"r"(                    \
                     shared_address(shared)),                                                             \
                 "l"(__cvta_generic_to_global(global)), "r"(valid ? BYTES : 0)                            \
                 : "memory");                                                                             \
  }
TL_CP_ASYNC_ZFILL(16, "cg")
TL_CP_ASYNC_ZFILL(8, "ca")
TL_CP_ASYNC_ZFILL(4, "ca")
#undef TL_CP_ASYNC_ZFILL

TL_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `Pending` of the newest groups of this thread are in flight.
template <int Pending>
TL_DEVICE void cp_async_wait() {
  if constexpr (Pending == 0) {
    asm volatile("cp.async.wait_all;" ::: "memory");
  } else {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
  }
}

// The thread arrives at a barrier when its copies so far are complete, and is one of the arrivals that the barrier expects. The
// instruction for it ("noinc") orders nothing but the copies; what the thread has stored itself (flags of what it loaded) is there
// too after an arrival of its own, so the copies raise the count that they lower again.
TL_DEVICE void cp_async_mbarrier_arrive_noinc(uint64_t* barrier) {
  asm volatile("{\n.reg .b64 state;\n"
               "cp.async.mbarrier.arrive.shared::cta.b64 [%0];\n"
               "mbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(shared_address(barrier))
               : "memory");
}

}  // namespace tl
