// ldmatrix / stmatrix: 8x8 matrices of 16-bit elements between shared memory and the registers of a warp.
//
// Lane i holds the address of row i % 8 of matrix i / 8, sixteen aligned bytes; `registers` are one, two or four 32-bit
// registers, one a matrix (PTX manual, "Warp-level matrix load / store instruction").
#pragma once
#include "common.h"

namespace tl {

#define TL_LDMATRIX(SUFFIX, MODIFIER)                                                                      \
  TL_DEVICE void ldmatrix_x1##SUFFIX(void* registers, const void* row) {                                   \
    uint32_t* r = static_cast<uint32_t*>(registers);                                                       \
    asm volatile("ldmatrix.sync.aligned.m8n8.x1" MODIFIER ".shared.b16 {%0}, [%1];"                        \
                 : "=r"(r[0])                                                                              \
                 : "r"(shared_address(row))                                                                \
                 : "memory");                                                                              \
  }                                                                                                        \
  TL_DEVICE void ldmatrix_x2##SUFFIX(void* registers, const void* row) {                                   \
    uint32_t* r = static_cast<uint32_t*>(registers);                                                       \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2" MODIFIER ".shared.b16 {%0, %1}, [%2];"                    \
                 : "=r"(r[0]), "=r"(r[1])                                                                  \
                 : "r"(shared_address(row))                                                                \
                 : "memory");                                                                              \
  }                                                                                                        \
  TL_DEVICE void ldmatrix_x4##SUFFIX(void* registers, const void* row) {                                   \
    uint32_t* r = static_cast<uint32_t*>(registers);                                                       \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" MODIFIER ".shared.b16 {%0, %1, %2, %3}, [%4];"            \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                          \
                 : "r"(shared_address(row))                                                                \
                 : "memory");                                                                              \
  }
TL_LDMATRIX(, "")
TL_LDMATRIX(_trans, ".trans")
#undef TL_LDMATRIX

// A 32 x 16 block of bytes, transposed: of the even rows (matrices 0 and 2) and the odd ones (1 and 3) of sixteen each, a lane
// gets two neighbouring columns of two rows. A permutation makes of them four consecutive rows of one column. _rows: the registers
// of an m16 operand whose rows g and g + 8 are the columns 2g and 2g + 1; _columns: those of two n8 operands likewise.
TL_DEVICE void ldmatrix_bytes_rows(void* registers, const void* row) {
  uint32_t even_odd[4];
  ldmatrix_x4_trans(even_odd, row);
  uint32_t* r = static_cast<uint32_t*>(registers);
  r[0] = __byte_perm(even_odd[0], even_odd[1], 0x6240);
  r[1] = __byte_perm(even_odd[0], even_odd[1], 0x7351);
  r[2] = __byte_perm(even_odd[2], even_odd[3], 0x6240);
  r[3] = __byte_perm(even_odd[2], even_odd[3], 0x7351);
}
TL_DEVICE void ldmatrix_bytes_columns(void* registers, const void* row) {
  uint32_t even_odd[4];
  ldmatrix_x4_trans(even_odd, row);
  uint32_t* r = static_cast<uint32_t*>(registers);
  r[0] = __byte_perm(even_odd[0], even_odd[1], 0x6240);
  r[1] = __byte_perm(even_odd[2], even_odd[3], 0x6240);
  r[2] = __byte_perm(even_odd[0], even_odd[1], 0x7351);
  r[3] = __byte_perm(even_odd[2], even_odd[3], 0x7351);
}

#if __CUDA_ARCH__ >= 900
#define TL_STMATRIX(SUFFIX, MODIFIER)                                                                      \
  TL_DEVICE void stmatrix_x1##SUFFIX(void* row, const void* registers) {                                   \
    const uint32_t* r = static_cast<const uint32_t*>(registers);                                           \
    asm volatile("stmatrix.sync.aligned.m8n8.x1" MODIFIER ".shared.b16 [%0], {%1};" ::"r"(                 \
                     shared_address(row)),                                                                 \
                 "r"(r[0])                                                                                 \
                 : "memory");                                                                              \
  }                                                                                                        \
  TL_DEVICE void stmatrix_x2##SUFFIX(void* row, const void* registers) {                                   \
    const uint32_t* r = static_cast<const uint32_t*>(registers);                                           \
    asm volatile("stmatrix.sync.aligned.m8n8.x2" MODIFIER ".shared.b16 [%0], {%1, %2};" ::"r"(             \
                     shared_address(row)),                                                                 \
                 "r"(r[0]), "r"(r[1])                                                                      \
                 : "memory");                                                                              \
  }                                                                                                        \
  TL_DEVICE void stmatrix_x4##SUFFIX(void* row, const void* registers) {                                   \
    const uint32_t* r = static_cast<const uint32_t*>(registers);                                           \
    asm volatile("stmatrix.sync.aligned.m8n8.x4" MODIFIER ".shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(     \
                     shared_address(row)),                                                                 \
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])                                                \
                 : "memory");                                                                              \
  }
TL_STMATRIX(, "")
TL_STMATRIX(_trans, ".trans")
#undef TL_STMATRIX
#endif

}  // namespace tl
