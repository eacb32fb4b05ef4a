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
template <>
__device__ __forceinline__ nv_bfloat16 max_nan<nv_bfloat16>(nv_bfloat16 a, nv_bfloat16 b) {
  return __hmax_nan(a, b);
}
template <>
__device__ __forceinline__ nv_bfloat16 min_nan<nv_bfloat16>(nv_bfloat16 a, nv_bfloat16 b) {
  return __hmin_nan(a, b);
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

// a * b + c, rounded once. Before sm_80 there is no such instruction, and float32's would round the sum twice: there the sum is
// rounded to odd first. Of its two neighbours in float32 that is the one whose last bit is set, if they differ at all; float32
// has enough bits more than bfloat16 that rounding it to nearest is then right.
TL_DEVICE nv_bfloat16 fma_bf16(nv_bfloat16 a, nv_bfloat16 b, nv_bfloat16 c) {
#if __CUDA_ARCH__ >= 800
  return __hfma(a, b, c);
#else
  const float x = __bfloat162float(a), y = __bfloat162float(b), z = __bfloat162float(c);
  const float below = __fmaf_rd(x, y, z), above = __fmaf_ru(x, y, z);
  return __float2bfloat16_rn((__float_as_uint(below) & 1u) != 0 ? below : above);
#endif
}

}  // namespace tl

TL_DEVICE uint __pack_nv_bfloat162(const nv_bfloat16 low, const nv_bfloat16 high) {
  return tl::pack_bfloat162(low, high);
}
