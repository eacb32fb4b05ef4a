// What threads learn of each other's accesses: barriers, releases and acquires, fences.
#include <algorithm>

#include "race.h"

namespace tilelang {
namespace simulator {
namespace {

/// In the clocks of a cluster's releases: a MiB.
constexpr size_t kMostNumbers = size_t{1} << 18;
/// Of the acquires from one cluster.
constexpr size_t kMostHeard = 64;

void keep_later(Release& release, const Release& other) {
  if (release.stamp < other.stamp) release = other;
}

}  // namespace

void RaceChecker::join(VectorClock& into, const VectorClock& from) const {
  if (from.empty()) return;
  if (into.empty()) {
    into = from;
    return;
  }
  const uint32_t* source = from.data();
  uint32_t* target = into.data();
  for (size_t i = 0; i < components_; ++i) target[i] = std::max(target[i], source[i]);
}

/// Everything a thread knows, its own work included.
void RaceChecker::gather(uint32_t thread, VectorClock& into) const {
  join(into, block_known_[rank_of(thread)]);
  join(into, warp_known_[warp_of(thread)]);
  join(into, thread_known_[thread]);
  into[thread] = std::max(into[thread], stamps_[thread]);
  into[threads_ + thread] = std::max(into[threads_ + thread], copies_done_[thread]);
}

void RaceChecker::block_barrier(uint32_t rank) {
  // What all threads of a block know moves to the block's clock, and the clocks below it become empty: the common barrier leaves
  // one clock for each block, and `ordered` mostly looks at that one.
  VectorClock& known = block_known_[rank];
  uint32_t first = rank * threads_per_block_;
  for (uint32_t t = first; t < first + threads_per_block_; ++t) {
    hear_pending(t);
    join(known, thread_known_[t]);
    thread_known_[t].clear();
    join(known, pending_acquire_[t]);
    pending_acquire_[t].clear();
    known[t] = std::max(known[t], stamps_[t]);
    known[threads_ + t] = std::max(known[threads_ + t], copies_done_[t]);
  }
  for (uint32_t w = rank * warps_per_block_; w < (rank + 1) * warps_per_block_; ++w) {
    join(known, warp_known_[w]);
    warp_known_[w].clear();
  }
  ++clock_;
  // One new stamp for all: threads that only meet at barriers keep equal stamps, as global_run needs them.
  for (uint32_t t = first; t < first + threads_per_block_; ++t) stamps_[t] = clock_;
  if (threads_ == threads_per_block_) settle_heard();
}

void RaceChecker::partial_barrier(const std::vector<uint32_t>& threads, const VectorClock& released) {
  VectorClock all(components_, 0);
  join(all, released);
  for (uint32_t t : threads) {
    hear_pending(t);
    join(all, pending_acquire_[t]);
    pending_acquire_[t].clear();
    gather(t, all);
  }
  for (uint32_t t : threads) {
    join(thread_known_[t], all);
    tick(t);
  }
}

void RaceChecker::warp_barrier(Warp& warp, LaneMask lanes) {
  uint32_t first = thread_of(warp, 0);
  if (lanes != warp.live) {
    std::vector<uint32_t> threads;
    for_lanes(lanes, [&](int lane) { threads.push_back(first + static_cast<uint32_t>(lane)); });
    partial_barrier(threads, VectorClock());
    return;
  }
  VectorClock& known = warp_known_[warp_of(first)];
  if (known.empty()) known.assign(components_, 0);
  ++clock_;
  for_lanes(lanes, [&](int lane) {
    uint32_t t = first + static_cast<uint32_t>(lane);
    hear_pending(t);
    join(known, thread_known_[t]);
    thread_known_[t].clear();
    join(known, pending_acquire_[t]);
    pending_acquire_[t].clear();
    known[t] = std::max(known[t], stamps_[t]);
    known[threads_ + t] = std::max(known[threads_ + t], copies_done_[t]);
    stamps_[t] = clock_;
  });
}

void RaceChecker::release(uint32_t thread, VectorClock& clock) {
  if (clock.empty()) clock.assign(components_, 0);
  gather(thread, clock);
  tick(thread);
}

void RaceChecker::release_agent(Agent agent, VectorClock& clock) {
  if (clock.empty()) clock.assign(components_, 0);
  clock[agent.id] = std::max(clock[agent.id], agent.stamp);
}

void RaceChecker::acquire(Warp& warp, LaneMask lanes, const VectorClock& clock) {
  const uint32_t first = thread_of(warp, 0);
  if (lanes == warp.live) return join(warp_known_[warp_of(first)], clock);
  for_lanes(lanes, [&](int lane) { join(thread_known_[first + static_cast<uint32_t>(lane)], clock); });
}

void RaceChecker::fence(uint32_t thread) {
  // PTX ISA, memory consistency model: a relaxed read followed by a fence is an acquire pattern, a fence followed by a relaxed
  // write a release pattern. One fence may end the first and begin the second, so what was read is known before it is published.
  hear_pending(thread);
  join(thread_known_[thread], pending_acquire_[thread]);
  pending_acquire_[thread].clear();
  fenced_[thread].assign(components_, 0);
  gather(thread, fenced_[thread]);
  join(fenced_by_some_, fenced_[thread]);
  tick(thread);
}

void RaceChecker::proxy_fence(uint32_t thread) {
  // One clock for the whole cluster: the fence counts for every later read by the async proxy, also by a thread that is not ordered
  // after this one. That misses a fence which no barrier orders before the read, and reports none wrongly.
  gather(thread, proxy_fenced_);
  tick(thread);
}

bool RaceChecker::SyncPoint::observe(Observation latest) {
  const auto is_its = [&](const Observation& each) { return each.reader.id == latest.reader.id; };
  const auto found = std::find_if(observations.begin(), observations.end(), is_its);
  if (found == observations.end()) {
    observations.push_back(latest);
    return true;
  }
  const bool is_known = found->writes == latest.writes && (found->acquires || !latest.acquires);
  latest.acquires |= is_known && found->acquires;
  *found = latest;
  return !is_known;
}

RaceChecker::SyncPoint& RaceChecker::sync(uint64_t key, uint32_t thread, bool reads, bool writes, bool acquire, bool release) {
  SyncPoint& at = sync_points_[key];
  // A relaxed read orders nothing until a fence of its thread.
  if (reads && !at.released.empty()) join(acquire ? thread_known_[thread] : pending_acquire_[thread], at.released);
  if (!writes) return at;
  ++at.writes;
  if (release)
    this->release(thread, at.released);
  else
    join(at.released, fenced_[thread]);
  return at;
}

void RaceChecker::sync_shared(uint32_t thread, uint32_t rank, uint32_t offset, bool reads, bool writes, bool acquire,
                              bool release) {
  SyncPoint& at = sync(shared_key(rank, offset), thread, reads, writes, acquire, release);
  if (reads) at.observe({thread_agent(thread), at.writes, acquire});
}

void RaceChecker::sync_global(uint32_t thread, uint64_t address, bool reads, bool writes, bool acquire, bool release) {
  const bool releases = writes && (release || !fenced_[thread].empty());
  if (releases) note_release(thread, release);  // before the thread goes on with a new stamp
  // Within the cluster as for shared memory ...
  SyncPoint& here = sync(global_key(address), thread, reads, writes, acquire, release);
  // ... and between clusters.
  std::lock_guard<std::mutex> guard(global_->sync_lock);
  GlobalShadow::SyncPoint& at = global_->sync_point(address);
  const uint32_t own = static_cast<uint32_t>(cluster_.index) + 1;
  if (writes) ++at.writes;
  if (reads && here.observe({thread_agent(thread), at.writes, acquire})) {
    GlobalShadow::ClusterClock* pending = acquire ? nullptr : &heard_pending_[thread];
    for (const auto& [cluster, told] : at.released) {
      if (cluster == own) continue;
      if (pending)
        keep_later((*pending)[cluster], told);
      else
        hear(thread, cluster, told);
    }
  }
  if (!releases) return;
  const RaceAccess knowledge = knowledge_of(thread, rank_of(thread), warp_of(thread));
  for (const auto& item : heard_) {
    const Release& known = heard_of(item.second, knowledge);
    if (known.stamp) keep_later(at.released[item.first], known);
  }
  keep_later(at.released[own], releases_.back());
}

/// What a thread has just acquired from another cluster.
void RaceChecker::hear(uint32_t thread, uint32_t cluster, const Release& release) {
  const RaceAccess knowledge = knowledge_of(thread, rank_of(thread), warp_of(thread));
  std::vector<Heard>& heard = heard_[cluster];
  if (heard_of(heard, knowledge).stamp >= release.stamp) return;
  const auto is_before = [](const Release& one, const Heard& other) { return one.stamp < other.release.stamp; };
  heard.insert(std::upper_bound(heard.begin(), heard.end(), release, is_before), {release, thread_agent(thread)});
  if (heard.size() < kMostHeard) return;
  // The older half counts as known to all threads, which may hide a race.
  heard.erase(heard.begin(), heard.begin() + kMostHeard / 2 - 1);
  heard.front().by = Agent();
}

/// A relaxed read orders nothing until a fence, or a barrier, of its thread.
void RaceChecker::hear_pending(uint32_t thread) {
  const auto found = heard_pending_.find(thread);
  if (found == heard_pending_.end()) return;
  for (const auto& [cluster, told] : found->second) hear(thread, cluster, told);
  heard_pending_.erase(found);
}

/// All threads of the cluster know now what some did: of each other cluster, its last release is enough.
void RaceChecker::settle_heard() {
  for (auto& item : heard_) item.second.assign(1, {item.second.back().release, Agent()});
}

/// The last release of another cluster that a thread knows.
const Release& RaceChecker::heard_of(const std::vector<Heard>& heard, const RaceAccess& access) const {
  static const Release kNone;
  const auto is_known = [&](const Heard& each) { return ordered(access, each.by); };
  const auto last = std::find_if(heard.rbegin(), heard.rend(), is_known);
  return last == heard.rend() ? kNone : last->release;
}

/// Whether all threads know the same of another cluster.
bool RaceChecker::is_heard_by_all(uint32_t cluster) const {
  const auto found = heard_.find(cluster);
  if (found == heard_.end()) return true;
  return std::all_of(found->second.begin(), found->second.end(), [](const Heard& each) { return each.by.stamp == 0; });
}

/// Whether another cluster's access is one that a release which the thread knows tells of.
bool RaceChecker::has_heard(const RaceAccess& access, uint32_t cluster, Agent earlier, bool ended) const {
  const auto found = heard_.find(cluster);
  if (found == heard_.end()) return false;
  const Release& last = heard_of(found->second, access);
  return earlier.stamp <= last.stamp && (ended || last.covers(earlier));
}

/// What a strong write of a thread tells other clusters.
void RaceChecker::note_release(uint32_t thread, bool release) {
  if (releases_.size() * components_ > kMostNumbers) {
    // One clock for all that follow, in which everything has happened: their races are found by the order of releases alone.
    const bool has_it = releases_.back().clock->front() == ~0u;
    auto all = has_it ? releases_.back().clock : std::make_shared<const VectorClock>(components_, ~0u);
    releases_.push_back({++clock_, std::move(all)});
    return;
  }
  auto told = std::make_shared<VectorClock>(components_, 0);
  gather(thread, *told);
  if (!release) {
    // A fence of another thread, which a barrier orders before the write, makes what comes before the fence visible, too:
    // `__threadfence(); __syncthreads();` and an atomic operation of the first thread.
    for (size_t i = 0; i < components_; ++i) (*told)[i] = std::min((*told)[i], fenced_by_some_[i]);
    join(*told, fenced_[thread]);
  }
  if (!releases_.empty()) {
    join(*told, *releases_.back().clock);
    if (*told == *releases_.back().clock) return;  // relaxed writes after one fence
  }
  releases_.push_back({++clock_, std::move(told)});
}

bool RaceChecker::has_seen(const RaceAccess& access, const SyncPoint& at, uint32_t writes) const {
  // Only where none has come since: `other` is the last one that was recorded.
  return std::any_of(at.observations.begin(), at.observations.end(), [&](const Observation& each) {
    return each.writes == writes && ordered(access, each.reader);
  });
}

bool RaceChecker::has_seen_shared(const RaceAccess& access, const ShadowCell& other, uint32_t rank, uint32_t offset) const {
  if (!other.write.stamp || !other.write_atomic) return false;
  const auto found = sync_points_.find(shared_key(rank, offset));
  return found != sync_points_.end() && has_seen(access, found->second, found->second.writes);
}

bool RaceChecker::has_seen_global(const RaceAccess& access, const ShadowCell& other, uint64_t address) const {
  if (!other.write.stamp || !other.write_atomic) return false;
  const auto found = sync_points_.find(global_key(address));
  if (found == sync_points_.end()) return false;
  std::lock_guard<std::mutex> guard(global_->sync_lock);
  return has_seen(access, found->second, global_->sync_point(address).writes);
}

}  // namespace simulator
}  // namespace tilelang
