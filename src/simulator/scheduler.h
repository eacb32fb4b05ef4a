// Runs the warps of a cluster in an order drawn from the seed, until all have finished or none can go on.
#ifndef TILELANG_SIMULATOR_SCHEDULER_H_
#define TILELANG_SIMULATOR_SCHEDULER_H_

#include <memory>

#include "machine.h"

namespace tilelang {
namespace simulator {

class GlobalShadow;

enum class ClusterResult : uint8_t {
  kDone,
  kParked,  // used up its budget or waits for other blocks
};

/// Builds the blocks and warps of cluster `index`, ready to run.
std::unique_ptr<Cluster> make_cluster(Launch& launch, uint64_t index, Counters* counters, GlobalShadow* shadow);

/// Runs for about `budget` warp instructions. Throws KernelAbort after a deadlock has been reported.
ClusterResult run_cluster(Cluster& cluster, uint64_t budget);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_SCHEDULER_H_
