// What a warp remembers of its asynchronous work beyond the commit groups.
#ifndef TILELANG_SIMULATOR_WARP_ASYNC_H_
#define TILELANG_SIMULATOR_WARP_ASYNC_H_

#include <memory>
#include <vector>

#include "machine.h"

namespace tilelang {
namespace simulator {

/// The cp.async copies of one warp-wide instruction. Lanes land one by one, at most once each.
class CopyBatch {
 public:
  CopyBatch(Warp& warp) : warp_(warp) {}

  struct LaneCopy {
    const uint8_t* source = nullptr;  // null when nothing is read or the read was refused
    uint8_t* target = nullptr;
    uint8_t source_bytes = 0;  // the rest of the target is filled with zeros
    uint8_t bytes = 0;
    bool refused = false;  // the source was out of bounds: poison stays
    Agent agent;
  };

  LaneCopy& lane(int lane) { return copies_[lane]; }
  void start(LaneMask lanes) { pending_ = lanes; }
  LaneMask pending() const { return pending_; }
  /// Moves the data of these lanes. `waited`: the lane itself waited for it, so what follows is ordered after it.
  void land(LaneMask lanes, bool waited);

 private:
  Warp& warp_;
  LaneMask pending_ = 0;
  LaneCopy copies_[kLanes];
};

struct WarpAsync {
  /// Copies in flight, oldest first; cp.async.mbarrier.arrive tracks all of them.
  std::vector<std::shared_ptr<CopyBatch>> copies;
};

/// The warp's record, made on first use.
WarpAsync& warp_async(Warp& warp);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_WARP_ASYNC_H_
