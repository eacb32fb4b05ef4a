// Fetches what the next block, or the next turn of a loop, will probably load: addresses go on as they went from the last time
// to this one. A block touches too little of a tensor for the machine itself to see that.
#ifndef TILELANG_SIMULATOR_PREFETCHER_H_
#define TILELANG_SIMULATOR_PREFETCHER_H_

#include <cstdint>

namespace tilelang {
namespace simulator {

/// Of one worker. Guesses cost a few instructions and change no result.
class Prefetcher {
 public:
  /// Instruction `pc` of the warp with that index in its block accesses these bytes now.
  void accessed(uint32_t pc, uint32_t warp, const uint8_t* memory, uint32_t bytes) {
    Entry& entry = entries_[(pc * 33 + warp) % kEntries];
    const auto address = reinterpret_cast<uint64_t>(memory);
    const uint64_t next = address + (address - entry.address);
    const bool known = entry.pc == pc && entry.warp == warp && entry.address != address;
    entry = {address, pc, warp};
    if (!known) return;
    for (uint32_t offset = 0; offset < bytes; offset += kLine) __builtin_prefetch(reinterpret_cast<const void*>(next + offset));
  }

 private:
  static constexpr uint32_t kEntries = 256;
  static constexpr uint32_t kLine = 64;
  struct Entry {
    uint64_t address = 0;
    uint32_t pc = ~0u;
    uint32_t warp = 0;
  };
  Entry entries_[kEntries];
};

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_PREFETCHER_H_
