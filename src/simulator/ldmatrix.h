// The 8x8 matrices of 16-bit elements that ldmatrix, stmatrix and movmatrix move.
#ifndef TILELANG_SIMULATOR_LDMATRIX_H_
#define TILELANG_SIMULATOR_LDMATRIX_H_

#include <cstdint>

#include "types.h"

namespace tilelang {
namespace simulator {

constexpr int kMatrixSide = 8;
constexpr int kMatrixRowBytes = 16;

using MatrixRows = uint16_t[kMatrixSide][kMatrixSide];

// Lane l of the fragment holds elements (l / 4, 2 * (l % 4)) and its right neighbour, packed; with
// `transpose` the elements of those places in the transposed matrix. `rows` points to each row's 16 bytes.
void matrix_to_fragment(const uint8_t* const* rows, bool transpose, uint32_t* lanes);
void matrix_to_fragment(const MatrixRows& rows, bool transpose, uint32_t* lanes);
void fragment_to_matrix(const uint32_t* lanes, bool transpose, MatrixRows& rows);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_LDMATRIX_H_
