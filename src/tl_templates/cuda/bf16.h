// bfloat16: names that the code generator prints, and the operations that cuda_bf16.h leaves out.
#pragma once
#include <cuda_bf16.h>

#include "common.h"

struct __align__(8) nv_bfloat164 {
  nv_bfloat16 x, y, z, w;
};
TL_DEVICE nv_bfloat164 make_nv_bfloat164(nv_bfloat16 x, nv_bfloat16 y, nv_bfloat16 z, nv_bfloat16 w) {
  return nv_bfloat164{x, y, z, w};
}

namespace tl {

template <>
__device__ __forceinline__ nv_bfloat16 max_number<nv_bfloat16>(nv_bfloat16 a, nv_bfloat16 b) {
  return __hmax(a, b);
}
template <>
__device__ __forceinline__ nv_bfloat16 min_number<nv_bfloat16>(nv_bfloat16 a, nv_bfloat16 b) {
  return __hmin(a, b);
}

TL_DEVICE uint pack_bfloat162(nv_bfloat16 low, nv_bfloat16 high) {
  return static_cast<uint>(__bfloat16_as_ushort(low)) | (static_cast<uint>(__bfloat16_as_ushort(high)) << 16);
}

// Two floats to one register of two bfloat16, `low` in the low bits (one cvt.rn.bf16x2).
TL_DEVICE uint cvt_bf16x2_f32(float low, float high) {
  uint result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

}  // namespace tl

TL_DEVICE uint __pack_nv_bfloat162(const nv_bfloat16 low, const nv_bfloat16 high) {
  return tl::pack_bfloat162(low, high);
}
