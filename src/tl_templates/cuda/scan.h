// Inclusive scans across the lanes of a warp.
#pragma once
#include "reduce.h"

namespace tl {

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
