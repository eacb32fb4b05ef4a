// Operands that several instruction families decode and read alike.
#ifndef TILELANG_SIMULATOR_OPERANDS_H_
#define TILELANG_SIMULATOR_OPERANDS_H_

#include <string>
#include <vector>

#include "decoder.h"
#include "format_names.h"
#include "machine.h"

namespace tilelang {
namespace simulator {

/// The address a lane gives; 32-bit bases wrap at 32 bits.
inline uint64_t lane_address(Warp& warp, const Address& address, int lane) {
  if (!address.has_base) return static_cast<uint64_t>(address.offset);
  if (address.base_bytes == 4) {
    return warp.reg<uint32_t>(address.base)[lane] + static_cast<uint32_t>(address.offset);
  }
  return warp.reg<uint64_t>(address.base)[lane] + static_cast<uint64_t>(address.offset);
}

/// Consumes the next modifier, which must name a number format.
inline Format take_format(Decoder& decoder) {
  Format format;
  if (!find_format(decoder.modifiers.peek(), &format)) {
    decoder.fail(decoder.modifiers.done() ? "a type is missing" : "unknown type ." + decoder.modifiers.peek());
  }
  decoder.modifiers.next();
  return format;
}

/// Consumes these modifiers in this order, or fails naming the first that is missing.
inline void take_all(Decoder& decoder, std::initializer_list<const char*> modifiers) {
  for (const char* modifier : modifiers) {
    if (!decoder.modifiers.take(modifier)) decoder.fail(std::string("expected .") + modifier);
  }
}

/// A literal 0/1 or -1/+1 operand and similar: a constant in [low, high].
inline int64_t constant_between(const Decoder& decoder, size_t index, int64_t low, int64_t high) {
  const int64_t value = decoder.constant(index);
  if (value < low || value > high) {
    decoder.fail("operand " + std::to_string(index + 1) + " must lie in " + std::to_string(low) + ".." +
                 std::to_string(high) + ", got " + std::to_string(value));
  }
  return value;
}

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_OPERANDS_H_
