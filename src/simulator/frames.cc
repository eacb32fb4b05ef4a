#include "frames.h"

#include <algorithm>

namespace tilelang {
namespace simulator {
namespace {

constexpr uint32_t kMaximumStackBytes = 256u << 20;
constexpr uint32_t kMaximumLocalBytes = 512u << 10;

std::array<uint32_t, 3> unlinear(uint64_t index, const std::array<uint32_t, 3>& extent) {
  return {static_cast<uint32_t>(index % extent[0]), static_cast<uint32_t>(index / extent[0] % extent[1]),
          static_cast<uint32_t>(index / extent[0] / extent[1])};
}

uint64_t lane_mask_value(SpecialKind kind, int lane) {
  uint64_t bit = 1ull << lane;
  switch (kind) {
    case SpecialKind::kLaneMaskEq:
      return bit;
    case SpecialKind::kLaneMaskLt:
      return bit - 1;
    case SpecialKind::kLaneMaskLe:
      return 2 * bit - 1;
    case SpecialKind::kLaneMaskGt:
      return kAllLanes & ~(2 * bit - 1);
    default:
      return kAllLanes & ~(bit - 1);
  }
}

bool differs_by_lane(SpecialKind kind) {
  return kind == SpecialKind::kLane || (kind >= SpecialKind::kLaneMaskEq && kind <= SpecialKind::kLaneMaskGt);
}

/// Value of a special slot but %tid for one lane.
uint64_t special_value(const Warp& warp, const Frame& frame, const SpecialSlot& slot, int lane) {
  const Block& block = *warp.block;
  const Launch& launch = *block.cluster->launch;
  uint32_t dim = slot.payload < 3 ? slot.payload : 0;
  uint64_t window = static_cast<uint64_t>(block.rank) << kSharedRankShift;
  switch (slot.kind) {
    case SpecialKind::kThreadCount:
      return launch.block[dim];
    case SpecialKind::kBlockIndex:
      return block.index[dim];
    case SpecialKind::kBlockCount:
      return launch.grid[dim];
    case SpecialKind::kClusterIndex:
      return block.index[dim] / launch.cluster[dim];
    case SpecialKind::kClusterCount:
      return launch.grid[dim] / launch.cluster[dim];
    case SpecialKind::kClusterBlock:
      return block.index[dim] % launch.cluster[dim];
    case SpecialKind::kClusterBlockCount:
      return launch.cluster[dim];
    case SpecialKind::kClusterRank:
      return block.rank;
    case SpecialKind::kClusterSize:
      return launch.blocks_per_cluster();
    case SpecialKind::kIsExplicitCluster:
      return launch.blocks_per_cluster() > 1;
    case SpecialKind::kLane:
      return static_cast<uint64_t>(lane);
    case SpecialKind::kWarp:
      return warp.index;
    case SpecialKind::kWarpCount:
      return block.warps.size();
    case SpecialKind::kMultiprocessor:
      return block.cluster->index % 132;
    case SpecialKind::kMultiprocessorCount:
      return 132;
    case SpecialKind::kGrid:
      return 1;
    case SpecialKind::kDynamicSharedSize:
      return launch.dynamic_shared;
    case SpecialKind::kTotalSharedSize:
      return launch.shared_bytes;
    case SpecialKind::kSharedAddress:
      return window | slot.payload;
    case SpecialKind::kDynamicAddress:
      return window | (launch.dynamic_base + slot.payload);
    case SpecialKind::kLocalAddress:
      return frame.local_base + slot.payload;
    case SpecialKind::kParamAddress:
      return kParamWindow + slot.payload;
    case SpecialKind::kClock:
      return 0;
    default:
      return lane_mask_value(slot.kind, lane);
  }
}

/// %tid of each lane in one dimension: lane after lane, without a division for each.
void thread_indices(const Warp& warp, const Launch& launch, uint32_t dim, uint64_t* values) {
  if (launch.block[1] * launch.block[2] == 1) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) values[lane] = dim == 0 ? warp.index * kLanes + lane : 0;
    return;
  }
  std::array<uint32_t, 3> thread = unlinear(warp.index * kLanes, launch.block);
  for (int lane = 0; lane < kLanes; ++lane) {
    values[lane] = thread[dim];
    if (++thread[0] < launch.block[0]) continue;
    thread[0] = 0;
    if (++thread[1] < launch.block[1]) continue;
    thread[1] = 0;
    ++thread[2];
  }
}

void special_values(const Warp& warp, const Frame& frame, const SpecialSlot& slot, uint64_t* values) {
  if (slot.kind == SpecialKind::kThread) return thread_indices(warp, *warp.block->cluster->launch, slot.payload, values);
  if (!differs_by_lane(slot.kind)) return void(std::fill_n(values, kLanes, special_value(warp, frame, slot, 0)));
  for (int lane = 0; lane < kLanes; ++lane) values[lane] = special_value(warp, frame, slot, lane);
}

template <class T>
void store_values(uint8_t* slot, const uint64_t* values) {
  for (int lane = 0; lane < kLanes; ++lane) reinterpret_cast<T*>(slot)[lane] = static_cast<T>(values[lane]);
}

void fill_specials(Warp& warp, const Frame& frame, const DecodedFunction& function) {
  uint8_t* base = warp.registers + frame.base;
  uint64_t values[kLanes];
  for (const SpecialSlot& slot : function.specials) {
    special_values(warp, frame, slot, values);
    if (slot.bytes == sizeof(uint32_t)) {
      store_values<uint32_t>(base + slot.offset, values);
    } else if (slot.bytes == sizeof(uint64_t)) {
      store_values<uint64_t>(base + slot.offset, values);
    } else {
      store_values<uint16_t>(base + slot.offset, values);
    }
  }
}

void grow_registers(Warp& warp, size_t bytes) {
  size_t old = warp.register_storage.size();
  if (bytes + 64 <= old) return;
  size_t current = warp.frame ? static_cast<size_t>(warp.frame - warp.registers) : 0;
  std::vector<uint8_t> storage(std::max(bytes + 64, old + old / 2), kPoison);
  uint8_t* start = first_register(storage);
  if (old) std::memcpy(start, warp.registers, old - 64);
  warp.register_storage = std::move(storage);
  warp.registers = start;
  if (warp.frame) warp.frame = start + current;
}

void grow_local(Warp& warp, size_t bytes) {
  if (warp.local.empty()) {
    warp.local.resize(kLanes);
    if (warp.checking(kCheckInit)) warp.local_initialised.resize(kLanes);
  }
  if (warp.local[0].size() >= bytes) return;
  for (auto& lane : warp.local) lane.resize(bytes, kPoison);
  for (auto& lane : warp.local_initialised) lane.resize(bytes, 0);
}

/// The frame of the warp before, if nothing holds it any more.
std::shared_ptr<Frame> first_frame(Warp& warp) {
  if (warp.first_frame && warp.first_frame.use_count() == 1) {
    *warp.first_frame = Frame();
  } else {
    warp.first_frame = std::make_shared<Frame>();
  }
  return warp.first_frame;
}

}  // namespace

