// Arithmetic that has a version for wider vectors than the rest of the library is compiled for.
#ifndef TILELANG_SIMULATOR_VECTOR_FUNCTIONS_H_
#define TILELANG_SIMULATOR_VECTOR_FUNCTIONS_H_

#include <cstdint>

namespace tilelang {
namespace simulator {

/// m16n8 of 16-bit floats: pointers to the registers of d = a * b + c, and what to do with them.
struct WarpProduct {
  const uint32_t* const* a;
  const uint32_t* const* b;
  const uint32_t* const* c;
  uint32_t* const* d;
  int depth;   // 8 or 16
  bool brain;  // bf16, whose products are rounded before they are added; else f16, whose products are exact
};

/// c[m][n] += a[m][k] * b[k][n], k ascending, row-major and dense; m and n are multiples of 8.
struct DenseProduct {
  int m, n, k;
  const float* a;
  const float* b;
  float* c;
  bool exact;  // products are never rounded, and may be fused into the sum
};

/// Null: no such version.
struct VectorFunctions {
  void (*warp_product)(const WarpProduct&) = nullptr;
  void (*dense_product)(const DenseProduct&) = nullptr;
  void (*exp2)(const float* x, float* result) = nullptr;  // exp2_rounded of 32 lanes
};

/// Empty where the library is not compiled for them, or this machine does not have them.
VectorFunctions avx2_functions();
VectorFunctions avx512_functions();

/// The widest that this machine has.
const VectorFunctions& vector_functions();

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_VECTOR_FUNCTIONS_H_
