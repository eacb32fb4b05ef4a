// Inclusive scans across the lanes of a warp, and along a row in shared memory.
#pragma once
#include "reduce.h"

namespace tl {

// Inclusive scan over groups of `Width` lanes; with Reverse from the last lane down.
template <typename Op, int Width = 32, bool Reverse = false, typename T>
TL_DEVICE T warp_scan(T value) {
  const int lane = lane_rank() & (Width - 1);
#pragma unroll
  for (int distance = 1; distance < Width; distance *= 2) {
    const T other = Reverse ? shfl_down(value, distance, Width) : shfl_up(value, distance, Width);
    const bool inside = Reverse ? lane + distance < Width : lane >= distance;
    if (inside) value = Op::template apply<T>(value, other);
  }
  return value;
}

// Inclusive scan over the first `count` lanes of a warp (from the last of them down with Reverse); what other lanes hold does not
// count, and what they get means nothing.
template <typename Op, bool Reverse = false, typename T>
TL_DEVICE T warp_scan_part(T value, int count) {
  const int lane = lane_rank();
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const T other = Reverse ? shfl_down(value, distance) : shfl_up(value, distance);
    const bool valid = Reverse ? lane + distance < count && lane + distance < 32 : lane >= distance;
    if (valid) value = Op::template apply<T>(value, other);
  }
  return value;
}

}  // namespace tl
