// Atomics on global and shared memory: one element, and vectors of two or four (sm_90) of them.
//
// The last template argument of the ordered forms is the memory order: 0 relaxed, 2 acquire, 3 release, 4 acq_rel, 5 seq_cst.
#pragma once
#include "common.h"

namespace tl {

constexpr int kRelaxed = 0, kAcquire = 2, kRelease = 3, kAcqRel = 4, kSeqCst = 5;

// Order around a relaxed read-modify-write: release before it, acquire after it.
template <int Order>
TL_DEVICE void fence_before() {
  if constexpr (Order == kRelease || Order == kAcqRel || Order == kSeqCst) __threadfence();
}
template <int Order>
TL_DEVICE void fence_after() {
  if constexpr (Order == kAcquire || Order == kAcqRel || Order == kSeqCst) __threadfence();
}

// new = f(old) by compare-and-swap on the aligned word of four or eight bytes around the element.
template <typename T, typename F>
TL_DEVICE T atomic_update(T* address, F f) {
  if constexpr (sizeof(T) == 8) {
    auto* word = reinterpret_cast<unsigned long long*>(address);
    unsigned long long seen = atomicCAS(word, static_cast<unsigned long long>(0), static_cast<unsigned long long>(0));
    while (true) {
      const T old = bit_cast<T>(seen);
      const auto found = atomicCAS(word, seen, bit_cast<unsigned long long>(static_cast<T>(f(old))));
      if (found == seen) return old;
      seen = found;
    }
  } else if constexpr (sizeof(T) == 4) {
    auto* word = reinterpret_cast<uint32_t*>(address);
    uint32_t seen = atomicCAS(word, static_cast<uint32_t>(0), static_cast<uint32_t>(0));
    while (true) {
      const T old = bit_cast<T>(seen);
      const uint32_t found = atomicCAS(word, seen, bit_cast<uint32_t>(static_cast<T>(f(old))));
      if (found == seen) return old;
      seen = found;
    }
  } else if constexpr (sizeof(T) == 2) {
    auto* word = reinterpret_cast<uint16_t*>(address);
    uint16_t seen = atomicCAS(word, static_cast<uint16_t>(0), static_cast<uint16_t>(0));
    while (true) {
      const T old = bit_cast<T>(seen);
      const uint16_t found = atomicCAS(word, seen, bit_cast<uint16_t>(static_cast<T>(f(old))));
      if (found == seen) return old;
      seen = found;
    }
  } else {
    // Other threads may store to the neighbours: the byte is read by itself, and the first word that is compared is a guess.
    const uint64_t where = reinterpret_cast<uint64_t>(address);
    auto* word = reinterpret_cast<uint32_t*>(where & ~uint64_t{3});
    const int shift = static_cast<int>(where & 3) * 8;
    uint32_t seen = static_cast<uint32_t>(*reinterpret_cast<const volatile uint8_t*>(address)) << shift;
    while (true) {
      const auto byte = static_cast<uint8_t>(seen >> shift);
      const T old = bit_cast<T>(byte);
      const auto fresh = bit_cast<uint8_t>(static_cast<T>(f(old)));
      if (fresh == byte) return old;
      const uint32_t found = atomicCAS(word, seen, (seen & ~(0xffu << shift)) | (static_cast<uint32_t>(fresh) << shift));
      if (found == seen) return old;
      seen = found;
    }
  }
}

// Types that the hardware's own atomics take; everything else goes by compare-and-swap.
template <typename T>
struct native_atomic {
  static constexpr bool integer = false, addition = false;
};
#define TL_NATIVE(TYPE, INTEGER, ADDITION)                             \
  template <>                                                          \
  struct native_atomic<TYPE> {                                         \
    static constexpr bool integer = INTEGER, addition = ADDITION;      \
  };
TL_NATIVE(int, true, true)
TL_NATIVE(unsigned int, true, true)
TL_NATIVE(unsigned long long, true, true)
TL_NATIVE(float, false, true)
TL_NATIVE(double, false, true)
#ifdef __CUDA_FP16_TYPES_EXIST__
TL_NATIVE(half, false, true)
#endif
#ifdef __CUDA_BF16_TYPES_EXIST__
// Before sm_90 the toolkit's own form reads the old value by a plain load.
TL_NATIVE(nv_bfloat16, false, __CUDA_ARCH__ >= 900)
#endif
#undef TL_NATIVE

// 64-bit integers have a native form under the name `unsigned long long` only; two's complement addition is the same for all.
template <typename T>
TL_DEVICE T atomic_add_value(T* address, T value) {
  if constexpr (native_atomic<T>::addition) {
    return atomicAdd(address, value);
  } else if constexpr (is_same<T, long>::value || is_same<T, unsigned long>::value || is_same<T, long long>::value) {
    return static_cast<T>(
        atomicAdd(reinterpret_cast<unsigned long long*>(address), static_cast<unsigned long long>(value)));
  } else {
    return atomic_update(address, [=](T old) { return static_cast<T>(old + value); });
  }
}
template <typename T>
TL_DEVICE T atomic_max_value(T* address, T value) {
  if constexpr (native_atomic<T>::integer) {
    return atomicMax(address, value);
  } else {
    return atomic_update(address, [=](T old) { return max_number<T>(old, value); });
  }
}
template <typename T>
TL_DEVICE T atomic_min_value(T* address, T value) {
  if constexpr (native_atomic<T>::integer) {
    return atomicMin(address, value);
  } else {
    return atomic_update(address, [=](T old) { return min_number<T>(old, value); });
  }
}
template <typename T>
TL_DEVICE T atomic_and_value(T* address, T value) {
  if constexpr (native_atomic<T>::integer) {
    return atomicAnd(address, value);
  } else {
    return atomic_update(address, [=](T old) { return static_cast<T>(old & value); });
  }
}
template <typename T>
TL_DEVICE T atomic_or_value(T* address, T value) {
  if constexpr (native_atomic<T>::integer) {
    return atomicOr(address, value);
  } else {
    return atomic_update(address, [=](T old) { return static_cast<T>(old | value); });
  }
}
template <typename T>
TL_DEVICE T atomic_xor_value(T* address, T value) {
  if constexpr (native_atomic<T>::integer) {
    return atomicXor(address, value);
  } else {
    return atomic_update(address, [=](T old) { return static_cast<T>(old ^ value); });
  }
}
template <typename T>
TL_DEVICE T atomic_exch_value(T* address, T value) {
  return atomic_update(address, [=](T) { return value; });
}

// atomic_<op>[<Order>](address, value) -> the old value. The value is converted to the element type first.
#define TL_ATOMIC(OP)                                             \
  template <int Order = kRelaxed, typename T, typename V>         \
  TL_DEVICE T atomic_##OP(T* address, V value) {                  \
    fence_before<Order>();                                        \
    const T old = atomic_##OP##_value(address, static_cast<T>(value)); \
    fence_after<Order>();                                         \
    return old;                                                   \
  }
