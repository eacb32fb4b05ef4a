#include "launch.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <thread>

#include "caller_watch.h"
#include "interpreter.h"
#include "race.h"
#include "scheduler.h"

namespace tilelang {
namespace simulator {
namespace {

constexpr uint64_t kBudget = 1u << 20;  // warp instructions of a cluster before others have a turn
constexpr size_t kMaximumResident = 512;
/// Passes over all waiting clusters without any progress in the grid after which it is called deadlocked. More than one,
/// as a wait may count its turns (a loop around nanosleep that gives up in the end).
constexpr uint32_t kIdlePasses = 256;
constexpr std::chrono::microseconds kRest{50};

uint64_t volume(const std::array<uint32_t, 3>& extent) {
  return static_cast<uint64_t>(extent[0]) * extent[1] * extent[2];
}

std::string triple(const std::array<uint32_t, 3>& t) {
  return "(" + std::to_string(t[0]) + ", " + std::to_string(t[1]) + ", " + std::to_string(t[2]) + ")";
}

/// Shared memory an architecture lets a block opt in to (CUDA programming guide, compute capabilities).
uint32_t shared_limit(const std::string& target) {
  if (target.rfind("sm_80", 0) == 0 || target.rfind("sm_87", 0) == 0) return 163u << 10;
  if (target.rfind("sm_86", 0) == 0 || target.rfind("sm_89", 0) == 0 || target.rfind("sm_12", 0) == 0) return 99u << 10;
  return 227u << 10;
}

void check_sizes(const Program& program, const DecodedFunction& kernel, const LaunchRequest& r) {
  uint64_t threads = volume(r.block);
  if (threads == 0 || threads > 1024) throw LaunchError("a block must have 1 to 1024 threads, got " + triple(r.block));
  if (volume(r.grid) == 0) throw LaunchError("the grid " + triple(r.grid) + " is empty");
  if (volume(r.cluster) == 0 || volume(r.cluster) > 16)
    throw LaunchError("a cluster must have 1 to 16 blocks, got " + triple(r.cluster));
  for (size_t d = 0; d < 3; ++d) {
    if (r.grid[d] % r.cluster[d])
      throw LaunchError("the grid " + triple(r.grid) + " is not a multiple of the cluster " + triple(r.cluster));
    if (kernel.required_threads[d] && kernel.required_threads[d] != r.block[d]) {
      throw LaunchError(kernel.name + " requires blocks of " +
                        triple({kernel.required_threads[0], kernel.required_threads[1], kernel.required_threads[2]}) +
                        " threads, got " + triple(r.block));
    }
    if (kernel.cluster[d] && kernel.cluster[d] != r.cluster[d]) {
      throw LaunchError(kernel.name + " requires clusters of " +
                        triple({kernel.cluster[0], kernel.cluster[1], kernel.cluster[2]}) + " blocks, got " +
                        triple(r.cluster));
    }
  }
  uint64_t most = static_cast<uint64_t>(kernel.maximum_threads[0]) * std::max(kernel.maximum_threads[1], 1u) *
                  std::max(kernel.maximum_threads[2], 1u);
  if (most && threads > most)
    throw LaunchError(kernel.name + " allows " + std::to_string(most) + " threads a block, got " +
                      std::to_string(threads));
  uint64_t shared = static_cast<uint64_t>(kernel.static_shared_bytes) + r.shared_bytes;
  if (shared > shared_limit(program.target)) {
    throw LaunchError(kernel.name + " needs " + std::to_string(shared) + " bytes of shared memory, " + program.target +
                      " has " + std::to_string(shared_limit(program.target)));
  }
  if (r.parameters.size() != kernel.parameter_bytes) {
    throw LaunchError(kernel.name + " takes " + std::to_string(kernel.parameter_bytes) + " bytes of parameters, got " +
                      std::to_string(r.parameters.size()));
  }
}

void lay_out_shared(Launch& launch, const DecodedFunction& kernel, uint32_t dynamic) {
  uint32_t end = kSharedBase + kernel.static_shared_bytes;
  uint32_t alignment = std::max<uint32_t>(kernel.dynamic_shared_alignment, 16);
  launch.dynamic_base = (end + alignment - 1) / alignment * alignment;
  launch.dynamic_shared = dynamic;
  launch.shared_bytes = (dynamic ? launch.dynamic_base + dynamic : end) - kSharedBase;
}

AllocationMap make_allocations(const Program& program, const LaunchRequest& request, const Launch& launch) {
  AllocationMap map;
  for (const Allocation& allocation : request.allocations) map.add(allocation);
  for (const GlobalVariable& global : program.globals) {
    map.add({reinterpret_cast<uint64_t>(global.data), global.bytes, global.is_const, "variable " + global.name});
  }
  map.add({reinterpret_cast<uint64_t>(launch.parameters.data()), launch.parameters.size(), true,
           "the kernel's parameters"});
  map.finish();
  return map;
}

/// What one worker knows of the clusters that it has started and that wait for others, and what ended ones have left.
struct Waiting {
  std::deque<std::unique_ptr<Cluster>> clusters;
  size_t idle_turns = 0;        // turns since one of them last got on
  uint64_t heartbeat_seen = 0;  // Launch::heartbeat at the last pass over all of them ...
  uint32_t idle_passes = 0;     // ... and passes since it last changed
  BlockMemory memory;
};

/// The work list of a launch, shared by its workers.
class Grid {
 public:
  Grid(Launch& launch, GlobalShadow* shadow, uint32_t workers)
      : launch_(launch), shadow_(shadow), clusters_(volume(launch.grid) / volume(launch.cluster)), working_(workers) {
    if (!(launch.checks & kOnlyTraced)) return;
    next_ = launch.traced_cluster();
    clusters_ = next_ + 1;
  }

