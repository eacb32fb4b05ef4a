// The mbarrier object: the 64-bit word in shared memory and what the checker remembers about it.
#ifndef TILELANG_SIMULATOR_MBARRIER_H_
#define TILELANG_SIMULATOR_MBARRIER_H_

#include <cstdint>
#include <vector>

#include "async.h"

namespace tilelang {
namespace simulator {

using VectorClock = std::vector<uint32_t>;

constexpr uint32_t kMBarrierMaximumCount = (1u << 20) - 1;
constexpr int64_t kMBarrierMaximumTx = (1 << 20) - 1;

/// State of an mbarrier: packed into the opaque 64 bits a kernel may look at but not interpret.
struct MBarrierState {
  uint32_t phase = 0;     // completed phases modulo 2
  uint32_t pending = 0;   // arrivals the current phase still waits for
  uint32_t expected = 0;  // arrivals of the next phase
  int32_t tx = 0;         // bytes the current phase still waits for
  bool valid = false;

  uint64_t pack() const;
  static MBarrierState unpack(uint64_t word);
  /// Completes the phase when nothing is pending. Returns whether it did.
  bool try_complete();
};

struct MBarrierShadow {
  uint64_t word = 0;  // as the last mbarrier operation left it
  uint64_t phases = 0;
  VectorClock pending;    // released to the current phase
  VectorClock completed;  // released to completed phases
  Agent creator;          // the thread that initialised it, when races are checked
};

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_MBARRIER_H_
