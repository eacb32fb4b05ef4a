// cp.async: per-thread copies from global to shared memory, their groups and their mbarrier arrival.
// The bulk copies share the opcode; they are in exec_bulk.cc.
#include <algorithm>
#include <string>

#include "exec_async.h"
#include "lanes.h"
#include "memory.h"
#include "memory_operands.h"
#include "operands.h"
#include "warp_async.h"

namespace tilelang {
namespace simulator {

namespace {

// ---------------------------------------------------------------------------------------------
// cp.async.{ca,cg}.shared[::cta].global[.L2::...]  [dst], [src], size{, source size | ignore}{, policy}

struct CopyInstruction {
  Address target, source;
  uint8_t bytes;
  bool has_source_size = false;
  uint32_t source_size = 0;  // slot
  bool has_ignore = false, ignore_negated = false;
  uint32_t ignore = 0;  // slot of the predicate
};

struct CopyAddresses {
  uint64_t source[kLanes], target[kLanes];
};

class CopyOperation : public AsyncOperation {
 public:
  explicit CopyOperation(std::shared_ptr<CopyBatch> batch) : batch_(std::move(batch)) {}
  void land(LaneMask lanes) override { batch_->land(lanes, true); }

 private:
  std::shared_ptr<CopyBatch> batch_;
};

uint32_t source_bytes(Warp& warp, const Instruction& instruction, const CopyInstruction& decoded, int lane) {
  if (decoded.has_ignore) {
    const bool set = (warp.predicate(decoded.ignore) >> lane & 1) != 0;
    return set != decoded.ignore_negated ? 0 : decoded.bytes;
  }
  if (!decoded.has_source_size) return decoded.bytes;
  const uint32_t size = warp.reg<uint32_t>(decoded.source_size)[lane];
  if (size <= decoded.bytes) return size;
  warp.report(FindingKind::kUsage, instruction, lane,
              "the source size " + std::to_string(size) + " exceeds the copy size " + std::to_string(decoded.bytes));
  return decoded.bytes;
}

/// One lane of a copy, where access_clean_lanes did not do.
void issue_copy(Warp& warp, const Instruction& instruction, CopyBatch& batch, const CopyAddresses& addresses, int lane,
                bool reads, bool writes) {
  const Agent agent = batch.agents[lane];
  const LaneMask bit = 1u << lane;
  if (reads) {
    batch.sources[lane] = access_async(warp, instruction, lane, agent, Space::kGlobal, addresses.source[lane],
                                       batch.source_bytes[lane], batch.bytes, AccessKind::kRead);
    if (!batch.sources[lane]) batch.refused |= bit;
  }
  if (!writes) return;
  batch.targets[lane] = access_async(warp, instruction, lane, agent, Space::kShared, addresses.target[lane], batch.bytes,
                                     batch.bytes, AccessKind::kWrite);
  if (!batch.targets[lane]) batch.refused |= bit;
}

void issue_copies(Warp& warp, const Instruction& instruction, CopyBatch& batch, const CopyAddresses& addresses,
                  LaneMask lanes) {
  if (warp.cluster().race)
    for_lanes(lanes, [&](int lane) { batch.agents[lane] = async_agent(warp, lane, AsyncDomain::kCopyGroup); });
  batch.sourced = lanes & mask_lanes([&](int lane) { return batch.source_bytes[lane] != 0; });
  // Lanes that read as much as they write.
  const LaneMask whole = lanes & mask_lanes([&](int lane) { return batch.source_bytes[lane] == batch.bytes; });
  uint8_t* sources[kLanes];
  LaneMask read = whole ? access_clean_lanes(warp, instruction, Space::kGlobal, addresses.source, whole, batch.bytes,
                                             AccessKind::kRead, sources, batch.agents)
                        : 0;
  LaneMask written = access_clean_lanes(warp, instruction, Space::kShared, addresses.target, lanes, batch.bytes,
                                        AccessKind::kWrite, batch.targets, batch.agents);
  for_lanes(read, [&](int lane) {
    batch.sources[lane] = sources[lane];
    __builtin_prefetch(sources[lane]);  // read when the copy lands
  });
  if (batch.bytes == 16) {
    for_lanes(written, [&](int lane) { std::memset(batch.targets[lane], kPoison, 16); });
  } else {
    for_lanes(written, [&](int lane) { std::memset(batch.targets[lane], kPoison, batch.bytes); });
  }
  for_lanes(lanes & ~((read | ~batch.sourced) & written), [&](int lane) {
    issue_copy(warp, instruction, batch, addresses, lane, (batch.sourced & ~read) >> lane & 1, ~written >> lane & 1);
  });
}

void count_copy(Warp& warp, const Instruction& instruction, const CopyAddresses& addresses, uint32_t bytes, LaneMask exec) {
  uint32_t targets[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) targets[lane] = static_cast<uint32_t>(addresses.target[lane]);
  count_global(warp, instruction, addresses.source, exec, bytes, false);
  count_shared(warp, instruction, targets, exec, bytes, true);
}

Step execute_copy(Warp& warp, const Instruction& instruction, LaneMask exec) {
  const auto& decoded = *static_cast<const CopyInstruction*>(instruction.extra);
  auto batch = std::make_shared<CopyBatch>(warp, decoded.bytes, exec);
  CopyAddresses addresses;
  lane_addresses(warp, decoded.source, addresses.source);
  lane_addresses(warp, decoded.target, addresses.target);
  if (decoded.has_ignore || decoded.has_source_size) {
    for_lanes(exec, [&](int lane) {
      batch->source_bytes[lane] = static_cast<uint8_t>(source_bytes(warp, instruction, decoded, lane));
    });
  } else {
    std::memset(batch->source_bytes, decoded.bytes, sizeof batch->source_bytes);
  }
  issue_copies(warp, instruction, *batch, addresses, exec);
  if (warp.counting) count_copy(warp, instruction, addresses, decoded.bytes, exec);
  std::vector<std::shared_ptr<CopyBatch>>& copies = warp_async(warp).copies;
  if (copies.size() == copies.capacity()) {
    const auto landed = [](const std::shared_ptr<CopyBatch>& old) { return old->pending() == 0; };
    copies.erase(std::remove_if(copies.begin(), copies.end(), landed), copies.end());
  }
  copies.push_back(batch);
  warp.copy_groups.add(std::make_unique<CopyOperation>(std::move(batch)), exec);
  return Step::kNext;
}

// The fourth operand is a source size (32 bits), an ignore predicate or, with a cache hint, the policy.
void decode_copy_extras(Decoder& d, CopyInstruction& decoded, bool has_policy) {
  const size_t extras = d.operand_count() - 3 - (has_policy ? 1 : 0);
  if (has_policy) d.source_bits(d.operand_count() - 1, 8);
  if (extras == 0) return;
  if (is_predicate(d, 3)) {
    decoded.has_ignore = true;
    decoded.ignore = d.predicate(3, &decoded.ignore_negated);
  } else {
    decoded.has_source_size = true;
    decoded.source_size = d.source_bits(3, 4);
  }
}

void decode_copy(Decoder& d) {
  auto& decoded = d.attach<CopyInstruction>();
  const bool global_cache_only = d.modifiers.take_any({"ca", "cg"}) == "cg";
  if (d.modifiers.take_any({"shared", "shared::cta"}).empty()) d.fail("the target must be .shared");
  take_all(d, {"global"});
  const bool has_policy = d.modifiers.take("L2::cache_hint");
  d.modifiers.take_any({"L2::64B", "L2::128B", "L2::256B"});
  d.expect_no_more_modifiers();
  d.expect_operands(has_policy ? 4 : 3, has_policy ? 5 : 4);
  const int64_t bytes = d.constant(2);
  const bool allowed = bytes == 16 || (!global_cache_only && (bytes == 4 || bytes == 8));
  if (!allowed) d.fail(".ca copies 4, 8 or 16 bytes and .cg 16, not " + std::to_string(bytes));
  decoded.bytes = static_cast<uint8_t>(bytes);
  decoded.target = d.address(0);
  decoded.source = d.address(1);
  decode_copy_extras(d, decoded, has_policy);
  d.out.run = execute_copy;
}

// ---------------------------------------------------------------------------------------------
// cp.async.commit_group, wait_group N, wait_all

Step execute_commit(Warp& warp, const Instruction&, LaneMask exec) {
  warp.copy_groups.commit(exec);
  return Step::kNext;
}

Step execute_wait_group(Warp& warp, const Instruction& instruction, LaneMask exec) {
  warp.copy_groups.wait(exec, static_cast<uint32_t>(instruction.immediate), warp.random());
  return Step::kNext;
}

Step execute_wait_all(Warp& warp, const Instruction&, LaneMask exec) {
  warp.copy_groups.commit(exec);
  warp.copy_groups.wait(exec, 0, warp.random());
  return Step::kNext;
}

void decode_commit_group(Decoder& d) {
  d.expect_no_more_modifiers();
  d.expect_operands(0, 0);
  d.out.run = execute_commit;
}

void decode_wait_group(Decoder& d) {
  d.expect_no_more_modifiers();
  d.expect_operands(1, 1);
  d.out.immediate = constant_between(d, 0, 0, INT32_MAX);
  d.out.run = execute_wait_group;
}

void decode_wait_all(Decoder& d) {
  d.expect_no_more_modifiers();
  d.expect_operands(0, 0);
  d.out.run = execute_wait_all;
}

// ---------------------------------------------------------------------------------------------
// cp.async.mbarrier.arrive[.noinc][.shared[::cta]].b64  [address]

struct ArriveInstruction {
  Address address;
  Space space;
  bool increments;
};

// Lands the copies a lane had issued before the arrive, then arrives for it.
class CopyArrival : public AsyncOperation {
 public:
  CopyArrival(Warp& warp, int lane, uint32_t barrier)
      : warp_(warp), lane_(lane), barrier_(barrier), copies_(warp_async(warp).copies),
        agent_(async_agent(warp, lane, AsyncDomain::kCopyGroup)) {}

