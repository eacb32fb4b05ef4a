// Four-bit elements, two in a byte, the even one in the low bits.
#pragma once
#include "common.h"

namespace tl {

TL_DEVICE int nibble_u(const void* base, int64_t index) {
  return (static_cast<const uint8_t*>(base)[index >> 1] >> ((index & 1) * 4)) & 15;
}
TL_DEVICE int nibble_s(const void* base, int64_t index) { return (nibble_u(base, index) ^ 8) - 8; }

// The same while other threads may store to the other element of the byte.
TL_DEVICE int nibble_atomic_u(const void* base, int64_t index) {
  return (static_cast<const volatile uint8_t*>(base)[index >> 1] >> ((index & 1) * 4)) & 15;
}
TL_DEVICE int nibble_atomic_s(const void* base, int64_t index) { return (nibble_atomic_u(base, index) ^ 8) - 8; }

// An integer as a four-bit element holds it.
TL_DEVICE int wrap_nibble_u(int value) { return value & 15; }
TL_DEVICE int wrap_nibble_s(int value) { return ((value & 15) ^ 8) - 8; }

// float4_e2m1fn, of a code (sign, two bits of exponent, one of mantissa) and to one: the nearest, of two the even one; what is
// larger than 6, and NaN, is 6.
TL_DEVICE float e2m1_to_float(int code) {
  // The exponent's bias is 1 instead of 15: as the upper bits of a float16, subnormal or not, it is 2^-14 times the number.
  float scaled;
  asm("cvt.f32.f16 %0, %1;" : "=f"(scaled) : "h"(static_cast<uint16_t>((code & 7) << 9 | (code & 8) << 12)));
  return scaled * 16384.0f;
}
template <typename T>
TL_DEVICE int to_e2m1(T value) {
  const T size = value < 0 ? -value : value;
  const int code = !(size <= T(0.25)) + !(size < T(0.75)) + !(size <= T(1.25)) + !(size < T(1.75)) + !(size <= T(2.5)) +
                   !(size < T(3.5)) + !(size <= T(5));
  return signbit(value) ? code | 8 : code;
}

// Not atomic: the two elements of a byte belong to one thread.
TL_DEVICE void set_nibble(void* base, int64_t index, int value) {
  uint8_t* byte = static_cast<uint8_t*>(base) + (index >> 1);
  const int shift = static_cast<int>(index & 1) * 4;
  *byte = static_cast<uint8_t>((*byte & ~(15 << shift)) | ((value & 15) << shift));
}

// The same where neighbours may belong to other threads; `base` lies at a multiple of four bytes.
TL_DEVICE void set_nibble_atomic(void* base, int64_t index, int value) {
  uint32_t* word = static_cast<uint32_t*>(base) + (index >> 3);
  const int shift = static_cast<int>(index & 7) * 4;
  atomicAnd(word, ~(15u << shift));
  atomicOr(word, static_cast<uint32_t>(value & 15) << shift);
}

}  // namespace tl
