// Bulk copies in flight: what the two executors post to the queues.
#ifndef TILELANG_SIMULATOR_BULK_OPERATIONS_H_
#define TILELANG_SIMULATOR_BULK_OPERATIONS_H_

#include <memory>
#include <utility>
#include <vector>

#include "bulk.h"
#include "memory.h"
#include "race.h"
#include "warp_async.h"

namespace tilelang {
namespace simulator {

/// A load or a copy between blocks: fills its targets, then counts the bytes on their barriers.
class BulkLoad : public AsyncOperation {
 public:
  BulkLoad(Cluster& cluster, std::vector<BulkTarget> targets, uint32_t counted_bytes)
      : cluster_(cluster), targets_(std::move(targets)), counted_bytes_(counted_bytes) {}

  void land(LaneMask) final {
    for (const BulkTarget& target : targets_) {
      if (target.data) fill(target);
    }
    for (const BulkTarget& target : targets_) {
      mbarrier_complete_tx(cluster_, target.barrier, counted_bytes_, target.agent);
    }
  }

 protected:
  virtual void fill(const BulkTarget& target) = 0;

  Cluster& cluster_;

 private:
  std::vector<BulkTarget> targets_;
  uint32_t counted_bytes_;
};

class StoreOperation : public AsyncOperation {
 public:
  explicit StoreOperation(std::shared_ptr<BulkStore> store) : store_(std::move(store)) {}
  void read(LaneMask) override { store_->read(true); }
  void land(LaneMask) override { store_->land(true); }

 private:
  std::shared_ptr<BulkStore> store_;
};

/// Whether a store's data is put in place when it is issued, too, so that another block's store of the same value is recognised.
/// Where races are checked, nothing that reads it before it lands goes unnoticed.
inline bool settles_early(Warp& warp, const BulkInstruction& bulk) {
  return bulk.reduction == Reduction::kNone && warp.cluster().race;
}

/// The stores to global memory that races are checked of; null where none are.
inline StoresUnderWay* checked_stores(Warp& warp) { return warp.cluster().race ? warp.cluster().race->stores() : nullptr; }

/// A part of what a store writes to global memory: checked and recorded, with what is stored there, which is in place afterwards
/// (null: nothing is put in place). Returns its host address, null after a finding.
uint8_t* claim_stored(Warp& warp, const Instruction& instruction, int lane, Agent agent, uint64_t address, uint32_t bytes,
                      uint32_t alignment, const uint8_t* value, StoreUnderWay& under_way);

/// Adds a store to the open bulk group of `lane`.
void start_store(Warp& warp, int lane, std::shared_ptr<BulkStore> store);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_BULK_OPERATIONS_H_
