// Four-bit elements, two in a byte, the even one in the low bits.
#pragma once
#include "common.h"

namespace tl {

TL_DEVICE int nibble_u(const void* base, int64_t index) {
  return (static_cast<const uint8_t*>(base)[index >> 1] >> ((index & 1) * 4)) & 15;
}
TL_DEVICE int nibble_s(const void* base, int64_t index) { return (nibble_u(base, index) ^ 8) - 8; }

// Not atomic: the two elements of a byte belong to one thread.
TL_DEVICE void set_nibble(void* base, int64_t index, int value) {
  uint8_t* byte = static_cast<uint8_t*>(base) + (index >> 1);
  const int shift = static_cast<int>(index & 1) * 4;
  *byte = static_cast<uint8_t>((*byte & ~(15 << shift)) | ((value & 15) << shift));
}

}  // namespace tl
