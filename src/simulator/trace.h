// What the warps of one cluster executed, in order, for a model of its time.
#ifndef TILELANG_SIMULATOR_TRACE_H_
#define TILELANG_SIMULATOR_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tilelang {
namespace simulator {

struct Warp;
struct Instruction;
struct InstructionCounters;

/// One instruction of a warp. All fields are 32 bits, so that a reader needs to know their order only.
struct TraceRecord {
  uint32_t warp = 0;  // counted over the cluster
  uint32_t pc = 0;
  uint32_t passes = 0;   // shared-memory wavefronts
  uint32_t sectors = 0;  // of global memory
  uint32_t bytes = 0;
  uint32_t multiply_adds = 0;  // of tensor cores
  uint32_t barrier = 0;        // mbarrier that it waited for, arrived at, or that its copy reports to; 0: none
  uint32_t phase = 0;          // of that mbarrier, counted from 1; of a wait the one that was complete, 0 for none
};

using Trace = std::vector<TraceRecord>;

/// Adds an instruction that has just been executed; `before` are its counters before that.
void record(Warp& warp, const Instruction& instruction, const InstructionCounters& before);

/// The records as hexadecimal digits, eight a field.
std::string trace_text(const Trace& trace);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_TRACE_H_
