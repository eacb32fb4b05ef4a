// What every kernel needs: fixed-width names, the function qualifier, shared addresses.
// Compiles with NVRTC (no host headers) and nvcc.
#pragma once

#ifdef __CUDACC_RTC__
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;
#else
#include <cstdint>
#endif

using uint = unsigned int;
using uchar = unsigned char;
using ushort = unsigned short;

#define TL_DEVICE __device__ __forceinline__

// The opaque descriptor of the tensor memory accelerator (cuda.h, which NVRTC cannot include, has the same layout).
#ifndef __cuda_cuda_h__
struct alignas(64) CUtensorMap {
  unsigned long long opaque[16];
};
#endif

namespace tl {

// The 32-bit address of shared memory that PTX instructions want, from a generic pointer.
TL_DEVICE uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// A number that a loop uses, computed before it: compilers would rather repeat cheap arithmetic in each iteration.
TL_DEVICE int kept(int value) {
  asm("" : "+r"(value));
  return value;
}

// The bits of a value under another type of the same size.
template <typename To, typename From>
TL_DEVICE To bit_cast(const From& value) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast between types of different size");
  To result;
  memcpy(&result, &value, sizeof(To));
  return result;
}

template <typename A, typename B>
struct is_same {
  static constexpr bool value = false;
};
template <typename A>
struct is_same<A, A> {
  static constexpr bool value = true;
};

// Division that rounds down, and its remainder, which has the divisor's sign (as in Python).
template <typename T, typename D>
TL_DEVICE auto floor_div(T a, D b) {
  const auto quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}
template <typename T, typename D>
TL_DEVICE auto floor_mod(T a, D b) {
  const auto remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

// max/min that ignore NaN (the IEEE maximumNumber), for every scalar type; half.h and bf16.h add theirs.
template <typename T>
TL_DEVICE T max_number(T a, T b) {
  return a > b ? a : b;
}
template <>
__device__ __forceinline__ float max_number<float>(float a, float b) {
  return fmaxf(a, b);
}
template <>
__device__ __forceinline__ double max_number<double>(double a, double b) {
  return fmax(a, b);
}
template <typename T>
TL_DEVICE T min_number(T a, T b) {
  return a < b ? a : b;
}
template <>
__device__ __forceinline__ float min_number<float>(float a, float b) {
  return fminf(a, b);
}
template <>
__device__ __forceinline__ double min_number<double>(double a, double b) {
  return fmin(a, b);
}

// max/min where one NaN operand makes the result NaN.
template <typename T>
TL_DEVICE T max_nan(T a, T b) {
  return (a != a) ? a : (b != b) ? b : (a > b ? a : b);
}
template <typename T>
TL_DEVICE T min_nan(T a, T b) {
  return (a != a) ? a : (b != b) ? b : (a < b ? a : b);
}

// The block's number in launch order, and the thread's number in its block.
TL_DEVICE int block_rank() {
  return static_cast<int>(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
}
TL_DEVICE int thread_rank() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}
TL_DEVICE int lane_rank() {
  uint32_t lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return static_cast<int>(lane);
}

// The number of this thread's group of 128, in a form that the compiler knows to be the same in all lanes of a warp: addresses and
// branches that depend on it stay in uniform registers.
TL_DEVICE int warp_group() { return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x >> 7), 0); }
TL_DEVICE int warp_rank() { return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x >> 5), 0); }

// True in exactly one lane of a converged warp (PTX elect.sync, sm_90; lane 0 before).
TL_DEVICE bool elect_one() {
#if __CUDA_ARCH__ >= 900
  uint32_t elected;
  asm volatile(
      "{\n"
      "  .reg .pred p;\n"
      "  elect.sync _|p, 0xffffffff;\n"
      "  selp.b32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(elected));
  return elected != 0;
#else
  return lane_rank() == 0;
#endif
}

// True in one thread of each group of `Threads` threads of the block (a multiple of 32), or of the block where it is 0.
template <int Threads>
TL_DEVICE bool elect_thread() {
  const int first_warp = Threads == 0 ? warp_rank() : warp_rank() % (Threads / 32 > 0 ? Threads / 32 : 1);
  return first_warp == 0 && elect_one();
}

}  // namespace tl
