#include "race.h"

#include <algorithm>

#include "memory.h"

namespace tilelang {
namespace simulator {
namespace {

constexpr uint32_t kMBarrierComponents = 64;
constexpr uint32_t kRemoteComponents = 16;
/// Pseudo cluster number of shared-memory cells, which one cluster owns.
constexpr uint32_t kOwnCluster = 0;

}  // namespace

GlobalShadow::GlobalShadow(const AllocationMap& allocations) : shadows_(allocations.size()) {
  for (size_t i = 0; i < allocations.size(); ++i) shadows_[i].resize(allocations[i].bytes, &summaries_);
}

RaceChecker::RaceChecker(Cluster& cluster, GlobalShadow* global) : cluster_(cluster), global_(global) {
  const Launch& launch = *cluster.launch;
  uint32_t blocks = launch.blocks_per_cluster();
  threads_per_block_ = launch.threads_per_block();
  warps_per_block_ = (threads_per_block_ + kLanes - 1) / kLanes;
  threads_ = threads_per_block_ * blocks;
  warps_ = warps_per_block_ * blocks;
  // Components of the clocks, in order: threads, cp.async of each thread, bulk copies of each warp, wgmma of each warp,
  // bulk copies that report to an mbarrier, remote stores that do.
  first_remote_ = 2 * threads_ + 2 * warps_ + kMBarrierComponents;
  components_ = first_remote_ + kRemoteComponents;
  // Stamps begin at 1: stamp 0 in a cell means that there was no access, and in a clock that nothing is known.
  stamps_.assign(threads_, 1);
  copies_done_.assign(threads_, 0);
  block_known_.assign(blocks, VectorClock(components_, 0));
  warp_known_.resize(warps_);
  thread_known_.resize(threads_);
  pending_acquire_.resize(threads_);
  fenced_.resize(threads_);
  fenced_by_some_.assign(components_, 0);
  proxy_fenced_.assign(components_, 0);
  shadows_.resize(blocks);
  for (ShadowMemory& shadow : shadows_) shadow.resize(launch.shared_bytes);
  readers_.resize(1);
}

RaceChecker::~RaceChecker() {
  // Later clusters only ask which cluster made an access and whether a release that tells of it is known to them. Which thread it
  // was is dropped, and pages become equal that differed in nothing else.
  ShadowSummary summary(static_cast<uint32_t>(cluster_.index) + 1, releases_);
  for (const TouchedPage& touched : touched_) {
    std::lock_guard<SpinLock> guard(global_->lock(touched.allocation, touched.page * ShadowMemory::kPageBytes));
    global_->of(touched.allocation).summarise(touched.page, summary);
  }
  for (const GlobalRun& item : runs_) {
    std::lock_guard<SpinLock> guard(global_->lock(item.allocation, item.run.page * ShadowMemory::kPageBytes));
    global_->of(item.allocation).dissolve(item.run, summary);
  }
}

uint32_t RaceChecker::thread_of(const Warp& warp, int lane) const {
  return warp.block->rank * threads_per_block_ + warp.thread(lane);
}

RaceAccess RaceChecker::access_of(const Warp& warp, int lane, const Agent* agent, AccessKind kind, uint32_t pc) const {
  const uint32_t rank = warp.block->rank;
  RaceAccess access = knowledge_of(thread_of(warp, lane), rank, rank * warps_per_block_ + warp.index);
  access.kind = kind;
  access.pc = pc;
  if (agent) access.agent = *agent;
  return access;
}

/// What a thread knows, without an access: it has this rank of its block, and this number of its warp.
RaceAccess RaceChecker::knowledge_of(uint32_t thread, uint32_t rank, uint32_t warp) const {
  RaceAccess access;
  access.rank = rank;
  access.warp = warp;
  access.block_known = block_known_[access.rank].data();
  access.warp_known = warp_known_[access.warp].empty() ? nullptr : warp_known_[access.warp].data();
  set_thread(access, thread);
  access.agent = thread_agent(thread);
  return access;
}

bool RaceChecker::knows(uint32_t thread, Agent earlier) const {
  return ordered(knowledge_of(thread, rank_of(thread), warp_of(thread)), earlier);
}

void RaceChecker::set_thread(RaceAccess& access, uint32_t thread) const {
  access.thread = thread;
  access.thread_known = thread_known_[thread].empty() ? nullptr : thread_known_[thread].data();
}

uint32_t RaceChecker::warp_of(uint32_t thread) const {
  return rank_of(thread) * warps_per_block_ + thread % threads_per_block_ / kLanes;
}

Agent RaceChecker::async_agent(Warp& warp, int lane, AsyncDomain domain, uint32_t key) {
  uint32_t thread = thread_of(warp, lane);
  uint32_t w = warp_of(thread);
  uint32_t id = 0;
  switch (domain) {
    case AsyncDomain::kCopyGroup:
      id = threads_ + thread;
      break;
    case AsyncDomain::kBulkGroup:
      id = 2 * threads_ + w;
      break;
    case AsyncDomain::kWgmma:
      id = 2 * threads_ + warps_ + w;
      break;
    case AsyncDomain::kMBarrier:
      // A cluster may have any number of mbarriers (8 bytes each). Two that share a component can only hide a race, never invent
      // one: a wait for one also covers the other's earlier copies.
      id = 2 * threads_ + 2 * warps_ + (key >> 3) * 0x9e3779b1u % kMBarrierComponents;
      break;
    case AsyncDomain::kRemoteStore:
      id = first_remote_ + (key >> 3) * 0x9e3779b1u % kRemoteComponents;
      break;
  }
  return {id, ++clock_};
}

void RaceChecker::async_done(Warp& warp, int lane, Agent agent) {
  uint32_t thread = thread_of(warp, lane);
  if (agent.id == threads_ + thread) {
    copies_done_[thread] = std::max(copies_done_[thread], agent.stamp);
    return;
  }
  VectorClock& known = thread_known_[thread];
  if (known.empty()) known.assign(components_, 0);
  known[agent.id] = std::max(known[agent.id], agent.stamp);
}

void RaceChecker::group_done(Warp& warp, LaneMask lanes, Agent agent) {
  if (lanes != warp.live) return for_lanes(lanes, [&](int lane) { async_done(warp, lane, agent); });
  VectorClock& known = warp_known_[warp_of(thread_of(warp, 0))];
  if (known.empty()) known.assign(components_, 0);
  known[agent.id] = std::max(known[agent.id], agent.stamp);
}

bool RaceChecker::readers_ordered(const ShadowCell& cell, const RaceAccess& access, ShadowCell* other) const {
  for (uint32_t i = cell.readers; i; i = readers_[i].next) {
    const Reader& reader = readers_[i];
    if ((reader.strong && is_strong(access.kind)) || ordered(access, reader.agent)) continue;
    *other = cell;
    other->write = Agent();
    other->read = reader.agent;
    other->read_pc = reader.pc;
    return false;
  }
  return true;
}

uint32_t RaceChecker::new_reader(const Reader& reader) {
  const uint32_t index = unused_readers_ ? unused_readers_ : static_cast<uint32_t>(readers_.size());
  if (unused_readers_) {
    unused_readers_ = readers_[index].next;
    readers_[index] = reader;
  } else {
    readers_.push_back(reader);
  }
  readers_[index].next = 0;
  return index;
}

void RaceChecker::drop_readers(ShadowCell& cell) {
  if (!cell.readers) return;
  uint32_t last = cell.readers;
  while (readers_[last].next) last = readers_[last].next;
  readers_[last].next = unused_readers_;
  unused_readers_ = cell.readers;
  cell.readers = 0;
}

void RaceChecker::copy_readers(ShadowCell& cell) {
  uint32_t from = cell.readers, last = 0;
  cell.readers = 0;
  for (; from; from = readers_[from].next) {
    const uint32_t copy = new_reader(Reader(readers_[from]));
    (last ? readers_[last].next : cell.readers) = copy;
    last = copy;
  }
}

/// The warp whose threads, or whose cp.async, an agent is one of; other agents are on their own.
uint32_t RaceChecker::group_of(Agent agent) const {
  if (agent.id < threads_) return warp_of(agent.id);
  if (agent.id < 2 * threads_) return warps_ + warp_of(agent.id - threads_);
  return agent.id;  // not below 2 * warps_
}

/// One entry for each warp, or asynchronous engine.
void RaceChecker::add_reader(ShadowCell& cell, const Reader& reader) {
  const uint32_t group = group_of(reader.agent);
  uint32_t last = 0;
  for (uint32_t i = cell.readers; i; i = readers_[i].next) {
    Reader& known = readers_[i];
    if (group_of(known.agent) == group) {
      const uint32_t next = known.next;
      // A plain reader is not replaced by a strong one: it conflicts with strong writes, which the strong one does not.
      if (known.strong || !reader.strong) known = reader;
      known.next = next;
      return;
    }
    last = i;
  }
  const uint32_t added = new_reader(reader);
  (last ? readers_[last].next : cell.readers) = added;
}

/// Whether nothing that matters is lost when a cell remembers this reader in place of its latest.
inline bool RaceChecker::replaces_reader(const ShadowCell& cell, const RaceAccess& access, uint32_t cluster) const {
  return cell.read.stamp == 0 || cell.read_cluster != cluster || cell.read.id == access.agent.id ||
         ordered(access, cell.read);
}

void RaceChecker::note_reader(ShadowCell& cell, const RaceAccess& access, uint32_t cluster) {
  // Readers that do not know each other are remembered beside the latest.
  if (!replaces_reader(cell, access, cluster)) add_reader(cell, {cell.read, cell.read_pc, 0, cell.read_atomic});
  cell.read = access.agent;
  cell.read_pc = access.pc;
  cell.read_cluster = cluster;
  cell.read_atomic = is_strong(access.kind);
  cell.read_ended = false;
}

/// A conflict with another cluster's access, judged by what the thread knows of that cluster's releases.
bool RaceChecker::check_foreign(const ShadowCell& cell, const RaceAccess& access) const {
  const uint32_t own = static_cast<uint32_t>(cluster_.index) + 1;
  bool strong = is_strong(access.kind);
  if (cell.write.stamp && cell.write_cluster != own && !(strong && cell.write_atomic) &&
      !(access.same_value && writes(access.kind)) && !has_heard(access, cell.write_cluster, cell.write, cell.write_ended))
    return true;
  if (!writes(access.kind) || !cell.read.stamp || cell.read_cluster == own) return false;
  return !(strong && cell.read_atomic) && !has_heard(access, cell.read_cluster, cell.read, cell.read_ended);
}

bool RaceChecker::conflicts(const ShadowCell& cell, const RaceAccess& access, uint32_t cluster, ShadowCell* other) const {
  bool strong = is_strong(access.kind);
  // Accesses of another cluster have stamps of its own clock, which say nothing in this cluster's.
  if (cluster != kOwnCluster && check_foreign(cell, access)) {
    *other = cell;
    if (!(cell.write.stamp && cell.write_cluster != cluster)) other->write = Agent();
    return true;
  }
  if (cell.write.stamp && cell.write_cluster == cluster && !(strong && cell.write_atomic) &&
      !(access.same_value && writes(access.kind)) && !ordered(access, cell.write)) {
    *other = cell;
    return true;
  }
  if (!writes(access.kind)) return false;
  if (cell.read.stamp && cell.read_cluster == cluster && !(strong && cell.read_atomic) && !ordered(access, cell.read)) {
    *other = cell;
    other->write = Agent();
    return true;
  }
  return cell.read_cluster == cluster && !readers_ordered(cell, access, other);
}

void RaceChecker::record(ShadowCell& cell, const RaceAccess& access, uint32_t cluster) {
  if (!writes(access.kind)) return note_reader(cell, access, cluster);
  bool strong = is_strong(access.kind);
  cell.write = access.agent;
  cell.write_pc = access.pc;
  cell.write_cluster = cluster;
  cell.write_atomic = strong;
  cell.write_ended = false;
  // FastTrack (Flanagan and Freund, PLDI 2009): after a write that is ordered with the earlier reads, whatever is ordered with
  // the write is ordered with them, so they can be forgotten. A strong write may be unordered with strong reads, which stay.
  if (strong) return;
  cell.read = Agent();
  drop_readers(cell);
}

bool RaceChecker::check(ShadowCell& cell, const RaceAccess& access, uint32_t cluster, ShadowCell* other) {
  bool conflict = conflicts(cell, access, cluster, other);
  record(cell, access, cluster);
  return conflict;
}

bool RaceChecker::known_to_warp(const RaceAccess& access, Agent earlier) const {
  return earlier.stamp <= access.block_known[earlier.id] ||
         (access.warp_known && earlier.stamp <= access.warp_known[earlier.id]);
}

/// Of the lanes from the first one in `lanes` on that read the same memory, one after the other: those whose records the lanes
/// behind them replace in any case. A cell remembers its latest reader, and one more of each warp.
LaneMask RaceChecker::replaced_readers(const WarpAccess& access, LaneMask lanes) const {
  const uint64_t address = access.addresses[__builtin_ctz(lanes)];
  LaneMask replaced = 0, last = 0, one_more = 0;
  for (LaneMask left = lanes & (lanes - 1); left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    if (access.addresses[lane] != address) break;
    replaced |= one_more;
    one_more = last;
    last = 1u << lane;
  }
  return replaced;
}

/// visit(lane, f) calls f for the cells of a lane, or returns false where it cannot.
template <class Visit>
LaneMask RaceChecker::clean_lanes(const WarpAccess& warp_access, LaneMask lanes, uint32_t cluster, Visit&& visit) {
  RaceAccess access = access_of(warp_access.warp, 0, nullptr, warp_access.kind, warp_access.pc);
  const uint32_t first = access.thread;
  const bool may_skip = warp_access.kind == AccessKind::kRead && !warp_access.agents && first % kLanes == 0;
  LaneMask done = 0;
  for (LaneMask left = lanes; left; left = lanes & ~done) {
    const int lane = __builtin_ctz(left);
    set_thread(access, first + static_cast<uint32_t>(lane));
    access.agent = warp_access.agents ? warp_access.agents[lane] : thread_agent(access.thread);
    bool clean = true, skip = may_skip;
    ShadowCell other;
    const bool visited = visit(warp_access.addresses[lane], [&](ShadowCell& cell) {
      clean = clean && !conflicts(cell, access, cluster, &other);
      skip = skip && (cell.write_cluster != cluster || known_to_warp(access, cell.write));
      if (clean) record(cell, access, cluster);
    });
    // The first lane that conflicts is left to the caller, which visits it again on its own to report it.
    if (!visited || !clean) break;
    done |= 1u << lane;
    if (skip) done |= replaced_readers(warp_access, left);
  }
  return done;
}

LaneMask RaceChecker::shared_lanes(const WarpAccess& access, LaneMask lanes, uint32_t rank, uint64_t base) {
  ShadowMemory& shadow = shadows_[rank];
  return clean_lanes(access, lanes, kOwnCluster, [&](uint64_t address, auto&& f) {
    shadow.visit(address - base, access.bytes, kOwnCluster, f, SharedEvents{*this});
    return true;
  });
}

LaneMask RaceChecker::global_lanes(const WarpAccess& access, LaneMask lanes, uint32_t allocation, uint64_t base) {
  ShadowMemory& shadow = global_->of(allocation);
  const uint32_t cluster = static_cast<uint32_t>(cluster_.index) + 1;
  std::unique_lock<SpinLock> guard;
  uint64_t locked = 0, end = 0;  // what the lock covers
  return clean_lanes(access, lanes, cluster, [&](uint64_t address, auto&& f) {
    const uint64_t offset = address - base;
    if (offset < locked || offset >= end) {
      guard = {};  // given back first: two workers must not wait for each other
      guard = std::unique_lock<SpinLock>(global_->lock(allocation, offset));
      locked = offset;
      end = GlobalShadow::lock_end(offset);
    }
    if (offset + access.bytes > end) return false;
    const auto own = [&](ShadowCell& cell) {
      if (cell.readers && cell.read_cluster != cluster) cell.readers = 0;  // an index of another checker
      f(cell);
    };
    shadow.visit(offset, access.bytes, cluster, own, GlobalEvents{*this, allocation, cluster});
    return true;
  });
}

/// Whether no lane conflicts with what is known of the pages, and each lane's record can stand for what it replaces.
bool RaceChecker::is_clean_run(const ShadowSpan& before, const RaceAccess& first, uint32_t cluster) const {
  RaceAccess access = first;
  ShadowCell other;
  const bool by_lanes = before.run != nullptr;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const ShadowCell cell = by_lanes ? before.run->at(uint64_t{lane} << before.run->lane_shift) : before.cell;
    set_thread(access, first.thread + lane);
    access.agent = thread_agent(access.thread);
    if (conflicts(cell, access, cluster, &other)) return false;
    if (!writes(access.kind) && !replaces_reader(cell, access, cluster)) return false;
    // Where this lane itself was the last, or another cluster of which all lanes know the same, the others are like it.
    const auto is_alike = [&](const Agent& agent, uint32_t by) {
      return agent.stamp == 0 || (by == cluster ? agent.id == access.thread : is_heard_by_all(by));
    };
    if (is_alike(cell.write, cell.write_cluster) && is_alike(cell.read, cell.read_cluster)) return true;
  }
  return true;
}

bool RaceChecker::global_run(const WarpAccess& warp_access, uint32_t allocation, uint64_t offset) {
  const uint64_t bytes = uint64_t{warp_access.bytes} * kLanes;
  // A run stands for whole pages under one lock.
  if ((offset | bytes) % ShadowMemory::kPageBytes || offset + bytes > GlobalShadow::lock_end(offset)) return false;
  RaceAccess access = access_of(warp_access.warp, 0, nullptr, warp_access.kind, warp_access.pc);
  const uint32_t* stamps = stamps_.data() + access.thread;
  // One cell stands for all lanes, so they need the same stamp: none of them has released or waited alone.
  if (!std::all_of(stamps, stamps + kLanes, [&](uint32_t stamp) { return stamp == stamps[0]; })) return false;
  const uint32_t cluster = static_cast<uint32_t>(cluster_.index) + 1;
  const auto lane_shift = static_cast<uint32_t>(__builtin_ctz(warp_access.bytes));
  const uint64_t page = offset / ShadowMemory::kPageBytes, pages = bytes / ShadowMemory::kPageBytes;
  ShadowMemory& shadow = global_->of(allocation);
  std::lock_guard<SpinLock> guard(global_->lock(allocation, offset));
  const ShadowSpan before = shadow.span(page, pages);
  if (!before.alike || (before.run && before.run->lane_shift != lane_shift)) return false;
  if (!is_clean_run(before, access, cluster)) return false;
  if (before.run && before.run->cluster == cluster) {
    record(before.run->cell, access, cluster);
    return true;
  }
  runs_.push_back({{before.run ? before.run->cell : before.cell, cluster, lane_shift, page, pages}, allocation});
  record(runs_.back().run.cell, access, cluster);
  shadow.place(runs_.back().run);
  return true;
}

/// Bulk copies and wgmma access memory through the async proxy, threads, cp.async, st.async and red.async through the generic one.
bool RaceChecker::is_async_proxy(Agent agent) const { return agent.id >= 2 * threads_ && agent.id < first_remote_; }

/// A write through the generic proxy must be fenced from what the other one reads or writes afterwards.
bool RaceChecker::lacks_proxy_fence(const ShadowCell& cell, const RaceAccess& access) const {
  return is_async_proxy(access.agent) && cell.write.stamp && !is_async_proxy(cell.write) &&
         cell.write.stamp > proxy_fenced_[cell.write.id];
}

RaceResult RaceChecker::shared_access(uint32_t rank, uint32_t offset, uint32_t bytes, const RaceAccess& access,
                                      ShadowCell* other) {
  bool conflict = false, unfenced = false;
  const auto look = [&](ShadowCell& cell) {
    if (!unfenced && lacks_proxy_fence(cell, access)) {
      unfenced = true;
      if (!conflict) *other = cell;
    }
    conflict |= check(cell, access, kOwnCluster, other);
  };
  shadows_[rank].visit(offset, bytes, kOwnCluster, look, SharedEvents{*this});
  return conflict ? RaceResult::kConflict : unfenced ? RaceResult::kNoProxyFence : RaceResult::kClean;
}

bool RaceChecker::shared_read(uint32_t rank, uint32_t offset, uint32_t bytes, const RaceAccess& access) {
  bool clean = true;
  ShadowCell other;
  const auto look = [&](ShadowCell& cell) {
    clean = clean && !lacks_proxy_fence(cell, access) && !conflicts(cell, access, kOwnCluster, &other);
    if (clean) note_reader(cell, access, kOwnCluster);
  };
  shadows_[rank].visit(offset, bytes, kOwnCluster, look, SharedEvents{*this});
  return clean;
}

RaceResult RaceChecker::global_access(uint32_t allocation, uint64_t offset, uint32_t bytes, const RaceAccess& access,
                                      ShadowCell* other) {
  bool conflict = false, unfenced = false;
  const uint32_t cluster = static_cast<uint32_t>(cluster_.index) + 1;
  const uint64_t end = offset + bytes;
  // A page of the shadow may be made or refined while it is visited: whole pages have one lock, each part takes its own.
  while (offset < end) {
    const uint64_t stop = std::min(end, GlobalShadow::lock_end(offset));
    std::lock_guard<SpinLock> guard(global_->lock(allocation, offset));
    const auto look = [&](ShadowCell& cell) {
      if (cell.readers && cell.read_cluster != cluster) cell.readers = 0;  // an index of another checker
      // Of other clusters it is not known what they fenced.
      if (!unfenced && cell.write_cluster == cluster && lacks_proxy_fence(cell, access)) {
        unfenced = true;
        if (!conflict) *other = cell;
      }
      conflict |= check(cell, access, cluster, other);
    };
    const GlobalEvents events{*this, allocation, cluster};
    global_->of(allocation).visit(offset, static_cast<uint32_t>(stop - offset), cluster, look, events);
    offset = stop;
  }
  return conflict ? RaceResult::kConflict : unfenced ? RaceResult::kNoProxyFence : RaceResult::kClean;
}

bool RaceChecker::global_clean_access(uint32_t allocation, uint64_t offset, uint32_t bytes, const RaceAccess& access) {
  const uint32_t cluster = static_cast<uint32_t>(cluster_.index) + 1;
  std::lock_guard<SpinLock> guard(global_->lock(allocation, offset));
  const auto visit = [&](auto&& f) {
    global_->of(allocation).visit(offset, bytes, cluster, f, GlobalEvents{*this, allocation, cluster});
  };
  bool clean = true;
  ShadowCell other;
  visit([&](ShadowCell& cell) {
    if (cell.readers && cell.read_cluster != cluster) cell.readers = 0;  // an index of another checker
    clean = clean && !conflicts(cell, access, cluster, &other);
  });
  if (clean) visit([&](ShadowCell& cell) { record(cell, access, cluster); });
  return clean;
}

std::string RaceChecker::describe(Agent agent) const {
  const Launch& launch = *cluster_.launch;
  auto thread_text = [&](uint32_t thread) {
    uint32_t linear = thread % threads_per_block_;
    return "thread (" + std::to_string(linear % launch.block[0]) + ", " +
           std::to_string(linear / launch.block[0] % launch.block[1]) + ", " +
           std::to_string(linear / launch.block[0] / launch.block[1]) + ")" +
           (launch.blocks_per_cluster() > 1 ? " of block rank " + std::to_string(rank_of(thread)) : "");
  };
  auto warp_text = [&](uint32_t warp) { return "warp " + std::to_string(warp % warps_per_block_); };
  if (agent.id < threads_) return thread_text(agent.id);
  if (agent.id < 2 * threads_) return "a cp.async of " + thread_text(agent.id - threads_);
  if (agent.id < 2 * threads_ + warps_) return "a bulk copy of " + warp_text(agent.id - 2 * threads_);
  if (agent.id < 2 * threads_ + 2 * warps_) return "a wgmma of " + warp_text(agent.id - 2 * threads_ - warps_);
  return std::string("an asynchronous ") + (agent.id < first_remote_ ? "copy" : "store") + " that reports to an mbarrier";
}

}  // namespace simulator
}  // namespace tilelang
