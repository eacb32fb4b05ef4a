#include "ldmatrix.h"

#include "halves.h"

namespace tilelang {
namespace simulator {

// A fragment is the matrix as it lies in memory, row after row: lane 4i + j has elements 2j and 2j + 1 of row i.
void matrix_to_fragment(const uint8_t* const* rows, bool transpose, uint32_t* lanes) {
  if (transpose) return transpose_halves([&](int row) { return rows[row]; }, reinterpret_cast<uint16_t*>(lanes));
  for (int row = 0; row < kMatrixSide; ++row) std::memcpy(lanes + row * 4, rows[row], kMatrixRowBytes);
}

void matrix_to_fragment(const MatrixRows& rows, bool transpose, uint32_t* lanes) {
  const uint8_t* pointers[kMatrixSide];
  for (int row = 0; row < kMatrixSide; ++row) pointers[row] = reinterpret_cast<const uint8_t*>(rows[row]);
  matrix_to_fragment(pointers, transpose, lanes);
}

void fragment_to_matrix(const uint32_t* lanes, bool transpose, MatrixRows& rows) {
  const auto* halves = reinterpret_cast<const uint16_t*>(lanes);
  if (!transpose) {
    std::memcpy(rows, halves, sizeof rows);
    return;
  }
  transpose_halves([&](int row) { return halves + row * kMatrixSide; }, rows[0]);
}

}  // namespace simulator
}  // namespace tilelang
