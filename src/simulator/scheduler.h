// Runs the warps of a cluster in an order drawn from the seed, until all have finished or none can go on.
#ifndef TILELANG_SIMULATOR_SCHEDULER_H_
#define TILELANG_SIMULATOR_SCHEDULER_H_

#include <memory>
#include <vector>

#include "machine.h"
#include "prefetcher.h"

namespace tilelang {
namespace simulator {

class CallerWatch;
class GlobalShadow;

enum class ClusterResult : uint8_t {
  kDone,
  kParked,  // used up its budget
  kIdle,    // waits for other blocks
};

/// Warps and shared memory of ended blocks, for the next ones of the same launch and worker; and what the worker's loads were.
class BlockMemory {
 public:
  void give(Cluster& cluster);
  std::unique_ptr<Warp> take_warp();
  std::unique_ptr<uint8_t[]> take_shared(size_t bytes);

 private:
  static void restart(Warp& warp);
  std::vector<std::unique_ptr<Warp>> warps_;
  std::vector<std::unique_ptr<uint8_t[]>> shared_;
  Prefetcher prefetcher_;
};

/// Builds the blocks and warps of cluster `index`, ready to run.
std::unique_ptr<Cluster> make_cluster(Launch& launch, uint64_t index, Counters* counters, GlobalShadow* shadow,
                                      BlockMemory& memory);

/// Runs for about `budget` warp instructions. Throws KernelAbort after a deadlock has been reported. `caller` is given on
/// the thread that called the launch, else null.
ClusterResult run_cluster(Cluster& cluster, uint64_t budget, CallerWatch* caller);

/// Reports a deadlock of the whole grid, in which this cluster waits too, and throws KernelAbort.
[[noreturn]] void report_idle_grid(Cluster& cluster);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_SCHEDULER_H_
