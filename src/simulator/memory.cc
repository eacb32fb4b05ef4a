#include "memory.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "allocation_map.h"
#include "race.h"

namespace tilelang {
namespace simulator {
namespace {

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%" PRIx64, value);
  return text;
}

const char* verb(AccessKind kind) {
  if (kind == AccessKind::kAtomic || kind == AccessKind::kUpdate) return "atomic operation on ";
  return reads(kind) ? "read of " : "write of ";
}

std::string access_text(AccessKind kind, uint32_t bytes) { return verb(kind) + std::to_string(bytes) + " bytes"; }

/// One access after its address space has been decided.
struct Request {
  Warp& warp;
  const Instruction& instruction;
  int lane;
  uint32_t bytes;
  uint32_t alignment;
  AccessKind kind;
  const Agent* agent;                   // null: the thread itself
  const StoredValue* stored = nullptr;  // null: what is stored decides nothing
};

constexpr uint8_t kWritten = 0xff;  // all bits of a byte

template <class T>
bool all_bits(const uint8_t* flags) {
  T bits;
  std::memcpy(&bits, flags, sizeof bits);
  return bits == static_cast<T>(~T{0});
}

bool aligned(const Request& r, Space space, uint64_t address) {
  if ((address & (r.alignment - 1)) == 0) return true;
  r.warp.report(FindingKind::kMisaligned, r.instruction, r.lane,
                access_text(r.kind, r.bytes) + " at " + describe_address(r.warp, space, address) +
                    " needs an alignment of " + std::to_string(r.alignment) + " bytes");
  return false;
}

RaceAccess race_access(const Request& r, RaceChecker& race) {
  RaceAccess access = race.access_of(r.warp, r.lane, r.agent, r.kind, r.instruction.pc);
  access.same_value = r.warp.same_value;
  return access;
}

void report_race(const Request& r, const RaceChecker& race, Space space, uint64_t address, const ShadowCell& other) {
  const bool wrote = other.write.stamp != 0;
  const Program& program = *r.warp.launch().program;
  const Instruction& earlier =
      program.code[std::min<size_t>(wrote ? other.write_pc : other.read_pc, program.code.size() - 1)];
  uint32_t cluster = wrote ? other.write_cluster : other.read_cluster;
  std::string who = cluster && cluster != r.warp.cluster().index + 1 ? "another block"
                                                                     : race.describe(wrote ? other.write : other.read);
  std::string message = access_text(r.kind, r.bytes) + " at " + describe_address(r.warp, space, address) +
                        (r.agent ? " by an asynchronous operation" : "") + " races with a " +
                        (wrote ? "write" : "read") + " by " + who + " at " + program.place_of(earlier);
  r.warp.report(FindingKind::kRace, r.instruction, r.lane, message);
}

void report_proxy(const Request& r, Space space, uint64_t address, const ShadowCell& other) {
  const Program& program = *r.warp.launch().program;
  const Instruction& writer = program.code[std::min<size_t>(other.write_pc, program.code.size() - 1)];
  r.warp.report(FindingKind::kAsync, r.instruction, r.lane,
                std::string("the async proxy ") + (r.kind == AccessKind::kRead ? "reads " : "writes ") +
                    describe_address(r.warp, space, address) +
                    ", which the generic proxy wrote at " + program.place_of(writer) +
                    ": fence.proxy.async is missing in between");
}

/// A read of shared memory that was never written. What a thread loads is followed to its use.
void report_or_follow(const Request& r, uint32_t address, const uint8_t* init) {
  if (r.kind == AccessKind::kRead && !r.agent) {
    r.warp.undefined.loaded(r.warp, r.instruction, r.lane, Space::kShared, address, init, r.bytes, r.alignment);
    return;
  }
  r.warp.report(FindingKind::kUninitialised, r.instruction, r.lane,
                access_text(r.kind, r.bytes) + " at " + describe_address(r.warp, Space::kShared, address) +
                    ": not written before");
}

uint8_t* shared_access(const Request& r, uint32_t address) {
  Block* block = nullptr;
  uint32_t offset = 0;
  if (!split_shared(r.warp, address, &block, &offset) || offset < kSharedBase ||
      offset - kSharedBase + static_cast<uint64_t>(r.bytes) > block->shared_bytes) {
    r.warp.report(FindingKind::kOutOfBounds, r.instruction, r.lane,
                  access_text(r.kind, r.bytes) + " at " + describe_address(r.warp, Space::kShared, address) +
                      ", the block has " + std::to_string(r.warp.block->shared_bytes) + " bytes from " +
                      hex(kSharedBase));
    return nullptr;
  }
  if (!aligned(r, Space::kShared, address)) return nullptr;
  offset -= kSharedBase;
  uint8_t* pointer = block->shared + offset;
  if (!block->shared_initialised.empty()) {
    uint8_t* init = block->shared_initialised.data() + offset;
    if (reads(r.kind) && !is_written(init, r.bytes)) report_or_follow(r, address, init);
    if (writes(r.kind) && r.kind != AccessKind::kUpdate) std::memset(init, r.agent ? 0 : kWritten, r.bytes);
    if (r.warp.undefined.storing()) r.warp.undefined.written(r.lane, init, r.bytes);
  }
  if (RaceChecker* race = r.warp.cluster().race.get()) {
    ShadowCell other;
    RaceResult result = race->shared_access(block->rank, offset, r.bytes, race_access(r, *race), &other);
    const bool conflict = result == RaceResult::kConflict;
    if (conflict && !race->has_seen_shared(race_access(r, *race), other, block->rank, address & kSharedOffsetMask))
      report_race(r, *race, Space::kShared, address, other);
    if (result == RaceResult::kNoProxyFence && r.warp.checking(kCheckAsync)) report_proxy(r, Space::kShared, address, other);
  }
  return pointer;
}

/// Part by part, each in place when the next is looked at: a record that waits for its data would let two workers that store the
/// same value miss it.
void store_recorded(const Request& r, RaceChecker& race, uint32_t allocation, uint64_t base, uint64_t address) {
  RaceAccess access = race_access(r, race);
  const uint8_t* value = r.stored->bytes;
  const uint64_t end = address + r.bytes;
  bool reported = false;
  for (uint64_t stop; address < end; value += stop - address, address = stop) {
    stop = std::min(end, base + GlobalShadow::lock_end(address - base));
    const auto bytes = static_cast<uint32_t>(stop - address);
    auto* memory = reinterpret_cast<uint8_t*>(address);
    if (!race.global_clean_access(allocation, address - base, bytes, access)) {
      r.stored->under_way.await_others();
      access.same_value = std::memcmp(memory, value, bytes) == 0;
      ShadowCell other;
      const RaceResult result = race.global_access(allocation, address - base, bytes, access, &other);
      const bool conflict = result == RaceResult::kConflict && !race.has_seen_global(access, other, address);
      access.same_value = false;
      if (conflict && !reported) report_race(r, race, Space::kGlobal, address, other);
      reported |= conflict;
    }
    std::memcpy(memory, value, bytes);
  }
}

uint8_t* global_access(const Request& r, uint64_t address) {
  const AllocationMap& map = *r.warp.launch().allocations;
  address = r.warp.launch().resolve_parameter(address);
  int index = map.find(address, r.bytes, r.warp.allocation_hint);
  if (index < 0) {
    r.warp.report(FindingKind::kOutOfBounds, r.instruction, r.lane,
                  access_text(r.kind, r.bytes) + " at " + hex(address) + " in global memory: " + map.describe(address));
    return nullptr;
  }
  r.warp.allocation_hint = static_cast<uint32_t>(index);
  const Allocation& allocation = map[static_cast<size_t>(index)];
  if (writes(r.kind) && allocation.read_only) {
    r.warp.report(FindingKind::kOutOfBounds, r.instruction, r.lane,
                  access_text(r.kind, r.bytes) + " in " + allocation.name + ", which is read-only");
    return nullptr;
  }
  if (!aligned(r, Space::kGlobal, address)) return nullptr;
  RaceChecker* race = r.warp.cluster().race.get();
  if (race && r.stored) {
    store_recorded(r, *race, static_cast<uint32_t>(index), allocation.base, address);
  } else if (race && !allocation.read_only) {
    ShadowCell other;
    const RaceAccess access = race_access(r, *race);
    const RaceResult result = race->global_access(static_cast<uint32_t>(index), address - allocation.base, r.bytes, access, &other);
    const bool conflict = result == RaceResult::kConflict;
    if (conflict && !race->has_seen_global(access, other, address)) report_race(r, *race, Space::kGlobal, address, other);
    if (result == RaceResult::kNoProxyFence && r.warp.checking(kCheckAsync)) report_proxy(r, Space::kGlobal, address, other);
  }
  return reinterpret_cast<uint8_t*>(address);
}

uint8_t* local_access(const Request& r, uint64_t address) {
  static std::vector<uint8_t> none;
  auto& bytes = r.warp.local.empty() ? none : r.warp.local[static_cast<size_t>(r.lane)];
  if (address > bytes.size() || r.bytes > bytes.size() - address) {
    r.warp.report(FindingKind::kOutOfBounds, r.instruction, r.lane,
                  access_text(r.kind, r.bytes) + " at " + hex(address) + " in local memory, the thread has " +
                      std::to_string(bytes.size()) + " bytes");
    return nullptr;
  }
  if (!aligned(r, Space::kLocal, address)) return nullptr;
  if (r.warp.checking(kCheckInit)) {
    uint8_t* init = r.warp.local_initialised[static_cast<size_t>(r.lane)].data() + address;
    if (reads(r.kind) && !is_written(init, r.bytes))
      r.warp.undefined.loaded(r.warp, r.instruction, r.lane, Space::kLocal, address, init, r.bytes, r.alignment);
    if (writes(r.kind)) std::memset(init, kWritten, r.bytes);
    if (r.warp.undefined.storing()) r.warp.undefined.written(r.lane, init, r.bytes);
  }
  return bytes.data() + address;
}

uint8_t* dispatch(const Request& r, Space space, uint64_t address) {
  if (space == Space::kGeneric) space = classify(address, &address);
  if (space == Space::kShared) return shared_access(r, static_cast<uint32_t>(address));
  if (space == Space::kLocal) return local_access(r, address);
  return global_access(r, address);
}

/// The space all lanes of a generic access share, or kGeneric when they differ.
Space common_space(const uint64_t* addresses, LaneMask exec) {
  uint64_t any = 0, all = ~0ull;
  for_lanes(exec, [&](int lane) {
    any |= addresses[lane];
    all &= addresses[lane];
  });
  if ((any & kWindowMask) != (all & kWindowMask)) return Space::kGeneric;
  uint64_t unused;
  return classify(any, &unused);
}

/// Lowest and highest address, and the bits that some address has. Compared as signed numbers, which vectors can: where some
/// addresses are negative as such, the ends are far apart and lie in no memory.
struct Extent {
  uint64_t low, high, bits;
};

Extent extent_of(const uint64_t* addresses, LaneMask exec) {
  const auto* values = reinterpret_cast<const int64_t*>(addresses);
  int64_t low = values[__builtin_ctz(exec)], high = low, bits = 0;
  const auto add = [&](int lane) {
    low = std::min(low, values[lane]);
    high = std::max(high, values[lane]);
    bits |= values[lane];
  };
  if (exec == kAllLanes) {
    for (int lane = 0; lane < kLanes; ++lane) add(lane);
  } else {
    for_lanes(exec, add);
  }
  return {static_cast<uint64_t>(low), static_cast<uint64_t>(high), static_cast<uint64_t>(bits)};
}

/// One instruction's access by all its lanes.
struct WarpRequest {
  Warp& warp;
  const Instruction& instruction;
  const uint64_t* addresses;
  LaneMask lanes;
  uint32_t bytes;
  AccessKind kind;
  uint8_t** pointers;
  const Agent* agents;  // null: the threads themselves

