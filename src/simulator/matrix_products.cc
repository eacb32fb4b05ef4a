// The arithmetic under every matrix instruction: decoding packed elements, and C += A * B.
#include <algorithm>
#include <limits>

#include "halves.h"
#include "matrix.h"
#include "vector_functions.h"

namespace tilelang {
namespace simulator {

namespace {

constexpr int kWidth = 8;

template <typename T>
struct Vector {
  typedef T Type __attribute__((vector_size(kWidth * sizeof(T))));
};

/// A tile whose sums stay in registers over the whole depth.
template <typename T, int kRows, int kVectors>
void multiply_tile(int n, int k, const T* a, const T* b, T* c) {
  using V = typename Vector<T>::Type;
  V sums[kRows][kVectors];
  for (int row = 0; row < kRows; ++row) std::memcpy(sums[row], c + row * n, sizeof sums[row]);
  for (int depth = 0; depth < k; ++depth, b += n) {
    V right[kVectors];
    std::memcpy(right, b, sizeof right);
    for (int row = 0; row < kRows; ++row) {
      const V left = a[row * k + depth] - V{};
      for (int i = 0; i < kVectors; ++i) sums[row][i] += left * right[i];
    }
  }
  for (int row = 0; row < kRows; ++row) std::memcpy(c + row * n, sums[row], sizeof sums[row]);
}

template <typename T>
void multiply(int m, int n, int k, const T* a, const T* b, T* c) {
  constexpr int kTall = 8, kFlat = 4;
  int column = 0;
  for (; column + 2 * kWidth <= n; column += 2 * kWidth) {
    for (int row = 0; row < m; row += kFlat)
      multiply_tile<T, kFlat, 2>(n, k, a + row * k, b + column, c + row * n + column);
  }
  if (column == n) return;
  for (int row = 0; row < m; row += kTall) multiply_tile<T, kTall, 1>(n, k, a + row * k, b + column, c + row * n + column);
}

}  // namespace

void unpack(Format format, const void* packed, int count, float* out) {
  switch (format) {
    case Format::kF16: {
      const auto* halves = static_cast<const uint16_t*>(packed);
      for (int i = 0; i < count; i += kHalves) widen_f16(halves + i, out + i);
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

void multiply_add(int m, int n, int k, const float* a, const float* b, float* c, bool exact_products) {
  if (const auto product = vector_functions().dense_product) return product({m, n, k, a, b, c, exact_products});
  multiply(m, n, k, a, b, c);
}

// Integers wrap as the hardware's do: summed without a sign, which C++ defines.
void multiply_add(int m, int n, int k, const int32_t* a, const int32_t* b, int32_t* c) {
  multiply(m, n, k, reinterpret_cast<const uint32_t*>(a), reinterpret_cast<const uint32_t*>(b),
                              reinterpret_cast<uint32_t*>(c));
}

int32_t saturated_sum(int32_t a, int32_t b) {
  const int64_t sum = int64_t{a} + b;
  return static_cast<int32_t>(std::clamp<int64_t>(sum, std::numeric_limits<int32_t>::min(),
                                                  std::numeric_limits<int32_t>::max()));
}

}  // namespace simulator
}  // namespace tilelang
