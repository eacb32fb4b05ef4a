// Data races by happens-before: vector clocks over threads and asynchronous agents, shadow cells over memory.
//
// Every thread of a cluster is a component of the clocks, and so is the asynchronous work it starts: its cp.async
// groups (one component a thread), bulk groups and wgmma groups (one a warp), and the operations that report to an
// mbarrier (hashed over a few components). An access carries (component, stamp); it is ordered before a thread when
// the thread's clock has reached that stamp. Clocks are kept in three layers, so that the common barriers are cheap:
// what the whole block knows, what the warp knows, what the thread knows.
#ifndef TILELANG_SIMULATOR_RACE_H_
#define TILELANG_SIMULATOR_RACE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "async.h"
#include "machine.h"
#include "mbarrier.h"
#include "shadow.h"
#include "stores_under_way.h"

namespace tilelang {
namespace simulator {

/// A lock that is held for some hundred instructions at most.
class SpinLock {
 public:
  void lock() {
    while (held_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  alignas(64) std::atomic<bool> held_{false};
};

/// Shadow of all global allocations of a launch; shared by the workers.
class GlobalShadow {
 public:
  explicit GlobalShadow(const AllocationMap& allocations);
  ShadowMemory& of(uint32_t allocation) { return shadows_[allocation]; }
  /// The lock of the pages around an offset in an allocation, which ends before `lock_end(offset)`.
  SpinLock& lock(uint32_t allocation, uint64_t offset) { return locks_[(offset / kLocked + allocation) % kLocks]; }
  static uint64_t lock_end(uint64_t offset) { return (offset / kLocked + 1) * kLocked; }
  /// cluster number -> what it told
  using ClusterClock = std::unordered_map<uint32_t, Release>;
  /// A global address that strong accesses name.
  struct SyncPoint {
    ClusterClock released;  // what clusters have released through it
    uint32_t writes = 0;    // strong ones
  };
  SyncPoint& sync_point(uint64_t address) { return sync_points_[address]; }
  std::mutex sync_lock;
  StoresUnderWay stores;

 private:
  static constexpr size_t kLocks = 64;
  static constexpr uint64_t kLocked = 64 * ShadowMemory::kPageBytes;
  ShadowSummaries summaries_;
  std::vector<ShadowMemory> shadows_;
  SpinLock locks_[kLocks];
  std::unordered_map<uint64_t, SyncPoint> sync_points_;
};

struct RaceAccess {
  AccessKind kind = AccessKind::kRead;
  Agent agent;          // who; agent.id is a thread or an asynchronous component
  uint32_t thread = 0;  // the thread whose knowledge orders the access (the issuer)
  uint32_t rank = 0;    // its block
  uint32_t warp = 0;    // its warp, counted over the cluster
  uint32_t pc = 0;
  bool same_value = false;  // a write that stores what is there already
  // What the issuing thread's block, its warp and itself know: clocks, null where there is nothing beyond the one before.
  const uint32_t* block_known = nullptr;
  const uint32_t* warp_known = nullptr;
  const uint32_t* thread_known = nullptr;
};

/// One instruction's accesses.
struct WarpAccess {
  const Warp& warp;
  uint32_t pc;
  const uint64_t* addresses;  // of each lane
  uint32_t bytes;
  AccessKind kind;
  const Agent* agents;  // each lane's cp.async operation; null: the threads themselves
};

enum class RaceResult : uint8_t {
  kClean,
  kConflict,
  kNoProxyFence,  // the async proxy accesses what the generic proxy wrote, and no fence.proxy.async is in between
};

class RaceChecker {
 public:
  explicit RaceChecker(Cluster& cluster, GlobalShadow* global);
  /// Leaves what other clusters need to know of this one's accesses, in little memory.
  ~RaceChecker();

  /// Whether a thread is ordered after something.
  bool knows(uint32_t thread, Agent earlier) const;
  /// Component and current stamp of a thread.
  Agent thread_agent(uint32_t thread) const { return {thread, stamps_[thread]}; }
  uint32_t thread_of(const Warp& warp, int lane) const;
  /// An access by a lane, or by an asynchronous operation that it issued.
  RaceAccess access_of(const Warp& warp, int lane, const Agent* agent, AccessKind kind, uint32_t pc) const;
  Agent async_agent(Warp& warp, int lane, AsyncDomain domain, uint32_t key);
  void async_done(Warp& warp, int lane, Agent agent);
  /// The same for lanes that wait together for an operation of their warp.
  void group_done(Warp& warp, LaneMask lanes, Agent agent);

  /// Checks and records an access to the shared memory of a block / to a global allocation. On a conflict fills
  /// `other` with the earlier access's agent and pc.
  RaceResult shared_access(uint32_t rank, uint32_t offset, uint32_t bytes, const RaceAccess& access, ShadowCell* other);
  RaceResult global_access(uint32_t allocation, uint64_t offset, uint32_t bytes, const RaceAccess& access, ShadowCell* other);
  /// The same within one lock. False, with nothing recorded, on a conflict.
  bool global_clean_access(uint32_t allocation, uint64_t offset, uint32_t bytes, const RaceAccess& access);
  /// A read of shared memory. False where shared_access would have something to say; the record does not change its answer.
  bool shared_read(uint32_t rank, uint32_t offset, uint32_t bytes, const RaceAccess& access);

  /// Checks and records what an instruction does in these lanes at `addresses[lane] - base`, in lane order, up to the first
  /// lane that conflicts. Returns the lanes before it; nothing of the others' is recorded that matters to them.
  LaneMask shared_lanes(const WarpAccess& access, LaneMask lanes, uint32_t rank, uint64_t base);
  LaneMask global_lanes(const WarpAccess& access, LaneMask lanes, uint32_t allocation, uint64_t base);
  /// The same for plain accesses by all lanes to consecutive memory, at once. False, with nothing recorded, where lanes need a look
  /// of their own.
  bool global_run(const WarpAccess& access, uint32_t allocation, uint64_t offset);

  /// Of all workers; null where global memory is not checked.
  StoresUnderWay* stores() { return global_ ? &global_->stores : nullptr; }

  // Synchronisation.
  /// All threads of the block have met.
  void block_barrier(uint32_t rank);
  /// These threads of the cluster have met each other, and those that only arrived and left `released`.
  void partial_barrier(const std::vector<uint32_t>& threads, const VectorClock& released);
  void warp_barrier(Warp& warp, LaneMask lanes);
  void release(uint32_t thread, VectorClock& clock);
  void release_agent(Agent agent, VectorClock& clock);
  void acquire(Warp& warp, LaneMask lanes, const VectorClock& clock);
  void fence(uint32_t thread);
  void proxy_fence(uint32_t thread);
  /// A strong (relaxed or stronger) access that may synchronise through memory.
  void sync_shared(uint32_t thread, uint32_t rank, uint32_t offset, bool reads, bool writes, bool acquire,
                   bool release);
  void sync_global(uint32_t thread, uint64_t address, bool reads, bool writes, bool acquire, bool release);
  /// Whether an access to such an address comes after a strong read that has seen the write of `other`, and so after that write
  /// (PTX ISA, "Causality order": a write precedes in observation order the reads that see it, and what follows these).
  bool has_seen_shared(const RaceAccess& access, const ShadowCell& other, uint32_t rank, uint32_t offset) const;
  bool has_seen_global(const RaceAccess& access, const ShadowCell& other, uint64_t address) const;

  /// "thread (3, 0, 0)" or "a cp.async of thread (3, 0, 0)".
  std::string describe(Agent agent) const;
  uint32_t components() const { return components_; }

 private:
  void set_thread(RaceAccess& access, uint32_t thread) const;
  RaceAccess knowledge_of(uint32_t thread, uint32_t rank, uint32_t warp) const;
  bool ordered(const RaceAccess& access, Agent earlier) const;
  bool check(ShadowCell& cell, const RaceAccess& access, uint32_t cluster, ShadowCell* other);
  bool conflicts(const ShadowCell& cell, const RaceAccess& access, uint32_t cluster, ShadowCell* other) const;
  void record(ShadowCell& cell, const RaceAccess& access, uint32_t cluster);
  bool known_to_warp(const RaceAccess& access, Agent earlier) const;
  LaneMask replaced_readers(const WarpAccess& access, LaneMask lanes) const;
  template <class Visit>
  LaneMask clean_lanes(const WarpAccess& warp_access, LaneMask lanes, uint32_t cluster, Visit&& visit);
  bool check_foreign(const ShadowCell& cell, const RaceAccess& access) const;
  bool is_clean_run(const ShadowSpan& before, const RaceAccess& access, uint32_t cluster) const;
  bool replaces_reader(const ShadowCell& cell, const RaceAccess& access, uint32_t cluster) const;
  void note_reader(ShadowCell& cell, const RaceAccess& access, uint32_t cluster);
  bool readers_ordered(const ShadowCell& cell, const RaceAccess& access, ShadowCell* other) const;
  void join(VectorClock& into, const VectorClock& from) const;
  void gather(uint32_t thread, VectorClock& into) const;
  void tick(uint32_t thread) { stamps_[thread] = ++clock_; }
  void hear(uint32_t thread, uint32_t cluster, const Release& release);
  void hear_pending(uint32_t thread);
  void settle_heard();
  bool is_heard_by_all(uint32_t cluster) const;
  bool has_heard(const RaceAccess& access, uint32_t cluster, Agent earlier, bool ended) const;
  void note_release(uint32_t thread, bool release);
  uint32_t rank_of(uint32_t thread) const { return thread / threads_per_block_; }
  uint32_t warp_of(uint32_t thread) const;
  uint32_t group_of(Agent agent) const;
  bool is_async_proxy(Agent agent) const;
  bool lacks_proxy_fence(const ShadowCell& cell, const RaceAccess& access) const;

  Cluster& cluster_;
  GlobalShadow* global_;
  uint32_t threads_per_block_, warps_per_block_, threads_, warps_, first_remote_, components_;
  uint32_t clock_ = 1;
  std::vector<uint32_t> stamps_;              // per thread
  std::vector<uint32_t> copies_done_;         // per thread: own cp.async work it has waited for
  std::vector<VectorClock> block_known_;      // per block
  std::vector<VectorClock> warp_known_;       // per warp, empty: nothing beyond the block
  std::vector<VectorClock> thread_known_;     // per thread, empty: nothing beyond the warp
  std::vector<VectorClock> pending_acquire_;  // per thread: seen by relaxed reads, effective at the next fence
  VectorClock proxy_fenced_;                  // what some fence.proxy.async has made visible to the async proxy
  std::vector<VectorClock> fenced_;           // per thread: what its last fence would release
  VectorClock fenced_by_some_;                // what fences of any threads would release
  std::vector<ShadowMemory> shadows_;         // per block
  struct Reader {
    Agent agent;
    uint32_t pc = 0;
    uint32_t next = 0;  // index of another reader of the cell; 0: none
    bool strong = false;
  };
  void add_reader(ShadowCell& cell, const Reader& reader);
  uint32_t new_reader(const Reader& reader);
  void drop_readers(ShadowCell& cell);
  std::vector<Reader> readers_;    // of all cells, by index; 0: none
  uint32_t unused_readers_ = 0;    // list of dropped ones
  /// What the checker does when its shadows change: a copied cell has a list of readers of its own.
  struct SharedEvents {
    RaceChecker& race;
    void touched(uint64_t) const {}
    void copied(ShadowCell& cell) const { race.copy_readers(cell); }
  };
  struct GlobalEvents {
    RaceChecker& race;
    uint32_t allocation;
    uint32_t cluster;
    void touched(uint64_t page) const { race.touched_.push_back({allocation, page}); }
    void copied(ShadowCell& cell) const {
      if (cell.read_cluster == cluster)
        race.copy_readers(cell);
      else
        cell.readers = 0;  // an index of another checker
    }
  };
  void copy_readers(ShadowCell& cell);
  struct TouchedPage {
    uint32_t allocation;
    uint64_t page;
  };
  std::vector<TouchedPage> touched_;  // of global memory, some more than once
  struct GlobalRun {
    ShadowRun run;
    uint32_t allocation;
  };
  std::deque<GlobalRun> runs_;  // of global memory; pages point there
  /// A strong read, how many strong writes to its address there were before it, and whether it acquires what they released.
  struct Observation {
    Agent reader;
    uint32_t writes;
    bool acquires;
  };
  /// An address that strong accesses of this cluster name.
  struct SyncPoint {
    VectorClock released;
    uint32_t writes = 0;                    // strong ones of this cluster
    std::vector<Observation> observations;  // each thread's last one
    /// False where the thread's last observation, which this one replaces, has found as much.
    bool observe(Observation latest);
  };
  static uint64_t shared_key(uint32_t rank, uint32_t offset) { return static_cast<uint64_t>(rank) << 32 | offset; }
  /// Apart from those of shared memory, since host addresses are large.
  static uint64_t global_key(uint64_t address) { return address | uint64_t{1} << 63; }
  SyncPoint& sync(uint64_t key, uint32_t thread, bool reads, bool writes, bool acquire, bool release);
  bool has_seen(const RaceAccess& access, const SyncPoint& at, uint32_t writes) const;
  std::unordered_map<uint64_t, SyncPoint> sync_points_;
  // Between clusters (global memory).
  /// What a thread has acquired from another cluster, which those know that are ordered after it.
  struct Heard {
    Release release;
    Agent by;
  };
  const Release& heard_of(const std::vector<Heard>& heard, const RaceAccess& access) const;
  std::unordered_map<uint32_t, std::vector<Heard>> heard_;                  // cluster -> ..., by the releases' order
  std::unordered_map<uint32_t, GlobalShadow::ClusterClock> heard_pending_;  // thread -> seen by relaxed reads
  std::vector<Release> releases_;                                           // of this cluster, in order
};

inline bool RaceChecker::ordered(const RaceAccess& access, Agent earlier) const {
  // An asynchronous operation is ordered after its issuer, not after the issuer's other operations.
  if (earlier.id == access.thread || earlier.stamp <= access.block_known[earlier.id]) return true;
  if (earlier.id == access.agent.id && earlier.stamp == access.agent.stamp) return true;
  if (access.warp_known && earlier.stamp <= access.warp_known[earlier.id]) return true;
  if (access.thread_known && earlier.stamp <= access.thread_known[earlier.id]) return true;
  // cp.async that the thread itself has waited for. They are kept apart from thread_known_, which would need a clock for each
  // thread that only waits for its own copies.
  return earlier.id == threads_ + access.thread && earlier.stamp <= copies_done_[access.thread];
}

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_RACE_H_
