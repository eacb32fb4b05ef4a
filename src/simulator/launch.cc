#include "launch.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>

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
  Grid(Launch& launch, GlobalShadow* shadow, uint32_t workers, bool may_stall)
      : launch_(launch),
        shadow_(shadow),
        clusters_(volume(launch.grid) / volume(launch.cluster)),
        working_(workers),
        may_stall_(may_stall) {
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

  /// Waits until no worker is left, or all have stalled; the caller may still give up.
  void wait(CallerWatch& caller) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!finished_.wait_for(lock, CallerWatch::kPeriod, [&] { return working_ == 0 || stalled_ == working_; })) {
      lock.unlock();
      caller.look();
      lock.lock();
    }
  }

  bool ended() const { return working_ == 0; }

  /// Lets stalled workers look at memory again. `give_up` says that what they wait for will not come.
  void wake(bool give_up) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (give_up) may_stall_ = false;
    stalled_ = 0;
    ++turn_;
    woken_.notify_all();
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
    if (all_rest && waiting.idle_passes >= kIdlePasses) {
      if (!stall()) report_idle_grid(*waiting.clusters.front());
      waiting.idle_passes = 0;
    }
    --resting_;
  }

  /// Waits until something outside of the launch may have written what it waits for; false where nothing will.
  bool stall() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!may_stall_) return false;
    const uint64_t turn = turn_;
    ++stalled_;
    finished_.notify_all();
    woken_.wait(lock, [&] { return turn_ != turn; });
    return true;
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
  std::condition_variable woken_;
  uint32_t stalled_ = 0;  // workers that wait to be woken, in all turns ...
  uint64_t turn_ = 0;     // ... since this many
  bool may_stall_;
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

/// A launch and all that its workers use.
class ActiveLaunch::State {
 public:
  State(const Program& program, LaunchRequest request, bool may_stall)
      : program_(program), kernel_(find_kernel(program, request.kernel)), request_(std::move(request)) {
    // A kernel that says its cluster size gets it from a launch that does not, as from the driver.
    if (kernel_.cluster[0] && volume(request_.cluster) == 1) std::copy_n(kernel_.cluster, 3, request_.cluster.begin());
    check_sizes(program, kernel_, request_);
    launch_.program = &program_;
    launch_.kernel = &kernel_;
    launch_.grid = request_.grid;
    launch_.block = request_.block;
    launch_.cluster = request_.cluster;
    launch_.checks = request_.checks;
    launch_.count = request_.count;
    launch_.seed = request_.seed;
    launch_.max_instructions = request_.max_instructions;
    launch_.parameters.assign(request_.parameters.data(), request_.parameters.size());
    lay_out_shared(launch_, kernel_, request_.shared_bytes);
    allocations_ = make_allocations(program_, request_, launch_);
    launch_.allocations = &allocations_;
    if (launch_.checks & kCheckRace) shadow_ = std::make_unique<GlobalShadow>(allocations_);
    counters_.resize(worker_count(request_, volume(launch_.grid) / volume(launch_.cluster)));
    for (Counters& c : counters_) c.instructions.resize(program_.code.size());
    grid_ = std::make_unique<Grid>(launch_, shadow_.get(), static_cast<uint32_t>(counters_.size()), may_stall);
  }

  ~State() {
    launch_.abort = true;
    grid_->wake(true);
    for (std::thread& thread : threads_) thread.join();
  }

  /// Starts the workers from the given one on, on threads of their own.
  void start(size_t first) {
    for (size_t i = first; i < counters_.size(); ++i)
      threads_.emplace_back([this, i] { grid_->work(counters_[i], nullptr); });
  }

  /// The first worker, on the caller's thread.
  void work(CallerWatch& caller) { grid_->work(counters_[0], &caller); }

  /// Waits for the workers. Gives whether they have ended; else they wait for something outside of the launch.
  bool wait(CallerWatch& caller) {
    grid_->wait(caller);
    if (caller.stopped()) {
      grid_->wake(true);  // those that have stalled end as well
    } else if (!grid_->ended()) {
      return false;
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    if (caller.stopped()) throw LaunchError(kernel_.name + " was interrupted");
    if (!grid_->error().empty()) throw LaunchError(grid_->error());
    return true;
  }

  LaunchReport report() {
    LaunchReport report;
    report.kernel = kernel_.name;
    report.grid = request_.grid;
    report.block = request_.block;
    report.cluster = request_.cluster;
    report.shared_bytes = launch_.shared_bytes;
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    report.findings = launch_.findings.sorted();
    for (const Counters& c : counters_) report.counters.merge(c);
    report.instructions = grid_->instructions();
    report.aborted = launch_.abort;
    report.printed = launch_.printed;
    report.trace = std::move(launch_.trace);
    return report;
  }

  Launch& launch() { return launch_; }
  Grid& grid() { return *grid_; }

 private:
  const Program& program_;
  const DecodedFunction& kernel_;
  LaunchRequest request_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Launch launch_;
  AllocationMap allocations_;
  std::unique_ptr<GlobalShadow> shadow_;
  std::vector<Counters> counters_;
  std::unique_ptr<Grid> grid_;
  std::vector<std::thread> threads_;
};

ActiveLaunch::ActiveLaunch(const Program& program, LaunchRequest request)
    : state_(std::make_unique<State>(program, std::move(request), true)) {}

ActiveLaunch::~ActiveLaunch() = default;

ActiveLaunch::Outcome ActiveLaunch::wait(std::function<bool()> should_stop) {
  if (!std::exchange(started_, true)) state_->start(0);
  CallerWatch caller(state_->launch(), std::move(should_stop));
  return state_->wait(caller) ? Outcome::kEnded : Outcome::kStalled;
}

ActiveLaunch::Outcome ActiveLaunch::resume(bool give_up, std::function<bool()> should_stop) {
  const uint64_t before = state_->launch().heartbeat.load();
  state_->grid().wake(give_up);
  const Outcome outcome = wait(std::move(should_stop));
  const bool got_on = state_->launch().heartbeat.load() != before;
  return outcome == Outcome::kStalled && got_on ? Outcome::kGotOn : outcome;
}

LaunchReport ActiveLaunch::report() { return state_->report(); }

LaunchReport run_launch(const Program& program, LaunchRequest request) {
  std::function<bool()> should_stop = std::move(request.should_stop);
  ActiveLaunch::State state(program, std::move(request), false);
  CallerWatch caller(state.launch(), std::move(should_stop));
  state.start(1);
  state.work(caller);
  state.wait(caller);
  return state.report();
}

}  // namespace simulator
}  // namespace tilelang
