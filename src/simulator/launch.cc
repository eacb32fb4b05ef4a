#include "launch.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>

#include "interpreter.h"
#include "race.h"
#include "scheduler.h"

namespace tilelang {
namespace simulator {
namespace {

constexpr uint64_t kBudget = 1u << 20;  // warp instructions of a cluster before others have a turn
constexpr size_t kMaximumResident = 512;

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

/// The work list of a launch, shared by its workers.
class Grid {
 public:
  Grid(Launch& launch, GlobalShadow* shadow)
      : launch_(launch), shadow_(shadow), clusters_(volume(launch.grid) / volume(launch.cluster)) {}

  uint64_t clusters() const { return clusters_; }

  /// One worker: starts clusters, and takes turns among those that wait for others.
  void work(Counters& counters) {
    std::deque<std::unique_ptr<Cluster>> parked;
    try {
      while (!launch_.abort.load(std::memory_order_relaxed)) {
        std::unique_ptr<Cluster> cluster = next_cluster(parked, counters);
        if (!cluster) break;
        if (run_cluster(*cluster, kBudget) == ClusterResult::kDone)
          instructions_ += cluster->instructions;
        else
          parked.push_back(std::move(cluster));
      }
    } catch (const KernelAbort&) {
      launch_.abort = true;
    } catch (const std::exception& error) {
      std::lock_guard<std::mutex> guard(error_mutex_);
      error_ = error.what();
      launch_.abort = true;
    }
  }

  uint64_t instructions() const { return instructions_; }
  const std::string& error() const { return error_; }

 private:
  /// A new cluster while few are resident, else the one that has waited longest.
  std::unique_ptr<Cluster> next_cluster(std::deque<std::unique_ptr<Cluster>>& parked, Counters& counters) {
    if (parked.size() < kMaximumResident) {
      uint64_t index = next_.fetch_add(1);
      if (index < clusters_) return make_cluster(launch_, index, &counters, shadow_);
    }
    if (parked.empty()) return nullptr;
    auto cluster = std::move(parked.front());
    parked.pop_front();
    return cluster;
  }

  Launch& launch_;
  GlobalShadow* shadow_;
  uint64_t clusters_;
  std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> instructions_{0};
  std::mutex error_mutex_;
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
  Grid grid(launch, shadow.get());
  std::vector<Counters> counters(worker_count(request, grid.clusters()));
  for (Counters& c : counters) c.instructions.resize(program.code.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < counters.size(); ++i) threads.emplace_back([&, i] { grid.work(counters[i]); });
  grid.work(counters[0]);
  for (std::thread& thread : threads) thread.join();
  if (!grid.error().empty()) throw LaunchError(grid.error());

  LaunchReport report;
  report.kernel = kernel.name;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.findings = launch.findings.sorted();
  for (const Counters& c : counters) report.counters.merge(c);
  report.instructions = grid.instructions();
  report.aborted = launch.abort;
  report.printed = launch.printed;
  return report;
}

}  // namespace simulator
}  // namespace tilelang
