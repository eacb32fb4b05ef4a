#include "memory_operands.h"

#include "memory.h"
#include "race.h"

namespace tilelang {
namespace simulator {
namespace {

bool take_scope(Decoder& d) { return !d.modifiers.take_any({"cta", "cluster", "gpu", "sys"}).empty(); }

bool take_order(Decoder& d, MemoryOrder& order) {
  if (d.modifiers.take("weak") || d.modifiers.take("mmio")) return true;
  bool acquire = d.modifiers.peek() == "acquire" || d.modifiers.peek() == "acq_rel";
  bool release = d.modifiers.peek() == "release" || d.modifiers.peek() == "acq_rel";
  if (d.modifiers.take_any({"volatile", "relaxed", "acquire", "release", "acq_rel"}).empty()) return false;
  order = {true, acquire, release};
  return true;
}

bool take_space(Decoder& d, Space& space) {
  static const struct {
    const char* name;
    Space space;
  } names[] = {
      {"global", Space::kGlobal},      {"const", Space::kGlobal},           {"shared", Space::kShared},
      {"shared::cta", Space::kShared}, {"shared::cluster", Space::kShared}, {"local", Space::kLocal},
      {"param", Space::kGlobal},       {"param::entry", Space::kGlobal},    {"param::func", Space::kGlobal},
  };
  for (const auto& item : names) {
    if (!d.modifiers.take(item.name)) continue;
    space = item.space;
    return true;
  }
  return false;
}

}  // namespace

MemoryPlace take_memory_place(Decoder& d) {
  MemoryPlace place;
  while (take_order(d, place.order) || take_scope(d) || take_space(d, place.space)) {
  }
  return place;
}

void take_cache_hints(Decoder& d) {
  while (true) {
    const std::string& next = d.modifiers.peek();
    bool hint = next.rfind("L1::", 0) == 0 || next.rfind("L2::", 0) == 0 || next == "ca" || next == "cg" ||
                next == "cs" || next == "lu" || next == "cv" || next == "wb" || next == "wt" || next == "unified";
    if (!hint) return;
    d.modifiers.next();
  }
}

void lane_addresses(Warp& w, const Address& address, uint64_t* addresses) {
  if (!address.has_base) {
    for (int l = 0; l < kLanes; ++l) addresses[l] = static_cast<uint64_t>(address.offset);
  } else if (address.base_bytes == 4) {
    const uint32_t* base = w.reg<uint32_t>(address.base);
    uint32_t offset = static_cast<uint32_t>(address.offset);
    for (int l = 0; l < kLanes; ++l) addresses[l] = base[l] + offset;
  } else {
    const uint64_t* base = w.reg<uint64_t>(address.base);
    uint64_t offset = static_cast<uint64_t>(address.offset);
    for (int l = 0; l < kLanes; ++l) addresses[l] = base[l] + offset;
  }
}

void count_access(Warp& w, const Instruction& in, Space space, const uint64_t* addresses, LaneMask lanes,
                  uint32_t bytes, bool write) {
  uint64_t plain = addresses[__builtin_ctz(lanes)];
  if (space == Space::kGeneric) space = classify(plain, &plain);
  uint64_t moved = static_cast<uint64_t>(__builtin_popcount(lanes)) * bytes;
  if (space == Space::kShared) {
    uint32_t shared[kLanes];
    for (int l = 0; l < kLanes; ++l) shared[l] = static_cast<uint32_t>(addresses[l]);
    count_shared(w, in, shared, lanes, bytes, write);
    if (shared[__builtin_ctz(lanes)] >> kSharedRankShift != w.block->rank) w.counters->traffic.cluster_shared += moved;
  } else if (space == Space::kLocal) {
    InstructionCounters& counters = w.counters->instructions[in.pc];
    ++counters.requests;
    counters.bytes += moved;
    (write ? w.counters->traffic.local_write : w.counters->traffic.local_read) += moved;
  } else {
    count_global(w, in, addresses, lanes, bytes, write);
  }
}

void synchronise(Warp& w, Space space, const uint64_t* addresses, LaneMask lanes, const MemoryOrder& order, bool reads,
                 bool writes) {
  RaceChecker* race = w.cluster().race.get();
  if (!race) return;
  for_lanes(lanes, [&](int l) {
    uint64_t plain = addresses[l];
    Space real = space == Space::kGeneric ? classify(plain, &plain) : space;
    uint32_t thread = race->thread_of(w, l);
    if (real == Space::kShared) {
      uint32_t shared = static_cast<uint32_t>(plain);
      race->sync_shared(thread, shared >> kSharedRankShift, shared & kSharedOffsetMask, reads, writes, order.acquire,
                        order.release);
    } else if (real == Space::kGlobal) {
      race->sync_global(thread, plain, reads, writes, order.acquire, order.release);
    }
  });
}

const uint8_t* peek(Warp& w, Space space, uint64_t address, uint32_t bytes) {
  if (space == Space::kGeneric) space = classify(address, &address);
  if (space == Space::kLocal) return nullptr;
  if (space == Space::kShared) {
    Block* block = nullptr;
    uint32_t offset = 0;
    if (!split_shared(w, static_cast<uint32_t>(address), &block, &offset) || offset < kSharedBase) return nullptr;
    if (offset - kSharedBase + static_cast<uint64_t>(bytes) > block->shared_bytes) return nullptr;
    return block->shared + (offset - kSharedBase);
  }
  address = w.launch().resolve_parameter(address);
  bool known = w.launch().allocations->find(address, bytes, w.allocation_hint) >= 0;
  return known ? reinterpret_cast<const uint8_t*>(address) : nullptr;
}

}  // namespace simulator
}  // namespace tilelang
