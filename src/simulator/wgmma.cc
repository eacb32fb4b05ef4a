#include "wgmma.h"

#include <algorithm>

#include "halves.h"

namespace tilelang {
namespace simulator {

namespace {

constexpr uint32_t kChunk = 16;      // bytes
constexpr uint32_t kLine = 128;      // bytes that a swizzle phase spans
constexpr int kCoreRows = 8;         // rows (or values of k) of a core matrix
constexpr int kMaxChunkElements = 16;

// Descriptor fields (PTX ISA, "Matrix descriptor"); addresses and offsets are in units of 16 bytes.
constexpr uint64_t kReservedBits = 0x3ff1c000c000c000u;
constexpr uint32_t kFieldMask = 0x3fff;
constexpr Swizzle kSwizzleModes[] = {Swizzle::kNone, Swizzle::k128B, Swizzle::k64B, Swizzle::k32B};

uint32_t field(uint64_t bits, int position) { return static_cast<uint32_t>(bits >> position & kFieldMask) * kChunk; }

// Permutes the 16-byte chunks of a span by the number of the 128-byte line since the pattern began.
uint32_t swizzled(const MatrixDescriptor& descriptor, uint32_t offset) {
  const uint32_t span = swizzle_span(descriptor.swizzle);
  if (span == 0) return offset;
  const uint32_t phase = (offset / kLine - descriptor.base) & (span / kChunk - 1);
  return offset ^ phase * kChunk;
}

int chunk_elements(Format format) { return 128 / storage_bits(format); }

// Consecutive elements along k.
uint32_t offset_along_k(const MatrixDescriptor& descriptor, int row, int chunk) {
  const uint32_t span = swizzle_span(descriptor.swizzle);
  const uint32_t pitch = span == 0 ? kChunk : span;
  const uint32_t step = span == 0 ? descriptor.leading : kChunk;
  return descriptor.start + row % kCoreRows * pitch + row / kCoreRows * descriptor.stride + chunk * step;
}

// Consecutive elements along m or n.
uint32_t offset_along_major(const MatrixDescriptor& descriptor, int chunk, int k) {
  const uint32_t span = swizzle_span(descriptor.swizzle);
  if (span == 0) {
    return descriptor.start + k % kCoreRows * kChunk + k / kCoreRows * descriptor.leading + chunk * descriptor.stride;
  }
  const int per_span = static_cast<int>(span / kChunk);
  return descriptor.start + chunk % per_span * kChunk + chunk / per_span * descriptor.leading +
         k % kCoreRows * span + k / kCoreRows * descriptor.stride;
}

template <typename T>
void negate(std::vector<T>& values) {
  for (T& value : values) value = -value;
}

template <typename T>
bool load_left(const Wgmma& wgmma, const WgmmaOperands& operands, std::vector<T>& left) {
  std::vector<T> stored(kWarpRows * wgmma.stored_k());
  if (operands.a_registers) {
    load_a_fragment(wgmma.a, kWarpRows, wgmma.stored_k(), operands.a_registers, stored.data());
  } else {
    OperandShape rows = wgmma.a_shape();
    rows.majors = kWarpRows;
    unpack_a(rows, operands.a_chunks, stored.data());
  }
  if (!wgmma.sparse) {
    left = std::move(stored);
    return true;
  }
  left.resize(kWarpRows * wgmma.k);
  return expand_sparse(wgmma.a, wgmma.k, wgmma.selector, operands.metadata, stored.data(), left.data());
}

// sums += popcount(a & b), byte by byte.
template <typename T>
void count_common_bits(const Wgmma& wgmma, const T* left, const T* right, T* sums) {
  for (int row = 0; row < kWarpRows; ++row) {
    for (int k = 0; k < wgmma.k; ++k) {
      const auto bits = static_cast<uint32_t>(left[row * wgmma.k + k]);
      for (int column = 0; column < wgmma.n; ++column) {
        const auto other = static_cast<uint32_t>(right[k * wgmma.n + column]);
        sums[row * wgmma.n + column] += static_cast<T>(__builtin_popcount(bits & other));
      }
    }
  }
}

void multiply(const Wgmma& wgmma, const float* left, const float* right, float* sums) {
  multiply_add(kWarpRows, wgmma.n, wgmma.k, left, right, sums, has_exact_products(wgmma.a));
}

void multiply(const Wgmma& wgmma, const int32_t* left, const int32_t* right, int32_t* sums) {
  multiply_add(kWarpRows, wgmma.n, wgmma.k, left, right, sums);
}

template <typename T>
bool multiply(const Wgmma& wgmma, const WgmmaOperands& operands, std::vector<T>& sums) {
  std::vector<T> left, right(wgmma.k * wgmma.n);
  const bool valid = load_left(wgmma, operands, left);
  unpack_b(wgmma.b_shape(), operands.b_chunks, right.data());
  if (wgmma.scale < 0) negate(left);
  if (wgmma.bits) {
    count_common_bits(wgmma, left.data(), right.data(), sums.data());
    return valid;
  }
  multiply(wgmma, left.data(), right.data(), sums.data());
  return valid;
}

// Registers 2i and 2i + 1 hold rows 8 * (i % 2) and on, columns 8 * (i / 2) and on; lane 4j + m of them has row j, columns 2m and
// 2m + 1. Calls f(i, lane, element): the elements of the lane are `element` and the next one. Packed pairs are in register i.
template <typename F>
void for_pairs(int n, F&& f) {
  for (int pair = 0; pair < n / kCoreRows * 2; ++pair) {
    const int corner = pair % 2 * kCoreRows * n + pair / 2 * kCoreRows;
    for (int row = 0; row < kCoreRows; ++row) {
      for (int m = 0; m < 4; ++m) f(pair, row * 4 + m, corner + row * n + 2 * m);
    }
  }
}

int dense_depth(Format format) { return 256 / storage_bits(format); }

bool types_match(const Wgmma& wgmma) {
  const bool half_sum = wgmma.d == Format::kF16, single_sum = wgmma.d == Format::kF32;
  switch (wgmma.a) {
    case Format::kF16:
      return wgmma.b == wgmma.a && (half_sum || single_sum);
    case Format::kBF16:
    case Format::kTF32:
      return wgmma.b == wgmma.a && single_sum;
    case Format::kE4M3:
    case Format::kE5M2:
      return (wgmma.b == Format::kE4M3 || wgmma.b == Format::kE5M2) && (half_sum || single_sum);
    case Format::kS8:
    case Format::kU8:
      return (wgmma.b == Format::kS8 || wgmma.b == Format::kU8) && wgmma.d == Format::kS32;
    default:
      return false;
  }
}

bool width_exists(const Wgmma& wgmma) {
  if (wgmma.n < 8 || wgmma.n > 256 || wgmma.n % 8 != 0) return false;
  // Integers: 8, 16, 24, 32, then multiples of 16.
  return !wgmma.integer() || wgmma.n <= 32 || wgmma.n % 16 == 0;
}

}  // namespace

bool decode_descriptor(uint64_t bits, MatrixDescriptor* descriptor) {
  descriptor->start = field(bits, 0);
  descriptor->leading = field(bits, 16);
  descriptor->stride = field(bits, 32);
  descriptor->base = static_cast<uint32_t>(bits >> 49 & 7);
  descriptor->swizzle = kSwizzleModes[bits >> 62];
  return (bits & kReservedBits) == 0;
}

std::vector<uint32_t> chunk_offsets(const MatrixDescriptor& descriptor, const OperandShape& shape, int first) {
  const int elements = chunk_elements(shape.format);
  std::vector<uint32_t> offsets(static_cast<size_t>(shape.majors * shape.depth / elements));
  uint32_t* next = offsets.data();
  if (shape.major_contiguous) {
    for (int k = 0; k < shape.depth; ++k) {
      for (int chunk = 0; chunk < shape.majors / elements; ++chunk) {
        *next++ = swizzled(descriptor, offset_along_major(descriptor, first / elements + chunk, k));
      }
    }
    return offsets;
  }
  for (int row = 0; row < shape.majors; ++row) {
    for (int chunk = 0; chunk < shape.depth / elements; ++chunk) {
      *next++ = swizzled(descriptor, offset_along_k(descriptor, first + row, chunk));
    }
  }
  return offsets;
}

const char* check_descriptor(const MatrixDescriptor& descriptor, const OperandShape& shape) {
  const uint32_t span = swizzle_span(descriptor.swizzle);
  if (!shape.major_contiguous) {
    if (shape.majors > kCoreRows && descriptor.stride == 0) return "the stride byte offset is zero";
    if (span == 0 && descriptor.leading == 0) return "the leading byte offset is zero";
    return nullptr;
  }
  const int span_elements = static_cast<int>(span) * 8 / storage_bits(shape.format);
  if (span == 0) {
    if (descriptor.leading == 0) return "the leading byte offset is zero";
    return shape.majors > kCoreRows && descriptor.stride == 0 ? "the stride byte offset is zero" : nullptr;
  }
  if (descriptor.stride == 0) return "the stride byte offset is zero";
  return shape.majors > span_elements && descriptor.leading == 0 ? "the leading byte offset is zero" : nullptr;
}

template <typename T>
void unpack_a(const OperandShape& shape, const uint8_t* const* chunks, T* out) {
  const int elements = chunk_elements(shape.format);
  T values[kMaxChunkElements];
  if (!shape.major_contiguous) {
    for (int i = 0; i < shape.majors * shape.depth / elements; ++i) unpack(shape.format, chunks[i], elements, out + i * elements);
    return;
  }
  const int per_row = shape.majors / elements;
  for (int i = 0; i < shape.depth * per_row; ++i) {
    unpack(shape.format, chunks[i], elements, values);
    for (int j = 0; j < elements; ++j) out[(i % per_row * elements + j) * shape.depth + i / per_row] = values[j];
  }
}

// 16-bit operands whose elements follow each other along k, eight rows at a time.
bool unpack_half_b(const OperandShape& shape, const uint8_t* const* chunks, float* out) {
  if (shape.major_contiguous || (shape.format != Format::kF16 && shape.format != Format::kBF16)) return false;
  const auto widen = shape.format == Format::kF16 ? widen_f16 : widen_bf16;
  const int per_row = shape.depth / kHalves;
  uint16_t block[kHalves * kHalves];
  for (int major = 0; major < shape.majors; major += kHalves) {
    for (int chunk = 0; chunk < per_row; ++chunk) {
      transpose_halves([&](int row) { return chunks[(major + row) * per_row + chunk]; }, block);
      float* corner = out + chunk * kHalves * shape.majors + major;
      for (int k = 0; k < kHalves; ++k) widen(block + k * kHalves, corner + k * shape.majors);
    }
  }
  return true;
}

bool unpack_half_b(const OperandShape&, const uint8_t* const*, int32_t*) { return false; }

template <typename T>
void unpack_b(const OperandShape& shape, const uint8_t* const* chunks, T* out) {
  if (unpack_half_b(shape, chunks, out)) return;
  const int elements = chunk_elements(shape.format);
  T values[kMaxChunkElements];
  if (shape.major_contiguous) {
    for (int i = 0; i < shape.majors * shape.depth / elements; ++i) unpack(shape.format, chunks[i], elements, out + i * elements);
    return;
  }
  const int per_row = shape.depth / elements;
  for (int i = 0; i < shape.majors * per_row; ++i) {
    unpack(shape.format, chunks[i], elements, values);
    for (int j = 0; j < elements; ++j) out[(i % per_row * elements + j) * shape.majors + i / per_row] = values[j];
  }
}

template void unpack_a<float>(const OperandShape&, const uint8_t* const*, float*);
template void unpack_a<int32_t>(const OperandShape&, const uint8_t* const*, int32_t*);
template void unpack_b<float>(const OperandShape&, const uint8_t* const*, float*);
template void unpack_b<int32_t>(const OperandShape&, const uint8_t* const*, int32_t*);

const char* check_wgmma(const Wgmma& wgmma) {
  if (!types_match(wgmma)) return "these types do not go together";
  if (!width_exists(wgmma)) return "this n does not exist for these types";
  if (wgmma.k != dense_depth(wgmma.a) * (wgmma.sparse ? 2 : 1)) return "this k does not exist for these types";
  if ((wgmma.a_transposed || wgmma.b_transposed) && storage_bits(wgmma.a) != 16) {
    return "only 16-bit operands can be transposed";
  }
  if (wgmma.sparse && wgmma.selector >= sparse_selectors(wgmma.a, wgmma.k)) return "the sparsity selector is out of range";
  return nullptr;
}

AccumulatorTile load_accumulator_tile(const Wgmma& wgmma, const uint32_t* const* registers) {
  AccumulatorTile tile;
  if (wgmma.integer()) {
    tile.integers.resize(kWarpRows * wgmma.n);
    for_pairs(wgmma.n, [&](int pair, int lane, int element) {
      tile.integers[element] = static_cast<int32_t>(registers[2 * pair][lane]);
      tile.integers[element + 1] = static_cast<int32_t>(registers[2 * pair + 1][lane]);
    });
    return tile;
  }
  tile.floats.resize(kWarpRows * wgmma.n);
  if (wgmma.d == Format::kF16) {
    for_pairs(wgmma.n, [&](int pair, int lane, int element) {
      tile.floats[element] = f16_to_f32(static_cast<uint16_t>(registers[pair][lane]));
      tile.floats[element + 1] = f16_to_f32(static_cast<uint16_t>(registers[pair][lane] >> 16));
    });
    return tile;
  }
  for_pairs(wgmma.n, [&](int pair, int lane, int element) {
    tile.floats[element] = float_from_bits(registers[2 * pair][lane]);
    tile.floats[element + 1] = float_from_bits(registers[2 * pair + 1][lane]);
  });
  return tile;
}

void store_accumulator_tile(const Wgmma& wgmma, const AccumulatorTile& tile, uint32_t* const* registers) {
  if (wgmma.integer()) {
    for_pairs(wgmma.n, [&](int pair, int lane, int element) {
      registers[2 * pair][lane] = static_cast<uint32_t>(tile.integers[element]);
      registers[2 * pair + 1][lane] = static_cast<uint32_t>(tile.integers[element + 1]);
    });
  } else if (wgmma.d == Format::kF16) {
    for_pairs(wgmma.n, [&](int pair, int lane, int element) {
      const uint32_t high = f32_to_f16(tile.floats[element + 1]);
      registers[pair][lane] = high << 16 | f32_to_f16(tile.floats[element]);
    });
  } else {
    for_pairs(wgmma.n, [&](int pair, int lane, int element) {
      registers[2 * pair][lane] = canonical_f32(tile.floats[element]);
      registers[2 * pair + 1][lane] = canonical_f32(tile.floats[element + 1]);
    });
  }
}

bool run_wgmma(const Wgmma& wgmma, const WgmmaOperands& operands, AccumulatorTile* tile) {
  if (!wgmma.integer()) {
    if (!operands.accumulate) std::fill(tile->floats.begin(), tile->floats.end(), 0.0f);
    const bool valid = multiply(wgmma, operands, tile->floats);
    if (wgmma.d != Format::kF16) return valid;
    // Half-precision accumulators are rounded after every instruction.
    for (float& value : tile->floats) value = f16_to_f32(f32_to_f16(value));
    return valid;
  }
  if (!operands.accumulate) std::fill(tile->integers.begin(), tile->integers.end(), 0);
  if (!wgmma.saturate) return multiply(wgmma, operands, tile->integers);
  std::vector<int32_t> product(tile->integers.size(), 0);
  const bool valid = multiply(wgmma, operands, product);
  for (size_t i = 0; i < product.size(); ++i) tile->integers[i] = saturated_sum(tile->integers[i], product[i]);
  return valid;
}

}  // namespace simulator
}  // namespace tilelang
