// Operations on mbarrier objects (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier").
#include "mbarrier.h"

#include "interpreter.h"
#include "machine.h"
#include "memory.h"
#include "race.h"

namespace tilelang {
namespace simulator {
namespace {

// Fields of the opaque word, low to high: pending 20, expected 20, tx-count 22 (biased), phase 1, valid 1.
constexpr uint32_t kCountBits = 20;
constexpr uint32_t kTxBits = 22;
constexpr int32_t kTxBias = 1 << 21;

void join(VectorClock& into, const VectorClock& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

uint8_t* word_address(Cluster& cluster, uint32_t address) {
  uint32_t rank = address >> kSharedRankShift;
  uint32_t offset = address & kSharedOffsetMask;
  if (rank >= cluster.blocks.size() || offset < kSharedBase) return nullptr;
  Block& block = *cluster.blocks[rank];
  if (offset - kSharedBase + 8ull > block.shared_bytes || offset % 8) return nullptr;
  return block.shared + (offset - kSharedBase);
}

/// An mbarrier as an instruction of a thread sees it.
class Access {
 public:
  Access(Warp& warp, const Instruction& instruction, int lane, uint32_t address)
      : warp_(warp), instruction_(instruction), lane_(lane), address_(address) {}

  /// Checks the place and the object; false after a report.
  bool open() {
    if (!locate()) return false;
    auto& table = warp_.cluster().mbarriers;
    auto found = table.find(address_);
    if (found == table.end()) return misuse("the mbarrier has not been initialised");
    uint64_t word;
    std::memcpy(&word, word_, 8);
    if (word != found->second.word) return misuse("the mbarrier object was overwritten by other data");
    shadow = &found->second;
    check_mbarrier_known(warp_, instruction_, lane_, address_, *shadow);
    state = MBarrierState::unpack(word);
    warp_.traced_barrier = address_;
    warp_.traced_phase = static_cast<uint32_t>(shadow->phases) + 1;
    return true;
  }

  bool locate() {
    word_ = word_address(warp_.cluster(), address_);
    if (!word_)
      return misuse("no mbarrier can be at " + describe_address(warp_, Space::kShared, address_) +
                    " (outside the block's shared memory, or not a multiple of 8)");
    return true;
  }

  bool misuse(const std::string& message) const {
    warp_.report(FindingKind::kMBarrier, instruction_, lane_, message);
    return false;
  }

  void create(uint32_t count) {
    state.valid = true;
    state.pending = state.expected = count;
    shadow = &warp_.cluster().mbarriers[address_];
    *shadow = MBarrierShadow();
    if (RaceChecker* race = warp_.cluster().race.get()) shadow->creator = race->thread_agent(race->thread_of(warp_, lane_));
    if (!warp_.block->shared_initialised.empty()) mark_initialised(warp_.cluster(), word_, 8);
  }

  void close() { store(warp_.cluster(), address_, word_, *shadow, state); }

  static void store(Cluster& cluster, uint32_t address, uint8_t* word, MBarrierShadow& shadow, MBarrierState& state) {
    if (state.try_complete()) {
      ++shadow.phases;
      join(shadow.completed, shadow.pending);
      shadow.pending.clear();
      ++cluster.progress;
      wake_mbarrier(cluster, address);
    }
    shadow.word = state.pack();
    std::memcpy(word, &shadow.word, 8);
  }

  MBarrierState state;
  MBarrierShadow* shadow = nullptr;

 private:
  Warp& warp_;
  const Instruction& instruction_;
  int lane_;
  uint32_t address_;
  uint8_t* word_ = nullptr;
};

bool tx_in_range(int64_t tx) { return tx >= -kMBarrierMaximumTx && tx <= kMBarrierMaximumTx; }

}  // namespace

uint64_t MBarrierState::pack() const {
  return static_cast<uint64_t>(pending) | static_cast<uint64_t>(expected) << kCountBits |
         static_cast<uint64_t>(tx + kTxBias) << (2 * kCountBits) |
         static_cast<uint64_t>(phase) << (2 * kCountBits + kTxBits) | static_cast<uint64_t>(valid) << 63;
}

MBarrierState MBarrierState::unpack(uint64_t word) {
  MBarrierState state;
  state.pending = static_cast<uint32_t>(word) & kMBarrierMaximumCount;
  state.expected = static_cast<uint32_t>(word >> kCountBits) & kMBarrierMaximumCount;
  state.tx = static_cast<int32_t>((word >> (2 * kCountBits)) & ((1u << kTxBits) - 1)) - kTxBias;
  state.phase = static_cast<uint32_t>(word >> (2 * kCountBits + kTxBits)) & 1;
  state.valid = (word >> 63) != 0;
  return state;
}

bool MBarrierState::try_complete() {
  if (pending != 0 || tx != 0) return false;
  phase ^= 1;
  pending = expected;
  return true;
}

void mbarrier_init(Warp& warp, const Instruction& instruction, int lane, uint32_t address, uint32_t count) {
  Access barrier(warp, instruction, lane, address);
  if (!barrier.locate()) return;
  if (count == 0 || count > kMBarrierMaximumCount) {
    barrier.misuse("the arrival count " + std::to_string(count) + " is not in [1, " +
                   std::to_string(kMBarrierMaximumCount) + "]");
    return;
  }
  barrier.create(count);
  barrier.close();
}

void check_mbarrier_known(Warp& warp, const Instruction& instruction, int lane, uint32_t address, const MBarrierShadow& shadow) {
  RaceChecker* race = warp.cluster().race.get();
  if (!race || race->knows(race->thread_of(warp, lane), shadow.creator)) return;
  warp.report(FindingKind::kMBarrier, instruction, lane,
              "nothing orders this after the initialisation of the mbarrier at " +
                  describe_address(warp, Space::kShared, address) + " by " + race->describe(shadow.creator));
}

void mbarrier_invalidate(Warp& warp, const Instruction& instruction, int lane, uint32_t address) {
  Access barrier(warp, instruction, lane, address);
  if (barrier.open()) warp.cluster().mbarriers.erase(address);
}

uint64_t mbarrier_arrive(Warp& warp, const Instruction& instruction, int lane, uint32_t address, uint32_t count,
                         int64_t expect_tx, bool drop, bool release) {
  Access barrier(warp, instruction, lane, address);
  if (!barrier.open()) return 0;
  uint64_t before = barrier.state.pack();
  if (count == 0 || count > barrier.state.pending) {
    barrier.misuse("arrival with count " + std::to_string(count) + ", the phase waits for " +
                   std::to_string(barrier.state.pending));
    return before;
  }
  if (!tx_in_range(barrier.state.tx + expect_tx)) {
    barrier.misuse("the tx-count leaves its range");
    return before;
  }
  RaceChecker* race = warp.cluster().race.get();
  if (race && release) race->release(race->thread_of(warp, lane), barrier.shadow->pending);
  barrier.state.tx += static_cast<int32_t>(expect_tx);
  barrier.state.pending -= count;
  if (drop) barrier.state.expected -= std::min(count, barrier.state.expected);
  barrier.close();
  return before;
}

void mbarrier_expect_tx(Warp& warp, const Instruction& instruction, int lane, uint32_t address, int64_t bytes) {
  Access barrier(warp, instruction, lane, address);
  if (!barrier.open()) return;
  if (!tx_in_range(barrier.state.tx + bytes)) {
    barrier.misuse("the tx-count leaves its range");
    return;
  }
  barrier.state.tx += static_cast<int32_t>(bytes);
  // Bytes that came before they were expected made the count negative: where this balances them, it completes the phase.
  barrier.close();
}

void mbarrier_complete_tx(Cluster& cluster, uint32_t address, int64_t bytes, Agent agent) {
  uint8_t* word = word_address(cluster, address);
  auto found = cluster.mbarriers.find(address);
  if (!word || found == cluster.mbarriers.end()) return;
  MBarrierState state = MBarrierState::unpack(found->second.word);
  state.tx -= static_cast<int32_t>(bytes);
  if (cluster.race) cluster.race->release_agent(agent, found->second.pending);
  Access::store(cluster, address, word, found->second, state);
}

void mbarrier_arrive_async(Cluster& cluster, uint32_t address, Agent agent) {
  uint8_t* word = word_address(cluster, address);
  auto found = cluster.mbarriers.find(address);
  if (!word || found == cluster.mbarriers.end()) return;
  MBarrierState state = MBarrierState::unpack(found->second.word);
  if (state.pending == 0) return;
  --state.pending;
  if (cluster.race) cluster.race->release_agent(agent, found->second.pending);
  Access::store(cluster, address, word, found->second, state);
}

void mbarrier_increment(Warp& warp, const Instruction& instruction, int lane, uint32_t address) {
  Access barrier(warp, instruction, lane, address);
  if (!barrier.open()) return;
  ++barrier.state.pending;
  barrier.close();
}

bool mbarrier_test(Warp& warp, const Instruction& instruction, LaneMask lanes, uint32_t address, uint32_t phase,
                   bool acquire) {
  Access barrier(warp, instruction, __builtin_ctz(lanes), address);
  if (!barrier.open()) {
    for_lanes(lanes & (lanes - 1), [&](int lane) { Access(warp, instruction, lane, address).open(); });
    return true;
  }
  if (barrier.state.phase == phase) return false;  // the current, incomplete one
  --warp.traced_phase;
  RaceChecker* race = warp.cluster().race.get();
  if (race && acquire) race->acquire(warp, lanes, barrier.shadow->completed);
  return true;
}

uint32_t mbarrier_pending_count(uint64_t state) { return MBarrierState::unpack(state).pending; }

}  // namespace simulator
}  // namespace tilelang
