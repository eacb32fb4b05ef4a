#include "matrix.h"

#include <algorithm>
#include <cmath>

#include "halves.h"
#include "vector_functions.h"

namespace tilelang {
namespace simulator {

namespace {

// Bounds over all shapes, for buffers on the stack.
constexpr int kMaxRows = 16;
constexpr int kMaxDepth = 128;  // dense depth of m16n8k128 sparse s4
constexpr int kColumns = 8;
constexpr int kGroups = 8;   // quads of lanes: rows of a register's block
constexpr int kMembers = 4;  // lanes of a quad

// ---------------------------------------------------------------------------------------------
// Which shapes exist

enum class Element : uint8_t { kHalf, kTF32, kByteFloat, kByteInteger, kNibble, kF64, kBit };

struct ShapeRow {
  Element element;
  bool sparse;
  int m, n, k;
};

constexpr ShapeRow kShapes[] = {
    {Element::kHalf, false, 16, 8, 8},         {Element::kHalf, false, 16, 8, 16},
    {Element::kTF32, false, 16, 8, 4},         {Element::kTF32, false, 16, 8, 8},
    {Element::kByteFloat, false, 16, 8, 16},   {Element::kByteFloat, false, 16, 8, 32},
    {Element::kByteInteger, false, 8, 8, 16},  {Element::kByteInteger, false, 16, 8, 16},
    {Element::kByteInteger, false, 16, 8, 32}, {Element::kNibble, false, 8, 8, 32},
    {Element::kNibble, false, 16, 8, 32},      {Element::kNibble, false, 16, 8, 64},
    {Element::kF64, false, 8, 8, 4},           {Element::kF64, false, 16, 8, 4},
    {Element::kF64, false, 16, 8, 8},          {Element::kF64, false, 16, 8, 16},
    {Element::kBit, false, 8, 8, 128},         {Element::kBit, false, 16, 8, 128},
    {Element::kBit, false, 16, 8, 256},        {Element::kHalf, true, 16, 8, 16},
    {Element::kHalf, true, 16, 8, 32},         {Element::kTF32, true, 16, 8, 8},
    {Element::kTF32, true, 16, 8, 16},         {Element::kByteFloat, true, 16, 8, 64},
    {Element::kByteInteger, true, 16, 8, 32},  {Element::kByteInteger, true, 16, 8, 64},
    {Element::kNibble, true, 16, 8, 64},       {Element::kNibble, true, 16, 8, 128},
};

Element element_of(Format format) {
  switch (format) {
    case Format::kTF32:
      return Element::kTF32;
    case Format::kE4M3:
    case Format::kE5M2:
      return Element::kByteFloat;
    case Format::kS8:
    case Format::kU8:
      return Element::kByteInteger;
    case Format::kS4:
    case Format::kU4:
      return Element::kNibble;
    case Format::kF64:
      return Element::kF64;
    default:
      return Element::kHalf;
  }
}

bool is_bit(MmaFamily family) { return family == MmaFamily::kBitAnd || family == MmaFamily::kBitXor; }

Element element_of(const Mma& mma) { return is_bit(mma.family) ? Element::kBit : element_of(mma.a); }

int element_bits(const Mma& mma) { return is_bit(mma.family) ? 1 : storage_bits(mma.a); }

bool shape_exists(const Mma& mma) {
  if (mma.family == MmaFamily::kQuadPair) return mma.m == 8 && mma.n == 8 && mma.k == 4 && !mma.sparse;
  const Element element = element_of(mma);
  return std::any_of(std::begin(kShapes), std::end(kShapes), [&](const ShapeRow& row) {
    return row.element == element && row.sparse == mma.sparse && row.m == mma.m && row.n == mma.n &&
           row.k == mma.k;
  });
}

// A and B may differ only among the 8-bit floats and among the integers of one width.
bool operands_match(const Mma& mma) {
  if (is_bit(mma.family)) return true;
  const Element element = element_of(mma.a);
  return element == element_of(mma.b) && (element != Element::kHalf || mma.a == mma.b);
}

bool accumulators_match(const Mma& mma) {
  const auto is_single_or_half = [](Format f) { return f == Format::kF32 || f == Format::kF16; };
  switch (mma.family) {
    case MmaFamily::kDouble:
      return mma.c == Format::kF64 && mma.d == Format::kF64;
    case MmaFamily::kQuadPair:
      return is_single_or_half(mma.c) && is_single_or_half(mma.d);
    case MmaFamily::kFloat: {
      const bool may_be_half = mma.a == Format::kF16 || element_of(mma.a) == Element::kByteFloat;
      return mma.c == mma.d && (mma.c == Format::kF32 || (may_be_half && mma.c == Format::kF16));
    }
    default:
      return mma.c == Format::kS32 && mma.d == Format::kS32;
  }
}

// ---------------------------------------------------------------------------------------------
// Fragments

// Lane after lane, the elements of one register are an 8-row block of `width` columns.
template <typename T>
void load_block(Format format, const uint32_t* lanes, int width, T* block) {
  unpack(format, lanes, kGroups * width, block);
}

int block_width(Format format) { return kMembers * 32 / storage_bits(format); }

using Widen = void (*)(const uint16_t*, float*);

/// Blocks of 16-bit floats are 8 x 8.
template <Widen widen>
void load_half_a(int m, int k, const uint32_t* const* registers, float* out) {
  const int row_blocks = m / kGroups;
  for (int r = 0; r < row_blocks * k / kHalves; ++r) {
    const auto* halves = reinterpret_cast<const uint16_t*>(registers[r]);
    float* corner = out + (r % row_blocks) * kGroups * k + (r / row_blocks) * kHalves;
    for (int row = 0; row < kGroups; ++row) widen(halves + row * kHalves, corner + row * k);
  }
}

template <Widen widen>
void load_half_b(int k, const uint32_t* const* registers, float* out) {
  uint16_t block[kHalves * kColumns];
  for (int r = 0; r < k / kHalves; ++r) {
    const auto* halves = reinterpret_cast<const uint16_t*>(registers[r]);
    transpose_halves([&](int row) { return halves + row * kHalves; }, block);
    for (int depth = 0; depth < kHalves; ++depth) widen(block + depth * kColumns, out + (r * kHalves + depth) * kColumns);
  }
}

bool load_half_a(Format format, int m, int k, const uint32_t* const* registers, float* out) {
  if (format == Format::kF16) return load_half_a<widen_f16>(m, k, registers, out), true;
  if (format == Format::kBF16) return load_half_a<widen_bf16>(m, k, registers, out), true;
  return false;
}

bool load_half_b(Format format, int k, const uint32_t* const* registers, float* out) {
  if (format == Format::kF16) return load_half_b<widen_f16>(k, registers, out), true;
  if (format == Format::kBF16) return load_half_b<widen_bf16>(k, registers, out), true;
  return false;
}

bool load_half_a(Format, int, int, const uint32_t* const*, int32_t*) { return false; }
bool load_half_b(Format, int, const uint32_t* const*, int32_t*) { return false; }

template <typename T>
void load_a(Format format, int m, int k, const uint32_t* const* registers, T* out) {
  if (load_half_a(format, m, k, registers, out)) return;
  const int width = block_width(format);
  const int row_blocks = m / kGroups;
  const int count = row_blocks * k / width;
  T block[kGroups * kMembers * 8];
  for (int r = 0; r < count; ++r) {
    load_block(format, registers[r], width, block);
    T* corner = out + (r % row_blocks) * kGroups * k + (r / row_blocks) * width;
    for (int row = 0; row < kGroups; ++row) std::copy_n(block + row * width, width, corner + row * k);
  }
}

// B's rows run along k, so its blocks arrive transposed.
template <typename T>
void load_b(Format format, int k, const uint32_t* const* registers, T* out) {
  if (load_half_b(format, k, registers, out)) return;
  const int width = block_width(format);
  T block[kGroups * kMembers * 8];
  for (int r = 0; r < k / width; ++r) {
    load_block(format, registers[r], width, block);
    for (int depth = 0; depth < width; ++depth) {
      for (int column = 0; column < kColumns; ++column) {
        out[(r * width + depth) * kColumns + column] = block[column * width + depth];
      }
    }
  }
}

// Two elements a lane and row block: registers 2i and 2i + 1 hold columns 2 * member and + 1.
template <typename Register, typename T>
void load_accumulators(int m, const Register* const* registers, T* out) {
  for (int block = 0; block < m / kGroups; ++block, out += kGroups * kColumns) {
    const Register *left = registers[2 * block], *right = registers[2 * block + 1];
    for (int lane = 0; lane < kLanes; ++lane) {
      out[2 * lane] = bit_cast<T>(left[lane]);
      out[2 * lane + 1] = bit_cast<T>(right[lane]);
    }
  }
}

template <typename Register, typename T>
void store_accumulators(int m, const T* values, Register* const* registers) {
  for (int block = 0; block < m / kGroups; ++block, values += kGroups * kColumns) {
    Register *left = registers[2 * block], *right = registers[2 * block + 1];
    for (int lane = 0; lane < kLanes; ++lane) {
      left[lane] = bit_cast<Register>(values[2 * lane]);
      right[lane] = bit_cast<Register>(values[2 * lane + 1]);
    }
  }
}

// f16 accumulators: one register a row block, the pair of columns packed.
void load_half_accumulators(int m, const uint32_t* const* registers, float* out) {
  for (int r = 0; r < m / kGroups; ++r) {
    unpack(Format::kF16, registers[r], kLanes * 2, out + r * kGroups * kColumns);
  }
}

void store_half_accumulators(int m, const float* values, uint32_t* const* registers) {
  for (int r = 0; r < m / kGroups; ++r) {
    const float* block = values + r * kGroups * kColumns;
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint32_t upper = f32_to_f16(block[2 * lane + 1]);
      registers[r][lane] = upper << 16 | f32_to_f16(block[2 * lane]);
    }
  }
}

void load_float_accumulators(Format format, int m, const uint32_t* const* registers, float* out) {
  if (format == Format::kF16) return load_half_accumulators(m, registers, out);
  load_accumulators(m, registers, out);
}

void store_float_accumulators(Format format, int m, float* values, uint32_t* const* registers) {
  if (format == Format::kF16) return store_half_accumulators(m, values, registers);
  for (int i = 0; i < m * kColumns; ++i) values[i] = values[i] == values[i] ? values[i] : float_from_bits(kCanonicalNaN);
  store_accumulators(m, values, registers);
}

// The product of at most 128 pairs of bytes fits in 32 bits; only the addition of C can overflow.
void multiply_saturated(int m, int k, const int32_t* a, const int32_t* b, int32_t* c) {
  int32_t product[kMaxRows * kColumns] = {};
  multiply_add(m, kColumns, k, a, b, product);
  for (int i = 0; i < m * kColumns; ++i) c[i] = saturated_sum(c[i], product[i]);
}

// A's registers as a dense matrix, whether stored compressed or not.
template <typename T>
bool load_dense_a(const Mma& mma, const uint32_t* const* registers, const uint32_t* metadata, T* out) {
  if (!mma.sparse) {
    load_a(mma.a, mma.m, mma.k, registers, out);
    return true;
  }
  T compressed[kMaxRows * kMaxDepth / 2];
  load_a(mma.a, mma.m, mma.k / 2, registers, compressed);
  return expand_sparse(mma.a, mma.k, mma.selector, metadata, compressed, out);
}

// ---------------------------------------------------------------------------------------------
// Families

/// m16n8 of dense 16-bit floats with f32 sums, by the widest vectors there are; false for others.
bool run_half_products(const Mma& mma, const uint32_t* const* a, const uint32_t* const* b, const uint32_t* const* c,
                       uint32_t* const* d) {
  const auto product = vector_functions().warp_product;
  const bool halves = mma.a == Format::kF16 || mma.a == Format::kBF16;
  if (!product || !halves || mma.sparse || mma.c != Format::kF32 || mma.m != kMaxRows) return false;
  product({a, b, c, d, mma.k, mma.a == Format::kBF16});
  return true;
}

bool run_floats(const Mma& mma, const uint32_t* const* a, const uint32_t* const* b, const uint32_t* const* c,
                uint32_t* const* d, const uint32_t* metadata) {
  if (run_half_products(mma, a, b, c, d)) return true;
  float left[kMaxRows * kMaxDepth], right[kMaxDepth * kColumns], sum[kMaxRows * kColumns];
  const bool valid = load_dense_a(mma, a, metadata, left);
  load_b(mma.b, mma.k, b, right);
  load_float_accumulators(mma.c, mma.m, c, sum);
  multiply_add(mma.m, kColumns, mma.k, left, right, sum, has_exact_products(mma.a));
  store_float_accumulators(mma.d, mma.m, sum, d);
  return valid;
}

bool run_integers(const Mma& mma, const uint32_t* const* a, const uint32_t* const* b, const uint32_t* const* c,
                  uint32_t* const* d, const uint32_t* metadata) {
  int32_t left[kMaxRows * kMaxDepth], right[kMaxDepth * kColumns], sum[kMaxRows * kColumns];
  const bool valid = load_dense_a(mma, a, metadata, left);
  load_b(mma.b, mma.k, b, right);
  load_accumulators(mma.m, c, sum);
  if (mma.saturate) {
    multiply_saturated(mma.m, mma.k, left, right, sum);
  } else {
    multiply_add(mma.m, kColumns, mma.k, left, right, sum);
  }
  store_accumulators(mma.m, sum, d);
  return valid;
}

// A register holds 32 bits of depth of one row (A) or column (B).
bool run_bits(const Mma& mma, const uint32_t* const* a, const uint32_t* const* b, const uint32_t* const* c,
              uint32_t* const* d) {
  const int row_blocks = mma.m / kGroups;
  const int depth_blocks = mma.k / 128;
  uint32_t sum[kMaxRows * kColumns];
  load_accumulators(mma.m, c, sum);
  for (int row = 0; row < mma.m; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      for (int word = 0; word < depth_blocks * kMembers; ++word) {
        const int block = word / kMembers, member = word % kMembers;
        const uint32_t left = a[block * row_blocks + row / kGroups][row % kGroups * kMembers + member];
        const uint32_t right = b[block][column * kMembers + member];
        const uint32_t combined = mma.family == MmaFamily::kBitAnd ? left & right : left ^ right;
        sum[row * kColumns + column] += static_cast<uint32_t>(__builtin_popcount(combined));
      }
    }
  }
  store_accumulators(mma.m, sum, d);
  return true;
}

}  // namespace

