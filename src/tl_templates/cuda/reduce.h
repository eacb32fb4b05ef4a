// Reductions across the lanes of a warp. Include half.h / bf16.h before for those types.
#pragma once
#include "common.h"

namespace tl {

struct Sum {
  template <typename T>
  static __device__ __forceinline__ T apply(T a, T b) {
    return a + b;
  }
};
// NaN loses against a number.
struct Max {
  template <typename T>
  static __device__ __forceinline__ T apply(T a, T b) {
    return max_number<T>(a, b);
  }
};
struct Min {
  template <typename T>
  static __device__ __forceinline__ T apply(T a, T b) {
    return min_number<T>(a, b);
  }
};
// NaN wins.
struct MaxNan {
  template <typename T>
  static __device__ __forceinline__ T apply(T a, T b) {
    return max_nan<T>(a, b);
  }
};
struct MinNan {
  template <typename T>
  static __device__ __forceinline__ T apply(T a, T b) {
    return min_nan<T>(a, b);
  }
};
struct BitAnd {
  template <typename T>
  static __device__ __forceinline__ T apply(T a, T b) {
    return a & b;
  }
};
struct BitOr {
  template <typename T>
  static __device__ __forceinline__ T apply(T a, T b) {
    return a | b;
  }
};
struct BitXor {
  template <typename T>
  static __device__ __forceinline__ T apply(T a, T b) {
    return a ^ b;
  }
};

// The word of 32 or 64 bits that carries a value of 1, 2, 4 or 8 bytes through a shuffle, and the value in a word.
template <typename T>
TL_DEVICE auto to_word(T value) {
  if constexpr (sizeof(T) == 8) {
    return bit_cast<unsigned long long>(value);
  } else if constexpr (sizeof(T) == 4) {
    return bit_cast<uint32_t>(value);
  } else if constexpr (sizeof(T) == 2) {
    return static_cast<uint32_t>(bit_cast<uint16_t>(value));
  } else {
    return static_cast<uint32_t>(bit_cast<uint8_t>(value));
  }
}
template <typename T, typename Word>
TL_DEVICE T from_word(Word word) {
  if constexpr (sizeof(T) >= 4) {
    return bit_cast<T>(word);
  } else if constexpr (sizeof(T) == 2) {
    return bit_cast<T>(static_cast<uint16_t>(word));
  } else {
    return bit_cast<T>(static_cast<uint8_t>(word));
  }
}

// Shuffles of any of these types.
template <typename T>
TL_DEVICE T shfl_xor(T value, int lane_mask, int width = 32, uint32_t mask = 0xffffffffu) {
  return from_word<T>(__shfl_xor_sync(mask, to_word(value), lane_mask, width));
}
template <typename T>
TL_DEVICE T shfl_up(T value, int delta, int width = 32, uint32_t mask = 0xffffffffu) {
  return from_word<T>(__shfl_up_sync(mask, to_word(value), delta, width));
}
template <typename T>
TL_DEVICE T shfl_down(T value, int delta, int width = 32, uint32_t mask = 0xffffffffu) {
  return from_word<T>(__shfl_down_sync(mask, to_word(value), delta, width));
}
template <typename T>
TL_DEVICE T shfl_idx(T value, int lane, int width = 32, uint32_t mask = 0xffffffffu) {
  return from_word<T>(__shfl_sync(mask, to_word(value), lane, width));
}

// The lanes of `mask` where all of them hold the same value, else 0.
template <typename T>
TL_DEVICE uint32_t match_all(T value, uint32_t mask) {
  int same;
  return __match_all_sync(mask, value, &same);
}

// The position of the `count`-th set bit of `mask` from bit `base` on, upwards for a positive count and downwards for a
// negative one; with 0, `base` itself where it is set. All ones where there is none. (PTX fns is a loop too.)
TL_DEVICE uint32_t nth_set_bit(uint32_t mask, uint32_t base, int count) {
  if (count == 0) return base < 32 && (mask >> base & 1) ? base : 0xffffffffu;
  const int step = count > 0 ? 1 : -1;
  for (int bit = static_cast<int>(base); bit >= 0 && bit < 32; bit += step) {
    if (mask >> bit & 1) count -= step;
    if (count == 0) return bit;
  }
  return 0xffffffffu;
}

// All-reduce over the `Width` lanes (a power of two) that differ in lane bits [log2 Stride, log2 (Stride * Width)).
template <typename Op, int Width = 32, int Stride = 1, typename T>
TL_DEVICE T warp_reduce(T value) {
  static_assert(Width * Stride <= 32 && (Width & (Width - 1)) == 0, "a power of two inside a warp");
#pragma unroll
  for (int distance = Stride * Width / 2; distance >= Stride; distance /= 2) {
    value = Op::template apply<T>(value, shfl_xor(value, distance));
  }
  return value;
}

// The same over the first `lanes` lanes of a warp, which has no others, or over all of them: lane 0 gathers and tells the result.
template <typename Op, typename T>
TL_DEVICE T warp_reduce_first(T value, int lanes) {
  const int lane = thread_rank() & 31;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const T other = shfl_down(value, distance);
    if (lane < distance && lane + distance < lanes) value = Op::template apply<T>(value, other);
  }
  return shfl_idx(value, 0);
}

}  // namespace tl
