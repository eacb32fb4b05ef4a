#include "trace.h"

#include "counters.h"
#include "machine.h"

namespace tilelang {
namespace simulator {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

void append(std::string& text, uint32_t value) {
  for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[value >> shift & 15];
}

uint32_t difference(uint64_t now, uint64_t before) { return static_cast<uint32_t>(now - before); }

}  // namespace

void record(Warp& warp, const Instruction& instruction, const InstructionCounters& before) {
  const InstructionCounters& now = warp.counters->instructions[instruction.pc];
  TraceRecord record;
  record.warp = warp.block->rank * static_cast<uint32_t>(warp.block->warps.size()) + warp.index;
  record.pc = instruction.pc;
  record.passes = difference(now.wavefronts, before.wavefronts);
  record.sectors = difference(now.sectors, before.sectors);
  record.bytes = difference(now.bytes, before.bytes);
  record.multiply_adds = difference(now.multiply_adds, before.multiply_adds);
  record.barrier = warp.traced_barrier;
  record.phase = warp.traced_phase;
  warp.traced_barrier = warp.traced_phase = 0;
  warp.trace->push_back(record);
}

std::string trace_text(const Trace& trace) {
  std::string text;
  text.reserve(trace.size() * 64);
  for (const TraceRecord& r : trace) {
    for (uint32_t field : {r.warp, r.pc, r.passes, r.sectors, r.bytes, r.multiply_adds, r.barrier, r.phase}) append(text, field);
  }
  return text;
}

}  // namespace simulator
}  // namespace tilelang
