// Decoding of cp.async.bulk, cp.reduce.async.bulk, their tensor and prefetch forms and their groups.
//
//   cp.async.bulk.<to>.<from>.<completion>[...]                    [to], [from], size, [barrier]{, mask}{, policy}
//   cp.async.bulk.tensor.<rank>d.<to>.<from>[.<mode>].<completion> the side in global memory is [map, {coordinates}]
#include <string>

#include "bulk.h"
#include "exec_async.h"

namespace tilelang {
namespace simulator {

namespace {

BulkPlace place_named(const std::string& name) {
  if (name == "global") return BulkPlace::kGlobal;
  if (name == "shared::cta") return BulkPlace::kSharedCta;
  if (name == "shared::cluster") return BulkPlace::kSharedCluster;
  return BulkPlace::kNone;
}

BulkPlace take_place(Decoder& d) {
  const BulkPlace place = place_named(d.modifiers.peek());
  if (place == BulkPlace::kNone) d.fail("expected .global, .shared::cta or .shared::cluster");
  d.modifiers.next();
  return place;
}

// Directions that exist, with the way each completes.
struct Direction {
  BulkPlace to, from;
  bool mbarrier;
  bool tensor;  // also for tensor copies
};

constexpr Direction kDirections[] = {
    {BulkPlace::kSharedCluster, BulkPlace::kGlobal, true, true},
    {BulkPlace::kSharedCta, BulkPlace::kGlobal, true, true},
    {BulkPlace::kSharedCluster, BulkPlace::kSharedCta, true, false},
    {BulkPlace::kGlobal, BulkPlace::kSharedCta, false, true},
};

void check_direction(Decoder& d, const BulkInstruction& bulk) {
  for (const Direction& row : kDirections) {
    if (row.to != bulk.to || row.from != bulk.from || (bulk.rank > 0 && !row.tensor)) continue;
    if (row.mbarrier != bulk.mbarrier) {
      d.fail(row.mbarrier ? "needs .mbarrier::complete_tx::bytes" : "needs .bulk_group");
    }
    if (bulk.reduction != Reduction::kNone && bulk.from != BulkPlace::kSharedCta) d.fail("cannot reduce from .global");
    return;
  }
  d.fail("no such direction");
}

void take_completion(Decoder& d, BulkInstruction& bulk) {
  bulk.mbarrier = d.modifiers.take("mbarrier::complete_tx::bytes");
  if (!bulk.mbarrier && !d.modifiers.take("bulk_group")) d.fail("the completion mechanism is missing");
}

void take_reduction(Decoder& d, BulkInstruction& bulk) {
  bulk.reduction = find_reduction(d.modifiers.peek());
  if (bulk.reduction == Reduction::kNone) d.fail("expected a reduction such as .add");
  d.modifiers.next();
}

// The type of a linear reduction; .b32 and .b64 are for the logical ones.
void take_reduction_type(Decoder& d, BulkInstruction& bulk) {
  d.modifiers.take("noftz");
  if (d.modifiers.take("b32")) {
    bulk.format = Format::kU32;
  } else if (d.modifiers.take("b64")) {
    bulk.format = Format::kU64;
  } else {
    bulk.format = take_format(d);
  }
  if (!reduction_exists(bulk.reduction, bulk.format)) d.fail("this reduction does not exist for this type");
}

void take_options(Decoder& d, BulkInstruction& bulk) {
  bulk.multicast = d.modifiers.take("multicast::cluster");
  bulk.has_policy = d.modifiers.take("L2::cache_hint");
  bulk.byte_mask = d.modifiers.take("cp_mask");
  if (bulk.multicast && bulk.to != BulkPlace::kSharedCluster) d.fail(".multicast needs a .shared::cluster target");
}

// Operands behind the fixed ones, in PTX's order.
class Tail {
 public:
  Tail(Decoder& d, size_t first) : d_(d), next_(first) {}
  size_t take() { return next_++; }
  void finish(bool has_policy) {
    if (has_policy) d_.source_bits(take(), 8);
    d_.expect_operands(next_, next_);
  }

