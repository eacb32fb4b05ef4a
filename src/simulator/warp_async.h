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
  CopyBatch(Warp& warp, uint32_t bytes, LaneMask lanes) : bytes(bytes), warp_(warp), pending_(lanes) {}

  const uint32_t bytes;                 // of each lane's target
  LaneMask sourced = 0;                 // lanes that read something; the others' targets become zeros
  LaneMask refused = 0;                 // an address was out of bounds: nothing is moved
  const uint8_t* sources[kLanes];       // of the lanes that read
  uint8_t* targets[kLanes];             // of the lanes that are not refused
  uint8_t source_bytes[kLanes];         // the rest of the target is filled with zeros
  Agent agents[kLanes];

  LaneMask pending() const { return pending_; }
  /// Moves the data of these lanes. `waited`: the lane itself waited for it, so what follows is ordered after it.
  void land(LaneMask lanes, bool waited);

 private:
  void move(int lane) const;
  Warp& warp_;
  LaneMask pending_;
};

/// A bulk copy from shared to global memory. Its source is read as late as the program allows, then
/// its target is written as late as the program allows.
class BulkStore {
 public:
  BulkStore(Warp& warp, const Instruction& instruction, int lane);
  virtual ~BulkStore() = default;
  void read(bool waited);
  void land(bool waited);
  /// The grid ends: lands, and reports a source that was never waited for.
  void finish();

 protected:
  /// Fills `data` from shared memory; writes it to global memory.
  virtual void gather(std::vector<uint8_t>& data) = 0;
  virtual void scatter(const std::vector<uint8_t>& data) = 0;

  Warp& warp_;
  const Instruction& instruction_;
  int lane_;
  Agent reader_, writer_;

 private:
  std::vector<uint8_t> data_;
  bool has_read_ = false, has_landed_ = false;
};

struct WgmmaState;  // exec_wgmma.cc

struct WarpAsync {
  /// Copies in flight, oldest first; cp.async.mbarrier.arrive tracks all of them.
  std::vector<std::shared_ptr<CopyBatch>> copies;
  std::vector<std::weak_ptr<BulkStore>> stores;
  std::shared_ptr<WgmmaState> wgmma;
};

/// The warp's record, made on first use.
WarpAsync& warp_async(Warp& warp);

/// Completes what the warp left in flight. Call it for every warp when the cluster has finished.
void finish_async(Warp& warp);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_WARP_ASYNC_H_
