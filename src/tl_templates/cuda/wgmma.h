// wgmma: matrix products of a warp group (sm_90a). Here are the fences and the shared-memory descriptors; the instruction itself,
// whose text names up to 128 accumulators, is written into each kernel for the shapes that it uses.
#pragma once
#include "common.h"

namespace tl {

// Orders earlier register and shared accesses of this warp group before the next wgmma.
TL_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TL_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `Pending` of the newest groups are in flight.
template <int Pending>
TL_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// Keeps the compiler from moving accesses of accumulators across this point.
template <int Count>
TL_DEVICE void wgmma_fence_operand(float* registers) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}
template <int Count>
TL_DEVICE void wgmma_fence_operand(uint32_t* registers) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}
template <int Count>
TL_DEVICE void wgmma_fence_operand(int* registers) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

// The matrix descriptor (PTX manual, "Matrix descriptor format"): addresses and strides in units of 16 bytes.
//
// SwizzleBytes 0, 32, 64 or 128 names the layout mode. K-major: `stride_bytes` is from one group of eight rows to the next, and
// `leading_bytes` matters only without swizzle (between the two 16-byte columns of one instruction). M/N-major with swizzle:
// `leading_bytes` is from one group of SwizzleBytes / 2 elements to the next, `stride_bytes` from eight values of K to the next.
template <int SwizzleBytes>
TL_DEVICE uint64_t wgmma_desc(const void* shared, uint32_t leading_bytes, uint32_t stride_bytes) {
  constexpr uint64_t mode = SwizzleBytes == 128 ? 1 : SwizzleBytes == 64 ? 2 : SwizzleBytes == 32 ? 3 : 0;
  return static_cast<uint64_t>((shared_address(shared) & 0x3ffffu) >> 4) |
         static_cast<uint64_t>((leading_bytes & 0x3ffffu) >> 4) << 16 |
         static_cast<uint64_t>((stride_bytes & 0x3ffffu) >> 4) << 32 | mode << 62;
}

// The descriptor of the tile that starts `bytes` (a multiple of 16) further.
TL_DEVICE uint64_t wgmma_desc_advance(uint64_t descriptor, uint32_t bytes) { return descriptor + (bytes >> 4); }

}  // namespace tl
