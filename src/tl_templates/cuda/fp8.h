// float8: names that the code generator prints.
#pragma once
#include <cuda_fp8.h>

#include "bf16.h"
#include "half.h"

using fp8_e4_t = __nv_fp8_e4m3;
using fp8_e4x2_t = __nv_fp8x2_e4m3;
using fp8_e4x4_t = __nv_fp8x4_e4m3;
using fp8_e5_t = __nv_fp8_e5m2;
using fp8_e5x2_t = __nv_fp8x2_e5m2;
using fp8_e5x4_t = __nv_fp8x4_e5m2;
struct __align__(8) fp8_e4x8_t {
  fp8_e4_t data[8];
};
struct __align__(16) fp8_e4x16_t {
  fp8_e4_t data[16];
};
struct __align__(8) fp8_e5x8_t {
  fp8_e5_t data[8];
};
struct __align__(16) fp8_e5x16_t {
  fp8_e5_t data[16];
};

#define TL_MAKE_FP8(FORMAT)                                                                                       \
  TL_DEVICE __nv_fp8x2_##FORMAT make___nv_fp8x2_##FORMAT(__nv_fp8_##FORMAT x, __nv_fp8_##FORMAT y) {              \
    __nv_fp8x2_##FORMAT result;                                                                                   \
    result.__x = static_cast<__nv_fp8x2_storage_t>(x.__x | (y.__x << 8));                                         \
    return result;                                                                                                \
  }                                                                                                               \
  TL_DEVICE __nv_fp8x4_##FORMAT make___nv_fp8x4_##FORMAT(__nv_fp8_##FORMAT x, __nv_fp8_##FORMAT y,                \
                                                         __nv_fp8_##FORMAT z, __nv_fp8_##FORMAT w) {              \
    __nv_fp8x4_##FORMAT result;                                                                                   \
    result.__x = static_cast<__nv_fp8x4_storage_t>(x.__x) | (static_cast<__nv_fp8x4_storage_t>(y.__x) << 8) |     \
                 (static_cast<__nv_fp8x4_storage_t>(z.__x) << 16) |                                               \
                 (static_cast<__nv_fp8x4_storage_t>(w.__x) << 24);                                                \
    return result;                                                                                                \
  }
TL_MAKE_FP8(e4m3)
TL_MAKE_FP8(e5m2)
#undef TL_MAKE_FP8

namespace tl {
// A float8_e5m2 by its bits: infinity and NaN, which conversions do not give.
TL_DEVICE __nv_fp8_e5m2 e5m2_of_bits(unsigned char bits) {
  __nv_fp8_e5m2 result;
  result.__x = bits;
  return result;
}
// float8 as half, which holds all of its values. Devices before sm_89 have no instruction for it, and what CUDA's header does
// instead is a loop for subnormals: too long where many conversions are unrolled.
TL_DEVICE half to_half(__nv_fp8_e4m3 x) {
#if __CUDA_ARCH__ >= 890
  return static_cast<half>(x);
#else
  // Exponent and mantissa at half's places give 2^-8 of the value, whether it is subnormal or not; seven ones are NaN.
  const unsigned magnitude = x.__x & 0x7f, sign = x.__x & 0x80;
  const half scaled = __hmul(__ushort_as_half(static_cast<unsigned short>(sign << 8 | magnitude << 7)), __ushort_as_half(0x5c00));
  return magnitude == 0x7f ? __ushort_as_half(0x7fff) : scaled;
#endif
}
// Its bits are the upper half of a half's.
TL_DEVICE half to_half(__nv_fp8_e5m2 x) { return __ushort_as_half(static_cast<unsigned short>(x.__x << 8)); }
} // namespace tl
