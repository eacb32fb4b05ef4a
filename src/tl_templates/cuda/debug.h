// Printing and assertions on the device.
#pragma once
#ifndef __CUDACC_RTC__
#include <cstdio>
#endif
#include "common.h"

namespace tl {

template <typename T>
struct is_whole_number {
  static constexpr bool value = is_same<T, bool>::value || is_same<T, signed char>::value || is_same<T, uchar>::value ||
                                is_same<T, short>::value || is_same<T, ushort>::value || is_same<T, int>::value ||
                                is_same<T, uint>::value || is_same<T, long>::value || is_same<T, unsigned long>::value ||
                                is_same<T, long long>::value || is_same<T, unsigned long long>::value;
};

// A value as printf takes it.
template <typename T>
TL_DEVICE auto printed(T value) {
  if constexpr (is_whole_number<T>::value) {
    return static_cast<long long>(value);
  } else if constexpr (is_same<T, double>::value) {
    return value;
  } else {
    return static_cast<double>(static_cast<float>(value));
  }
}

// A line of a format that ends with the block and the thread.
template <typename... T>
TL_DEVICE void debug_print_line(const char* format, T... values) {
  printf(format, printed(values)..., blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
}

// One element of a buffer: its indices, and its value.
template <typename... T>
TL_DEVICE void debug_print_element(const char* format, T... values) {
  printf(format, printed(values)...);
}

// Stops the kernel with an error where the condition is false.
TL_DEVICE void device_assert_msg(bool condition, const char* message) {
  if (!condition) {
    printf("%s: block=(%d, %d, %d) thread=(%d, %d, %d)\n", message, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x,
           threadIdx.y, threadIdx.z);
    __trap();
  }
}

TL_DEVICE void device_assert(bool condition) { device_assert_msg(condition, "device assertion failed"); }

}  // namespace tl
