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

// One warp scans `length` elements, `stride` apart, 32 at a time; `source` may be `target`. All 32 lanes must call.
template <typename Op, bool Reverse = false, typename T, typename S>
TL_DEVICE void warp_scan_line(const S* source, T* target, int length, int stride) {
  const int lane = lane_rank();
  const int chunks = (length + 31) / 32;
  T carry{};
  for (int step = 0; step < chunks; ++step) {
    const int chunk = Reverse ? chunks - 1 - step : step;
    const int index = chunk * 32 + lane;
    const bool inside = index < length;
    // Lanes past the end hold nothing that counts: a forward scan never reads them, a reverse one must not combine them.
    T value = inside ? static_cast<T>(source[index * stride]) : T{};
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const T other = Reverse ? shfl_down(value, distance) : shfl_up(value, distance);
      const bool valid = Reverse ? (lane + distance < 32 && index + distance < length) : lane >= distance;
      if (valid) value = Op::template apply<T>(value, other);
    }
    if (step > 0) value = Op::template apply<T>(carry, value);
    carry = shfl_idx(value, Reverse ? 0 : 31);
    if (inside) target[index * stride] = value;
    __syncwarp();
  }
}

}  // namespace tl
