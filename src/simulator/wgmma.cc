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

// Chunks of 16-bit floats that follow each other in the result.
bool unpack_halves(Format format, int count, const uint8_t* const* chunks, float* out) {
  if (format != Format::kF16 && format != Format::kBF16) return false;
  for (int i = 0; i < count; ++i) {
    const auto* halves = reinterpret_cast<const uint16_t*>(chunks[i]);
    if (format == Format::kF16) {
      widen_f16(halves, out + i * kHalves);
    } else {
      widen_bf16(halves, out + i * kHalves);
    }
  }
  return true;
}

bool unpack_halves(Format, int, const uint8_t* const*, int32_t*) { return false; }

template <typename T>
void unpack_in_order(Format format, int count, const uint8_t* const* chunks, T* out) {
  if (unpack_halves(format, count, chunks, out)) return;
  const int elements = chunk_elements(format);
  for (int i = 0; i < count; ++i) unpack(format, chunks[i], elements, out + i * elements);
}

// Lines of `per_line` chunks to the columns of a matrix with `pitch` columns.
template <typename T>
void unpack_turned(Format format, int count, int per_line, int pitch, const uint8_t* const* chunks, T* out) {
  const int elements = chunk_elements(format);
  T values[kMaxChunkElements];
  for (int i = 0; i < count; ++i) {
    unpack(format, chunks[i], elements, values);
    T* first = out + i % per_line * elements * pitch + i / per_line;
    for (int j = 0; j < elements; ++j) first[j * pitch] = values[j];
  }
}

// 16-bit floats, eight lines at a time.
bool turn_halves(Format format, int count, int per_line, int pitch, const uint8_t* const* chunks, float* out) {
  if (format != Format::kF16 && format != Format::kBF16) return false;
  const auto widen = format == Format::kF16 ? widen_f16 : widen_bf16;
  uint16_t block[kHalves * kHalves];
  for (int line = 0; line < count / per_line; line += kHalves) {
    for (int chunk = 0; chunk < per_line; ++chunk) {
      transpose_halves([&](int i) { return chunks[(line + i) * per_line + chunk]; }, block);
      float* corner = out + chunk * kHalves * pitch + line;
      for (int i = 0; i < kHalves; ++i) widen(block + i * kHalves, corner + i * pitch);
    }
  }
  return true;
}

bool turn_halves(Format, int, int, int, const uint8_t* const*, int32_t*) { return false; }

template <typename T>
void unpack_operand(const OperandShape& shape, bool in_order, const uint8_t* const* chunks, T* out) {
  const int elements = chunk_elements(shape.format);
  const int count = shape.majors * shape.depth / elements;
  if (in_order) return unpack_in_order(shape.format, count, chunks, out);
  const int line = shape.major_contiguous ? shape.majors : shape.depth;
  const int pitch = shape.major_contiguous ? shape.depth : shape.majors;
  if (turn_halves(shape.format, count, line / elements, pitch, chunks, out)) return;
  unpack_turned(shape.format, count, line / elements, pitch, chunks, out);
}

// Decodes chunks into [majors][depth].
template <typename T>
void unpack_rows(const OperandShape& shape, const uint8_t* const* chunks, T* out) {
  unpack_operand(shape, !shape.major_contiguous, chunks, out);
}

// Decodes chunks into [depth][majors].
template <typename T>
void unpack_columns(const OperandShape& shape, const uint8_t* const* chunks, T* out) {
  unpack_operand(shape, shape.major_contiguous, chunks, out);
}

// Operands and what they are made of, decoded: of one instruction at a time.
template <typename T>
struct Workspace {
  std::vector<T> stored, rows;
  std::vector<T> left;   // [k][kWarpRows]
  std::vector<T> right;  // [n][k]

  static Workspace& of_thread() {
    thread_local Workspace workspace;
    return workspace;
  }
};

template <typename T>
void transpose(const T* rows, int depth, T* columns) {
  for (int row = 0; row < kWarpRows; ++row) {
    for (int k = 0; k < depth; ++k) columns[k * kWarpRows + row] = rows[row * depth + k];
  }
}

template <typename T>
bool load_left(const Wgmma& wgmma, const WgmmaOperands& operands, Workspace<T>& w) {
  OperandShape shape = wgmma.a_shape();
  shape.majors = kWarpRows;
  w.left.resize(kWarpRows * wgmma.k);
  if (!operands.a_registers && !wgmma.sparse) {
    unpack_columns(shape, operands.a_chunks, w.left.data());
    return true;
  }
  w.stored.resize(kWarpRows * wgmma.stored_k());
  if (operands.a_registers) {
    load_a_fragment(wgmma.a, kWarpRows, wgmma.stored_k(), operands.a_registers, w.stored.data());
  } else {
    unpack_rows(shape, operands.a_chunks, w.stored.data());
  }
  if (!wgmma.sparse) {
    transpose(w.stored.data(), wgmma.k, w.left.data());
    return true;
  }
  w.rows.resize(kWarpRows * wgmma.k);
  const bool valid =
      expand_sparse(wgmma.a, wgmma.k, wgmma.selector, operands.metadata, w.stored.data(), w.rows.data());
  transpose(w.rows.data(), wgmma.k, w.left.data());
  return valid;
}

