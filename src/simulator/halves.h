// Eight 16-bit elements at a time: what the matrix instructions do most.
#ifndef TILELANG_SIMULATOR_HALVES_H_
#define TILELANG_SIMULATOR_HALVES_H_

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "numerics.h"

namespace tilelang {
namespace simulator {

constexpr int kHalves = 8;

/// Eight f16 elements as floats. Unlike f16_to_f32, NaNs may keep their payload: for sums that end in canonical_f32.
inline void widen_f16(const uint16_t* halves, float* out) {
#if defined(__F16C__) && defined(__AVX2__)
  _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves))));
#else
  for (int i = 0; i < kHalves; ++i) out[i] = f16_to_f32(halves[i]);
#endif
}

/// Eight bf16 elements as floats.
inline void widen_bf16(const uint16_t* halves, float* out) {
  for (int i = 0; i < kHalves; ++i) out[i] = bf16_to_f32(halves[i]);
}

#if defined(__SSE2__)
/// Rows of an 8 x 8 matrix to its columns; `row(i)` gives where row i is.
template <class Row>
inline void transpose_halves(Row&& row, uint16_t* out) {
  __m128i a[kHalves], b[kHalves];
  for (int i = 0; i < kHalves; ++i) a[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row(i)));
  for (int i = 0; i < 4; ++i) {
    b[2 * i] = _mm_unpacklo_epi16(a[i], a[i + 4]);
    b[2 * i + 1] = _mm_unpackhi_epi16(a[i], a[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm_unpacklo_epi16(b[i], b[i + 4]);
    a[2 * i + 1] = _mm_unpackhi_epi16(b[i], b[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16 * i), _mm_unpacklo_epi16(a[i], a[i + 4]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16 * i + 8), _mm_unpackhi_epi16(a[i], a[i + 4]));
  }
}
#else
template <class Row>
inline void transpose_halves(Row&& row, uint16_t* out) {
  uint16_t rows[kHalves][kHalves];
  for (int i = 0; i < kHalves; ++i) std::memcpy(rows[i], row(i), sizeof rows[i]);
  for (int i = 0; i < kHalves; ++i) {
    for (int j = 0; j < kHalves; ++j) out[i * kHalves + j] = rows[j][i];
  }
}
#endif

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_HALVES_H_
