// What a launch did, counted: per instruction and in total.
#ifndef TILELANG_SIMULATOR_COUNTERS_H_
#define TILELANG_SIMULATOR_COUNTERS_H_

#include <cstdint>
#include <vector>

namespace tilelang {
namespace simulator {

/// Counters of one instruction (program counter).
struct InstructionCounters {
  uint64_t warps = 0;       // times a warp executed it
  uint64_t lanes = 0;       // times a thread executed it
  uint64_t requests = 0;    // memory requests (warp level)
  uint64_t wavefronts = 0;  // shared-memory passes
  uint64_t ideal = 0;       // passes without bank conflicts
  uint64_t sectors = 0;     // 32-byte global sectors
  uint64_t bytes = 0;       // bytes moved
  uint64_t multiply_adds = 0;
  InstructionCounters& operator+=(const InstructionCounters& other);
};

/// Where bytes went.
struct MemoryTraffic {
  uint64_t global_read = 0, global_write = 0;
  uint64_t shared_read = 0, shared_write = 0;
  uint64_t local_read = 0, local_write = 0;
  uint64_t async_to_shared = 0, async_to_global = 0;
  uint64_t cluster_shared = 0;
  MemoryTraffic& operator+=(const MemoryTraffic& other);
};

struct Counters {
  std::vector<InstructionCounters> instructions;  // by program counter
  MemoryTraffic traffic;
  uint64_t barrier_waits = 0;
  uint64_t mbarrier_waits = 0;  // try_wait or test_wait that had to wait
  uint64_t barriers_completed = 0;
  void merge(const Counters& other);
};

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_COUNTERS_H_
