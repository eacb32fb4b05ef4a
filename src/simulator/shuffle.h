// Which lane a lane of a shuffle reads from.
#ifndef TILELANG_SIMULATOR_SHUFFLE_H_
#define TILELANG_SIMULATOR_SHUFFLE_H_

#include <cstdint>

namespace tilelang {
namespace simulator {

enum class Shuffle : uint8_t { kUp, kDown, kButterfly, kIndex };

/// Lane a lane reads from, and whether that is in range (PTX ISA, shfl.sync, pseudo code).
inline int source_lane(Shuffle mode, int lane, uint32_t b, uint32_t c, bool* valid) {
  int offset = static_cast<int>(b & 31);
  int segment = static_cast<int>(c >> 8 & 31);
  int clamp = static_cast<int>(c & 31);
  int maximum = (lane & segment) | (clamp & ~segment);
  int minimum = lane & segment;
  int source = lane;
  switch (mode) {
    case Shuffle::kUp:
      source = lane - offset;
      *valid = source >= maximum;
      break;
    case Shuffle::kDown:
      source = lane + offset;
      *valid = source <= maximum;
      break;
    case Shuffle::kButterfly:
      source = lane ^ offset;
      *valid = source <= maximum;
      break;
    case Shuffle::kIndex:
      source = minimum | (offset & ~segment);
      *valid = source <= maximum;
      break;
  }
  return *valid ? source : lane;
}

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_SHUFFLE_H_