const char* check_mma(const Mma& mma) {
  if (!operands_match(mma)) return "the types of A and B do not go together";
  if (!shape_exists(mma)) return "this shape does not exist for these types";
  if (!accumulators_match(mma)) return "the accumulator types do not go with the operand types";
  if (mma.sparse && (mma.selector < 0 || mma.selector >= sparse_selectors(mma.a, mma.k))) {
    return "the sparsity selector is out of range";
  }
  return nullptr;
}

MmaRegisters mma_registers(const Mma& mma) {
  if (mma.family == MmaFamily::kQuadPair) {
    return {2, 2, mma.c == Format::kF16 ? 4 : 8, mma.d == Format::kF16 ? 4 : 8};
  }
  const int lane_bits = mma.family == MmaFamily::kDouble ? 64 : 32;
  const int per_register = lane_bits / element_bits(mma) * kLanes;
  const int stored_depth = mma.sparse ? mma.k / 2 : mma.k;
  const auto accumulators = [&](Format format) {
    return mma.m * mma.n / kLanes / (format == Format::kF16 ? 2 : 1);
  };
  return {mma.m * stored_depth / per_register, mma.k * mma.n / per_register, accumulators(mma.c),
          accumulators(mma.d)};
}

bool run_mma(const Mma& mma, const uint32_t* const* a, const uint32_t* const* b, const uint32_t* const* c,
             uint32_t* const* d, const uint32_t* metadata) {
  switch (mma.family) {
    case MmaFamily::kFloat:
      return run_floats(mma, a, b, c, d, metadata);
    case MmaFamily::kInteger:
      return run_integers(mma, a, b, c, d, metadata);
    case MmaFamily::kQuadPair:
      return run_quad_pairs(mma, a, b, c, d);
    default:
      return run_bits(mma, a, b, c, d);
  }
}

void run_mma_f64(const Mma& mma, const double* const* a, const double* const* b, const double* const* c,
                 double* const* d) {
  const int row_blocks = mma.m / kGroups;
  double sum[kMaxRows * kColumns];
  load_accumulators(mma.m, c, sum);
  for (int row = 0; row < mma.m; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      double& value = sum[row * kColumns + column];
      for (int depth = 0; depth < mma.k; ++depth) {
        const int block = depth / kMembers, member = depth % kMembers;
        const double left = a[block * row_blocks + row / kGroups][row % kGroups * kMembers + member];
        value = std::fma(left, b[block][column * kMembers + member], value);
      }
    }
  }
  store_accumulators(mma.m, sum, d);
}

void load_a_fragment(Format format, int m, int k, const uint32_t* const* registers, float* out) {
  load_a(format, m, k, registers, out);
}

void load_a_fragment(Format format, int m, int k, const uint32_t* const* registers, int32_t* out) {
  load_a(format, m, k, registers, out);
}

}  // namespace simulator
}  // namespace tilelang
