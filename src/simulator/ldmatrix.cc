#include "ldmatrix.h"

namespace tilelang {
namespace simulator {

void matrix_to_fragment(const MatrixRows& rows, bool transpose, uint32_t* lanes) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const int major = lane / 4, minor = lane % 4 * 2;
    const uint32_t low = transpose ? rows[minor][major] : rows[major][minor];
    const uint32_t high = transpose ? rows[minor + 1][major] : rows[major][minor + 1];
    lanes[lane] = high << 16 | low;
  }
}

void fragment_to_matrix(const uint32_t* lanes, bool transpose, MatrixRows& rows) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const int major = lane / 4, minor = lane % 4 * 2;
    (transpose ? rows[minor][major] : rows[major][minor]) = static_cast<uint16_t>(lanes[lane]);
    (transpose ? rows[minor + 1][major] : rows[major][minor + 1]) = static_cast<uint16_t>(lanes[lane] >> 16);
  }
}

}  // namespace simulator
}  // namespace tilelang
