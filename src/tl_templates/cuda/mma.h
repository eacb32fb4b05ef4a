// mma.sync: d += a @ b, one warp, operands in registers as the PTX manual lays them out ("Warp-level matrix instructions").
//
// Names are mma_<shape>_<accumulator>_<a>[_<b>]; b is named only where it differs from a. `d`, `a` and `b` point to 32-bit
// registers (64-bit for f64). A row-major, B column-major.
#pragma once
#include "common.h"

namespace tl {

// Rows of the table below: name, instruction text, register type and constraint of the accumulator. The two numbers are the
// registers of A and B; accumulators have four registers, or two (TL_MMA_HALF_*: packed halves).
#define TL_MMA_4_2(NAME, TEXT, TYPE, CONSTRAINT)                                                               \
  TL_DEVICE void mma_##NAME(void* accumulator, const void* left, const void* right) {                          \
    TYPE* d = static_cast<TYPE*>(accumulator);                                                                 \
    const uint32_t* a = static_cast<const uint32_t*>(left);                                                    \
    const uint32_t* b = static_cast<const uint32_t*>(right);                                                   \
    asm volatile("mma.sync.aligned." TEXT                                                                      \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                            \
                 : "+" CONSTRAINT(d[0]), "+" CONSTRAINT(d[1]), "+" CONSTRAINT(d[2]), "+" CONSTRAINT(d[3])      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                          \
  }
#define TL_MMA_2_1(NAME, TEXT, TYPE, CONSTRAINT)                                                               \
  TL_DEVICE void mma_##NAME(void* accumulator, const void* left, const void* right) {                          \
    TYPE* d = static_cast<TYPE*>(accumulator);                                                                 \
    const uint32_t* a = static_cast<const uint32_t*>(left);                                                    \
    const uint32_t* b = static_cast<const uint32_t*>(right);                                                   \
    asm volatile("mma.sync.aligned." TEXT " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"               \
                 : "+" CONSTRAINT(d[0]), "+" CONSTRAINT(d[1]), "+" CONSTRAINT(d[2]), "+" CONSTRAINT(d[3])      \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));                                                           \
  }
#define TL_MMA_HALF_4_2(NAME, TEXT)                                                                            \
  TL_DEVICE void mma_##NAME(void* accumulator, const void* left, const void* right) {                          \
    uint32_t* d = static_cast<uint32_t*>(accumulator);                                                         \
    const uint32_t* a = static_cast<const uint32_t*>(left);                                                    \
    const uint32_t* b = static_cast<const uint32_t*>(right);                                                   \
    asm volatile("mma.sync.aligned." TEXT " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"                   \
                 : "+r"(d[0]), "+r"(d[1])                                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                          \
  }
#define TL_MMA_HALF_2_1(NAME, TEXT)                                                                            \
  TL_DEVICE void mma_##NAME(void* accumulator, const void* left, const void* right) {                          \
    uint32_t* d = static_cast<uint32_t*>(accumulator);                                                         \
    const uint32_t* a = static_cast<const uint32_t*>(left);                                                    \
    const uint32_t* b = static_cast<const uint32_t*>(right);                                                   \
    asm volatile("mma.sync.aligned." TEXT " {%0, %1}, {%2, %3}, {%4}, {%0, %1};"                               \
                 : "+r"(d[0]), "+r"(d[1])                                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));                                                           \
  }

TL_MMA_2_1(m16n8k8_f32_f16, "m16n8k8.row.col.f32.f16.f16.f32", float, "f")
TL_MMA_4_2(m16n8k16_f32_f16, "m16n8k16.row.col.f32.f16.f16.f32", float, "f")
TL_MMA_HALF_2_1(m16n8k8_f16_f16, "m16n8k8.row.col.f16.f16.f16.f16")
TL_MMA_HALF_4_2(m16n8k16_f16_f16, "m16n8k16.row.col.f16.f16.f16.f16")
TL_MMA_2_1(m16n8k8_f32_bf16, "m16n8k8.row.col.f32.bf16.bf16.f32", float, "f")
TL_MMA_4_2(m16n8k16_f32_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32", float, "f")
TL_MMA_2_1(m16n8k4_f32_tf32, "m16n8k4.row.col.f32.tf32.tf32.f32", float, "f")
TL_MMA_4_2(m16n8k8_f32_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32", float, "f")

#define TL_MMA_INTEGER(A, B, SUFFIX, SMALL, LARGE)                                                             \
  TL_MMA_2_1(m16n8k##SMALL##_s32_##SUFFIX, "m16n8k" #SMALL ".row.col.s32." #A "." #B ".s32", int, "r")         \
  TL_MMA_4_2(m16n8k##LARGE##_s32_##SUFFIX, "m16n8k" #LARGE ".row.col.s32." #A "." #B ".s32", int, "r")
TL_MMA_INTEGER(s8, s8, s8, 16, 32)
TL_MMA_INTEGER(u8, u8, u8, 16, 32)
TL_MMA_INTEGER(s8, u8, s8_u8, 16, 32)
TL_MMA_INTEGER(u8, s8, u8_s8, 16, 32)
TL_MMA_INTEGER(s4, s4, s4, 32, 64)
TL_MMA_INTEGER(u4, u4, u4, 32, 64)
TL_MMA_INTEGER(s4, u4, s4_u4, 32, 64)
TL_MMA_INTEGER(u4, s4, u4_s4, 32, 64)
#undef TL_MMA_INTEGER

TL_MMA_2_1(m16n8k128_s32_b1_and, "m16n8k128.row.col.s32.b1.b1.s32.and.popc", int, "r")
TL_MMA_4_2(m16n8k256_s32_b1_and, "m16n8k256.row.col.s32.b1.b1.s32.and.popc", int, "r")
TL_MMA_2_1(m16n8k128_s32_b1_xor, "m16n8k128.row.col.s32.b1.b1.s32.xor.popc", int, "r")
TL_MMA_4_2(m16n8k256_s32_b1_xor, "m16n8k256.row.col.s32.b1.b1.s32.xor.popc", int, "r")

#if __CUDA_ARCH__ >= 890
TL_MMA_4_2(m16n8k32_f32_e4m3, "m16n8k32.row.col.f32.e4m3.e4m3.f32", float, "f")
TL_MMA_4_2(m16n8k32_f32_e5m2, "m16n8k32.row.col.f32.e5m2.e5m2.f32", float, "f")
TL_MMA_4_2(m16n8k32_f32_e4m3_e5m2, "m16n8k32.row.col.f32.e4m3.e5m2.f32", float, "f")
TL_MMA_4_2(m16n8k32_f32_e5m2_e4m3, "m16n8k32.row.col.f32.e5m2.e4m3.f32", float, "f")
#endif

#undef TL_MMA_4_2
#undef TL_MMA_2_1
#undef TL_MMA_HALF_4_2
#undef TL_MMA_HALF_2_1

TL_DEVICE void mma_m8n8k4_f64(void* accumulator, const void* left, const void* right) {
  double* d = static_cast<double*>(accumulator);
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(d[0]), "+d"(d[1])
               : "d"(*static_cast<const double*>(left)), "d"(*static_cast<const double*>(right)));
}

// Round a float to the nearest tf32 (the tensor cores drop the low bits otherwise).
TL_DEVICE float round_tf32(float value) {
  uint32_t result;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(value));
  return __uint_as_float(result);
}

}  // namespace tl
