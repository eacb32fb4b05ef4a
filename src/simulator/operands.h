// Operands that several instruction families decode and read alike.
#ifndef TILELANG_SIMULATOR_OPERANDS_H_
#define TILELANG_SIMULATOR_OPERANDS_H_

#include <string>
#include <vector>

#include "decoder.h"
#include "format_names.h"
#include "function_decoder.h"
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

/// The state space of an operand that must lie in shared memory: .shared, .shared::cta, .shared::cluster or generic.
inline Space take_shared_space(Decoder& decoder) {
  const bool given = !decoder.modifiers.take_any({"shared", "shared::cta", "shared::cluster"}).empty();
  return given ? Space::kShared : Space::kGeneric;
}

/// The 32-bit shared address a lane gives. False, after a finding, when it is an address in another space.
inline bool shared_address(Warp& warp, const Instruction& instruction, const Address& operand, Space space, int lane,
                           uint32_t* result) {
  uint64_t address = lane_address(warp, operand, lane);
  if (space == Space::kGeneric && classify(address, &address) != Space::kShared) {
    warp.report(FindingKind::kOutOfBounds, instruction, lane, "the address does not lie in shared memory");
    return false;
  }
  *result = static_cast<uint32_t>(address);
  return true;
}

/// True when an operand is a predicate register.
inline bool is_predicate(Decoder& decoder, size_t index) {
  const Operand& operand = decoder.operand(index);
  return operand.kind == Operand::Kind::kRegister && decoder.function().register_type(operand.index)->kind == 'p';
}

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_OPERANDS_H_
