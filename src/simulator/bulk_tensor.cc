// cp.async.bulk.tensor and cp.reduce.async.bulk.tensor: boxes of a tensor described by a tensor map.
#include <string>

#include "bulk_operations.h"

namespace tilelang {
namespace simulator {

namespace {

constexpr uint32_t kTileAlignment = 128;  // of the tile in shared memory
constexpr uint32_t kMapAlignment = 64;
constexpr uint32_t kChunk = 16;  // bytes that a swizzle moves together
constexpr uint32_t kLine = 64;   // of the machine's caches

// A box at issue: where it lies, and the host addresses of its rows (null: out of bounds, or refused).
struct TensorBox {
  TensorMap map;
  Tile tile;
  std::vector<uint8_t*> rows;
};

bool read_map(Warp& warp, const Instruction& instruction, int lane, const Address& operand, TensorMap* map) {
  const uint8_t* bytes = access_aligned(warp, instruction, lane, Space::kGeneric, lane_address(warp, operand, lane),
                                        kTensorMapBytes, kMapAlignment, AccessKind::kRead);
  if (!bytes) return false;
  const BulkInstruction& bulk = bulk_of(instruction);
  if (!decode_tensor_map(bytes, map)) {
    warp.report(FindingKind::kDescriptor, instruction, lane, "the operand is not a tensor map");
    return false;
  }
  if (map->rank != bulk.rank || (map->im2col != 0) != bulk.im2col) {
    warp.report(FindingKind::kDescriptor, instruction, lane,
                "the tensor map has rank " + std::to_string(map->rank) + (map->im2col ? " (im2col)" : " (tiled)") +
                    ", the instruction " + std::to_string(bulk.rank) + (bulk.im2col ? " (im2col)" : " (tiled)"));
    return false;
  }
  return true;
}

Tile locate_tile(Warp& warp, const BulkInstruction& bulk, int lane, const TensorMap& map) {
  int32_t coordinates[kMaxTensorRank];
  uint16_t offsets[kMaxTensorRank];
  for (int i = 0; i < bulk.rank; ++i) coordinates[i] = warp.reg<int32_t>(bulk.coordinates[i])[lane];
  if (!bulk.im2col) return tile_at(map, coordinates);
  for (int i = 0; i < bulk.rank - 2; ++i) offsets[i] = warp.reg<uint16_t>(bulk.offsets[i])[lane];
  return im2col_tile_at(map, coordinates, offsets);
}

// Host addresses of the rows: claim(row, bytes, alignment, offset of the row in the copied bytes) checks each as one access.
template <typename F>
void locate_rows(TensorBox& box, F&& claim) {
  const uint32_t alignment = static_cast<uint32_t>(box.map.element_bytes());
  box.rows.reserve(box.tile.rows.size());
  for (const TileRow& row : box.tile.rows) {
    uint8_t* pointer = nullptr;
    if (row.last > row.first) {
      const uint32_t bytes = row.last - row.first;
      pointer = claim(row, bytes, alignment, box.rows.size() * box.tile.row_bytes);
      // The data moves later: by then it has been fetched.
      for (uint32_t offset = 0; pointer && offset < bytes; offset += kLine) __builtin_prefetch(pointer + offset);
    }
    box.rows.push_back(pointer);
  }
}

// Calls f(offset in the row, pointer into shared memory) for each 16-byte chunk of a row. `base` is the host address of
// shared address `start`; a swizzle permutes chunks within the tile.
template <typename F>
void for_chunks(const TensorBox& box, const TileRow& row, uint8_t* base, uint32_t start, F&& f) {
  for (uint32_t offset = 0; offset < box.tile.row_bytes; offset += kChunk) {
    const uint32_t address = swizzle_address(box.map.swizzle, start + row.shared + offset);
    f(offset, base + (address - start));
  }
}

// Rows narrower than the swizzle's span leave gaps that the copy does not touch.
bool has_gaps(const TensorBox& box) { return box.tile.shared_bytes != box.tile.copied_bytes(); }

// Checks and poisons the target's bytes; returns the host address of its start, null after a finding.
uint8_t* claim_tile(Warp& warp, const Instruction& instruction, int lane, const TensorBox& box,
                    const BulkTarget& target) {
  if (!has_gaps(box) || target.address % kTileAlignment != 0) {
    return claim_target(warp, instruction, lane, target, 0, box.tile.shared_bytes, kTileAlignment);
  }
  uint8_t* start = nullptr;
  for (const TileRow& row : box.tile.rows) {
    for (uint32_t offset = 0; offset < box.tile.row_bytes; offset += kChunk) {
      const uint32_t plain = target.address + row.shared + offset;
      const uint32_t position = swizzle_address(box.map.swizzle, plain) - target.address;
      uint8_t* chunk = claim_target(warp, instruction, lane, target, position, kChunk, kChunk);
      if (!chunk) return nullptr;
      start = chunk - position;
    }
  }
  return start;
}

class TensorLoad : public BulkLoad {
 public:
  TensorLoad(Cluster& cluster, std::vector<BulkTarget> targets, TensorBox box)
      : BulkLoad(cluster, std::move(targets), box.tile.copied_bytes()), box_(std::move(box)) {
    fill_.resize(box_.tile.row_bytes);
    const uint64_t pattern = fill_pattern(box_.map);
    const size_t element = static_cast<size_t>(box_.map.element_bytes());
    for (size_t i = 0; i < fill_.size(); i += element) std::memcpy(&fill_[i], &pattern, element);
  }

