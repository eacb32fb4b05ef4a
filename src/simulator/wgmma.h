// Warpgroup matrix multiply-accumulate: operands in shared memory behind 64-bit descriptors.
//
// Each warp of a warpgroup computes 16 of the 64 rows on its own: they need its own rows of A and
// all of B, and nothing of the other warps.
#ifndef TILELANG_SIMULATOR_WGMMA_H_
#define TILELANG_SIMULATOR_WGMMA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "matrix.h"
#include "tensor_map.h"

namespace tilelang {
namespace simulator {

constexpr int kWarpgroupWarps = 4;
constexpr int kWarpRows = 16;

// The 64-bit matrix descriptor of sm_90. Offsets are in bytes.
struct MatrixDescriptor {
  uint32_t start;      // shared-memory offset
  uint32_t leading;    // leading-dimension byte offset
  uint32_t stride;     // stride-dimension byte offset
  uint32_t base;       // 128-byte line, modulo 8, at which the swizzle pattern starts
  Swizzle swizzle;
};

// False when reserved bits are set.
bool decode_descriptor(uint64_t bits, MatrixDescriptor* descriptor);

// One operand as the instruction reads it: `majors` rows of A (or columns of B) by `depth` elements of k.
struct OperandShape {
  Format format;
  int majors;
  int depth;
  bool major_contiguous;  // imm-trans: consecutive elements along m (or n) instead of along k

  bool operator==(const OperandShape& other) const {
    return format == other.format && majors == other.majors && depth == other.depth &&
           major_contiguous == other.major_contiguous;
  }
};

// Shared-memory offsets of the 16-byte chunks of an operand from row `first` on. Along k: chunk index
// row * chunks-per-row + chunk. Along m or n: k * (majors / 8) + chunk.
std::vector<uint32_t> chunk_offsets(const MatrixDescriptor& descriptor, const OperandShape& shape, int first);

// A descriptor whose offsets make rows of the operand coincide, as a message; null when it is sound.
const char* check_descriptor(const MatrixDescriptor& descriptor, const OperandShape& shape);

// ---------------------------------------------------------------------------------------------

struct Wgmma {
  int n, k;
  Format a, b, d;
  bool sparse = false;
  bool saturate = false;      // integers
  bool bits = false;          // b1 with .and.popc; `a` and `b` are then kU8 and k counts bytes
  int scale = 1;              // product of imm-scale-a and imm-scale-b
  int selector = 0;           // sparse
  bool a_transposed = false;  // imm-trans-a, imm-trans-b
  bool b_transposed = false;

  bool integer() const { return d == Format::kS32; }
  int stored_k() const { return sparse ? k / 2 : k; }
  OperandShape a_shape() const { return {a, kWarpgroupWarps * kWarpRows, stored_k(), a_transposed}; }
  OperandShape b_shape() const { return {b, n, k, b_transposed}; }
  int a_registers() const { return kWarpRows * stored_k() * storage_bits(a) / 32 / kLanes; }
  int d_registers() const { return kWarpRows * n / kLanes / (d == Format::kF16 ? 2 : 1); }
};

// Null when PTX has this combination of types and shape, else what is wrong.
const char* check_wgmma(const Wgmma& wgmma);

// A warp's 16 x n accumulators, one column after the other; floats or 32-bit integers.
struct AccumulatorTile {
  std::vector<float> floats;
  std::vector<int32_t> integers;
};

AccumulatorTile load_accumulator_tile(const Wgmma& wgmma, const uint32_t* const* registers);
void store_accumulator_tile(const Wgmma& wgmma, const AccumulatorTile& tile, uint32_t* const* registers);

// Operands of one warp: A's 16 stored rows decoded, or its chunks; B's chunks.
struct WgmmaOperands {
  const uint32_t* const* a_registers = nullptr;  // 32 lanes each; null when A is in shared memory
  const uint8_t* const* a_chunks = nullptr;      // of the warp's 16 rows
  const uint8_t* const* b_chunks = nullptr;
  const uint32_t* metadata = nullptr;            // 32 lanes; sparse only
  bool accumulate = true;                        // scale-d
};

// tile = A * B (+ tile). False for sparsity metadata that PTX leaves undefined.
bool run_wgmma(const Wgmma& wgmma, const WgmmaOperands& operands, AccumulatorTile* tile);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_WGMMA_H_
