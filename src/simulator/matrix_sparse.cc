// 2:4 sparsity: which elements of a compressed A stand where (PTX ISA, "Sparse matrix storage").
#include <algorithm>

#include "matrix.h"

namespace tilelang {
namespace simulator {

namespace {

constexpr int kRows = 16;
constexpr int kGroups = 8;   // quads of lanes
constexpr int kMembers = 4;  // lanes of a quad

// The four bits that describe one group of `chunk` dense columns. For 16- and 32-bit elements a
// lane's word holds rows `group` (low half) and `group + 8` (high half); for narrower elements a
// word holds eight groups of one row, and even and odd lanes hold the two rows.
struct SparseLayout {
  int chunk;  // dense columns a group spans
  int unit;   // consecutive elements an index addresses
  bool halfwords;
};

SparseLayout sparse_layout(Format format) {
  switch (format) {
    case Format::kTF32:
      return {2, 1, true};
    case Format::kF16:
    case Format::kBF16:
      return {4, 1, true};
    case Format::kS4:
    case Format::kU4:
      return {8, 2, false};
    default:
      return {4, 1, false};
  }
}

// Lanes of a quad that supply metadata.
int sparse_lanes(const SparseLayout& layout, int k) {
  const int groups = k / layout.chunk;
  return layout.halfwords ? groups / 4 : groups / 8 * 2;
}

uint32_t group_bits(const SparseLayout& layout, int k, int selector, const uint32_t* metadata, int row,
                    int group) {
  const int base = row % kGroups * kMembers + selector * sparse_lanes(layout, k);
  const int upper = row / kGroups;
  if (layout.halfwords) return metadata[base + group / 4] >> (16 * upper + group % 4 * 4) & 0xf;
  return metadata[base + group / 8 * 2 + upper] >> (group % 8 * 4) & 0xf;
}

template <typename T>
bool expand(Format format, int k, int selector, const uint32_t* metadata, const T* compressed, T* dense) {
  const SparseLayout layout = sparse_layout(format);
  std::fill_n(dense, kRows * k, T{0});
  bool valid = true;
  for (int row = 0; row < kRows; ++row) {
    for (int group = 0; group < k / layout.chunk; ++group) {
      const uint32_t bits = group_bits(layout, k, selector, metadata, row, group);
      T* target = dense + row * k + group * layout.chunk;
      const T* source = compressed + row * k / 2 + group * layout.chunk / 2;
      if (layout.chunk == 2) {
        // tf32 keeps one of two: the pair of indices names both halves of the element.
        valid = valid && (bits == 0x4 || bits == 0xe);
        target[bits >> 3] = source[0];
        continue;
      }
      const uint32_t first = bits & 3, second = bits >> 2;
      valid = valid && first < second;
      std::copy_n(source, layout.unit, target + first * layout.unit);
      std::copy_n(source + layout.unit, layout.unit, target + second * layout.unit);
    }
  }
  return valid;
}

}  // namespace

bool expand_sparse(Format format, int k, int selector, const uint32_t* metadata, const float* compressed,
                   float* dense) {
  return expand(format, k, selector, metadata, compressed, dense);
}

bool expand_sparse(Format format, int k, int selector, const uint32_t* metadata, const int32_t* compressed,
                   int32_t* dense) {
  return expand(format, k, selector, metadata, compressed, dense);
}

int sparse_selectors(Format format, int k) { return kMembers / sparse_lanes(sparse_layout(format), k); }

}  // namespace simulator
}  // namespace tilelang