// sums += popcount(a & b), byte by byte.
template <typename T>
void count_common_bits(const Wgmma& wgmma, const T* left, const T* right, T* sums) {
  for (int column = 0; column < wgmma.n; ++column) {
    for (int k = 0; k < wgmma.k; ++k) {
      const auto bits = static_cast<uint32_t>(right[column * wgmma.k + k]);
      for (int row = 0; row < kWarpRows; ++row) {
        const auto other = static_cast<uint32_t>(left[k * kWarpRows + row]);
        sums[column * kWarpRows + row] += static_cast<T>(__builtin_popcount(bits & other));
      }
    }
  }
}

// The transposed product: B lies in memory with k innermost, as the left side of a product has it.
void multiply(const Wgmma& wgmma, const float* left, const float* right, float* sums) {
  multiply_add(wgmma.n, kWarpRows, wgmma.k, right, left, sums, has_exact_products(wgmma.a));
}

void multiply(const Wgmma& wgmma, const int32_t* left, const int32_t* right, int32_t* sums) {
  multiply_add(wgmma.n, kWarpRows, wgmma.k, right, left, sums);
}

template <typename T>
bool multiply(const Wgmma& wgmma, const WgmmaOperands& operands, std::vector<T>& sums) {
  Workspace<T>& w = Workspace<T>::of_thread();
  const bool valid = load_left(wgmma, operands, w);
  w.right.resize(wgmma.n * wgmma.k);
  unpack_rows(wgmma.b_shape(), operands.b_chunks, w.right.data());
  if (wgmma.scale < 0) negate(w.left);
  if (wgmma.bits) {
    count_common_bits(wgmma, w.left.data(), w.right.data(), sums.data());
    return valid;
  }
  multiply(wgmma, w.left.data(), w.right.data(), sums.data());
  return valid;
}

// Registers 2i and 2i + 1 hold rows 8 * (i % 2) and on, columns 8 * (i / 2) and on; lane 4j + m of them has row j, columns 2m and
// 2m + 1. Calls f(i, lane, element): the elements of the lane are `element` and the one a column further. Packed pairs are in
// register i.
template <typename F>
void for_pairs(int n, F&& f) {
  for (int pair = 0; pair < n / kCoreRows * 2; ++pair) {
    const int corner = pair / 2 * kCoreRows * kWarpRows + pair % 2 * kCoreRows;
    for (int row = 0; row < kCoreRows; ++row) {
      for (int m = 0; m < 4; ++m) f(pair, row * 4 + m, corner + 2 * m * kWarpRows + row);
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
      tile.integers[element + kWarpRows] = static_cast<int32_t>(registers[2 * pair + 1][lane]);
    });
    return tile;
  }
  tile.floats.resize(kWarpRows * wgmma.n);
  if (wgmma.d == Format::kF16) {
    for_pairs(wgmma.n, [&](int pair, int lane, int element) {
      tile.floats[element] = f16_to_f32(static_cast<uint16_t>(registers[pair][lane]));
      tile.floats[element + kWarpRows] = f16_to_f32(static_cast<uint16_t>(registers[pair][lane] >> 16));
    });
    return tile;
  }
  for_pairs(wgmma.n, [&](int pair, int lane, int element) {
    tile.floats[element] = float_from_bits(registers[2 * pair][lane]);
    tile.floats[element + kWarpRows] = float_from_bits(registers[2 * pair + 1][lane]);
  });
  return tile;
}

void store_accumulator_tile(const Wgmma& wgmma, const AccumulatorTile& tile, uint32_t* const* registers) {
  if (wgmma.integer()) {
    for_pairs(wgmma.n, [&](int pair, int lane, int element) {
      registers[2 * pair][lane] = static_cast<uint32_t>(tile.integers[element]);
      registers[2 * pair + 1][lane] = static_cast<uint32_t>(tile.integers[element + kWarpRows]);
    });
  } else if (wgmma.d == Format::kF16) {
    for_pairs(wgmma.n, [&](int pair, int lane, int element) {
      const uint32_t high = f32_to_f16(tile.floats[element + kWarpRows]);
      registers[pair][lane] = high << 16 | f32_to_f16(tile.floats[element]);
    });
  } else {
    for_pairs(wgmma.n, [&](int pair, int lane, int element) {
      registers[2 * pair][lane] = canonical_f32(tile.floats[element]);
      registers[2 * pair + 1][lane] = canonical_f32(tile.floats[element + kWarpRows]);
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
