// cp.async.bulk and cp.reduce.async.bulk of consecutive bytes.
#include <string>

#include "bulk_operations.h"

namespace tilelang {
namespace simulator {

namespace {

constexpr uint32_t kAlignment = 16;

void combine(const BulkInstruction& bulk, uint8_t* target, const uint8_t* source, uint32_t bytes) {
  if (bulk.reduction == Reduction::kNone) {
    std::memcpy(target, source, bytes);
  } else {
    reduce_elements(bulk.reduction, bulk.format, target, source, bytes);
  }
}

// To shared memory. The source, global or another shared range, is read when the copy lands.
class LinearLoad : public BulkLoad {
 public:
  LinearLoad(Cluster& cluster, std::vector<BulkTarget> targets, const BulkInstruction& bulk, const uint8_t* source,
             uint32_t bytes)
      : BulkLoad(cluster, std::move(targets), bytes), bulk_(bulk), source_(source), bytes_(bytes) {}

 protected:
  void fill(const BulkTarget& target) override {
    if (!source_) return;
    combine(bulk_, target.data, source_, bytes_);
    mark_initialised(cluster_, target.data, bytes_);
  }

 private:
  const BulkInstruction& bulk_;
  const uint8_t* source_;
  uint32_t bytes_;
};

class LinearStore : public BulkStore {
 public:
  LinearStore(Warp& warp, const Instruction& instruction, int lane, uint32_t bytes)
      : BulkStore(warp, instruction, lane), bulk_(bulk_of(instruction)), bytes_(bytes) {
    source_ = access_async(warp, instruction, lane, reader_, Space::kShared,
                           bulk_shared_address(warp, bulk_.source, lane), bytes, kAlignment, AccessKind::kRead);
    byte_mask_ = bulk_.byte_mask ? warp.reg<uint16_t>(bulk_.mask)[lane] : 0xffff;
    std::vector<uint8_t> data;
    if (settles_early(warp, bulk_) && byte_mask_ == 0xffff) gather(data);
    StoreUnderWay under_way(checked_stores(warp));
    target_ = claim_stored(warp, instruction, lane, writer_, lane_address(warp, bulk_.target, lane), bytes, kAlignment,
                           data.empty() ? nullptr : data.data(), under_way);
  }

 protected:
  void gather(std::vector<uint8_t>& data) override {
    if (source_) data.assign(source_, source_ + bytes_);
  }

  void scatter(const std::vector<uint8_t>& data) override {
    if (!target_ || data.empty()) return;
    if (byte_mask_ == 0xffff) return combine(bulk_, target_, data.data(), bytes_);
    // Bit i keeps byte i of every 16.
    for (uint32_t i = 0; i < bytes_; ++i) {
      if (byte_mask_ >> (i % 16) & 1) target_[i] = data[i];
    }
  }

 private:
  const BulkInstruction& bulk_;
  uint32_t bytes_;
  const uint8_t* source_;
  uint8_t* target_;
  uint32_t byte_mask_;
};

bool check_size(Warp& warp, const Instruction& instruction, int lane, uint32_t bytes) {
  if (bytes % kAlignment == 0) return true;
  warp.report(FindingKind::kMisaligned, instruction, lane,
              "the size of a bulk copy must be a multiple of 16, got " + std::to_string(bytes));
  return false;
}

void start_load(Warp& warp, const Instruction& instruction, int lane, uint32_t bytes) {
  const BulkInstruction& bulk = bulk_of(instruction);
  std::vector<BulkTarget> targets = bulk_targets(warp, instruction, lane);
  if (targets.empty()) return;
  for (BulkTarget& target : targets) {
    target.data = claim_target(warp, instruction, lane, target, 0, bytes, kAlignment);
  }
  const bool global = bulk.from == BulkPlace::kGlobal;
  const uint64_t address = lane_address(warp, bulk.source, lane);
  const uint8_t* source = access_async(warp, instruction, lane, targets[0].agent, global ? Space::kGlobal : Space::kShared,
                                       address, bytes, kAlignment, AccessKind::kRead);
  warp.cluster().pending.post(
      std::make_unique<LinearLoad>(warp.cluster(), std::move(targets), bulk, source, bytes));
}

}  // namespace

Step execute_linear_copy(Warp& warp, const Instruction& instruction, LaneMask exec) {
  const BulkInstruction& bulk = bulk_of(instruction);
  for_lanes(exec, [&](int lane) {
    const uint32_t bytes = warp.reg<uint32_t>(bulk.size)[lane];
    if (!check_size(warp, instruction, lane, bytes)) return;
    if (bulk.mbarrier) {
      start_load(warp, instruction, lane, bytes);
    } else {
      start_store(warp, lane, std::make_shared<LinearStore>(warp, instruction, lane, bytes));
    }
    count_bulk(warp, instruction, bytes, bulk.mbarrier);
  });
  return Step::kNext;
}

Step execute_linear_prefetch(Warp& warp, const Instruction& instruction, LaneMask exec) {
  const BulkInstruction& bulk = bulk_of(instruction);
  for_lanes(exec, [&](int lane) { check_size(warp, instruction, lane, warp.reg<uint32_t>(bulk.size)[lane]); });
  return Step::kNext;
}

}  // namespace simulator
}  // namespace tilelang
