// mma.sync m16n8 of 16-bit floats, computed in the layout that the accumulators' registers have.
//
// A vector holds four columns (all even ones, or all odd ones) of as many rows as it has groups of four floats: so lie
// the lanes of an accumulator's register. Of A it takes one element a row, repeated; of B four columns, repeated. Every
// sum is made as elsewhere (matrix.h): products in ascending k.
#ifndef TILELANG_SIMULATOR_WARP_PRODUCT_H_
#define TILELANG_SIMULATOR_WARP_PRODUCT_H_

#include <immintrin.h>

#include "vector_functions.h"

namespace tilelang {
namespace simulator {

constexpr int kProductRows = 16, kProductColumns = 8, kProductDepth = 16;  // at most

/// The rows of A as vectors of four elements in k, one row in each group of four floats.
template <class V, bool brain>
void load_left(const WarpProduct& p, typename V::Floats (*left)[kProductRows / V::kRows]) {
  for (int k = 0; k < p.depth; k += 8) {
    for (int row = 0; row < kProductRows; row += V::kRows) {
      const auto* halves = reinterpret_cast<const uint16_t*>(p.a[k / 8 * 2 + row / 8]) + row % 8 * 8;
      V::template widen_rows<brain>(halves, &left[k / 4][row / V::kRows], &left[k / 4 + 1][row / V::kRows]);
    }
  }
}

/// Eight columns of eight elements to rows of floats, the even columns first.
template <class V, bool brain>
void transpose_columns(const uint16_t* columns, float (*rows)[kProductColumns]) {
  __m128i a[8], b[8];
  for (int i = 0; i < 8; ++i) {
    const int column = i < 4 ? 2 * i : 2 * i - 7;
    a[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(columns + 8 * column));
  }
  for (int i = 0; i < 4; ++i) {
    b[2 * i] = _mm_unpacklo_epi16(a[i], a[i + 4]);
    b[2 * i + 1] = _mm_unpackhi_epi16(a[i], a[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm_unpacklo_epi16(b[i], b[i + 4]);
    a[2 * i + 1] = _mm_unpackhi_epi16(b[i], b[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    V::template widen_row<brain>(_mm_unpacklo_epi16(a[i], a[i + 4]), rows[2 * i]);
    V::template widen_row<brain>(_mm_unpackhi_epi16(a[i], a[i + 4]), rows[2 * i + 1]);
  }
}

/// Adds what element `e` of every four in k contributes to four vectors of rows and all columns.
template <class V, bool brain, int e>
inline __attribute__((always_inline)) void add_products(const typename V::Floats* left, const float* right,
                                                        typename V::Floats (*sums)[2]) {
  const typename V::Floats even = V::repeat(right), odd = V::repeat(right + 4);
  for (int i = 0; i < 4; ++i) {
    const typename V::Floats x = V::template spread<e>(left[i]);
    sums[i][0] = V::template multiply_add<brain>(x, even, sums[i][0]);
    sums[i][1] = V::template multiply_add<brain>(x, odd, sums[i][1]);
  }
}

template <class V, bool brain>
void warp_product_of(const WarpProduct& p) {
  constexpr int kPass = 4 * V::kRows;  // rows whose sums fit in the machine's registers
  typename V::Floats left[kProductDepth / 4][kProductRows / V::kRows];
  alignas(64) float right[kProductDepth][kProductColumns];
  load_left<V, brain>(p, left);
  for (int k = 0; k < p.depth; k += 8)
    transpose_columns<V, brain>(reinterpret_cast<const uint16_t*>(p.b[k / 8]), right + k);
  for (int pass = 0; pass < kProductRows / kPass; ++pass) {
    typename V::Floats sums[4][2];
    const auto place = [&](auto* const* registers, int i, int odd) {
      const int row = pass * kPass + i * V::kRows;
      return registers[row / 8 * 2 + odd] + row % 8 * 4;
    };
    for (int i = 0; i < 4; ++i) {
      for (int odd = 0; odd < 2; ++odd) sums[i][odd] = V::load(place(p.c, i, odd));
    }
    for (int k = 0; k < p.depth; k += 4) {
      const typename V::Floats* rows = left[k / 4] + pass * 4;
      add_products<V, brain, 0>(rows, right[k], sums);
      add_products<V, brain, 1>(rows, right[k + 1], sums);
      add_products<V, brain, 2>(rows, right[k + 2], sums);
      add_products<V, brain, 3>(rows, right[k + 3], sums);
    }
    for (int i = 0; i < 4; ++i) {
      for (int odd = 0; odd < 2; ++odd) V::store_canonical(place(p.d, i, odd), sums[i][odd]);
    }
  }
}

template <class V>
void warp_product(const WarpProduct& p) {
  p.brain ? warp_product_of<V, true>(p) : warp_product_of<V, false>(p);
}

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_WARP_PRODUCT_H_
