// mma.m8n8k4 of f16: four independent products, one for each pair of quads.
#include "matrix.h"

namespace tilelang {
namespace simulator {

namespace {

constexpr int kMembers = 4;  // lanes of a quad

// m8n8k4: lanes 4p..4p+3 and 16+4p..16+4p+3 compute product p; the second quad holds rows (or
// columns) 4-7. Each lane has four halves, in two registers, of A and of B.
uint16_t half_of(const uint32_t* const* registers, int lane, int index) {
  return static_cast<uint16_t>(registers[index / 2][lane] >> (index % 2 * 16));
}

int pair_lane(int product, int quad, int member) { return quad * 16 + product * kMembers + member; }

// Element (major, depth) of an operand whose lanes hold one `major` each (or, `crossed`, one depth each).
float quad_pair_element(const uint32_t* const* registers, int product, int major, int depth, bool crossed) {
  const int quad = major / 4;
  const int member = crossed ? depth : major % 4;
  const int index = crossed ? major % 4 : depth;
  return f16_to_f32(half_of(registers, pair_lane(product, quad, member), index));
}

struct QuadPairSlot {
  int lane, index;
};

// Where accumulator (row, column) of a product lives (PTX ISA, "mma.m8n8k4 with .f16").
QuadPairSlot quad_pair_slot(Format format, int product, int row, int column) {
  if (format == Format::kF16) return {pair_lane(product, row / 4, row % 4), column};
  const int member = (row & 1) | (column & 2);
  return {pair_lane(product, row / 4, member), (row & 2) | (column & 4) | (column & 1)};
}

float load_quad_pair(Format format, const uint32_t* const* registers, QuadPairSlot slot) {
  if (format == Format::kF16) return f16_to_f32(half_of(registers, slot.lane, slot.index));
  return float_from_bits(registers[slot.index][slot.lane]);
}

void store_quad_pair(Format format, uint32_t* const* registers, QuadPairSlot slot, float value) {
  if (format == Format::kF32) {
    registers[slot.index][slot.lane] = canonical_f32(value);
    return;
  }
  uint32_t& word = registers[slot.index / 2][slot.lane];
  const int shift = slot.index % 2 * 16;
  word = (word & ~(0xffffu << shift)) | static_cast<uint32_t>(f32_to_f16(value)) << shift;
}

}  // namespace

bool run_quad_pairs(const Mma& mma, const uint32_t* const* a, const uint32_t* const* b,
                    const uint32_t* const* c, uint32_t* const* d) {
  constexpr int kProducts = 4, kSide = 8, kDepth = 4;
  float sum[kProducts][kSide][kSide];
  for (int product = 0; product < kProducts; ++product) {
    for (int row = 0; row < kSide; ++row) {
      for (int column = 0; column < kSide; ++column) {
        float value = load_quad_pair(mma.c, c, quad_pair_slot(mma.c, product, row, column));
        for (int depth = 0; depth < kDepth; ++depth) {
          value += quad_pair_element(a, product, row, depth, mma.a_column) *
                   quad_pair_element(b, product, column, depth, mma.b_row);
        }
        sum[product][row][column] = value;
      }
    }
  }
  for (int product = 0; product < kProducts; ++product) {
    for (int row = 0; row < kSide; ++row) {
      for (int column = 0; column < kSide; ++column) {
        store_quad_pair(mma.d, d, quad_pair_slot(mma.d, product, row, column), sum[product][row][column]);
      }
    }
  }
  return true;
}

}  // namespace simulator
}  // namespace tilelang
