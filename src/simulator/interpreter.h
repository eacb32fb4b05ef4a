// The fragments of a warp and the loop that runs them.
#ifndef TILELANG_SIMULATOR_INTERPRETER_H_
#define TILELANG_SIMULATOR_INTERPRETER_H_

#include "machine.h"

namespace tilelang {
namespace simulator {

enum class WarpResult : uint8_t { kQuantum, kBlocked, kDone };

/// Runs a warp for at most `quantum` instructions, or until nothing of it can run.
WarpResult run_warp(Warp& warp, uint32_t quantum);

/// True when some fragment of the warp can run.
bool can_run(const Warp& warp);

// Called by control-flow handlers. Each returns the Step the handler has to return.
Step branch(Warp& warp, LaneMask taken, uint32_t target);
/// `targets` has the target of every lane in exec.
Step branch_indirect(Warp& warp, LaneMask exec, const uint32_t* targets);
Step call_function(Warp& warp, LaneMask exec, uint32_t function, const std::vector<ParamArea>& arguments,
                   const std::vector<ParamArea>& results);
/// Makes these lanes of the running fragment a fragment of their own, at the same instruction.
void split_here(Warp& warp, LaneMask lanes);
Step return_lanes(Warp& warp, LaneMask exec);
Step exit_lanes(Warp& warp, LaneMask exec);

/// Makes the first frame and fragment of a warp.
void start_warp(Warp& warp, LaneMask lanes);

/// Bookkeeping when lanes have left the kernel (barriers that wait for them). Defined in exec_barrier.cc.
void lanes_exited(Warp& warp, LaneMask lanes);
/// Completes barrier.cluster when every live thread of the cluster has arrived. Defined in exec_barrier.cc.
void complete_cluster_barrier(Cluster& cluster);

// Waking. All fragments that wait for the thing run their instruction again (kRetry waiters go on).
void wake_barrier(Block& block, uint32_t barrier);
void wake_cluster_barrier(Cluster& cluster);
void wake_mbarrier(Cluster& cluster, uint32_t address);
void wake_warpgroup(Block& block, uint32_t first_warp);
/// Wakes fragments that gave way (failed try_wait, nanosleep). Returns how many.
uint32_t wake_retries(Cluster& cluster, bool sleeping_only);

/// Program counter a fragment is at, also when it is the one that runs.
uint32_t fragment_pc(const Warp& warp, size_t fragment);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_INTERPRETER_H_
