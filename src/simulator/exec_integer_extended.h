// Integer arithmetic with a carry, and what it shares with the plain forms.
#ifndef TILELANG_SIMULATOR_EXEC_INTEGER_EXTENDED_H_
#define TILELANG_SIMULATOR_EXEC_INTEGER_EXTENDED_H_

#include <cstdint>
#include <type_traits>

#include "decoder.h"

namespace tilelang {
namespace simulator {

/// The upper half of a product.
template <class T>
T multiply_high(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> 64);
  } else {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> (sizeof(T) * 8));
  }
}

/// add.cc, addc, sub.cc, subc; the opcode has been consumed. `uses`: the carry is an input.
void decode_carry(Decoder& decoder, bool subtract, bool uses);
/// mad.cc, madc.
void decode_mad_carry(Decoder& decoder, bool uses);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_EXEC_INTEGER_EXTENDED_H_