TL_ATOMIC(add)
TL_ATOMIC(max)
TL_ATOMIC(min)
TL_ATOMIC(and)
TL_ATOMIC(or)
TL_ATOMIC(xor)
TL_ATOMIC(exch)
#undef TL_ATOMIC

// Whether an address is a multiple of so many bytes, as one instruction for several elements needs it.
template <int Bytes>
TL_DEVICE bool is_aligned(const void* address) {
  return reinterpret_cast<size_t>(address) % Bytes == 0;
}

// One instruction that adds to `Count` neighbours, at a multiple of their size; to floats in global memory only.
template <int Count>
struct neighbours {};

#if __CUDA_ARCH__ >= 900
TL_DEVICE void add_neighbours(neighbours<2>, float* address, const float* value) {
  atomicAdd(reinterpret_cast<float2*>(address), make_float2(value[0], value[1]));
}
TL_DEVICE void add_neighbours(neighbours<4>, float* address, const float* value) {
  atomicAdd(reinterpret_cast<float4*>(address), make_float4(value[0], value[1], value[2], value[3]));
}
#endif
#ifdef __CUDA_FP16_TYPES_EXIST__
TL_DEVICE void add_neighbours(neighbours<2>, half* address, const half* value) {
  atomicAdd(reinterpret_cast<half2*>(address), half2{value[0], value[1]});
}
#endif
#ifdef __CUDA_BF16_TYPES_EXIST__
TL_DEVICE void add_neighbours(neighbours<2>, nv_bfloat16* address, const nv_bfloat16* value) {
  const nv_bfloat162 added{value[0], value[1]};
  auto* pair = reinterpret_cast<nv_bfloat162*>(address);
  if constexpr (__CUDA_ARCH__ >= 900) {
    atomicAdd(pair, added);
  } else {  // as for one element
    atomic_update(pair, [=](nv_bfloat162 old) { return __hadd2(old, added); });
  }
}
#endif

