#include "vector_functions.h"

#if defined(__AVX2__) && defined(__F16C__) && defined(__FMA__)
#include "canonical_nan.h"
#include "dense_product.h"
#include "eight_floats.h"
#include "warp_product.h"
#endif

namespace tilelang {
namespace simulator {

#if defined(__AVX2__) && defined(__F16C__) && defined(__FMA__)
namespace {

struct Vectors256 : EightFloats {
  static constexpr int kRows = 2;    // groups of four
  static constexpr int kWidest = 2;  // with which the sums of four rows stay in registers

  template <bool brain>
  static Floats widen(__m128i halves) {
    if (!brain) return _mm256_cvtph_ps(halves);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  template <bool brain>
  static void widen_row(__m128i halves, float* row) {
    _mm256_store_ps(row, widen<brain>(halves));
  }
  template <bool brain>
  static void widen_rows(const uint16_t* halves, Floats* left, Floats* right) {
    const __m256i rows = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves));
    const __m256i quads = _mm256_permute4x64_epi64(rows, _MM_SHUFFLE(3, 1, 2, 0));
    *left = widen<brain>(_mm256_castsi256_si128(quads));
    *right = widen<brain>(_mm256_extracti128_si256(quads, 1));
  }
  template <int e>
  static Floats spread(Floats x) {
    return _mm256_permute_ps(x, e * 0x55);
  }
  static Floats repeat(const float* four) { return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(four)); }
  using EightFloats::load;
  static Floats load(const uint32_t* lanes) { return load(reinterpret_cast<const float*>(lanes)); }
  static void store_canonical(uint32_t* lanes, Floats x) {
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(kCanonicalNaN));
    store(reinterpret_cast<float*>(lanes), _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
  }
};

}  // namespace

VectorFunctions avx2_functions() { return {warp_product<Vectors256>, dense_product<Vectors256, Vectors256>, nullptr}; }
#else
VectorFunctions avx2_functions() { return {}; }
#endif

}  // namespace simulator
}  // namespace tilelang
