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
