// Compiled for a machine with AVX-512, whatever the rest is compiled for: only what has internal linkage may be defined here.
#include "vector_functions.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include "canonical_nan.h"
#include "dense_product.h"
#include "eight_floats.h"
#include "exp2.h"
#include "warp_product.h"
#endif

namespace tilelang {
namespace simulator {

#if defined(__AVX512F__) && defined(__AVX512DQ__)
namespace {

/// Sixteen floats.
struct Vectors512 {
  using Floats = __m512;
  static constexpr int kFloats = 16;
  static constexpr int kRows = 4;    // groups of four
  static constexpr int kWidest = 4;  // with which the sums of four rows stay in registers

  static Floats load(const float* x) { return _mm512_loadu_ps(x); }
  static void store(float* x, Floats values) { _mm512_storeu_ps(x, values); }
  static Floats fill(float x) { return _mm512_set1_ps(x); }
  template <bool brain>
  static Floats multiply_add(Floats a, Floats b, Floats c) {
    return brain ? _mm512_add_ps(c, _mm512_mul_ps(a, b)) : _mm512_fmadd_ps(a, b, c);
  }

  template <bool brain>
  static Floats widen(__m256i halves) {
    if (!brain) return _mm512_cvtph_ps(halves);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  template <bool brain>
  static void widen_row(__m128i halves, float* row) {
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
    _mm256_store_ps(row, brain ? _mm256_castsi256_ps(bits) : _mm256_cvtph_ps(halves));
  }
  template <bool brain>
  static void widen_rows(const uint16_t* halves, Floats* left, Floats* right) {
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    const __m512i quads = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(halves));
    *left = widen<brain>(_mm512_castsi512_si256(quads));
    *right = widen<brain>(_mm512_extracti64x4_epi64(quads, 1));
  }
  template <int e>
  static Floats spread(Floats x) {
    return _mm512_permute_ps(x, e * 0x55);
  }
  static Floats repeat(const float* four) { return _mm512_broadcast_f32x4(_mm_load_ps(four)); }
  static Floats load(const uint32_t* lanes) { return _mm512_loadu_ps(lanes); }
  static void store_canonical(uint32_t* lanes, Floats x) {
    const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(kCanonicalNaN));
    _mm512_storeu_ps(lanes, _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x, nan));
  }
};

void exp2_lanes(const float* x, float* result) {
  for (int lane = 0; lane < 32; ++lane) result[lane] = exp2_rounded<Vectors512>(x[lane]);
}

}  // namespace

VectorFunctions avx512_functions() {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq")) return {};
  return {warp_product<Vectors512>, dense_product<Vectors512, EightFloats>, exp2_lanes};
}
#else
VectorFunctions avx512_functions() { return {}; }
#endif

}  // namespace simulator
}  // namespace tilelang
