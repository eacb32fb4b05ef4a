// Printing and assertions on the device.
#pragma once
#ifndef __CUDACC_RTC__
#include <cstdio>
#endif
#include "common.h"

namespace tl {

// What printf calls a value: a format and a promoted argument.
TL_DEVICE void print_number(const char* label, long long value) {
  printf("%s: block=(%d, %d, %d) thread=(%d, %d, %d) value=%lld\n", label, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x,
         threadIdx.y, threadIdx.z, value);
}
TL_DEVICE void print_number(const char* label, double value) {
  printf("%s: block=(%d, %d, %d) thread=(%d, %d, %d) value=%g\n", label, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x,
         threadIdx.y, threadIdx.z, value);
}
template <typename T>
struct is_whole_number {
  static constexpr bool value = is_same<T, bool>::value || is_same<T, signed char>::value || is_same<T, uchar>::value ||
                                is_same<T, short>::value || is_same<T, ushort>::value || is_same<T, int>::value ||
                                is_same<T, uint>::value || is_same<T, long>::value || is_same<T, unsigned long>::value ||
                                is_same<T, long long>::value || is_same<T, unsigned long long>::value;
};

template <typename T>
TL_DEVICE void debug_print(const char* label, T value) {
  if constexpr (is_whole_number<T>::value) {
    print_number(label, static_cast<long long>(value));
  } else if constexpr (is_same<T, double>::value) {
    print_number(label, value);
  } else {
    print_number(label, static_cast<double>(static_cast<float>(value)));
  }
}

// One element of a buffer with its flat index.
template <typename T>
TL_DEVICE void debug_print_element(const char* label, int index, T value) {
  if constexpr (is_whole_number<T>::value) {
    printf("%s[%d] = %lld\n", label, index, static_cast<long long>(value));
  } else {
    printf("%s[%d] = %g\n", label, index, static_cast<double>(static_cast<float>(value)));
  }
}

TL_DEVICE void debug_print_message(const char* label) {
  printf("%s: block=(%d, %d, %d) thread=(%d, %d, %d)\n", label, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y,
         threadIdx.z);
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
