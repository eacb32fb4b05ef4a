#include "warp_async.h"

#include "race.h"

namespace tilelang {
namespace simulator {

void CopyBatch::move(int lane) const {
  constexpr uint32_t kWide = 16;
  const uint32_t count = source_bytes[lane];
  if (count == kWide) {
    std::memcpy(targets[lane], sources[lane], kWide);
    return;
  }
  if (count) std::memcpy(targets[lane], sources[lane], count);
  std::memset(targets[lane] + count, 0, bytes - count);
}

void CopyBatch::land(LaneMask lanes, bool waited) {
  lanes &= pending_;
  pending_ &= ~lanes;
  for_lanes(lanes & ~refused, [&](int lane) { move(lane); });
  if (warp_.checking(kCheckInit))
    for_lanes(lanes & ~refused, [&](int lane) { mark_initialised(warp_.cluster(), targets[lane], bytes); });
  RaceChecker* race = warp_.cluster().race.get();
  if (race && waited) for_lanes(lanes, [&](int lane) { race->async_done(warp_, lane, agents[lane]); });
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
