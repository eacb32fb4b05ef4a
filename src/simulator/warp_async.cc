#include "warp_async.h"

namespace tilelang {
namespace simulator {

void CopyBatch::land(LaneMask lanes, bool waited) {
  lanes &= pending_;
  pending_ &= ~lanes;
  for_lanes(lanes, [&](int lane) {
    const LaneCopy& copy = copies_[lane];
    if (copy.target && !copy.refused) {
      if (copy.source_bytes) std::memcpy(copy.target, copy.source, copy.source_bytes);
      std::memset(copy.target + copy.source_bytes, 0, copy.bytes - copy.source_bytes);
      mark_initialised(warp_.cluster(), copy.target, copy.bytes);
    }
    if (waited) async_done(warp_, lane, copy.agent);
  });
}

BulkStore::BulkStore(Warp& warp, const Instruction& instruction, int lane)
    : warp_(warp), instruction_(instruction), lane_(lane),
      reader_(async_agent(warp, lane, AsyncDomain::kBulkGroup)),
      writer_(async_agent(warp, lane, AsyncDomain::kBulkGroup)) {}

void BulkStore::read(bool waited) {
  if (!has_read_) gather(data_);
  has_read_ = true;
  if (waited) async_done(warp_, lane_, reader_);
}

void BulkStore::land(bool waited) {
  read(false);
  if (!has_landed_) scatter(data_);
  has_landed_ = true;
  if (waited) async_done(warp_, lane_, writer_);
}

void BulkStore::finish() {
  if (!has_read_ && warp_.checking(kCheckAsync)) {
    warp_.report(FindingKind::kAsync, instruction_, lane_,
                 "the block ends without waiting (cp.async.bulk.wait_group) for this copy to read shared memory");
  }
  land(false);
}

WarpAsync& warp_async(Warp& warp) {
  if (!warp.wgmma_owner) {
    auto record = std::make_shared<WarpAsync>();
    warp.wgmma_state = record.get();
    warp.wgmma_owner = record;
  }
  return *static_cast<WarpAsync*>(warp.wgmma_state);
}

void finish_async(Warp& warp) {
  if (!warp.wgmma_owner) return;
  for (const std::weak_ptr<BulkStore>& store : warp_async(warp).stores) {
    if (const std::shared_ptr<BulkStore> alive = store.lock()) alive->finish();
  }
}

}  // namespace simulator
}  // namespace tilelang
