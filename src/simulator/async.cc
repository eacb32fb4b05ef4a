#include "async.h"

#include <algorithm>

#include "lanes.h"

namespace tilelang {
namespace simulator {

void GroupQueue::add(std::unique_ptr<AsyncOperation> operation, LaneMask lanes) {
  Entry entry;
  entry.operation = std::move(operation);
  entry.lanes = entry.open = lanes;
  entries_.push_back(std::move(entry));
}

void GroupQueue::commit(LaneMask lanes) {
  for (Entry& entry : entries_) {
    const LaneMask closed = entry.open & lanes;
    if (closed) write_lanes(entry.group, closed, [&](int lane) { return committed_[lane]; });
    entry.open &= ~closed;
  }
  write_lanes(committed_, lanes, [&](int lane) { return committed_[lane] + 1; });
}

LaneMask GroupQueue::due(const Entry& entry, LaneMask lanes, uint32_t allowed) const {
  const LaneMask candidates = entry.lanes & ~entry.open & lanes;
  return candidates & mask_lanes([&](int lane) { return committed_[lane] - entry.group[lane] > allowed; });
}

void GroupQueue::wait(LaneMask lanes, uint32_t allowed, Random& random) {
  order_.clear();
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    if (due(entries_[i], lanes, allowed)) order_.push_back(i);
  }
  // Groups complete in no particular order with respect to each other.
  for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random.below(static_cast<uint32_t>(i))]);
  for (uint32_t i : order_) {
    LaneMask ready = due(entries_[i], lanes, allowed);
    entries_[i].operation->land(ready);
    entries_[i].lanes &= ~ready;
  }
  if (order_.empty()) return;
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(), [](const Entry& e) { return e.lanes == 0; }),
                 entries_.end());
}

void GroupQueue::wait_read(LaneMask lanes, uint32_t allowed, Random&) {
  for (Entry& entry : entries_) {
    LaneMask ready = due(entry, lanes, allowed);
    if (ready) entry.operation->read(ready);
  }
}

bool GroupQueue::in_flight(LaneMask lanes) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return (entry.lanes & lanes) != 0; });
}

bool GroupQueue::has_open(LaneMask lanes) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return (entry.lanes & entry.open & lanes) != 0; });
}

void GroupQueue::clear() {
  entries_.clear();
  std::fill(committed_, committed_ + kLanes, 0u);
}

void PendingQueue::post(std::unique_ptr<AsyncOperation> operation) { operations_.push_back(std::move(operation)); }

bool PendingQueue::land_one(Random& random) {
  if (operations_.empty()) return false;
  uint32_t chosen = random.below(static_cast<uint32_t>(operations_.size()));
  std::unique_ptr<AsyncOperation> operation = std::move(operations_[chosen]);
  operations_.erase(operations_.begin() + chosen);
  operation->land(kAllLanes);
  return true;
}

void PendingQueue::land_all(Random& random) {
  while (land_one(random)) {
  }
}

}  // namespace simulator
}  // namespace tilelang
