#include "bulk.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "bulk_operations.h"
#include "memory_operands.h"

namespace tilelang {
namespace simulator {

namespace {

uint32_t in_block(uint32_t address, uint32_t rank) { return (address & kSharedOffsetMask) | rank << kSharedRankShift; }

// The ranks of a load: all set bits of the multicast mask, or the target's own block.
std::vector<uint32_t> target_ranks(Warp& warp, const Instruction& instruction, int lane, uint32_t target) {
  const BulkInstruction& bulk = bulk_of(instruction);
  if (!bulk.multicast) return {target >> kSharedRankShift};
  std::vector<uint32_t> ranks;
  const uint32_t mask = warp.reg<uint16_t>(bulk.mask)[lane];
  const size_t blocks = warp.cluster().blocks.size();
  for (uint32_t rank = 0; rank < 16; ++rank) {
    if (!(mask >> rank & 1)) continue;
    if (rank < blocks) {
      ranks.push_back(rank);
    } else {
      warp.report(FindingKind::kUsage, instruction, lane,
                  "the multicast mask names block " + std::to_string(rank) + " of a cluster of " + std::to_string(blocks));
    }
  }
  return ranks;
}

void check_barrier(Warp& warp, const Instruction& instruction, int lane, uint32_t barrier) {
  const auto found = warp.cluster().mbarriers.find(barrier);
  if (found != warp.cluster().mbarriers.end()) return check_mbarrier_known(warp, instruction, lane, barrier, found->second);
  warp.report(FindingKind::kMBarrier, instruction, lane,
              "no mbarrier has been initialised at " + describe_address(warp, Space::kShared, barrier));
}

}  // namespace

namespace {

/// Says for a trace which phase of an mbarrier a copy reports to.
void note_barrier(Warp& warp, uint32_t barrier) {
  auto found = warp.cluster().mbarriers.find(barrier);
  if (found == warp.cluster().mbarriers.end()) return;
  warp.traced_barrier = barrier;
  warp.traced_phase = static_cast<uint32_t>(found->second.phases) + 1;
}

}  // namespace

std::vector<BulkTarget> bulk_targets(Warp& warp, const Instruction& instruction, int lane) {
  const BulkInstruction& bulk = bulk_of(instruction);
  const uint32_t target = bulk_shared_address(warp, bulk.target, lane);
  const uint32_t barrier = bulk_shared_address(warp, bulk.barrier, lane);
  if (target >> kSharedRankShift != barrier >> kSharedRankShift) {
    warp.report(FindingKind::kMBarrier, instruction, lane, "the mbarrier and the target lie in different blocks");
  }
  std::vector<BulkTarget> targets;
  for (uint32_t rank : target_ranks(warp, instruction, lane, target)) {
    BulkTarget item;
    item.address = in_block(target, rank);
    item.barrier = bulk.multicast ? in_block(barrier, rank) : barrier;
    check_barrier(warp, instruction, lane, item.barrier);
    if (targets.empty()) note_barrier(warp, item.barrier);
    item.agent = async_agent(warp, lane, AsyncDomain::kMBarrier, item.barrier);
    targets.push_back(item);
  }
  return targets;
}

uint8_t* claim_target(Warp& warp, const Instruction& instruction, int lane, const BulkTarget& target, uint32_t offset,
                      uint32_t bytes, uint32_t alignment) {
  const bool replaces = bulk_of(instruction).reduction == Reduction::kNone;
  return access_async(warp, instruction, lane, target.agent, Space::kShared, target.address + offset, bytes, alignment,
                      replaces ? AccessKind::kWrite : AccessKind::kAtomic, replaces);
}

uint8_t* claim_stored(Warp& warp, const Instruction& instruction, int lane, Agent agent, uint64_t address, uint32_t bytes,
                      uint32_t alignment, const uint8_t* value, StoreUnderWay& under_way) {
  if (value) return store_async(warp, instruction, lane, agent, address, bytes, alignment, {value, under_way});
  const bool replaces = bulk_of(instruction).reduction == Reduction::kNone;
  return access_async(warp, instruction, lane, agent, Space::kGlobal, address, bytes, alignment,
                      replaces ? AccessKind::kWrite : AccessKind::kAtomic);
}

void start_store(Warp& warp, int lane, std::shared_ptr<BulkStore> store) {
  std::vector<std::weak_ptr<BulkStore>>& stores = warp_async(warp).stores;
  const auto gone = [](const std::weak_ptr<BulkStore>& old) { return old.expired(); };
  stores.erase(std::remove_if(stores.begin(), stores.end(), gone), stores.end());
  stores.push_back(store);
  warp.bulk_groups.add(std::make_unique<StoreOperation>(std::move(store)), 1u << lane);
}

}  // namespace simulator
}  // namespace tilelang