 protected:
  void fill(const BulkTarget& target) override {
    const bool checked = (cluster_.launch->checks & kCheckInit) != 0;
    std::vector<uint8_t> line;
    for (size_t i = 0; i < box_.rows.size(); ++i) {
      const TileRow& row = box_.tile.rows[i];
      if (!box_.rows[i] && row.last > row.first) continue;  // refused: the poison stays
      const bool whole = box_.rows[i] && row.first == 0 && row.last == box_.tile.row_bytes;
      if (!whole) {
        line = fill_;
        if (box_.rows[i]) std::memcpy(&line[row.first], box_.rows[i], row.last - row.first);
      }
      const uint8_t* bytes = whole ? box_.rows[i] : line.data();
      for_chunks(box_, row, target.data, target.address, [&](uint32_t offset, uint8_t* chunk) {
        std::memcpy(chunk, bytes + offset, kChunk);
        if (checked) mark_initialised(cluster_, chunk, kChunk);
      });
    }
  }

 private:
  TensorBox box_;
  std::vector<uint8_t> fill_;  // a row outside the tensor
};

Format reduction_format(TensorType type) {
  constexpr Format kFormats[] = {Format::kU8,  Format::kU16, Format::kU32, Format::kS32,  Format::kU64,
                                 Format::kS64, Format::kF16, Format::kF32, Format::kF64,  Format::kBF16,
                                 Format::kF32, Format::kF32, Format::kF32};
  return kFormats[static_cast<int>(type)];
}

class TensorStore : public BulkStore {
 public:
  TensorStore(Warp& warp, const Instruction& instruction, int lane, TensorBox box)
      : BulkStore(warp, instruction, lane), bulk_(bulk_of(instruction)), box_(std::move(box)) {
    start_ = bulk_shared_address(warp, bulk_.source, lane);
    source_ = access_async(warp, instruction, lane, reader_, Space::kShared, start_, box_.tile.shared_bytes,
                           kTileAlignment, AccessKind::kRead);
    std::vector<uint8_t> data;
    if (settles_early(warp, bulk_)) gather(data);
    StoreUnderWay under_way(checked_stores(warp));
    locate_rows(box_, [&](const TileRow& row, uint32_t bytes, uint32_t alignment, size_t offset) {
      const uint8_t* value = data.empty() ? nullptr : data.data() + offset + row.first;
      return claim_stored(warp, instruction, lane, writer_, row.global, bytes, alignment, value, under_way);
    });
  }

