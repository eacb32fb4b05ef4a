// Warp-wide matrix multiply-accumulate: mma.sync and mma.sp.
//
// A fragment is a list of registers, each an array of 32 lanes. All shapes but the quad-pair m8n8k4
// share one rule (PTX ISA, "Matrix fragments for mma"): with lane = 4 * group + member, a register
// of A or B holds, lane after lane, an 8-row block whose rows are `group` and whose columns run
// along k; A's registers alternate between rows 0-7 and 8-15 before they advance in k.
#ifndef TILELANG_SIMULATOR_MATRIX_H_
#define TILELANG_SIMULATOR_MATRIX_H_

#include <cstdint>

#include "numerics.h"
#include "types.h"

namespace tilelang {
namespace simulator {

// How elements multiply and in what they are summed.
enum class MmaFamily : uint8_t {
  kFloat,     // f16, bf16, tf32, e4m3, e5m2: exact products summed in f32
  kInteger,   // s8, u8, s4, u4: summed in s32
  kDouble,    // f64
  kBitAnd,    // b1, .and.popc
  kBitXor,    // b1, .xor.popc
  kQuadPair,  // m8n8k4 f16: four independent products, one for each pair of quads
};

struct Mma {
  int m, n, k;
  MmaFamily family;
  Format a, b;  // element formats; ignored by the bit families
  Format c, d;  // kF16, kF32, kS32 or kF64
  bool saturate = false;  // .satfinite of the integer family
  bool sparse = false;    // mma.sp: A is stored 2:4 compressed
  int selector = 0;       // mma.sp: which lanes of a quad hold the metadata
  bool a_column = false;  // kQuadPair: A in column-major order
  bool b_row = false;     // kQuadPair: B in row-major order
};

// Registers that each fragment takes (64-bit registers for kDouble).
struct MmaRegisters {
  int a, b, c, d;
};

// Null when PTX has this shape for these types, else what is wrong.
const char* check_mma(const Mma& mma);

MmaRegisters mma_registers(const Mma& mma);

// d = a * b + c for every family but kDouble; `d` may name the registers of the operands.
// `metadata` is read for sparse operations only. Returns false when it is not one that PTX
// allows (indices of a group that do not ascend), after computing with it as it stands.
bool run_mma(const Mma& mma, const uint32_t* const* a, const uint32_t* const* b, const uint32_t* const* c,
             uint32_t* const* d, const uint32_t* metadata);

// The same for kDouble: every product fused into the sum, in ascending k.
void run_mma_f64(const Mma& mma, const double* const* a, const double* const* b, const double* const* c,
                 double* const* d);

// The kQuadPair family; part of run_mma.
bool run_quad_pairs(const Mma& mma, const uint32_t* const* a, const uint32_t* const* b, const uint32_t* const* c,
                    uint32_t* const* d);

// ---------------------------------------------------------------------------------------------
// Shared with wgmma

// `count` elements of a format, packed without gaps, decoded. A multiple of 8 for the 16-bit formats.
void unpack(Format format, const void* packed, int count, float* out);
void unpack(Format format, const void* packed, int count, int32_t* out);

// Whether products of two elements are never rounded as floats, so that fusing them into the sum changes nothing.
constexpr bool has_exact_products(Format format) {
  return format == Format::kF16 || format == Format::kE4M3 || format == Format::kE5M2;
}

// c[m][n] += a[m][k] * b[k][n], k ascending, row-major and dense; m and n are multiples of 8.
void multiply_add(int m, int n, int k, const float* a, const float* b, float* c, bool exact_products);
void multiply_add(int m, int n, int k, const int32_t* a, const int32_t* b, int32_t* c);

// a + b clamped to the range of s32.
int32_t saturated_sum(int32_t a, int32_t b);

// Spreads the 16 x (k / 2) elements (row-major) that one warp holds of a sparse A to 16 x k, zeros
// elsewhere. Returns false for metadata that PTX leaves undefined.
bool expand_sparse(Format format, int k, int selector, const uint32_t* metadata, const float* compressed,
                   float* dense);
bool expand_sparse(Format format, int k, int selector, const uint32_t* metadata, const int32_t* compressed,
                   int32_t* dense);

// How many values the sparsity selector of such an instruction may take.
int sparse_selectors(Format format, int k);

// Writes the 16 x k block that a warp's A registers hold (row-major). `k` counts stored elements.
void load_a_fragment(Format format, int m, int k, const uint32_t* const* registers, float* out);
void load_a_fragment(Format format, int m, int k, const uint32_t* const* registers, int32_t* out);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_MATRIX_H_
