// mma.sp: like mma.sync where A keeps two of every four consecutive elements of K (2:4 structured sparsity).
//
// `metadata` holds two-bit positions of the kept elements, ascending in each group of four ("ordered metadata"); the threads that
// provide it are chosen by `Selector`: 0 or 1 where a pair of threads per quad does (16-bit types), 0 where all four do.
#pragma once
#include "common.h"

namespace tl {

// Metadata in which groups of zeros, which lie outside of a tensor and would be undefined, keep their first two elements.
TL_DEVICE uint32_t sparse_metadata(uint32_t word) {
  uint32_t used = word | word >> 1;
  used |= used >> 2;
  return word | (~used & 0x11111111u) << 2;
}

#define TL_MMA_SPARSE(NAME, TEXT, TYPE, CONSTRAINT)                                                                \
  template <int Selector = 0>                                                                                      \
  TL_DEVICE void mma_sp_##NAME(void* accumulator, const void* left, const void* right, uint32_t metadata) {        \
    TYPE* d = static_cast<TYPE*>(accumulator);                                                                     \
    const uint32_t* a = static_cast<const uint32_t*>(left);                                                        \
    const uint32_t* b = static_cast<const uint32_t*>(right);                                                       \
    asm volatile("mma.sp::ordered_metadata.sync.aligned." TEXT                                                     \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"            \
                 : "+" CONSTRAINT(d[0]), "+" CONSTRAINT(d[1]), "+" CONSTRAINT(d[2]), "+" CONSTRAINT(d[3])          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),         \
                   "r"(metadata), "n"(Selector));                                                                  \
  }
TL_MMA_SPARSE(m16n8k32_f32_f16, "m16n8k32.row.col.f32.f16.f16.f32", float, "f")
TL_MMA_SPARSE(m16n8k32_f32_bf16, "m16n8k32.row.col.f32.bf16.bf16.f32", float, "f")
TL_MMA_SPARSE(m16n8k16_f32_tf32, "m16n8k16.row.col.f32.tf32.tf32.f32", float, "f")
TL_MMA_SPARSE(m16n8k64_s32_s8, "m16n8k64.row.col.s32.s8.s8.s32", int, "r")
TL_MMA_SPARSE(m16n8k64_s32_u8, "m16n8k64.row.col.s32.u8.u8.s32", int, "r")
TL_MMA_SPARSE(m16n8k64_s32_s8_u8, "m16n8k64.row.col.s32.s8.u8.s32", int, "r")
TL_MMA_SPARSE(m16n8k64_s32_u8_s8, "m16n8k64.row.col.s32.u8.s8.s32", int, "r")
#if __CUDA_ARCH__ >= 890
TL_MMA_SPARSE(m16n8k64_f32_e4m3, "m16n8k64.row.col.f32.e4m3.e4m3.f32", float, "f")
TL_MMA_SPARSE(m16n8k64_f32_e5m2, "m16n8k64.row.col.f32.e5m2.e5m2.f32", float, "f")
TL_MMA_SPARSE(m16n8k64_f32_e4m3_e5m2, "m16n8k64.row.col.f32.e4m3.e5m2.f32", float, "f")
TL_MMA_SPARSE(m16n8k64_f32_e5m2_e4m3, "m16n8k64.row.col.f32.e5m2.e4m3.f32", float, "f")
#endif
#undef TL_MMA_SPARSE

template <int Selector = 0>
TL_DEVICE void mma_sp_m16n8k32_f16_f16(void* accumulator, const void* left, const void* right, uint32_t metadata) {
  uint32_t* d = static_cast<uint32_t*>(accumulator);
  const uint32_t* a = static_cast<const uint32_t*>(left);
  const uint32_t* b = static_cast<const uint32_t*>(right);
  asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16"
               " {%0, %1}, {%2, %3, %4, %5}, {%6, %7, %8, %9}, {%0, %1}, %10, %11;"
               : "+r"(d[0]), "+r"(d[1])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
                 "r"(metadata), "n"(Selector));
}

}  // namespace tl