  WarpAccess race_access() const { return {warp, instruction.pc, addresses, bytes, kind, agents}; }
};

/// Host pointers of lanes whose memory starts at `memory` where their addresses are `base`.
LaneMask point(const WarpRequest& r, LaneMask lanes, const uint8_t* memory, uint64_t base) {
  const uint64_t offset = reinterpret_cast<uint64_t>(memory) - base;
  for (int lane = 0; lane < kLanes; ++lane) r.pointers[lane] = reinterpret_cast<uint8_t*>(r.addresses[lane] + offset);
  return lanes;
}

LaneMask clean_global(const WarpRequest& r, const Extent& e) {
  const AllocationMap& map = *r.warp.launch().allocations;
  if (e.high - e.low > (1ull << 48)) return 0;
  int index = map.find(e.low, e.high - e.low + r.bytes, r.warp.allocation_hint);
  if (index < 0) return 0;
  const Allocation& allocation = map[static_cast<size_t>(index)];
  if (writes(r.kind) && allocation.read_only) return 0;
  r.warp.allocation_hint = static_cast<uint32_t>(index);
  LaneMask lanes = r.lanes;
  RaceChecker* race = r.warp.cluster().race.get();
  if (race && !allocation.read_only) {
    lanes = race->global_lanes(r.race_access(), lanes, static_cast<uint32_t>(index), allocation.base);
  }
  return point(r, lanes, nullptr, 0);
}

/// The lanes, in order, up to the first that reads what was not written; what lanes write is initialised.
LaneMask initialised_lanes(const WarpRequest& r, uint8_t* flags, uint64_t base) {
  if (!reads(r.kind)) return r.lanes;
  LaneMask lanes = 0;
  for (LaneMask left = r.lanes; left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    if (!is_written(flags + (r.addresses[lane] - base), r.bytes)) break;
    lanes |= 1u << lane;
  }
  return lanes;
}

uint8_t* global_run(Warp& w, const Instruction& in, uint64_t address, uint32_t bytes, AccessKind kind) {
  const AllocationMap& map = *w.launch().allocations;
  const int index = map.find(address, uint64_t{bytes} * kLanes, w.allocation_hint);
  if (index < 0) return nullptr;
  const Allocation& allocation = map[static_cast<size_t>(index)];
  if (writes(kind) && allocation.read_only) return nullptr;
  w.allocation_hint = static_cast<uint32_t>(index);
  RaceChecker* race = w.cluster().race.get();
  if (race && !allocation.read_only) {
    const WarpAccess access{w, in.pc, nullptr, bytes, kind, nullptr};
    if (!race->global_run(access, static_cast<uint32_t>(index), address - allocation.base)) return nullptr;
  }
  return reinterpret_cast<uint8_t*>(address);
}

uint8_t* shared_run(Warp& w, uint32_t address, uint32_t bytes, AccessKind kind) {
  Block& block = *w.block;
  const uint64_t offset = uint64_t{address} - (block.rank << kSharedRankShift) - kSharedBase;
  const uint32_t total = bytes * kLanes;
  if (w.cluster().race || w.undefined.storing()) return nullptr;
  if (offset > block.shared_bytes || offset + total > block.shared_bytes) return nullptr;
  if (!block.shared_initialised.empty()) {
    uint8_t* flags = block.shared_initialised.data() + offset;
    if (reads(kind) && !is_written(flags, total)) return nullptr;
    if (writes(kind)) std::memset(flags, kWritten, total);
  }
  return block.shared + offset;
}

LaneMask clean_shared(const WarpRequest& r, const Extent& e) {
  Block& block = *r.warp.block;
  const uint64_t low = e.low & 0xffffffffu, high = e.high & 0xffffffffu;
  const uint64_t window = static_cast<uint64_t>(block.rank) << kSharedRankShift;
  if (low < window + kSharedBase || high - window - kSharedBase + r.bytes > block.shared_bytes || low > high) return 0;
  if (e.low - low != e.high - high || r.warp.undefined.storing()) return 0;
  // Addresses may carry the generic window beside the block's own.
  const uint64_t base = e.low - low + window + kSharedBase;
  LaneMask lanes = r.lanes;
  uint8_t* flags = block.shared_initialised.empty() ? nullptr : block.shared_initialised.data();
  if (flags) lanes = initialised_lanes(r, flags, base);
  if (RaceChecker* race = r.warp.cluster().race.get())
    lanes = race->shared_lanes(r.race_access(), lanes, block.rank, base);
  if (flags && writes(r.kind)) {
    const uint8_t flag = r.agents ? 0 : kWritten;
    for_lanes(lanes, [&](int lane) { std::memset(flags + (r.addresses[lane] - base), flag, r.bytes); });
  }
  return point(r, lanes, block.shared, base);
}

}  // namespace

bool is_written(const uint8_t* flags, uint32_t bytes) {
  for (; bytes >= 16; bytes -= 16, flags += 16) {
    if (!all_bits<uint64_t>(flags) || !all_bits<uint64_t>(flags + 8)) return false;
  }
  for (; bytes >= 4; bytes -= 4, flags += 4) {
    if (!all_bits<uint32_t>(flags)) return false;
  }
  return std::all_of(flags, flags + bytes, [](uint8_t bits) { return bits != 0; });
}

Space classify(uint64_t generic, uint64_t* address) {
  *address = generic & ~kWindowMask;
  switch (generic & kWindowMask) {
    case kSharedWindow:
      return Space::kShared;
    case kLocalWindow:
      return Space::kLocal;
    default:
      *address = generic;
      return Space::kGlobal;
  }
}

uint32_t own_shared_window(const Warp& warp) { return warp.block->rank << kSharedRankShift; }

bool split_shared(Warp& warp, uint32_t address, Block** block, uint32_t* offset) {
  Cluster& cluster = warp.cluster();
  uint32_t rank = address >> kSharedRankShift;
  if (rank >= cluster.blocks.size()) return false;
  *block = cluster.blocks[rank].get();
  *offset = address & kSharedOffsetMask;
  return true;
}

std::string describe_address(const Warp& warp, Space space, uint64_t address) {
  if (space == Space::kShared) {
    uint32_t rank = static_cast<uint32_t>(address) >> kSharedRankShift;
    std::string text = hex(address & kSharedOffsetMask) + " in shared memory";
    return rank != warp.block->rank ? text + " of block " + std::to_string(rank) + " of the cluster" : text;
  }
  if (space == Space::kLocal) return hex(address) + " in local memory";
  const Launch& launch = *warp.block->cluster->launch;
  return place_in(*launch.allocations, launch.resolve_parameter(address));
}

uint8_t* access(Warp& warp, const Instruction& instruction, int lane, Space space, uint64_t address, uint32_t bytes,
                AccessKind kind) {
  return dispatch({warp, instruction, lane, bytes, bytes, kind, nullptr}, space, address);
}

uint8_t* access_aligned(Warp& warp, const Instruction& instruction, int lane, Space space, uint64_t address,
                        uint32_t bytes, uint32_t alignment, AccessKind kind) {
  return dispatch({warp, instruction, lane, bytes, alignment, kind, nullptr}, space, address);
}

uint8_t* access_async(Warp& warp, const Instruction& instruction, int lane, Agent agent, Space space, uint64_t address,
                      uint32_t bytes, uint32_t alignment, AccessKind kind, bool poison) {
  uint64_t plain = address;
  Space real = space == Space::kGeneric ? classify(address, &plain) : space;
  uint8_t* pointer = dispatch({warp, instruction, lane, bytes, alignment, kind, &agent}, real, plain);
  if (pointer && poison && kind == AccessKind::kWrite && real == Space::kShared) std::memset(pointer, kPoison, bytes);
  return pointer;
}

uint8_t* store_async(Warp& warp, const Instruction& instruction, int lane, Agent agent, uint64_t address, uint32_t bytes,
                     uint32_t alignment, const StoredValue& stored) {
  return global_access({warp, instruction, lane, bytes, alignment, AccessKind::kWrite, &agent, &stored}, address);
}

void mark_initialised(Cluster& cluster, const uint8_t* p, uint32_t bytes) {
  for (auto& block : cluster.blocks) {
    if (block->shared_initialised.empty() || p < block->shared || p + bytes > block->shared + block->shared_bytes)
      continue;
    std::memset(block->shared_initialised.data() + (p - block->shared), kWritten, bytes);
  }
}

void define_bits(Cluster& cluster, const uint8_t* p, const uint8_t* bits, uint32_t bytes) {
  for (auto& block : cluster.blocks) {
    if (block->shared_initialised.empty() || p < block->shared || p + bytes > block->shared + block->shared_bytes)
      continue;
    uint8_t* written = block->shared_initialised.data() + (p - block->shared);
    for (uint32_t i = 0; i < bytes; ++i) written[i] |= bits[i];
  }
}

bool is_run(const uint64_t* addresses, uint32_t bytes) {
  if (addresses[kLanes - 1] - addresses[0] != (kLanes - 1) * bytes) return false;
  uint64_t differences = 0;
  for (uint32_t l = 0; l < kLanes; ++l) differences |= (addresses[l] - addresses[0]) ^ uint64_t{l} * bytes;
  return differences == 0;
}

uint8_t* access_run(Warp& warp, const Instruction& instruction, Space space, uint64_t address, uint32_t bytes,
                    AccessKind kind) {
  if (space == Space::kGeneric) space = classify(address, &address);
  if (address & (bytes - 1)) return nullptr;
  if (space == Space::kGlobal) return global_run(warp, instruction, address, bytes, kind);
  return space == Space::kShared && address >> 32 == 0 ? shared_run(warp, static_cast<uint32_t>(address), bytes, kind)
                                                       : nullptr;
}

bool reads_clean_ranges(Warp& warp, const Instruction& instruction, Agent agent, const std::vector<ChunkRange>& ranges) {
  const Block& block = *warp.block;
  if (!block.shared_initialised.empty()) {
    const uint8_t* flags = block.shared_initialised.data() - kSharedBase;
    for (const ChunkRange& range : ranges) {
      if (!is_written(flags + range.offset, range.bytes)) return false;
    }
  }
  RaceChecker* race = block.cluster->race.get();
  if (!race) return true;
  const RaceAccess access = race->access_of(warp, 0, &agent, AccessKind::kRead, instruction.pc);
  for (const ChunkRange& range : ranges) {
    if (!race->shared_read(block.rank, range.offset - kSharedBase, range.bytes, access)) return false;
  }
  return true;
}

LaneMask access_clean_lanes(Warp& warp, const Instruction& instruction, Space space, const uint64_t* addresses,
                            LaneMask exec, uint32_t bytes, AccessKind kind, uint8_t** pointers,
                            const Agent* agents) {
  if (space == Space::kGeneric) space = common_space(addresses, exec);
  const Extent extent = extent_of(addresses, exec);
  if (extent.bits & (bytes - 1)) return 0;
  const WarpRequest request{warp, instruction, addresses, exec, bytes, kind, pointers, agents};
  if (space == Space::kGlobal) return clean_global(request, extent);
  return space == Space::kShared ? clean_shared(request, extent) : 0;
}

LaneMask access_lanes(Warp& warp, const Instruction& instruction, Space space, const uint64_t* addresses, LaneMask exec,
                      uint32_t bytes, AccessKind kind, uint8_t** pointers) {
  if (space == Space::kGeneric) space = common_space(addresses, exec);
  LaneMask good = access_clean_lanes(warp, instruction, space, addresses, exec, bytes, kind, pointers);
  for_lanes(exec & ~good, [&](int lane) {
    uint64_t address = addresses[lane];
    if (space == Space::kShared || space == Space::kLocal) address &= ~kWindowMask;
    pointers[lane] = dispatch({warp, instruction, lane, bytes, bytes, kind, nullptr}, space, address);
    if (pointers[lane]) good |= 1u << lane;
  });
  return good;
}

}  // namespace simulator
}  // namespace tilelang
