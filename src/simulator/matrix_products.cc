// The arithmetic under every matrix instruction: decoding packed elements, and C += A * B.
#include <algorithm>
#include <limits>

#include "matrix.h"

namespace tilelang {
namespace simulator {

namespace {

#if defined(__GNUC__)
#define TILELANG_ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define TILELANG_ALWAYS_INLINE inline
#endif

// Rows of four columns-of-eight keep the sums in registers over the whole depth.
template <typename T>
TILELANG_ALWAYS_INLINE void multiply_body(int m, int n, int k, const T* a, const T* b, T* c) {
  constexpr int kRowTile = 4, kColumnTile = 8;
  for (int row = 0; row < m; row += kRowTile) {
    for (int column = 0; column < n; column += kColumnTile) {
      T sum[kRowTile][kColumnTile];
      for (int i = 0; i < kRowTile; ++i) {
        for (int j = 0; j < kColumnTile; ++j) sum[i][j] = c[(row + i) * n + column + j];
      }
      for (int depth = 0; depth < k; ++depth) {
        const T* right = b + depth * n + column;
        for (int i = 0; i < kRowTile; ++i) {
          const T left = a[(row + i) * k + depth];
          for (int j = 0; j < kColumnTile; ++j) sum[i][j] += left * right[j];
        }
      }
      for (int i = 0; i < kRowTile; ++i) {
        for (int j = 0; j < kColumnTile; ++j) c[(row + i) * n + column + j] = sum[i][j];
      }
    }
  }
}

template <typename T>
using Multiply = void (*)(int, int, int, const T*, const T*, T*);

template <typename T>
void multiply_baseline(int m, int n, int k, const T* a, const T* b, T* c) {
  multiply_body(m, n, k, a, b, c);
}

#if defined(__x86_64__) && defined(__GNUC__)
// Chosen once per process: no build flags, and one library for all machines.
template <typename T>
__attribute__((target("avx2"))) void multiply_avx2(int m, int n, int k, const T* a, const T* b, T* c) {
  multiply_body(m, n, k, a, b, c);
}

template <typename T>
Multiply<T> choose_multiply() {
  return __builtin_cpu_supports("avx2") ? multiply_avx2<T> : multiply_baseline<T>;
}
#else
template <typename T>
Multiply<T> choose_multiply() {
  return multiply_baseline<T>;
}
#endif

// Integers wrap as the hardware's do: summed without a sign, which C++ defines.
void multiply_unsigned(int m, int n, int k, const uint32_t* a, const uint32_t* b, uint32_t* c) {
  static const Multiply<uint32_t> multiply = choose_multiply<uint32_t>();
  multiply(m, n, k, a, b, c);
}

}  // namespace

void unpack(Format format, const void* packed, int count, float* out) {
  switch (format) {
    case Format::kF16: {
      const auto* halves = static_cast<const uint16_t*>(packed);
      for (int i = 0; i < count; ++i) out[i] = f16_to_f32(halves[i]);
      break;
    }
    case Format::kBF16: {
      const auto* halves = static_cast<const uint16_t*>(packed);
      for (int i = 0; i < count; ++i) out[i] = bf16_to_f32(halves[i]);
      break;
    }
    case Format::kTF32: {
      const auto* words = static_cast<const uint32_t*>(packed);
      for (int i = 0; i < count; ++i) out[i] = tf32_operand(words[i]);
      break;
    }
    default: {
      const float* table = format == Format::kE4M3 ? e4m3_table() : e5m2_table();
      const auto* bytes = static_cast<const uint8_t*>(packed);
      for (int i = 0; i < count; ++i) out[i] = table[bytes[i]];
    }
  }
}

void unpack(Format format, const void* packed, int count, int32_t* out) {
  const auto* bytes = static_cast<const uint8_t*>(packed);
  switch (format) {
    case Format::kS8:
      for (int i = 0; i < count; ++i) out[i] = static_cast<int8_t>(bytes[i]);
      break;
    case Format::kU8:
      for (int i = 0; i < count; ++i) out[i] = bytes[i];
      break;
    case Format::kU4:
      for (int i = 0; i < count; ++i) out[i] = bytes[i / 2] >> (i % 2 * 4) & 0xf;
      break;
    default:
      // Shifting the nibble to the top of a byte and back extends its sign.
      for (int i = 0; i < count; ++i) out[i] = static_cast<int8_t>(bytes[i / 2] << (4 - i % 2 * 4)) >> 4;
  }
}

void multiply_add(int m, int n, int k, const float* a, const float* b, float* c) {
  static const Multiply<float> multiply = choose_multiply<float>();
  multiply(m, n, k, a, b, c);
}

void multiply_add(int m, int n, int k, const int32_t* a, const int32_t* b, int32_t* c) {
  multiply_unsigned(m, n, k, reinterpret_cast<const uint32_t*>(a), reinterpret_cast<const uint32_t*>(b),
                    reinterpret_cast<uint32_t*>(c));
}

int32_t saturated_sum(int32_t a, int32_t b) {
  const int64_t sum = int64_t{a} + b;
  return static_cast<int32_t>(std::clamp<int64_t>(sum, std::numeric_limits<int32_t>::min(),
                                                  std::numeric_limits<int32_t>::max()));
}

}  // namespace simulator
}  // namespace tilelang
