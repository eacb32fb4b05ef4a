// Running a kernel: from a request to a report.
#ifndef TILELANG_SIMULATOR_LAUNCH_H_
#define TILELANG_SIMULATOR_LAUNCH_H_

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "counters.h"
#include "findings.h"
#include "memory.h"
#include "program.h"

namespace tilelang {
namespace simulator {

struct LaunchRequest {
  std::string kernel;
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  uint32_t shared_bytes = 0;            // dynamic
  std::vector<uint8_t> parameters;      // packed as the kernel declares them
  std::vector<Allocation> allocations;  // what the kernel may address
  uint32_t checks = 0;                  // Check bits
  bool count = true;
  uint64_t seed = 0;
  uint32_t workers = 0;           // OS threads; 0: one per core
  uint64_t max_instructions = 0;  // warp instructions of one cluster; 0: no limit
  std::function<bool()> should_stop;  // asked now and then, on the calling thread
};

struct LaunchReport {
  std::string kernel;
  std::array<uint32_t, 3> grid{}, block{}, cluster{};
  uint32_t shared_bytes = 0;  // static and dynamic
  std::vector<Finding> findings;
  Counters counters;
  uint64_t instructions = 0;  // warp instructions
  double seconds = 0;
  bool aborted = false;  // a finding ended the kernel early
  std::string printed;   // what the kernel printed
  Trace trace;           // of one cluster, when it was asked for
};

/// The kernel of that name. Throws LaunchError naming the kernels there are.
TILELANG_SIMULATOR_EXPORT const DecodedFunction& find_kernel(const Program& program, const std::string& name);

/// Runs the grid. Throws LaunchError for impossible sizes or parameters, and when the caller stops it.
TILELANG_SIMULATOR_EXPORT LaunchReport run_launch(const Program& program, LaunchRequest request);

/// A launch on threads of its own. It stays resident where all its blocks wait for memory that none of them will write, since
/// a kernel on another stream may.
class ActiveLaunch {
 public:
  class State;
  enum class Outcome {
    kEnded,    // `report` says how
    kStalled,  // every block waits, as before
    kGotOn,    // every block waits again, after some had got on
  };

  /// Throws LaunchError for impossible sizes or parameters.
  ActiveLaunch(const Program& program, LaunchRequest request);
  ~ActiveLaunch();

  /// Starts it, if need be, and waits until it has ended or stalled. Throws LaunchError when the caller stops it.
  Outcome wait(std::function<bool()> should_stop);

  /// The same for one that has stalled, after memory may have changed; with `give_up`, what it waits for is a deadlock.
  Outcome resume(bool give_up, std::function<bool()> should_stop);

  /// Of one that has ended.
  LaunchReport report();

 private:
  std::unique_ptr<State> state_;
  bool started_ = false;
};

/// The report as JSON: findings, counters (by class, by instruction, memory), printed text.
std::string report_json(const Program& program, const LaunchReport& report);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_LAUNCH_H_