std::shared_ptr<Frame> make_frame(Warp& warp, uint32_t function, std::shared_ptr<Frame> caller) {
  const Program& program = *warp.launch().program;
  const DecodedFunction& decoded = program.functions[function];
  std::shared_ptr<Frame> frame = caller ? std::make_shared<Frame>() : first_frame(warp);
  frame->function = function;
  // Frames of diverged fragments must not overlap: predicates keep all lanes in one word.
  for (const Fragment& fragment : warp.fragments) {
    if (!fragment.frame) continue;
    const DecodedFunction& other = program.functions[fragment.frame->function];
    frame->base = std::max(frame->base, fragment.frame->base + other.frame_bytes);
    frame->local_base = std::max(frame->local_base, fragment.frame->local_base + other.local_bytes);
  }
  frame->caller = std::move(caller);
  uint64_t end = static_cast<uint64_t>(frame->base) + decoded.frame_bytes;
  uint64_t local_end = static_cast<uint64_t>(frame->local_base) + decoded.local_bytes;
  if (end > kMaximumStackBytes || local_end > kMaximumLocalBytes) {
    warp.report(FindingKind::kTrap, program.code[warp.pc], 0, "stack overflow in " + decoded.name);
    throw KernelAbort();
  }
  grow_registers(warp, end);
  if (local_end) grow_local(warp, local_end);
  std::memcpy(warp.registers + frame->base + decoded.constants_offset, decoded.constants.data(),
              decoded.constants.size());
  fill_specials(warp, *frame, decoded);
  return frame;
}

}  // namespace simulator
}  // namespace tilelang
