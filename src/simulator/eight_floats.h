// Vectors of eight floats, for files that are compiled for different machines: each has a type of its own.
#ifndef TILELANG_SIMULATOR_EIGHT_FLOATS_H_
#define TILELANG_SIMULATOR_EIGHT_FLOATS_H_

#include <immintrin.h>

namespace tilelang {
namespace simulator {
namespace {

struct EightFloats {
  using Floats = __m256;
  static constexpr int kFloats = 8;

  static Floats load(const float* x) { return _mm256_loadu_ps(x); }
  static void store(float* x, Floats values) { _mm256_storeu_ps(x, values); }
  static Floats fill(float x) { return _mm256_set1_ps(x); }
  template <bool brain>
  static Floats multiply_add(Floats a, Floats b, Floats c) {
    return brain ? _mm256_add_ps(c, _mm256_mul_ps(a, b)) : _mm256_fmadd_ps(a, b, c);
  }
};

}  // namespace
}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_EIGHT_FLOATS_H_
