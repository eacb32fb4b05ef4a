// Products of dense matrices of floats, by tiles whose sums stay in registers over the whole depth.
#ifndef TILELANG_SIMULATOR_DENSE_PRODUCT_H_
#define TILELANG_SIMULATOR_DENSE_PRODUCT_H_

#include "vector_functions.h"

namespace tilelang {
namespace simulator {

/// So many rows by so many vectors of columns. `brain`: products are rounded before they are added.
template <class V, bool brain, int kRows, int kVectors>
void dense_tile(const DenseProduct& p, int row, int column) {
  typename V::Floats sums[kRows][kVectors];
  float* c = p.c + row * p.n + column;
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sums[r][v] = V::load(c + r * p.n + v * V::kFloats);
  }
  const float* a = p.a + row * p.k;
  const float* b = p.b + column;
  for (int depth = 0; depth < p.k; ++depth, b += p.n) {
    typename V::Floats right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = V::load(b + v * V::kFloats);
    for (int r = 0; r < kRows; ++r) {
      const typename V::Floats left = V::fill(a[r * p.k + depth]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = V::template multiply_add<brain>(left, right[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) V::store(c + r * p.n + v * V::kFloats, sums[r][v]);
  }
}

/// The columns from `column` on that whole tiles cover. Returns the first that is left.
template <class V, bool brain, int kVectors>
int dense_columns(const DenseProduct& p, int column) {
  constexpr int kRows = kVectors == 1 ? 8 : 4;  // enough sums that none waits for the one before
  for (; column + kVectors * V::kFloats <= p.n; column += kVectors * V::kFloats) {
    for (int row = 0; row < p.m; row += kRows) dense_tile<V, brain, kRows, kVectors>(p, row, column);
  }
  return column;
}

/// V::kWidest vectors side by side fit in the machine's registers; N's vectors have the width of the narrowest matrix.
template <class V, class N, bool brain>
void dense_product_of(const DenseProduct& p) {
  int column = dense_columns<V, brain, V::kWidest>(p, 0);
  column = dense_columns<V, brain, 1>(p, column);
  dense_columns<N, brain, 1>(p, column);
}

template <class V, class N>
void dense_product(const DenseProduct& p) {
  p.exact ? dense_product_of<V, N, false>(p) : dense_product_of<V, N, true>(p);
}

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_DENSE_PRODUCT_H_