  /// One worker: starts clusters, and takes turns among those that wait for others. `caller` is null on other threads
  /// than the caller's.
  void work(Counters& counters, CallerWatch* caller) {
    try {
      take_turns(counters, caller);
    } catch (const KernelAbort&) {
      launch_.abort = true;
    } catch (const std::exception& error) {
      std::lock_guard<std::mutex> guard(mutex_);
      error_ = error.what();
      launch_.abort = true;
    }
    std::lock_guard<std::mutex> guard(mutex_);
    --working_;
    finished_.notify_all();
  }

  /// Waits for the other workers; the caller may still give up.
  void wait(CallerWatch& caller) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!finished_.wait_for(lock, CallerWatch::kPeriod, [&] { return working_ == 0; })) {
      lock.unlock();
      caller.look();
      lock.lock();
    }
  }

  uint64_t instructions() const { return instructions_; }
  const std::string& error() const { return error_; }

 private:
  void take_turns(Counters& counters, CallerWatch* caller) {
    Waiting waiting;
    while (!launch_.abort.load(std::memory_order_relaxed)) {
      std::unique_ptr<Cluster> cluster = next_cluster(waiting, counters);
      if (!cluster) break;
      ClusterResult result = run_cluster(*cluster, kBudget, caller);
      waiting.idle_turns = result == ClusterResult::kIdle ? waiting.idle_turns + 1 : 0;
      if (result == ClusterResult::kDone) {
        instructions_ += cluster->instructions;
        waiting.memory.give(*cluster);
        continue;
      }
      waiting.clusters.push_back(std::move(cluster));
      if (waiting.idle_turns >= waiting.clusters.size()) rest(waiting, caller);
    }
  }

  /// Every cluster of this worker waits for clusters of others. When all workers are in this state at once, over many passes without
  /// progress, no event is left that could end the waits: the grid is deadlocked.
  void rest(Waiting& waiting, CallerWatch* caller) {
    waiting.idle_turns = 0;
    uint64_t heartbeat = launch_.heartbeat.load();
    waiting.idle_passes = heartbeat == waiting.heartbeat_seen ? waiting.idle_passes + 1 : 0;
    waiting.heartbeat_seen = heartbeat;
    if (caller) caller->look();
    ++resting_;
    std::this_thread::sleep_for(kRest);
    bool all_rest = resting_.load() == working_.load() && launch_.heartbeat.load() == heartbeat;
    if (all_rest && waiting.idle_passes >= kIdlePasses) report_idle_grid(*waiting.clusters.front());
    --resting_;
  }

