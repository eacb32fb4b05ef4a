// Tensor maps: how cp.async.bulk.tensor sees a tensor in global memory.
//
// A map is 128 opaque bytes in a kernel's parameters. Ours have a layout of their own: only the
// encoder and the copy engine below read it. Arguments and rules are those of the driver's
// cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col.
#ifndef TILELANG_SIMULATOR_TENSOR_MAP_H_
#define TILELANG_SIMULATOR_TENSOR_MAP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "types.h"

namespace tilelang {
namespace simulator {

constexpr int kTensorMapBytes = 128;
constexpr int kMaxTensorRank = 5;

// Values are the driver's CUtensorMapDataType.
enum class TensorType : uint8_t {
  kU8 = 0,
  kU16,
  kU32,
  kS32,
  kU64,
  kS64,
  kF16,
  kF32,
  kF64,
  kBF16,
  kF32Flushed,
  kTF32,
  kTF32Flushed,
};

// CUtensorMapSwizzle.
enum class Swizzle : uint8_t { kNone = 0, k32B, k64B, k128B };

// CUtensorMapFloatOOBfill.
enum class OutOfBoundsFill : uint8_t { kZero = 0, kNaN };

int tensor_type_bytes(TensorType type);

// Bytes over which a swizzle permutes 16-byte chunks; 0 for kNone.
constexpr uint32_t swizzle_span(Swizzle swizzle) {
  return swizzle == Swizzle::kNone ? 0 : 16u << static_cast<int>(swizzle);
}

// XORs the 16-byte chunk index of a shared-memory address with the index of its 128-byte line.
constexpr uint32_t swizzle_address(Swizzle swizzle, uint32_t address) {
  return address ^ ((address >> 3) & (swizzle_span(swizzle) - 1) & ~15u & (swizzle == Swizzle::kNone ? 0u : ~0u));
}

struct TensorMap {
  uint32_t magic;
  TensorType type;
  Swizzle swizzle;
  OutOfBoundsFill fill;
  uint8_t rank;
  uint8_t im2col;
  uint8_t element_stride[kMaxTensorRank];
  uint16_t box[kMaxTensorRank];  // tiled; im2col uses box[0] for channels and box[1] for pixels
  uint64_t address;
  uint64_t stride[kMaxTensorRank - 1];  // bytes, of dimensions 1 and up
  uint32_t last[kMaxTensorRank];        // extent minus one
  int16_t lower_corner[kMaxTensorRank - 2];
  int16_t upper_corner[kMaxTensorRank - 2];

  int64_t extent(int dimension) const { return int64_t{last[dimension]} + 1; }
  int element_bytes() const { return tensor_type_bytes(type); }
};
static_assert(sizeof(TensorMap) <= kTensorMapBytes, "a tensor map has 128 bytes");

struct TensorMapArguments {
  int64_t type;
  int64_t rank;
  uint64_t address;
  std::vector<int64_t> extents;          // rank
  std::vector<int64_t> strides;          // rank - 1, bytes
  std::vector<int64_t> element_strides;  // rank
  int64_t interleave;
  int64_t swizzle;
  int64_t l2_promotion;
  int64_t fill;
};

// Both write 128 bytes to `out` and return "" or what is wrong with the arguments.
TILELANG_SIMULATOR_EXPORT std::string encode_tiled(const TensorMapArguments& arguments, const std::vector<int64_t>& box, uint8_t* out);
std::string encode_im2col(const TensorMapArguments& arguments, const std::vector<int64_t>& lower_corner,
                          const std::vector<int64_t>& upper_corner, int64_t channels, int64_t pixels, uint8_t* out);

// False when the bytes are no tensor map of ours.
bool decode_tensor_map(const uint8_t* bytes, TensorMap* map);

// ---------------------------------------------------------------------------------------------
// What one copy moves

// A run of elements contiguous in global memory and, before swizzling, in shared memory.
struct TileRow {
  uint64_t global;        // address of the first element in bounds; 0 when none is
  uint32_t shared;        // offset of the row in the unswizzled tile
  uint32_t first, last;   // bytes of the row that lie in bounds: [first, last)
};

struct Tile {
  std::vector<TileRow> rows;
  uint32_t row_bytes = 0;     // bytes of each row that the copy covers
  uint32_t shared_bytes = 0;  // bytes of shared memory that the tile spans
  uint32_t copied_bytes() const { return row_bytes * static_cast<uint32_t>(rows.size()); }
};

// The box whose corner is at these element coordinates, dimension 0 first.
Tile tile_at(const TensorMap& map, const int32_t* coordinates);

// The pixels of an im2col map: coordinates as above, then one offset for each spatial dimension.
Tile im2col_tile_at(const TensorMap& map, const int32_t* coordinates, const uint16_t* offsets);

// The value of an element outside the tensor, element_bytes() wide.
uint64_t fill_pattern(const TensorMap& map);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_TENSOR_MAP_H_
