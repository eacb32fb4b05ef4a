// What the checkers found, with the place it was found at.
#ifndef TILELANG_SIMULATOR_FINDINGS_H_
#define TILELANG_SIMULATOR_FINDINGS_H_

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ptx_ast.h"

namespace tilelang {
namespace simulator {

enum class FindingKind : uint8_t {
  kOutOfBounds,
  kMisaligned,
  kUninitialised,
  kRace,
  kBarrier,  // divergence, wrong counts, threads that left
  kDeadlock,
  kDescriptor,  // matrix descriptors, tensor maps, swizzle and alignment rules
  kMBarrier,    // misuse of an mbarrier object
  kAsync,       // missing fence, commit or wait
  kTrap,        // trap, assertion, breakpoint
  kUsage,       // any other violation of the PTX rules at run time
};

/// "out-of-bounds", "race", ...
const char* finding_name(FindingKind kind);

struct Finding {
  FindingKind kind;
  std::string message;
  std::string kernel;
  std::array<uint32_t, 3> block{};
  std::array<uint32_t, 3> thread{};
  bool has_thread = false;
  uint32_t pc = 0;
  uint32_t ptx_line = 0;
  std::string instruction;
  std::string file;  // CUDA source; empty when unknown
  uint32_t line = 0;
  uint64_t occurrences = 1;
};

/// Collects findings of all blocks; one entry per (kind, instruction).
class FindingLog {
 public:
  void add(Finding finding);
  std::vector<Finding> sorted() const;
  bool empty() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<uint8_t, uint32_t>, Finding> findings_;
};

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_FINDINGS_H_
