// The memory a launch may touch: registered allocations and the windows of the generic address space.
#ifndef TILELANG_SIMULATOR_MEMORY_H_
#define TILELANG_SIMULATOR_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "machine.h"
#include "stores_under_way.h"

namespace tilelang {
namespace simulator {

struct Allocation {
  uint64_t base = 0;
  uint64_t bytes = 0;
  bool read_only = false;
  std::string name;
};

/// Host ranges a kernel may address. Ranges may overlap (two tensors sharing storage).
class AllocationMap {
 public:
  void add(Allocation allocation) { list_.push_back(std::move(allocation)); }
  /// Sorts and merges overlapping ranges; call once before look-ups.
  void finish();
  /// Index of the allocation that contains [address, address + bytes), or -1. `hint` is tried first.
  int find(uint64_t address, uint64_t bytes, uint32_t hint) const {
    if (hint < list_.size() && contains(list_[hint], address, bytes)) return static_cast<int>(hint);
    return search(address, bytes);
  }
  const Allocation& operator[](size_t index) const { return list_[index]; }
  size_t size() const { return list_.size(); }
  /// "12 bytes past the end of tensor 'A' (4096 bytes)" for an address outside.
  std::string describe(uint64_t address) const;

 private:
  static bool contains(const Allocation& a, uint64_t address, uint64_t bytes) {
    return address >= a.base && bytes <= a.bytes && address - a.base <= a.bytes - bytes;
  }
  int search(uint64_t address, uint64_t bytes) const;
  std::vector<Allocation> list_;
};

/// Whether memory was written, by a flag for each of its bits. Where it is no whole word, a byte of which some bits were written is
/// taken to be read for those alone: it holds one of two 4-bit elements.
bool is_written(const uint8_t* flags, uint32_t bytes);

/// Host pointers for one access of `bytes` by each lane of `exec`. Returns the lanes that may go on.
LaneMask access_lanes(Warp& warp, const Instruction& instruction, Space space, const uint64_t* addresses, LaneMask exec,
                      uint32_t bytes, AccessKind kind, uint8_t** pointers);

/// The same without findings: stops before the first lane that needs a closer look, and returns the lanes before it.
/// With `agents` by cp.async operations, each lane's: see access_async (writes do not poison here).
LaneMask access_clean_lanes(Warp& warp, const Instruction& instruction, Space space, const uint64_t* addresses,
                            LaneMask exec, uint32_t bytes, AccessKind kind, uint8_t** pointers,
                            const Agent* agents = nullptr);

/// What a store writes, and how other workers learn that it is in place.
struct StoredValue {
  const uint8_t* bytes;
  StoreUnderWay& under_way;
};

/// A store to global memory by an asynchronous operation, checked, recorded and put in place. One of the value that is there
/// already is no race with the store that put it there. Returns its host address, null after a finding.
uint8_t* store_async(Warp& warp, const Instruction& instruction, int lane, Agent agent, uint64_t address, uint32_t bytes,
                     uint32_t alignment, const StoredValue& stored);

/// Whether the lanes' addresses follow each other, `bytes` apart.
bool is_run(const uint64_t* addresses, uint32_t bytes);

/// Host memory of an access by all lanes of a warp to consecutive memory of one space that starts at `address`, `bytes` for each.
/// Null, with nothing checked or recorded, where lanes need a look of their own.
uint8_t* access_run(Warp& warp, const Instruction& instruction, Space space, uint64_t address, uint32_t bytes,
                    AccessKind kind);

/// A part of the block's own shared memory, by its shared address without the rank.
struct ChunkRange {
  uint32_t offset;
  uint32_t bytes;  // both multiples of 16
};

/// Checks and records that an asynchronous operation, which lane 0 issued, reads these ranges, which lie in the block's memory.
/// False, without a finding, where some need a closer look (access_async of each; what has been recorded does not matter to it).
bool reads_clean_ranges(Warp& warp, const Instruction& instruction, Agent agent, const std::vector<ChunkRange>& ranges);

/// Rank and offset of a shared address; false when it names no block of the cluster.
bool split_shared(Warp& warp, uint32_t address, Block** block, uint32_t* offset);

/// "0x1f40 in shared memory" and so on.
std::string describe_address(const Warp& warp, Space space, uint64_t address);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_MEMORY_H_
