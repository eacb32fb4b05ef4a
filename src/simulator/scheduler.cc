#include "scheduler.h"

#include <algorithm>
#include <new>

#include "caller_watch.h"
#include "frames.h"
#include "interpreter.h"
#include "memory.h"
#include "race.h"
#include "warp_async.h"

namespace tilelang {
namespace simulator {
namespace {

/// Times a cluster is asked again whether its failed waits still fail before it is called deadlocked.
constexpr uint32_t kIdleRounds = 32;
/// Warp instructions of one cluster without any progress (store, barrier, exit) after which it is called stuck.
constexpr uint64_t kStuckInstructions = 100u << 20;

std::array<uint32_t, 3> block_index(const Launch& launch, uint64_t cluster, uint32_t rank) {
  std::array<uint32_t, 3> index{};
  uint64_t c = cluster;
  uint32_t r = rank;
  for (int d = 0; d < 3; ++d) {
    uint32_t clusters = launch.grid[static_cast<size_t>(d)] / launch.cluster[static_cast<size_t>(d)];
    uint32_t extent = launch.cluster[static_cast<size_t>(d)];
    index[static_cast<size_t>(d)] = static_cast<uint32_t>(c % clusters) * extent + r % extent;
    c /= clusters;
    r /= extent;
  }
  return index;
}

std::unique_ptr<Block> make_block(Cluster& cluster, uint32_t rank, Counters* counters, BlockMemory& memory) {
  Launch& launch = *cluster.launch;
  auto block = std::make_unique<Block>();
  block->cluster = &cluster;
  block->rank = rank;
  block->index = block_index(launch, cluster.index, rank);
  block->shared_bytes = launch.shared_bytes;
  block->shared_storage = memory.take_shared(launch.shared_bytes + 1024u);
  uint64_t start = reinterpret_cast<uint64_t>(block->shared_storage.get());
  block->shared = block->shared_storage.get() + (1024 - start % 1024) % 1024;
  std::memset(block->shared, kPoison, launch.shared_bytes);
  if (launch.checks & kCheckInit) block->shared_initialised.assign(launch.shared_bytes, 0);
  uint32_t threads = launch.threads_per_block();
  block->live_threads = threads;
  block->warps.reserve((threads + kLanes - 1) / kLanes);
  for (uint32_t first = 0; first < threads; first += kLanes) {
    std::unique_ptr<Warp> warp = memory.take_warp();
    warp->block = block.get();
    warp->index = first / kLanes;
    warp->counters = counters;
    warp->checks = launch.checks;
    warp->counting = launch.count;
    if ((launch.checks & kRecordTrace) && cluster.index == launch.traced_cluster()) warp->trace = &launch.trace;
    block->warps.push_back(std::move(warp));
  }
  return block;
}

std::string wait_text(const Fragment& fragment) {
  switch (fragment.wait) {
    case WaitKind::kConverge:
      return "for the other lanes of its warp";
    case WaitKind::kBarrier:
      return "at barrier " + std::to_string(fragment.key);
    case WaitKind::kClusterBarrier:
      return "at the cluster barrier";
    case WaitKind::kMBarrier: {
      char text[96];
      std::snprintf(text, sizeof text, "for phase parity %u of the mbarrier at 0x%x in shared memory", fragment.detail & 1,
                    static_cast<uint32_t>(fragment.key) & kSharedOffsetMask);
      return text;
    }
    case WaitKind::kWarpgroup:
      return "for the other warps of its group to commit their wgmma";
    case WaitKind::kSleep:
      return "asleep";
    default:
      return "running";
  }
}

std::string lanes_text(LaneMask lanes) {
  if (lanes == kAllLanes) return "";
  std::string text = " (lanes";
  int first = -1;
  for (int lane = 0; lane <= kLanes; ++lane) {
    bool in = lane < kLanes && (lanes >> lane & 1);
    if (in && first < 0) first = lane;
    if (in || first < 0) continue;
    text += " " + std::to_string(first) + (lane - 1 > first ? "-" + std::to_string(lane - 1) : "");
    first = -1;
  }
  return text + ")";
}

std::string warps_text(const std::vector<uint32_t>& warps) {
  if (warps.size() == 1) return "warp " + std::to_string(warps[0]);
  std::string text = "warps ";
  for (size_t i = 0; i < warps.size(); ++i) {
    size_t last = i;
    while (last + 1 < warps.size() && warps[last + 1] == warps[last] + 1) ++last;
    text += (i == 0 ? "" : ", ") + std::to_string(warps[i]) + (last > i ? "-" + std::to_string(warps[last]) : "");
    i = last;
  }
  return text;
}

/// The instruction a waiting fragment is at: retries have already stepped over theirs.
const Instruction& waiting_instruction(const Warp& warp, const Fragment& fragment) {
  const Program& program = *warp.block->cluster->launch->program;
  bool retry = fragment.wait == WaitKind::kMBarrier || fragment.wait == WaitKind::kSleep;
  return program.code[fragment.pc - (retry && fragment.pc > 0 ? 1 : 0)];
}

std::string barrier_state_text(const Cluster& cluster) {
  std::string text;
  for (const auto& block : cluster.blocks) {
    for (int i = 0; i < 16; ++i) {
      const BarrierState& barrier = block->barriers[i];
      if (!barrier.arrived) continue;
      text += "; barrier " + std::to_string(i) + " has " + std::to_string(barrier.arrived) + " of " +
              std::to_string(barrier.expected) + " threads";
    }
  }
  for (const auto& item : cluster.mbarriers) {
    MBarrierState state = MBarrierState::unpack(item.second.word);
    char line[240];
    std::snprintf(line, sizeof line,
                  "; mbarrier at 0x%x in shared memory, block rank %u, is in phase %llu and waits for %u arrivals and %d "
                  "bytes%s",
                  item.first & kSharedOffsetMask, item.first >> kSharedRankShift,
                  static_cast<unsigned long long>(item.second.phases), state.pending, state.tx,
                  // Nothing is in flight any more where all warps wait.
                  state.pending == 0 && state.tx > 0 ? ", which were announced but no copy brings" : "");
    if (text.size() < 1200) text += line;
  }
  return text;
}

bool any_waits(const Warp& warp, WaitKind kind) {
  return std::any_of(warp.fragments.begin(), warp.fragments.end(), [&](const Fragment& f) { return f.wait == kind; });
}

/// How well a waiting fragment explains the deadlock. One that polls memory is the cause of all other waits; lanes
/// of one warp that wait for each other at different aligned instructions come next.
int blame(const Warp& warp, const Fragment& fragment) {
  if (fragment.wait == WaitKind::kSleep) return 2;
  return any_waits(warp, WaitKind::kConverge) ? 1 : 0;
}

[[noreturn]] void report_stuck(Cluster& cluster, const std::string& headline) {
  const Warp* first = nullptr;
  const Fragment* fragment = nullptr;
  std::vector<std::pair<std::string, std::vector<uint32_t>>> waits;  // what warps of a block wait for, and which
  for (auto& block : cluster.blocks) {
    for (auto& warp : block->warps) {
      for (const Fragment& f : warp->fragments) {
        if (!first || blame(*warp, f) > blame(*first, *fragment)) first = warp.get(), fragment = &f;
        std::string text = lanes_text(f.mask);
        if (cluster.blocks.size() > 1) text += " of block rank " + std::to_string(block->rank);
        text += " waiting " + wait_text(f) + " at " + warp->launch().program->place_of(waiting_instruction(*warp, f));
        auto same = std::find_if(waits.begin(), waits.end(), [&](const auto& wait) { return wait.first == text; });
        if (same == waits.end()) same = waits.insert(same, {text, {}});
        same->second.push_back(warp->index);
      }
    }
  }
  std::string message = headline;
  constexpr size_t kListed = 12;
  for (size_t i = 0; i < std::min(waits.size(), kListed); ++i) {
    message += (i == 0 ? ": " : "; ") + warps_text(waits[i].second) + waits[i].first;
  }
  if (waits.size() > kListed) message += "; and " + std::to_string(waits.size() - kListed) + " more";
  message += barrier_state_text(cluster);
  if (first) {
    FindingKind kind = blame(*first, *fragment) == 1 ? FindingKind::kBarrier : FindingKind::kDeadlock;
    first->report(kind, waiting_instruction(*first, *fragment), __builtin_ctz(fragment->mask), message);
  }
  throw KernelAbort();
}

/// One turn for every warp that can run. Returns the number of warps that ran.
uint32_t run_round(Cluster& cluster, std::vector<Warp*>& order, CallerWatch* caller) {
  order.clear();
  for (auto& block : cluster.blocks) {
    for (auto& warp : block->warps) {
      if (!warp->fragments.empty() && can_run(*warp)) order.push_back(warp.get());
    }
  }
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[cluster.random.below(static_cast<uint32_t>(i))]);
  for (Warp* warp : order) {
    uint64_t before = warp->instructions;
    run_warp(*warp, 16u << cluster.random.below(8));
    cluster.instructions += warp->instructions - before;
  }
  if (caller) caller->look();
  return static_cast<uint32_t>(order.size());
}

bool finished(const Cluster& cluster) { return cluster.live_threads == 0; }

bool only_sleepers_can_wake(const Cluster& cluster) {
  for (const auto& block : cluster.blocks) {
    for (const auto& warp : block->warps) {
      if (any_waits(*warp, WaitKind::kSleep)) return true;
    }
  }
  return false;
}

void check_progress(Cluster& cluster) {
  uint64_t limit = cluster.launch->max_instructions;
  if (limit && cluster.instructions > limit)
    report_stuck(cluster, "the limit of " + std::to_string(limit) + " instructions is reached");
  if (cluster.progress != cluster.progress_seen) {
    cluster.progress_seen = cluster.progress;
    cluster.instructions_at_progress = cluster.instructions;
  } else if (cluster.instructions - cluster.instructions_at_progress > kStuckInstructions) {
    report_stuck(cluster, "no progress in " + std::to_string(kStuckInstructions) + " instructions");
  }
}

}  // namespace

/// A fresh warp that keeps the memory of the old one.
void BlockMemory::restart(Warp& warp) {
  std::vector<uint8_t> registers = std::move(warp.register_storage);
  std::vector<Fragment> fragments = std::move(warp.fragments);
  std::shared_ptr<Frame> frame = std::move(warp.first_frame);
  warp.~Warp();
  new (&warp) Warp;
  warp.register_storage = std::move(registers);
  warp.fragments = std::move(fragments);
  warp.fragments.clear();
  warp.first_frame = std::move(frame);
}

void BlockMemory::give(Cluster& cluster) {
  for (auto& block : cluster.blocks) {
    shared_.push_back(std::move(block->shared_storage));
    for (auto& warp : block->warps) warps_.push_back(std::move(warp));
  }
}

std::unique_ptr<Warp> BlockMemory::take_warp() {
  std::unique_ptr<Warp> warp;
  if (warps_.empty()) {
    warp = std::make_unique<Warp>();
  } else {
    warp = std::move(warps_.back());
    warps_.pop_back();
    restart(*warp);
    std::fill(warp->register_storage.begin(), warp->register_storage.end(), kPoison);
    warp->registers = first_register(warp->register_storage);
  }
  warp->prefetcher = &prefetcher_;
  return warp;
}

std::unique_ptr<uint8_t[]> BlockMemory::take_shared(size_t bytes) {
  if (shared_.empty()) return std::unique_ptr<uint8_t[]>(new uint8_t[bytes]);
  std::unique_ptr<uint8_t[]> result = std::move(shared_.back());
  shared_.pop_back();
  return result;
}

std::unique_ptr<Cluster> make_cluster(Launch& launch, uint64_t index, Counters* counters, GlobalShadow* shadow,
                                      BlockMemory& memory) {
  auto cluster = std::make_unique<Cluster>();
  cluster->launch = &launch;
  cluster->index = index;
  cluster->random = Random(launch.seed * 0x2545f4914f6cdd1dull + index);
  for (uint32_t rank = 0; rank < launch.blocks_per_cluster(); ++rank)
    cluster->blocks.push_back(make_block(*cluster, rank, counters, memory));
  cluster->live_threads = launch.threads_per_block() * launch.blocks_per_cluster();
  if (launch.checks & kCheckRace) cluster->race = std::make_unique<RaceChecker>(*cluster, shadow);
  for (auto& block : cluster->blocks) {
    for (auto& warp : block->warps) {
      uint32_t threads = std::min<uint32_t>(launch.threads_per_block() - warp->index * kLanes, kLanes);
      start_warp(*warp, threads == kLanes ? kAllLanes : (1u << threads) - 1);
    }
  }
  return cluster;
}

ClusterResult run_cluster(Cluster& cluster, uint64_t budget, CallerWatch* caller) {
  std::vector<Warp*> order;
  uint64_t stop = cluster.instructions + budget;
  uint32_t idle = 0;
  while (!finished(cluster)) {
    if (cluster.launch->abort.load(std::memory_order_relaxed)) throw KernelAbort();
    uint64_t progress = cluster.progress;
    if (run_round(cluster, order, caller)) {
      // A turn that only polled once more is none.
      if (cluster.progress != progress || std::any_of(order.begin(), order.end(), [](Warp* w) { return can_run(*w); })) {
        cluster.launch->heartbeat.fetch_add(1, std::memory_order_relaxed);
        idle = 0;
      }
      // Operations complete now and then by themselves, not only when a warp must wait for them.
      if (!cluster.pending.empty() && cluster.random.chance(8)) cluster.pending.land_one(cluster.random);
      // Sleepers wake, and waits time out, also while others run: those may be spinning for them.
      if (cluster.random.chance(8)) wake_retries(cluster, !cluster.random.chance(8));
    } else if (cluster.pending.land_one(cluster.random)) {
      ++cluster.progress;
      idle = 0;
      wake_retries(cluster, true);
    } else if (++idle <= kIdleRounds && wake_retries(cluster, false)) {
      continue;
    } else if (only_sleepers_can_wake(cluster)) {
      check_progress(cluster);
      return ClusterResult::kIdle;
    } else {
      report_stuck(cluster, "every warp waits");
    }
    if (cluster.launch->max_instructions) check_progress(cluster);
    if (cluster.instructions >= stop) {
      check_progress(cluster);
      return ClusterResult::kParked;
    }
  }
  cluster.pending.land_all(cluster.random);
  for (auto& block : cluster.blocks) {
    for (auto& warp : block->warps) finish_async(*warp);
  }
  cluster.launch->heartbeat.fetch_add(1, std::memory_order_relaxed);
  return ClusterResult::kDone;
}

void report_idle_grid(Cluster& cluster) {
  report_stuck(cluster, "every block that has started waits for another one");
}

}  // namespace simulator
}  // namespace tilelang
