// Scalar mathematics: fast approximations (`fast_*`), correctly rounded operations (`ieee_*`), and dot products.
#pragma once
#include "common.h"

namespace tl {

// Approximate, as the hardware's special function unit gives them (CUDA programming guide, "Intrinsic functions").
TL_DEVICE float fast_exp(float x) { return __expf(x); }
TL_DEVICE float fast_exp10(float x) { return __exp10f(x); }
TL_DEVICE float fast_log(float x) { return __logf(x); }
TL_DEVICE float fast_log2(float x) { return __log2f(x); }
TL_DEVICE float fast_log10(float x) { return __log10f(x); }
TL_DEVICE float fast_sin(float x) { return __sinf(x); }
TL_DEVICE float fast_cos(float x) { return __cosf(x); }
TL_DEVICE float fast_tan(float x) { return __tanf(x); }
TL_DEVICE float fast_pow(float x, float y) { return __powf(x, y); }
TL_DEVICE float fast_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
TL_DEVICE float fast_tanh(float x) {
  float result;
  asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
TL_DEVICE float fast_rcp(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
TL_DEVICE float fast_rsqrt(float x) {
  float result;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// Correctly rounded, never contracted or reassociated, whatever the compiler's options say. `Mode` is the rounding:
// 0 nearest even, 1 towards zero, 2 up, 3 down.
#define TL_IEEE_2(NAME, F32, F64)                                             \
  template <int Mode = 0>                                                     \
  TL_DEVICE float ieee_##NAME(float a, float b) {                             \
    if constexpr (Mode == 0) return F32##_rn(a, b);                           \
    if constexpr (Mode == 1) return F32##_rz(a, b);                           \
    if constexpr (Mode == 2) return F32##_ru(a, b);                           \
    return F32##_rd(a, b);                                                    \
  }                                                                           \
  template <int Mode = 0>                                                     \
  TL_DEVICE double ieee_##NAME(double a, double b) {                          \
    if constexpr (Mode == 0) return F64##_rn(a, b);                           \
    if constexpr (Mode == 1) return F64##_rz(a, b);                           \
    if constexpr (Mode == 2) return F64##_ru(a, b);                           \
    return F64##_rd(a, b);                                                    \
  }
TL_IEEE_2(add, __fadd, __dadd)
TL_IEEE_2(sub, __fsub, __dsub)
TL_IEEE_2(mul, __fmul, __dmul)
TL_IEEE_2(div, __fdiv, __ddiv)
#undef TL_IEEE_2

#define TL_IEEE_1(NAME, F32, F64)                                             \
  template <int Mode = 0>                                                     \
  TL_DEVICE float ieee_##NAME(float a) {                                      \
    if constexpr (Mode == 0) return F32##_rn(a);                              \
    if constexpr (Mode == 1) return F32##_rz(a);                              \
    if constexpr (Mode == 2) return F32##_ru(a);                              \
    return F32##_rd(a);                                                       \
  }                                                                           \
  template <int Mode = 0>                                                     \
  TL_DEVICE double ieee_##NAME(double a) {                                    \
    if constexpr (Mode == 0) return F64##_rn(a);                              \
    if constexpr (Mode == 1) return F64##_rz(a);                              \
    if constexpr (Mode == 2) return F64##_ru(a);                              \
    return F64##_rd(a);                                                       \
  }
TL_IEEE_1(rcp, __frcp, __drcp)
TL_IEEE_1(sqrt, __fsqrt, __dsqrt)
#undef TL_IEEE_1

template <int Mode = 0>
TL_DEVICE float ieee_fma(float a, float b, float c) {
  if constexpr (Mode == 0) return __fmaf_rn(a, b, c);
  if constexpr (Mode == 1) return __fmaf_rz(a, b, c);
  if constexpr (Mode == 2) return __fmaf_ru(a, b, c);
  return __fmaf_rd(a, b, c);
}
template <int Mode = 0>
TL_DEVICE double ieee_fma(double a, double b, double c) {
  if constexpr (Mode == 0) return __fma_rn(a, b, c);
  if constexpr (Mode == 1) return __fma_rz(a, b, c);
  if constexpr (Mode == 2) return __fma_ru(a, b, c);
  return __fma_rd(a, b, c);
}
// Round to nearest only: the hardware has no other correctly rounded form.
TL_DEVICE float ieee_rsqrt(float a) { return __frsqrt_rn(a); }

// c + the dot product of four signed or unsigned bytes.
TL_DEVICE int dp4a(int a, int b, int c) { return __dp4a(a, b, c); }
TL_DEVICE uint dp4a(uint a, uint b, uint c) { return __dp4a(a, b, c); }

}  // namespace tl