  void land(LaneMask) override {
    for (const auto& batch : copies_) batch->land(1u << lane_, false);
    mbarrier_arrive_async(warp_.cluster(), barrier_, agent_);
  }

 private:
  Warp& warp_;
  int lane_;
  uint32_t barrier_;
  std::vector<std::shared_ptr<CopyBatch>> copies_;
  Agent agent_;
};

Step execute_copy_arrive(Warp& warp, const Instruction& instruction, LaneMask exec) {
  const auto& decoded = *static_cast<const ArriveInstruction*>(instruction.extra);
  for_lanes(exec, [&](int lane) {
    uint32_t barrier;
    if (!shared_address(warp, instruction, decoded.address, decoded.space, lane, &barrier)) return;
    if (decoded.increments) mbarrier_increment(warp, instruction, lane, barrier);
    warp.cluster().pending.post(std::make_unique<CopyArrival>(warp, lane, barrier));
  });
  return Step::kNext;
}

void decode_copy_arrive(Decoder& d) {
  auto& decoded = d.attach<ArriveInstruction>();
  take_all(d, {"arrive"});
  decoded.increments = !d.modifiers.take("noinc");
  decoded.space = take_shared_space(d);
  take_all(d, {"b64"});
  d.expect_no_more_modifiers();
  d.expect_operands(1, 1);
  decoded.address = d.address(0);
  d.out.run = execute_copy_arrive;
}

// ---------------------------------------------------------------------------------------------

struct CopyForm {
  const char* modifier;  // the one after cp.async
  void (*decode)(Decoder& decoder);
  bool consume;
};

constexpr CopyForm kForms[] = {
    {"ca", decode_copy, false},
    {"cg", decode_copy, false},
    {"commit_group", decode_commit_group, true},
    {"wait_group", decode_wait_group, true},
    {"wait_all", decode_wait_all, true},
    {"mbarrier", decode_copy_arrive, true},
    {"bulk", decode_bulk_copy, true},
};

void decode_cp(Decoder& d) {
  if (d.modifiers.take("reduce")) {
    take_all(d, {"async", "bulk"});
    return decode_bulk_reduce(d);
  }
  take_all(d, {"async"});
  for (const CopyForm& form : kForms) {
    if (d.modifiers.peek() != form.modifier) continue;
    if (form.consume) d.modifiers.next();
    return form.decode(d);
  }
  d.fail("unknown form of cp.async");
}

}  // namespace

const std::vector<OpcodeRow>& async_opcodes() {
  static const std::vector<OpcodeRow> rows = {
      {"cp", decode_cp, "async copy"},
      {"mbarrier", decode_mbarrier, "mbarrier"},
  };
  return rows;
}

}  // namespace simulator
}  // namespace tilelang
