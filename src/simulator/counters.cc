#include "counters.h"

#include <algorithm>

#include "machine.h"

namespace tilelang {
namespace simulator {
namespace {

constexpr uint32_t kBanks = 32;
constexpr uint32_t kBankBytes = 4;
constexpr uint32_t kSectorBytes = 32;

/// Passes over the banks for one group of lanes: distinct words per bank, at least one.
uint32_t bank_passes(const uint32_t* words, uint32_t count) {
  uint32_t distinct[kBanks] = {};
  uint32_t sorted[kLanes * 4];
  std::copy(words, words + count, sorted);
  std::sort(sorted, sorted + count);
  uint32_t passes = 1;
  for (uint32_t i = 0; i < count; ++i) {
    if (i > 0 && sorted[i] == sorted[i - 1]) continue;
    passes = std::max(passes, ++distinct[sorted[i] % kBanks]);
  }
  return passes;
}

/// True when the words of the lanes follow each other, the case without conflicts.
bool consecutive(const uint32_t* addresses, uint32_t bytes) {
  for (int lane = 1; lane < kLanes; ++lane) {
    if (addresses[lane] - addresses[lane - 1] != bytes) return false;
  }
  return true;
}

}  // namespace

InstructionCounters& InstructionCounters::operator+=(const InstructionCounters& other) {
  warps += other.warps;
  lanes += other.lanes;
  requests += other.requests;
  wavefronts += other.wavefronts;
  ideal += other.ideal;
  sectors += other.sectors;
  bytes += other.bytes;
  multiply_adds += other.multiply_adds;
  return *this;
}

MemoryTraffic& MemoryTraffic::operator+=(const MemoryTraffic& other) {
  global_read += other.global_read;
  global_write += other.global_write;
  shared_read += other.shared_read;
  shared_write += other.shared_write;
  local_read += other.local_read;
  local_write += other.local_write;
  async_to_shared += other.async_to_shared;
  async_to_global += other.async_to_global;
  cluster_shared += other.cluster_shared;
  return *this;
}

void Counters::merge(const Counters& other) {
  instructions.resize(std::max(instructions.size(), other.instructions.size()));
  for (size_t i = 0; i < other.instructions.size(); ++i) instructions[i] += other.instructions[i];
  traffic += other.traffic;
  barrier_waits += other.barrier_waits;
  mbarrier_waits += other.mbarrier_waits;
  barriers_completed += other.barriers_completed;
}

void count_shared(Warp& warp, const Instruction& instruction, const uint32_t* addresses, LaneMask lanes, uint32_t bytes,
                  bool write) {
  if (!warp.counting) return;
  uint32_t active = static_cast<uint32_t>(__builtin_popcount(lanes));
  InstructionCounters& counters = warp.counters->instructions[instruction.pc];
  uint64_t moved = static_cast<uint64_t>(active) * bytes;
  ++counters.requests;
  counters.bytes += moved;
  (write ? warp.counters->traffic.shared_write : warp.counters->traffic.shared_read) += moved;
  uint32_t ideal = static_cast<uint32_t>((moved + kBanks * kBankBytes - 1) / (kBanks * kBankBytes));
  counters.ideal += ideal;
  if (lanes == kAllLanes && bytes >= kBankBytes && consecutive(addresses, bytes)) {
    counters.wavefronts += ideal;
    return;
  }
  // Wide accesses go in halves (8 bytes) or quarters (16 bytes) of a warp, each conflict-free within itself if it can.
  uint32_t group = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
  uint32_t words_per_lane = std::max<uint32_t>(bytes / kBankBytes, 1);
  uint32_t words[kLanes * 4];
  uint32_t count = 0, members = 0, passes = 0;
  for_lanes(lanes, [&](int lane) {
    for (uint32_t w = 0; w < std::min<uint32_t>(words_per_lane, 4); ++w)
      words[count++] = addresses[lane] / kBankBytes + w;
    if (++members % group == 0) {
      passes += bank_passes(words, count);
      count = 0;
    }
  });
  if (count) passes += bank_passes(words, count);
  // Broadcasts can need fewer passes than bytes / 128.
  counters.wavefronts += passes;
  if (passes < ideal) counters.ideal -= ideal - passes;
}

void count_global(Warp& warp, const Instruction& instruction, const uint64_t* addresses, LaneMask lanes, uint32_t bytes,
                  bool write) {
  if (!warp.counting) return;
  uint64_t sectors[kLanes * 2];
  uint32_t count = 0;
  uint64_t last = ~0ull;
  bool ascending = true;
  for_lanes(lanes, [&](int lane) {
    uint64_t first_sector = addresses[lane] / kSectorBytes;
    uint64_t last_sector = (addresses[lane] + bytes - 1) / kSectorBytes;
    for (uint64_t s = first_sector; s <= last_sector && count < kLanes * 2; ++s) {
      if (s == last) continue;
      ascending = ascending && (last == ~0ull || s > last);
      sectors[count++] = last = s;
    }
  });
  if (!ascending) {
    std::sort(sectors, sectors + count);
    count = static_cast<uint32_t>(std::unique(sectors, sectors + count) - sectors);
  }
  InstructionCounters& counters = warp.counters->instructions[instruction.pc];
  uint64_t moved = static_cast<uint64_t>(__builtin_popcount(lanes)) * bytes;
  ++counters.requests;
  counters.sectors += count;
  counters.bytes += moved;
  (write ? warp.counters->traffic.global_write : warp.counters->traffic.global_read) += moved;
}

void count_bulk(Warp& warp, const Instruction& instruction, uint64_t bytes, bool to_shared) {
  if (!warp.counting) return;
  InstructionCounters& counters = warp.counters->instructions[instruction.pc];
  ++counters.requests;
  counters.bytes += bytes;
  (to_shared ? warp.counters->traffic.async_to_shared : warp.counters->traffic.async_to_global) += bytes;
}

void count_tensor(Warp& warp, const Instruction& instruction, uint64_t multiply_adds) {
  if (!warp.counting) return;
  warp.counters->instructions[instruction.pc].multiply_adds += multiply_adds;
}

}  // namespace simulator
}  // namespace tilelang
