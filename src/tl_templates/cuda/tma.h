// The tensor memory accelerator (sm_90): boxes of tensors of one to five dimensions between global and shared memory, and
// bulk copies of contiguous bytes. One thread issues an operation for the whole block.
//
// `c0` is the coordinate of the innermost dimension. Loads complete on an mbarrier (its expected bytes are the box's, also where
// the box leaves the tensor: those elements are zero). Stores complete in bulk groups of the issuing thread.
#pragma once
#include "common.h"

namespace tl {

#define TL_TMA_COORDINATES_1 int c0
#define TL_TMA_COORDINATES_2 int c0, int c1
#define TL_TMA_COORDINATES_3 int c0, int c1, int c2
#define TL_TMA_COORDINATES_4 int c0, int c1, int c2, int c3
#define TL_TMA_COORDINATES_5 int c0, int c1, int c2, int c3, int c4
#define TL_TMA_INPUTS_1 "r"(c0)
#define TL_TMA_INPUTS_2 "r"(c0), "r"(c1)
#define TL_TMA_INPUTS_3 "r"(c0), "r"(c1), "r"(c2)
#define TL_TMA_INPUTS_4 "r"(c0), "r"(c1), "r"(c2), "r"(c3)
#define TL_TMA_INPUTS_5 "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)

// N: dimensions. LOAD: their operands from %3 on; MULTICAST: from %4 on; STORE: from %2 on.
#define TL_TMA(N, LOAD, MULTICAST, STORE)                                                                              \
  TL_DEVICE void tma_load_##N##d(void* shared, const CUtensorMap& map, uint64_t* barrier, TL_TMA_COORDINATES_##N) {    \
    asm volatile("cp.async.bulk.tensor." #N "d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {" LOAD   \
                 "}], [%2];" ::"r"(shared_address(shared)),                                                            \
                 "l"(&map), "r"(shared_address(barrier)), TL_TMA_INPUTS_##N                                            \
                 : "memory");                                                                                          \
  }                                                                                                                    \
  TL_DEVICE void tma_load_##N##d_hint(void* shared, const CUtensorMap& map, uint64_t* barrier, uint64_t cache_policy,   \
                                      TL_TMA_COORDINATES_##N) {                                                        \
    asm volatile("cp.async.bulk.tensor." #N                                                                            \
                 "d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {" MULTICAST          \
                 "}], [%2], %3;" ::"r"(shared_address(shared)),                                                        \
                 "l"(&map), "r"(shared_address(barrier)), "l"(cache_policy), TL_TMA_INPUTS_##N                         \
                 : "memory");                                                                                          \
  }                                                                                                                    \
  TL_DEVICE void tma_load_##N##d_multicast(void* shared, const CUtensorMap& map, uint64_t* barrier, uint16_t blocks,    \
                                           TL_TMA_COORDINATES_##N) {                                                   \
    asm volatile("cp.async.bulk.tensor." #N                                                                            \
                 "d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {" MULTICAST      \
                 "}], [%2], %3;" ::"r"(shared_address(shared)),                                                        \
                 "l"(&map), "r"(shared_address(barrier)), "h"(blocks), TL_TMA_INPUTS_##N                               \
                 : "memory");                                                                                          \
  }                                                                                                                    \
  TL_DEVICE void tma_store_##N##d(const CUtensorMap& map, const void* shared, TL_TMA_COORDINATES_##N) {                \
    asm volatile("cp.async.bulk.tensor." #N "d.global.shared::cta.bulk_group [%0, {" STORE "}], [%1];" ::"l"(&map),     \
                 "r"(shared_address(shared)), TL_TMA_INPUTS_##N                                                        \
                 : "memory");                                                                                          \
  }                                                                                                                    \
  TL_TMA_REDUCE(N, add, STORE)                                                                                         \
  TL_TMA_REDUCE(N, min, STORE)                                                                                         \
  TL_TMA_REDUCE(N, max, STORE)                                                                                         \
  TL_TMA_REDUCE(N, and, STORE)                                                                                         \
  TL_TMA_REDUCE(N, or, STORE)                                                                                          \
  TL_TMA_REDUCE(N, xor, STORE)

#define TL_TMA_REDUCE(N, OP, STORE)                                                                                    \
  TL_DEVICE void tma_reduce_##OP##_##N##d(const CUtensorMap& map, const void* shared, TL_TMA_COORDINATES_##N) {         \
    asm volatile("cp.reduce.async.bulk.tensor." #N "d.global.shared::cta." #OP ".bulk_group [%0, {" STORE               \
                 "}], [%1];" ::"l"(&map),                                                                              \
                 "r"(shared_address(shared)), TL_TMA_INPUTS_##N                                                        \
                 : "memory");                                                                                          \
  }

TL_TMA(1, "%3", "%4", "%2")
TL_TMA(2, "%3, %4", "%4, %5", "%2, %3")
TL_TMA(3, "%3, %4, %5", "%4, %5, %6", "%2, %3, %4")
TL_TMA(4, "%3, %4, %5, %6", "%4, %5, %6, %7", "%2, %3, %4, %5")
TL_TMA(5, "%3, %4, %5, %6, %7", "%4, %5, %6, %7, %8", "%2, %3, %4, %5, %6")

#undef TL_TMA
#undef TL_TMA_REDUCE

#undef TL_TMA_COORDINATES_1
#undef TL_TMA_INPUTS_1
#undef TL_TMA_COORDINATES_2
#undef TL_TMA_INPUTS_2
#undef TL_TMA_COORDINATES_3
#undef TL_TMA_INPUTS_3
#undef TL_TMA_COORDINATES_4
#undef TL_TMA_INPUTS_4
#undef TL_TMA_COORDINATES_5
#undef TL_TMA_INPUTS_5

// Consecutive bytes: both addresses and their number are multiples of 16.
TL_DEVICE void tma_load_bytes(void* shared, const void* global, uint32_t bytes, uint64_t* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(shared)),
               "l"(global), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}
TL_DEVICE void tma_store_bytes(void* global, const void* shared, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared_address(shared)),
               "r"(bytes)
               : "memory");
}

// Closes the bulk group of the operations that this thread issued.
TL_DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all but the newest `Pending` groups have read their shared memory, which may then be written again.
template <int Pending = 0>
TL_DEVICE void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

// Waits until all but the newest `Pending` groups are complete and their writes visible to this thread.
template <int Pending = 0>
TL_DEVICE void tma_store_wait_complete() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");
}

TL_DEVICE void tma_prefetch(const CUtensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

// Cache policies of the L2 for the `_hint` forms.
#define TL_CACHE_POLICY(NAME)                                                                            \
  TL_DEVICE uint64_t cache_policy_##NAME() {                                                             \
    uint64_t policy;                                                                                     \
    asm("createpolicy.fractional.L2::" #NAME ".b64 %0, 1.0;" : "=l"(policy));                            \
    return policy;                                                                                       \
  }
TL_CACHE_POLICY(evict_first)
TL_CACHE_POLICY(evict_last)
TL_CACHE_POLICY(evict_normal)
#undef TL_CACHE_POLICY

}  // namespace tl
