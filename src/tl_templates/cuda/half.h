// float16: names that the code generator prints, and the operations that cuda_fp16.h leaves out.
#pragma once
#include <cuda_fp16.h>

#include "common.h"

struct __align__(8) half4 {
  half x, y, z, w;
};
TL_DEVICE half4 make_half4(half x, half y, half z, half w) { return half4{x, y, z, w}; }

namespace tl {

template <>
__device__ __forceinline__ half max_number<half>(half a, half b) {
  return __hmax(a, b);
}
template <>
__device__ __forceinline__ half min_number<half>(half a, half b) {
  return __hmin(a, b);
}
template <>
__device__ __forceinline__ half max_nan<half>(half a, half b) {
  return __hmax_nan(a, b);
}
template <>
__device__ __forceinline__ half min_nan<half>(half a, half b) {
  return __hmin_nan(a, b);
}

TL_DEVICE uint pack_half2(half low, half high) {
  return static_cast<uint>(__half_as_ushort(low)) | (static_cast<uint>(__half_as_ushort(high)) << 16);
}

// Two floats to one register of two halves, `low` in the low bits (one cvt.rn.f16x2).
TL_DEVICE uint cvt_f16x2_f32(float low, float high) {
  uint result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

}  // namespace tl

TL_DEVICE uint __pack_half2(const half low, const half high) { return tl::pack_half2(low, high); }
