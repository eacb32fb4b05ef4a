// What loads, stores and atomics share: ordering, spaces, hints, addresses, counting.
#ifndef TILELANG_SIMULATOR_MEMORY_OPERANDS_H_
#define TILELANG_SIMULATOR_MEMORY_OPERANDS_H_

#include "decoder.h"
#include "machine.h"

namespace tilelang {
namespace simulator {

/// Memory-ordering modifiers. Strong accesses may synchronise with each other.
struct MemoryOrder {
  bool strong = false;
  bool acquire = false;
  bool release = false;
};

/// Where and how strongly an instruction accesses memory.
struct MemoryPlace {
  MemoryOrder order;
  Space space = Space::kGeneric;
};

/// .weak, .volatile, .relaxed, .acquire, .release, .acq_rel, .mmio; the scope; .global, .shared{::cta,::cluster},
/// .local, .const, .param (generic when there is none). In any order: compilers other than NVIDIA's deviate from the
/// grammar's.
MemoryPlace take_memory_place(Decoder& decoder);
/// Cache operators, eviction priorities, prefetch sizes, cache policies: accepted, without effect.
void take_cache_hints(Decoder& decoder);

/// The address of every lane.
void lane_addresses(Warp& warp, const Address& address, uint64_t* addresses);

/// Counts a load or store under the space its first lane's address lies in.
void count_access(Warp& warp, const Instruction& instruction, Space space, const uint64_t* addresses, LaneMask lanes,
                  uint32_t bytes, bool write);

/// Tells the race checker that these lanes made a strong access there.
void synchronise(Warp& warp, Space space, const uint64_t* addresses, LaneMask lanes, const MemoryOrder& order,
                 bool reads, bool writes);

/// Host pointer of an address without any check or record; null when it is not valid.
const uint8_t* peek(Warp& warp, Space space, uint64_t address, uint32_t bytes);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_MEMORY_OPERANDS_H_
