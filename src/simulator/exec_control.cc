// Control flow (PTX ISA, "Control Flow Instructions"), and the functions every program may call.
#include "device_calls.h"
#include "function_decoder.h"
#include "interpreter.h"
#include "lanes.h"

namespace tilelang {
namespace simulator {
namespace {

Step run_bra(Warp& w, const Instruction& in, LaneMask exec) { return branch(w, exec, in.target); }

void decode_bra(Decoder& d) {
  d.modifiers.take("uni");
  d.expect_no_more_modifiers();
  d.expect_operands(1, 1);
  if (d.operand(0).kind != Operand::Kind::kSymbol) d.fail("expected a label");
  d.out.target = d.function().label_target(d.operand(0).name, d.statement.line);
  d.out.flow = Flow::kBranch;
  d.out.run = run_bra;
}

Step run_brx(Warp& w, const Instruction& in, LaneMask exec) {
  const uint32_t* index = w.reg<uint32_t>(in.op[0]);
  uint32_t targets[kLanes] = {};
  LaneMask good = exec;
  for_lanes(exec, [&](int l) {
    if (index[l] < in.list_size) {
      targets[l] = in.list[index[l]];
    } else {
      w.report(FindingKind::kUsage, in, l,
               "brx.idx with index " + std::to_string(index[l]) + ", the list has " + std::to_string(in.list_size) +
                   " targets");
      good &= ~(1u << l);
    }
  });
  if (good != exec) throw KernelAbort();
  return branch_indirect(w, exec, targets);
}

void decode_brx(Decoder& d) {
  if (!d.modifiers.take("idx")) d.fail("expected .idx");
  d.modifiers.take("uni");
  d.expect_no_more_modifiers();
  d.expect_operands(2, 2);
  d.out.op[0] = d.source_bits(0, 4);
  if (d.operand(1).kind != Operand::Kind::kSymbol) d.fail("expected a .branchtargets list");
  std::vector<uint32_t> targets;
  for (const std::string& label : d.function().label_list(d.operand(1).name, d.statement.line)) {
    targets.push_back(d.function().label_target(label, d.statement.line));
  }
  d.set_list(targets);
  d.out.flow = Flow::kIndirect;
  d.out.run = run_brx;
}

// ---- call ----

struct CallSpec {
  int64_t function = -1;  // direct call
  DeviceCall builtin = nullptr;
  std::vector<ParamArea> arguments;
  std::vector<ParamArea> results;
};

Step run_call(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& call = *static_cast<const CallSpec*>(in.extra);
  if (call.builtin) return call.builtin(w, in, exec, {call.arguments, call.results});
  return call_function(w, exec, static_cast<uint32_t>(call.function), call.arguments, call.results);
}

/// Lanes may call different functions: one group runs now, the others come back to this instruction.
Step run_call_indirect(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& call = *static_cast<const CallSpec*>(in.extra);
  const uint64_t* pointers = w.reg<uint64_t>(in.op[0]);
  int first = __builtin_ctz(exec);
  uint64_t pointer = pointers[first];
  const Program& program = *w.launch().program;
  uint64_t index = pointer & ~kWindowMask;
  if ((pointer & kWindowMask) != kFunctionWindow || index >= program.functions.size() ||
      !program.functions[index].last) {
    w.report(FindingKind::kUsage, in, first, "indirect call of something that is no function");
    throw KernelAbort();
  }
  LaneMask same = 0;
  for_lanes(exec, [&](int l) {
    if (pointers[l] == pointer) same |= 1u << l;
  });
  if (same != exec) split_here(w, exec & ~same);
  return call_function(w, same, static_cast<uint32_t>(index), call.arguments, call.results);
}

std::vector<ParamArea> areas_of(Decoder& d, const Operand& list) {
  std::vector<ParamArea> areas;
  if (list.kind != Operand::Kind::kList) d.fail("expected a list of parameters");
  for (const Operand& item : list.children) {
    const Symbol* symbol = item.kind == Operand::Kind::kSymbol ? d.function().find_symbol(item.name) : nullptr;
    if (!symbol || symbol->kind != Symbol::Kind::kCallParam) d.fail("call parameters must be .param variables");
    areas.push_back({symbol->area, symbol->bytes});
  }
  return areas;
}

void decode_call(Decoder& d) {
  d.modifiers.take("uni");
  d.expect_no_more_modifiers();
  d.expect_operands(1, 4);
  auto& call = d.attach<CallSpec>();
  size_t index = 0;
  if (d.operand(0).kind == Operand::Kind::kList) call.results = areas_of(d, d.operand(index++));
  const Operand& callee = d.operand(index++);
  if (index < d.operand_count() && d.operand(index).kind == Operand::Kind::kList)
    call.arguments = areas_of(d, d.operand(index++));
  d.out.flow = Flow::kCall;
  if (callee.kind == Operand::Kind::kRegister) {
    d.out.op[0] = d.source_bits(callee, 8);
    d.out.run = run_call_indirect;
    return;
  }
  d.out.run = run_call;
  const Symbol* symbol = callee.kind == Operand::Kind::kSymbol ? d.function().find_symbol(callee.name) : nullptr;
  if (!symbol || symbol->kind != Symbol::Kind::kFunction) d.fail("unknown function");
  call.builtin = find_device_call(callee.name);
  call.function = static_cast<int64_t>(symbol->address);
  if (!call.builtin && !d.function().is_defined(callee.name)) d.fail("function " + callee.name + " is not defined");
}

// ---- leaving ----

Step run_ret(Warp& w, const Instruction&, LaneMask exec) { return return_lanes(w, exec); }
Step run_exit(Warp& w, const Instruction&, LaneMask exec) { return exit_lanes(w, exec); }

Step run_trap(Warp& w, const Instruction& in, LaneMask exec) {
  w.report(FindingKind::kTrap, in, __builtin_ctz(exec), "the kernel stops itself, as T.device_assert does where its condition fails");
  throw KernelAbort();
}

Step run_nothing(Warp&, const Instruction&, LaneMask) { return Step::kNext; }

void decode_leave(Decoder& d, Handler run) {
  d.modifiers.take("uni");
  d.expect_no_more_modifiers();
  d.expect_operands(0, 0);
  d.out.flow = Flow::kLeave;
  d.out.run = run;
}

void decode_nothing(Decoder& d) {
  while (!d.modifiers.done()) d.modifiers.next();
  d.out.run = run_nothing;
}

}  // namespace

const std::vector<OpcodeRow>& control_opcodes() {
  static const std::vector<OpcodeRow> rows = {
      {"bra", decode_bra, "control"},
      {"brx", decode_brx, "control"},
      {"call", decode_call, "control"},
      {"ret", [](Decoder& d) { decode_leave(d, run_ret); }, "control"},
      {"exit", [](Decoder& d) { decode_leave(d, run_exit); }, "control"},
      {"trap", [](Decoder& d) { decode_leave(d, run_trap); }, "control"},
      {"brkpt", decode_nothing, "control"},
      {"pmevent", decode_nothing, "control"},
  };
  return rows;
}

}  // namespace simulator
}  // namespace tilelang