 private:
  Decoder& d_;
  size_t next_;
};

void decode_linear(Decoder& d, BulkInstruction& bulk) {
  bulk.target = d.address(0);
  bulk.source = d.address(1);
  bulk.size = d.source_bits(2, 4);
  Tail tail(d, 3);
  if (bulk.mbarrier) bulk.barrier = d.address(tail.take());
  if (bulk.multicast) bulk.mask = d.source_bits(tail.take(), 2);
  if (bulk.has_policy) d.source_bits(tail.take(), 8);
  if (bulk.byte_mask) bulk.mask = d.source_bits(tail.take(), 2);
  tail.finish(false);
  d.out.run = execute_linear_copy;
}

// [map, {c0, c1, ...}]
Address decode_coordinates(Decoder& d, size_t operand, BulkInstruction& bulk) {
  const std::vector<Operand> children = d.address_children(operand);
  if (children.size() != 1) d.fail("expected [tensor map, {coordinates}]");
  const std::vector<Operand>& coordinates =
      children[0].kind == Operand::Kind::kVector ? children[0].children : children;
  if (static_cast<int>(coordinates.size()) != bulk.rank) {
    d.fail("a " + std::to_string(bulk.rank) + "d copy needs " + std::to_string(bulk.rank) + " coordinates, got " +
           std::to_string(coordinates.size()));
  }
  for (int i = 0; i < bulk.rank; ++i) bulk.coordinates[i] = d.source_bits(coordinates[i], 4);
  return d.address(operand);
}

void decode_offsets(Decoder& d, size_t operand, BulkInstruction& bulk) {
  const std::vector<uint32_t> slots = d.source_vector(operand, 2);
  if (static_cast<int>(slots.size()) != bulk.rank - 2) d.fail("one im2col offset is needed for each spatial dimension");
  std::copy(slots.begin(), slots.end(), bulk.offsets);
}

void take_rank_and_mode(Decoder& d, BulkInstruction& bulk) {
  const std::string rank = d.modifiers.take_any({"1d", "2d", "3d", "4d", "5d"});
  if (rank.empty()) d.fail("expected the rank: .1d to .5d");
  bulk.rank = rank[0] - '0';
}

void take_mode(Decoder& d, BulkInstruction& bulk) {
  bulk.im2col = d.modifiers.take_any({"tile", "im2col", "im2col_no_offs"}).substr(0, 6) == "im2col";
  if (bulk.im2col && bulk.rank < 3) d.fail(".im2col needs a rank of 3 to 5");
}

void decode_tensor(Decoder& d, BulkInstruction& bulk) {
  const bool load = bulk.from == BulkPlace::kGlobal;
  if (load) {
    bulk.target = d.address(0);
    bulk.source = decode_coordinates(d, 1, bulk);
    bulk.barrier = d.address(2);
  } else {
    bulk.target = decode_coordinates(d, 0, bulk);
    bulk.source = d.address(1);
  }
  Tail tail(d, load ? 3 : 2);
  if (load && bulk.im2col) decode_offsets(d, tail.take(), bulk);
  if (bulk.multicast) bulk.mask = d.source_bits(tail.take(), 2);
  tail.finish(bulk.has_policy);
  d.out.run = execute_tensor_copy;
}

// Everything behind cp.async.bulk or cp.reduce.async.bulk but the groups and prefetches.
void decode_transfer(Decoder& d, bool reduce) {
  auto& bulk = d.attach<BulkInstruction>();
  if (d.modifiers.take("tensor")) take_rank_and_mode(d, bulk);
  bulk.to = take_place(d);
  bulk.from = take_place(d);
  if (bulk.rank > 0) {
    // PTX writes the reduction of a tensor copy before the mode, that of a linear one at the end.
    if (reduce) take_reduction(d, bulk);
    take_mode(d, bulk);
  }
  take_completion(d, bulk);
  take_options(d, bulk);
  if (reduce && bulk.rank == 0) {
    take_reduction(d, bulk);
    take_reduction_type(d, bulk);
  }
  d.expect_no_more_modifiers();
  check_direction(d, bulk);
  if (bulk.rank > 0) {
    decode_tensor(d, bulk);
  } else {
    decode_linear(d, bulk);
  }
}

void decode_prefetch(Decoder& d) {
  auto& bulk = d.attach<BulkInstruction>();
  if (d.modifiers.take("tensor")) take_rank_and_mode(d, bulk);
  take_all(d, {"L2", "global"});
  bulk.from = BulkPlace::kGlobal;
  if (bulk.rank > 0) take_mode(d, bulk);
  bulk.has_policy = d.modifiers.take("L2::cache_hint");
  d.expect_no_more_modifiers();
  Tail tail(d, 1);
  if (bulk.rank > 0) {
    bulk.source = decode_coordinates(d, 0, bulk);
    if (bulk.im2col) decode_offsets(d, tail.take(), bulk);
    d.out.run = execute_tensor_prefetch;
  } else {
    bulk.source = d.address(0);
    bulk.size = d.source_bits(tail.take(), 4);
    d.out.run = execute_linear_prefetch;
  }
  tail.finish(bulk.has_policy);
}

Step execute_commit(Warp& warp, const Instruction&, LaneMask exec) {
  warp.bulk_groups.commit(exec);
  return Step::kNext;
}

Step execute_wait(Warp& warp, const Instruction& instruction, LaneMask exec) {
  warp.bulk_groups.wait(exec, static_cast<uint32_t>(instruction.immediate), warp.random());
  return Step::kNext;
}

Step execute_wait_read(Warp& warp, const Instruction& instruction, LaneMask exec) {
  warp.bulk_groups.wait_read(exec, static_cast<uint32_t>(instruction.immediate), warp.random());
  return Step::kNext;
}

void decode_commit(Decoder& d) {
  d.expect_no_more_modifiers();
  d.expect_operands(0, 0);
  d.out.run = execute_commit;
}

void decode_wait(Decoder& d) {
  const bool read = d.modifiers.take("read");
  d.expect_no_more_modifiers();
  d.expect_operands(1, 1);
  d.out.immediate = constant_between(d, 0, 0, INT32_MAX);
  d.out.run = read ? execute_wait_read : execute_wait;
}

}  // namespace

void decode_bulk_copy(Decoder& d) {
  if (d.modifiers.take("commit_group")) return decode_commit(d);
  if (d.modifiers.take("wait_group")) return decode_wait(d);
  if (d.modifiers.take("prefetch")) return decode_prefetch(d);
  decode_transfer(d, false);
}

void decode_bulk_reduce(Decoder& d) { decode_transfer(d, true); }

}  // namespace simulator
}  // namespace tilelang