// PTX manual, "Parallel Synchronization and Communication Instructions: red".
#if __CUDA_ARCH__ >= 900
#define TL_ADD_PAIRS(TYPE, PAIR)                                                                     \
  TL_DEVICE void add_neighbours(neighbours<4>, TYPE* address, const TYPE* value) {                   \
    const uint32_t* pairs = reinterpret_cast<const uint32_t*>(value);                                \
    asm volatile("red.global.add.noftz.v2." PAIR " [%0], {%1, %2};" ::"l"(                           \
                     __cvta_generic_to_global(address)), "r"(pairs[0]), "r"(pairs[1]) : "memory");   \
  }                                                                                                  \
  TL_DEVICE void add_neighbours(neighbours<8>, TYPE* address, const TYPE* value) {                   \
    const uint32_t* pairs = reinterpret_cast<const uint32_t*>(value);                                \
    asm volatile("red.global.add.noftz.v4." PAIR " [%0], {%1, %2, %3, %4};" ::"l"(                   \
                     __cvta_generic_to_global(address)),                                             \
                 "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3]) : "memory");             \
  }
#ifdef __CUDA_FP16_TYPES_EXIST__
TL_ADD_PAIRS(half, "f16x2")
#endif
#ifdef __CUDA_BF16_TYPES_EXIST__
TL_ADD_PAIRS(nv_bfloat16, "bf16x2")
#endif
#undef TL_ADD_PAIRS
#endif

// address[0..Count) += value[0..Count), each element atomically: in global memory, at a multiple of the vector's size.
template <int Count, int Order = kRelaxed, typename T>
TL_DEVICE void atomic_add_global(T* address, const T* value) {
  fence_before<Order>();
  add_neighbours(neighbours<Count>(), address, value);
  fence_after<Order>();
}

// Whether one instruction can add to neighbours in a memory that is known at run time only.
template <int Count, typename T>
TL_DEVICE bool can_add_neighbours(const T* address) {
  return is_aligned<Count * sizeof(T)>(address) && (sizeof(T) == 2 || __isGlobal(address));
}

// The types of which one instruction adds to two, and to four of four bytes.
template <typename T>
struct vector_sums {
  static constexpr bool pairs = false, quads = false;
};
template <>
struct vector_sums<float> {
  static constexpr bool pairs = __CUDA_ARCH__ >= 900, quads = pairs;
};
#ifdef __CUDA_FP16_TYPES_EXIST__
template <>
struct vector_sums<half> {
  static constexpr bool pairs = true, quads = false;
};
#endif
#ifdef __CUDA_BF16_TYPES_EXIST__
template <>
struct vector_sums<nv_bfloat16> {
  static constexpr bool pairs = true, quads = false;
};
#endif

// address[0..1] += value[0..1], each element atomically; `value` points to two elements.
template <int Order = kRelaxed, typename T>
TL_DEVICE void atomic_add_x2(T* address, const T* value) {
  if constexpr (vector_sums<T>::pairs) {
    if (can_add_neighbours<2>(address)) return atomic_add_global<2, Order>(address, value);
  }
  fence_before<Order>();
  atomic_add_value(address, value[0]);
  atomic_add_value(address + 1, value[1]);
  fence_after<Order>();
}

// The same, giving the old elements.
template <int Count, typename Vector, typename T>
TL_DEVICE Vector atomic_add_vector(T* address, const T* value) {
  Vector old;
#pragma unroll
  for (int i = 0; i < Count; ++i) reinterpret_cast<T*>(&old)[i] = atomic_add_value(address + i, value[i]);
  return old;
}

template <int Order = kRelaxed, typename T>
TL_DEVICE void atomic_add_x4(T* address, const T* value) {
  if constexpr (vector_sums<T>::quads) {
    if (can_add_neighbours<4>(address)) return atomic_add_global<4, Order>(address, value);
  }
  atomic_add_x2<Order>(address, value);
  atomic_add_x2<Order>(address + 2, value + 2);
}

// The unsigned integer of a size: volatile access of class types goes through it.
template <int Bytes>
struct word_of;
template <>
struct word_of<1> {
  using type = uint8_t;
};
template <>
struct word_of<2> {
  using type = uint16_t;
};
template <>
struct word_of<4> {
  using type = uint32_t;
};
template <>
struct word_of<8> {
  using type = unsigned long long;
};

// Loads and stores of one element that order other accesses, at device scope.
template <int Order = kRelaxed, typename T>
TL_DEVICE T atomic_load(const T* address) {
  using Word = typename word_of<sizeof(T)>::type;
  if constexpr (Order == kSeqCst) __threadfence();
  const Word word = *reinterpret_cast<const volatile Word*>(address);
  if constexpr (Order == kAcquire || Order == kAcqRel || Order == kSeqCst) __threadfence();
  return bit_cast<T>(word);
}
template <int Order = kRelaxed, typename T, typename V>
TL_DEVICE void atomic_store(T* address, V value) {
  using Word = typename word_of<sizeof(T)>::type;
  if constexpr (Order == kRelease || Order == kAcqRel || Order == kSeqCst) __threadfence();
  *reinterpret_cast<volatile Word*>(address) = bit_cast<Word>(static_cast<T>(value));
  if constexpr (Order == kSeqCst) __threadfence();
}

}  // namespace tl
