// float8 formats that no instruction converts: a byte, from and to float32 as torch converts them.
#pragma once
#include "common.h"

// A power of two without sign; 255 is NaN. Ties of magnitudes go up, except below the smallest power.
struct fp8_e8m0_t {
  uint8_t bits;

  fp8_e8m0_t() = default;
  TL_DEVICE explicit fp8_e8m0_t(float x) {
    uint magnitude = __float_as_uint(x) & 0x7fffffffu;
    uint exponent = magnitude >> 23, rest = magnitude & 0x7fffffu;
    uint up = rest > 0x400000u || (rest == 0x400000u && exponent > 0);
    bits = static_cast<uint8_t>(exponent == 255 ? 255 : exponent + up);
  }
  TL_DEVICE explicit operator float() const {
    return __uint_as_float(bits == 255 ? 0x7fc00000u : bits == 0 ? 0x400000u : static_cast<uint>(bits) << 23);
  }
};

namespace tl {

// One zero, no infinity, and one NaN (0x80), which is also what an overflow gives.
template <int Mantissa, int Bias>
TL_DEVICE uint8_t to_fnuz(float x, float largest) {
  constexpr int shift = 23 - Mantissa;
  uint source = __float_as_uint(x), m = source & 0x7fffffffu, magnitude;
  if (m >= __float_as_uint(largest) + (1u << (shift - 1))) return 0x80;
  if (m < static_cast<uint>(128 - Bias) << 23) {  // adding a float that aligns the last bit rounds a subnormal
    const uint align = static_cast<uint>(127 + 1 - Bias - Mantissa + 23) << 23;
    magnitude = __float_as_uint(__uint_as_float(m) + __uint_as_float(align)) - align;
  } else {
    magnitude = (m + ((1u << (shift - 1)) - 1) + ((m >> shift) & 1) - (static_cast<uint>(127 - Bias) << 23)) >> shift;
  }
  return static_cast<uint8_t>(magnitude == 0 ? 0 : magnitude | (source >> 31 << 7));
}

template <int Mantissa, int Bias>
TL_DEVICE float from_fnuz(uint8_t bits) {
  if (bits == 0x80) return __uint_as_float(0x7fc00000u);
  uint m = bits & 0x7f, sign = static_cast<uint>(bits >> 7) << 31;
  if (m >> Mantissa) return __uint_as_float(((m << (23 - Mantissa)) + (static_cast<uint>(127 - Bias) << 23)) | sign);
  float small = static_cast<float>(m) * __uint_as_float(static_cast<uint>(127 + 1 - Bias - Mantissa) << 23);
  return sign ? -small : small;
}

}  // namespace tl

struct fp8_e4m3fnuz_t {
  uint8_t bits;

  fp8_e4m3fnuz_t() = default;
  TL_DEVICE explicit fp8_e4m3fnuz_t(float x) : bits(tl::to_fnuz<3, 8>(x, 240.0f)) {}
  TL_DEVICE explicit operator float() const { return tl::from_fnuz<3, 8>(bits); }
};

struct fp8_e5m2fnuz_t {
  uint8_t bits;

  fp8_e5m2fnuz_t() = default;
  TL_DEVICE explicit fp8_e5m2fnuz_t(float x) : bits(tl::to_fnuz<2, 16>(x, 57344.0f)) {}
  TL_DEVICE explicit operator float() const { return tl::from_fnuz<2, 16>(bits); }
};