  /// A new cluster while few are resident, else the one that has waited longest.
  std::unique_ptr<Cluster> next_cluster(Waiting& waiting, Counters& counters) {
    if (waiting.clusters.size() < kMaximumResident) {
      uint64_t index = next_.fetch_add(1);
      if (index < clusters_) return make_cluster(launch_, index, &counters, shadow_, waiting.memory);
    }
    if (waiting.clusters.empty()) return nullptr;
    auto cluster = std::move(waiting.clusters.front());
    waiting.clusters.pop_front();
    return cluster;
  }

  Launch& launch_;
  GlobalShadow* shadow_;
  uint64_t clusters_;
  std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> instructions_{0};
  std::mutex mutex_;
  std::condition_variable finished_;
  std::atomic<uint32_t> working_;     // workers that have not ended
  std::atomic<uint32_t> resting_{0};  // those of them that give way to the others
  std::string error_;
};

uint32_t worker_count(const LaunchRequest& request, uint64_t clusters) {
  uint64_t workers = request.workers ? request.workers : std::max(1u, std::thread::hardware_concurrency());
  return static_cast<uint32_t>(std::min<uint64_t>(workers, clusters));
}

}  // namespace

const DecodedFunction& find_kernel(const Program& program, const std::string& name) {
  std::string known;
  for (const DecodedFunction& function : program.functions) {
    if (!function.is_entry) continue;
    if (function.name == name) return function;
    known += (known.empty() ? "" : ", ") + function.name;
  }
  throw LaunchError("there is no kernel " + name + " in this module" + (known.empty() ? "" : ", it has " + known));
}

LaunchReport run_launch(const Program& program, LaunchRequest request) {
  const DecodedFunction& kernel = find_kernel(program, request.kernel);
  // A kernel that says its cluster size gets it from a launch that does not, as from the driver.
  if (kernel.cluster[0] && volume(request.cluster) == 1) std::copy_n(kernel.cluster, 3, request.cluster.begin());
  check_sizes(program, kernel, request);
  Launch launch;
  launch.program = &program;
  launch.kernel = &kernel;
  launch.grid = request.grid;
  launch.block = request.block;
  launch.cluster = request.cluster;
  launch.checks = request.checks;
  launch.count = request.count;
  launch.seed = request.seed;
  launch.max_instructions = request.max_instructions;
  launch.parameters.assign(request.parameters.data(), request.parameters.size());
  lay_out_shared(launch, kernel, request.shared_bytes);
  AllocationMap allocations = make_allocations(program, request, launch);
  launch.allocations = &allocations;
  std::unique_ptr<GlobalShadow> shadow;
  if (launch.checks & kCheckRace) shadow = std::make_unique<GlobalShadow>(allocations);

  auto start = std::chrono::steady_clock::now();
  CallerWatch caller(launch, std::move(request.should_stop));
  std::vector<Counters> counters(worker_count(request, volume(launch.grid) / volume(launch.cluster)));
  Grid grid(launch, shadow.get(), static_cast<uint32_t>(counters.size()));
  for (Counters& c : counters) c.instructions.resize(program.code.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < counters.size(); ++i) threads.emplace_back([&, i] { grid.work(counters[i], nullptr); });
  grid.work(counters[0], &caller);
  grid.wait(caller);
  for (std::thread& thread : threads) thread.join();
  if (caller.stopped()) throw LaunchError(kernel.name + " was interrupted");
  if (!grid.error().empty()) throw LaunchError(grid.error());

  LaunchReport report;
  report.kernel = kernel.name;
  report.grid = request.grid;
  report.block = request.block;
  report.cluster = request.cluster;
  report.shared_bytes = launch.shared_bytes;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.findings = launch.findings.sorted();
  for (const Counters& c : counters) report.counters.merge(c);
  report.instructions = grid.instructions();
  report.aborted = launch.abort;
  report.printed = launch.printed;
  report.trace = std::move(launch.trace);
  return report;
}

}  // namespace simulator
}  // namespace tilelang