 protected:
  void gather(std::vector<uint8_t>& data) override {
    if (!source_) return;
    data.resize(box_.tile.copied_bytes());
    uint8_t* line = data.data();
    for (const TileRow& row : box_.tile.rows) {
      for_chunks(box_, row, source_, start_,
                 [&](uint32_t offset, const uint8_t* chunk) { std::memcpy(line + offset, chunk, kChunk); });
      line += box_.tile.row_bytes;
    }
  }

  void scatter(const std::vector<uint8_t>& data) override {
    if (data.empty()) return;
    const uint8_t* line = data.data();
    for (size_t i = 0; i < box_.rows.size(); ++i, line += box_.tile.row_bytes) {
      if (!box_.rows[i]) continue;
      const TileRow& row = box_.tile.rows[i];
      const uint32_t bytes = row.last - row.first;
      if (bulk_.reduction == Reduction::kNone) {
        std::memcpy(box_.rows[i], line + row.first, bytes);
      } else {
        reduce_elements(bulk_.reduction, reduction_format(box_.map.type), box_.rows[i], line + row.first, bytes);
      }
    }
  }

 private:
  const BulkInstruction& bulk_;
  TensorBox box_;
  uint32_t start_;
  uint8_t* source_;
};

void start_load(Warp& warp, const Instruction& instruction, int lane, TensorBox box) {
  std::vector<BulkTarget> targets = bulk_targets(warp, instruction, lane);
  if (targets.empty()) return;
  for (BulkTarget& target : targets) target.data = claim_tile(warp, instruction, lane, box, target);
  locate_rows(box, [&](const TileRow& row, uint32_t bytes, uint32_t alignment, size_t) {
    return access_async(warp, instruction, lane, targets[0].agent, Space::kGlobal, row.global, bytes, alignment,
                        AccessKind::kRead);
  });
  count_bulk(warp, instruction, uint64_t{box.tile.copied_bytes()} * targets.size(), true);
  warp.cluster().pending.post(std::make_unique<TensorLoad>(warp.cluster(), std::move(targets), std::move(box)));
}

void start_tensor_store(Warp& warp, const Instruction& instruction, int lane, TensorBox box) {
  const BulkInstruction& bulk = bulk_of(instruction);
  if (bulk.reduction != Reduction::kNone && !reduction_exists(bulk.reduction, reduction_format(box.map.type))) {
    warp.report(FindingKind::kDescriptor, instruction, lane, "this reduction does not exist for the tensor's type");
    return;
  }
  count_bulk(warp, instruction, box.tile.copied_bytes(), false);
  start_store(warp, lane, std::make_shared<TensorStore>(warp, instruction, lane, std::move(box)));
}

}  // namespace

Step execute_tensor_copy(Warp& warp, const Instruction& instruction, LaneMask exec) {
  const BulkInstruction& bulk = bulk_of(instruction);
  for_lanes(exec, [&](int lane) {
    TensorBox box;
    if (!read_map(warp, instruction, lane, bulk.mbarrier ? bulk.source : bulk.target, &box.map)) return;
    box.tile = locate_tile(warp, bulk, lane, box.map);
    if (bulk.mbarrier) {
      start_load(warp, instruction, lane, std::move(box));
    } else {
      start_tensor_store(warp, instruction, lane, std::move(box));
    }
  });
  return Step::kNext;
}

Step execute_tensor_prefetch(Warp& warp, const Instruction& instruction, LaneMask exec) {
  for_lanes(exec, [&](int lane) {
    TensorMap map;
    read_map(warp, instruction, lane, bulk_of(instruction).source, &map);
  });
  return Step::kNext;
}

}  // namespace simulator
}  // namespace tilelang
