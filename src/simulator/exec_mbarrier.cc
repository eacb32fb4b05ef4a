// mbarrier.*: decoding, and the lanes' calls into the barrier objects (mbarrier.cc).
//
//   mbarrier.init, .inval, .expect_tx, .complete_tx                              [address]{, number}
//   mbarrier.arrive, .arrive_drop {.expect_tx} {.noComplete} {.sem.scope}  state, [address]{, number}
//   mbarrier.test_wait, .try_wait {.parity} {.sem.scope}           predicate, [address], state | parity{, time}
//   mbarrier.pending_count                                                       count, state
#include <string>

#include "exec_async.h"
#include "operands.h"

namespace tilelang {
namespace simulator {

namespace {

struct BarrierInstruction {
  Address address;
  Space space;
  bool has_number = false;  // count, bytes, parity or state, as the instruction has it
  uint32_t number = 0;      // slot
  bool has_result = false;
  uint32_t result = 0;      // slot: state, predicate or count
  bool expect_tx = false;
  bool drop = false;
  bool relaxed = false;
  bool parity = false;
};

const BarrierInstruction& decoded_of(const Instruction& instruction) {
  return *static_cast<const BarrierInstruction*>(instruction.extra);
}

// Calls f(lane, barrier address, number) for the lanes whose address is a shared one.
template <typename F>
void for_barriers(Warp& warp, const Instruction& instruction, LaneMask exec, F&& f) {
  const BarrierInstruction& decoded = decoded_of(instruction);
  for_lanes(exec, [&](int lane) {
    uint32_t barrier;
    if (!shared_address(warp, instruction, decoded.address, decoded.space, lane, &barrier)) return;
    f(lane, barrier, decoded.has_number ? warp.reg<uint32_t>(decoded.number)[lane] : 1u);
  });
}

Step execute_init(Warp& warp, const Instruction& instruction, LaneMask exec) {
  for_barriers(warp, instruction, exec, [&](int lane, uint32_t barrier, uint32_t count) {
    mbarrier_init(warp, instruction, lane, barrier, count);
  });
  return Step::kNext;
}

Step execute_invalidate(Warp& warp, const Instruction& instruction, LaneMask exec) {
  for_barriers(warp, instruction, exec, [&](int lane, uint32_t barrier, uint32_t) {
    mbarrier_invalidate(warp, instruction, lane, barrier);
  });
  return Step::kNext;
}

Step execute_expect_tx(Warp& warp, const Instruction& instruction, LaneMask exec) {
  for_barriers(warp, instruction, exec, [&](int lane, uint32_t barrier, uint32_t bytes) {
    mbarrier_expect_tx(warp, instruction, lane, barrier, bytes);
  });
  return Step::kNext;
}

Step execute_complete_tx(Warp& warp, const Instruction& instruction, LaneMask exec) {
  for_barriers(warp, instruction, exec, [&](int lane, uint32_t barrier, uint32_t bytes) {
    mbarrier_complete_tx(warp.cluster(), barrier, bytes, async_agent(warp, lane, AsyncDomain::kMBarrier, barrier));
  });
  return Step::kNext;
}

Step execute_arrive(Warp& warp, const Instruction& instruction, LaneMask exec) {
  const BarrierInstruction& decoded = decoded_of(instruction);
  for_barriers(warp, instruction, exec, [&](int lane, uint32_t barrier, uint32_t number) {
    const uint32_t count = decoded.expect_tx ? 1 : number;
    const int64_t bytes = decoded.expect_tx ? number : 0;
    const uint64_t state =
        mbarrier_arrive(warp, instruction, lane, barrier, count, bytes, decoded.drop, !decoded.relaxed);
    if (decoded.has_result) warp.reg<uint64_t>(decoded.result)[lane] = state;
  });
  return Step::kNext;
}

struct WaitTarget {
  uint32_t barrier = 0;
  uint32_t phase = 0;
  bool operator==(const WaitTarget& other) const { return barrier == other.barrier && phase == other.phase; }
};

uint32_t awaited_phase(Warp& warp, const Instruction& instruction, int lane) {
  const BarrierInstruction& decoded = decoded_of(instruction);
  if (!decoded.parity) return MBarrierState::unpack(warp.reg<uint64_t>(decoded.number)[lane]).phase;
  const uint32_t parity = warp.reg<uint32_t>(decoded.number)[lane];
  if (parity > 1) warp.report(FindingKind::kMBarrier, instruction, lane, "the parity must be 0 or 1");
  return parity & 1;
}

// Tests the phase for every lane and writes the predicate. Returns the lanes that saw it incomplete;
// `waits_for` is the barrier and phase of one of them.
LaneMask test_phase(Warp& warp, const Instruction& instruction, LaneMask exec, WaitTarget* waits_for) {
  const BarrierInstruction& decoded = decoded_of(instruction);
  WaitTarget targets[kLanes];
  LaneMask left = 0, complete = 0;
  for_barriers(warp, instruction, exec, [&](int lane, uint32_t barrier, uint32_t) {
    targets[lane] = {barrier, awaited_phase(warp, instruction, lane)};
    left |= 1u << lane;
  });
  while (left) {
    const WaitTarget target = targets[__builtin_ctz(left)];
    LaneMask alike = 0;
    for_lanes(left, [&](int lane) {
      if (targets[lane] == target) alike |= 1u << lane;
    });
    if (mbarrier_test(warp, instruction, alike, target.barrier, target.phase, !decoded.relaxed)) {
      complete |= alike;
    } else {
      *waits_for = target;
    }
    left &= ~alike;
  }
  LaneMask& result = warp.predicate(decoded.result);
  result = (result & ~exec) | complete;
  return exec & ~complete;
}

Step execute_test_wait(Warp& warp, const Instruction& instruction, LaneMask exec) {
  WaitTarget target;
  test_phase(warp, instruction, exec, &target);
  return Step::kNext;
}

Step execute_try_wait(Warp& warp, const Instruction& instruction, LaneMask exec) {
  WaitTarget target;
  if (test_phase(warp, instruction, exec, &target) == 0) return Step::kNext;
  return warp.retry_later(WaitKind::kMBarrier, target.barrier, target.phase);
}

Step execute_pending_count(Warp& warp, const Instruction& instruction, LaneMask exec) {
  const BarrierInstruction& decoded = decoded_of(instruction);
  for_lanes(exec, [&](int lane) {
    warp.reg<uint32_t>(decoded.result)[lane] = mbarrier_pending_count(warp.reg<uint64_t>(decoded.number)[lane]);
  });
  return Step::kNext;
}

// ---------------------------------------------------------------------------------------------

// .release/.acquire/.relaxed and .cta/.cluster.
void take_semantics(Decoder& d, BarrierInstruction& decoded) {
  const std::string order = d.modifiers.take_any({"release", "acquire", "relaxed"});
  decoded.relaxed = order == "relaxed";
  const std::string scope = d.modifiers.take_any({"cta", "cluster"});
  if (order.empty() != scope.empty()) d.fail("a memory order and a scope go together");
}

void finish(Decoder& d, BarrierInstruction& decoded, Handler handler) {
  decoded.space = take_shared_space(d);
  take_all(d, {"b64"});
  d.expect_no_more_modifiers();
  d.out.run = handler;
}

void take_number(Decoder& d, BarrierInstruction& decoded, size_t index, uint32_t bytes) {
  decoded.has_number = true;
  decoded.number = d.source_bits(index, bytes);
}

void decode_object(Decoder& d, Handler handler, bool has_number) {
  auto& decoded = d.attach<BarrierInstruction>();
  take_semantics(d, decoded);
  finish(d, decoded, handler);
  d.expect_operands(has_number ? 2 : 1, has_number ? 2 : 1);
  decoded.address = d.address(0);
  if (has_number) take_number(d, decoded, 1, 4);
}

void decode_init(Decoder& d) { decode_object(d, execute_init, true); }
void decode_invalidate(Decoder& d) { decode_object(d, execute_invalidate, false); }
void decode_expect_tx(Decoder& d) { decode_object(d, execute_expect_tx, true); }
void decode_complete_tx(Decoder& d) { decode_object(d, execute_complete_tx, true); }

// The state may be left out on another block's barrier: `_`, or no operand at all.
void decode_arrival(Decoder& d, bool drop) {
  auto& decoded = d.attach<BarrierInstruction>();
  decoded.drop = drop;
  decoded.expect_tx = d.modifiers.take("expect_tx");
  const bool no_complete = d.modifiers.take("noComplete");
  take_semantics(d, decoded);
  finish(d, decoded, execute_arrive);
  d.expect_operands(1, 3);
  const size_t address = d.operand(0).kind == Operand::Kind::kAddress ? 0 : 1;
  if (address == 1 && d.operand(0).kind != Operand::Kind::kSink) {
    decoded.has_result = true;
    decoded.result = d.destination(0, 8);
  }
  decoded.address = d.address(address);
  if (d.operand_count() > address + 1) take_number(d, decoded, address + 1, 4);
  if ((decoded.expect_tx || no_complete) && !decoded.has_number) d.fail("the count is missing");
}

void decode_arrive(Decoder& d) { decode_arrival(d, false); }
void decode_arrive_drop(Decoder& d) { decode_arrival(d, true); }

void decode_wait(Decoder& d, Handler handler, size_t most_operands) {
  auto& decoded = d.attach<BarrierInstruction>();
  decoded.parity = d.modifiers.take("parity");
  take_semantics(d, decoded);
  finish(d, decoded, handler);
  d.expect_operands(3, most_operands);
  decoded.has_result = true;
  decoded.result = d.predicate_destination(0);
  decoded.address = d.address(1);
  take_number(d, decoded, 2, decoded.parity ? 4 : 8);
  // The suspend-time hint bounds a wait that the simulator never makes.
  if (d.operand_count() == 4) d.source_bits(3, 4);
}

void decode_test_wait(Decoder& d) { decode_wait(d, execute_test_wait, 3); }
void decode_try_wait(Decoder& d) { decode_wait(d, execute_try_wait, 4); }

void decode_pending_count(Decoder& d) {
  auto& decoded = d.attach<BarrierInstruction>();
  take_all(d, {"b64"});
  d.expect_no_more_modifiers();
  d.expect_operands(2, 2);
  decoded.result = d.destination(0, 4);
  take_number(d, decoded, 1, 8);
  d.out.run = execute_pending_count;
}

struct BarrierForm {
  const char* name;
  void (*decode)(Decoder& decoder);
};

constexpr BarrierForm kForms[] = {
    {"init", decode_init},
    {"inval", decode_invalidate},
    {"expect_tx", decode_expect_tx},
    {"complete_tx", decode_complete_tx},
    {"arrive", decode_arrive},
    {"arrive_drop", decode_arrive_drop},
    {"test_wait", decode_test_wait},
    {"try_wait", decode_try_wait},
    {"pending_count", decode_pending_count},
};

}  // namespace

void decode_mbarrier(Decoder& d) {
  const std::string name = d.modifiers.next();
  for (const BarrierForm& form : kForms) {
    if (name == form.name) return form.decode(d);
  }
  d.fail("unknown instruction");
}

}  // namespace simulator
}  // namespace tilelang
