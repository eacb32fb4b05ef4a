// What every kernel needs: fixed-width names, the function qualifier, shared addresses.
// Compiles with NVRTC (no host headers) and nvcc.
#pragma once

#ifdef __CUDACC_RTC__
#include "../nvrtc/cstdint"
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

// An integer of 32 or 64 bits of which the compiler knows nothing: it does not repeat cheap arithmetic in each iteration of a loop
// that uses it, nor draw conclusions from its bits.
template <typename T>
TL_DEVICE T kept(T value) {
  if constexpr (sizeof(T) == 8)
    asm("" : "+l"(value));
  else
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

// Integer division, defined for every operand: by zero it gives zero (as the remainder does), and the least value by -1 wraps.
template <typename T>
TL_DEVICE T trunc_div(T a, T b) {
  if (b == 0) return 0;
  return b == T(-1) && b < 0 ? T(uint64_t{0} - static_cast<uint64_t>(a)) : a / b;
}
template <typename T>
TL_DEVICE T trunc_mod(T a, T b) {
  return b == 0 || (b == T(-1) && b < 0) ? T(0) : a % b;
}

// Division that rounds down, and its remainder, which has the divisor's sign (as in Python).
template <typename T>
TL_DEVICE T floor_div(T a, T b) {
  const T remainder = trunc_mod(a, b);
  return trunc_div(a, b) - (remainder != 0 && (remainder < 0) != (b < 0));
}
template <typename T>
TL_DEVICE T floor_mod(T a, T b) {
  const T remainder = trunc_mod(a, b);
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

// Shifts by the width of the type or more (or by a negative number): all bits leave.
template <typename T>
TL_DEVICE T shift_left(T a, T b) {
  return static_cast<uint64_t>(b) < 8 * sizeof(T) ? T(a << b) : T(0);
}
template <typename T>
TL_DEVICE T shift_right(T a, T b) {
  return static_cast<uint64_t>(b) < 8 * sizeof(T) ? T(a >> b) : T(a < 0 ? -1 : 0);
}

// A float as an integer: the whole part, limited to the type's range; zero for NaN, where some conversions have other values.
TL_DEVICE int to_int32(float x) { return __float2int_rz(x); }
TL_DEVICE uint to_uint32(float x) { return __float2uint_rz(x); }
TL_DEVICE int64_t to_int64(float x) { return x == x ? __float2ll_rz(x) : 0; }
TL_DEVICE uint64_t to_uint64(float x) { return x == x ? __float2ull_rz(x) : 0; }
TL_DEVICE int to_int32(double x) { return x == x ? __double2int_rz(x) : 0; }
TL_DEVICE uint to_uint32(double x) { return x == x ? __double2uint_rz(x) : 0; }
TL_DEVICE int64_t to_int64(double x) { return x == x ? __double2ll_rz(x) : 0; }
TL_DEVICE uint64_t to_uint64(double x) { return x == x ? __double2ull_rz(x) : 0; }

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

// max/min where one NaN operand makes the result NaN; half.h and bf16.h add theirs. A comparison with NaN is false and takes b.
template <typename T>
TL_DEVICE T max_nan(T a, T b) {
  return a > b || a != a ? a : b;
}
template <typename T>
TL_DEVICE T min_nan(T a, T b) {
  return a < b || a != a ? a : b;
}
#if __CUDA_ARCH__ >= 800
template <>
__device__ __forceinline__ float max_nan<float>(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
template <>
__device__ __forceinline__ float min_nan<float>(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
#endif

// A number limited to low … high, of which high wins where they cross; NaN if one of the three is.
template <typename T>
TL_DEVICE T clamp(T value, T low, T high) {
  return min_nan<T>(max_nan<T>(value, low), high);
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

// The numbers of this thread's group of 128 and of its warp, in a form that the compiler knows to be the same in all lanes of a warp:
// addresses and branches that depend on them stay in uniform registers. All lanes must call them together.
TL_DEVICE int warp_group() { return __shfl_sync(0xffffffffu, thread_rank() >> 7, 0); }
TL_DEVICE int warp_rank() { return __shfl_sync(0xffffffffu, thread_rank() >> 5, 0); }

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

// True in the first of the lanes that run this together and have the same integers here.
template <typename... Places>
TL_DEVICE bool leads_alike(Places... places) {
  const uint32_t together = __activemask();
  uint32_t alike = together;
  ((alike &= __match_any_sync(together, places)), ...);
  return (alike & ((1u << lane_rank()) - 1)) == 0;
}

}  // namespace tl
