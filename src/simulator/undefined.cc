#include "undefined.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "decoder.h"
#include "lanes.h"
#include "machine.h"
#include "memory.h"
#include "shuffle.h"

namespace tilelang {
namespace simulator {
namespace {

constexpr uint32_t kNoRegister = 0xffffffffu;  // an immediate, a sink, an address

/// Whether a statement's result depends on nothing but the lane's own operands. One that sets the carry has a second result.
bool computes(const Statement& statement) {
  const auto& modifiers = statement.modifiers;
  const bool sets_carry = std::find(modifiers.begin(), modifiers.end(), "cc") != modifiers.end();
  return effect_of(statement.opcode) == Effect::kComputes && !sets_carry;
}

Shuffle shuffle_of(const Statement& statement) {
  static const std::unordered_map<std::string, Shuffle> modes = {
      {"up", Shuffle::kUp}, {"down", Shuffle::kDown}, {"bfly", Shuffle::kButterfly}, {"idx", Shuffle::kIndex}};
  for (const std::string& modifier : statement.modifiers) {
    if (const auto found = modes.find(modifier); found != modes.end()) return found->second;
  }
  return Shuffle::kIndex;
}

RegisterUse::Kind kind_of(const Statement& statement) {
  const auto is = [&](const char* modifier) {
    return std::find(statement.modifiers.begin(), statement.modifiers.end(), modifier) != statement.modifiers.end();
  };
  if (statement.opcode == "ld" || statement.opcode == "ldu") return RegisterUse::Kind::kLoads;
  if (statement.opcode == "st" && (is("shared") || is("shared::cta") || is("local"))) return RegisterUse::Kind::kStores;
  if (statement.opcode == "shfl") return RegisterUse::Kind::kShuffles;
  if (!computes(statement)) return RegisterUse::Kind::kUses;
  if (statement.opcode == "selp") return RegisterUse::Kind::kSelects;
  const bool predicates = is("pred");
  if (predicates && statement.opcode == "and") return RegisterUse::Kind::kAnd;
  if (predicates && statement.opcode == "or") return RegisterUse::Kind::kOr;
  return RegisterUse::Kind::kComputes;
}

void add_registers(const Operand& operand, const std::vector<uint32_t>& slots, std::vector<uint32_t>& found) {
  if (operand.children.empty())
    found.push_back(operand.kind == Operand::Kind::kRegister ? slots[operand.index] : kNoRegister);
  for (const Operand& child : operand.children) add_registers(child, slots, found);
}

}  // namespace

RegisterUse register_use(const Statement& statement, const std::vector<uint32_t>& slots) {
  RegisterUse use;
  use.kind = kind_of(statement);
  use.shuffle = shuffle_of(statement);
  for (size_t i = 0; i < statement.operands.size(); ++i) {
    const Operand& operand = statement.operands[i];
    const bool written = i == 0 && operand.kind != Operand::Kind::kAddress;
    add_registers(operand, slots, written ? use.destinations : use.sources);
    if (i == 0) use.address_sources = static_cast<uint32_t>(use.sources.size());
  }
  return use;
}

const UndefinedRegisters::Entry* UndefinedRegisters::find(uint32_t offset) const {
  for (const Entry& entry : entries_) {
    if (entry.offset == offset) return &entry;
  }
  return nullptr;
}

void UndefinedRegisters::set(uint32_t offset, LaneMask exec, LaneMask undefined, const Origin& origin) {
  auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.offset == offset; });
  if (found == entries_.end()) {
    if (undefined & exec) entries_.push_back({offset, undefined & exec, origin});
    return;
  }
  found->lanes = (found->lanes & ~exec) | (undefined & exec);
  if (undefined & exec) found->origin = origin;
  if (!found->lanes) entries_.erase(found);
}

void UndefinedRegisters::loaded(Warp& warp, const Instruction& load, int lane, Space space, uint64_t address,
                                const uint8_t* written, uint32_t bytes, uint32_t whole) {
  const RegisterUse& use = warp.launch().program->register_uses[load.pc];
  const Origin origin{load.pc, space, bytes, address};
  const LaneMask lanes = 1u << lane;
  if (use.kind != RegisterUse::Kind::kLoads) return report(warp, load, lanes, origin);
  const auto frame = static_cast<uint32_t>(warp.frame - warp.registers);
  const uint32_t element = whole / static_cast<uint32_t>(use.destinations.size());
  for (uint32_t i = 0; i < use.destinations.size() && i * element < bytes; ++i) {
    const bool defined = is_written(written + i * element, std::min(element, bytes - i * element));
    if (!defined && use.destinations[i] != kNoRegister) set(frame + use.destinations[i], lanes, lanes, origin);
  }
}

LaneMask UndefinedRegisters::source_lanes(const Warp& warp, const RegisterUse& use, size_t source) const {
  if (source >= use.sources.size() || use.sources[source] == kNoRegister) return 0;
  const Entry* entry = find(static_cast<uint32_t>(warp.frame - warp.registers) + use.sources[source]);
  return entry ? entry->lanes : 0;
}

/// The lanes in which the result of a computation is undefined, given those in which some source is.
LaneMask UndefinedRegisters::result_lanes(Warp& warp, const RegisterUse& use, LaneMask some) const {
  using Kind = RegisterUse::Kind;
  if (use.kind == Kind::kSelects) {
    const LaneMask first = use.sources[2] == kNoRegister ? kAllLanes : warp.predicate(use.sources[2]);
    return source_lanes(warp, use, 2) | (source_lanes(warp, use, 0) & first) | (source_lanes(warp, use, 1) & ~first);
  }
  if (use.kind != Kind::kAnd && use.kind != Kind::kOr) return some;
  for (size_t i = 0; i < use.sources.size(); ++i) {
    if (use.sources[i] == kNoRegister) continue;
    const LaneMask value = warp.predicate(use.sources[i]);
    some &= source_lanes(warp, use, i) | (use.kind == Kind::kAnd ? value : ~value);
  }
  return some;
}

/// A shuffle: its result is undefined in the lanes that read an undefined value.
void UndefinedRegisters::shuffle(Warp& warp, const Instruction& instruction, const RegisterUse& use, LaneMask exec) {
  const LaneMask members = warp.reg<uint32_t>(instruction.op[4])[__builtin_ctz(exec)];
  if (members & warp.live & ~exec) return;  // it runs again when they have come
  const auto frame = static_cast<uint32_t>(warp.frame - warp.registers);
  Origin origin;
  for (size_t i = use.sources.size(); i-- > 0;) {
    const LaneMask lanes = source_lanes(warp, use, i) & exec;
    if (lanes) origin = find(frame + use.sources[i])->origin;
    if (lanes && i > 0) report(warp, instruction, lanes, origin);
  }
  const LaneMask given = source_lanes(warp, use, 0) & exec;
  const uint32_t* b = warp.reg<uint32_t>(instruction.op[2]);
  const uint32_t* c = warp.reg<uint32_t>(instruction.op[3]);
  const LaneMask undefined = !given ? 0 : mask_lanes([&](int lane) {
    bool valid;
    return given >> source_lane(use.shuffle, lane, b[lane], c[lane], &valid) & 1;
  });
  if (use.destinations[0] != kNoRegister) set(frame + use.destinations[0], exec, undefined, origin);
  if (use.destinations.size() > 1 && use.destinations[1] != kNoRegister) set(frame + use.destinations[1], exec, 0, origin);
}

void UndefinedRegisters::not_given(Warp& warp, const Instruction& shuffle, LaneMask lanes) {
  const uint32_t destination = warp.launch().program->register_uses[shuffle.pc].destinations[0];
  if (destination == kNoRegister) return;
  set(static_cast<uint32_t>(warp.frame - warp.registers) + destination, lanes, lanes, Origin{shuffle.pc});
}

void UndefinedRegisters::before(Warp& warp, const Instruction& instruction, LaneMask exec) {
  const RegisterUse& use = warp.launch().program->register_uses[instruction.pc];
  const auto frame = static_cast<uint32_t>(warp.frame - warp.registers);
  if (const Entry* guard = instruction.guarded ? find(frame + instruction.guard) : nullptr) {
    if (guard->lanes & warp.mask) report(warp, instruction, guard->lanes & warp.mask, guard->origin);
  }
  stored_.clear();
  if (use.kind == RegisterUse::Kind::kStores) return store(warp, instruction, use, exec);
  if (use.kind == RegisterUse::Kind::kShuffles) return shuffle(warp, instruction, use, exec);
  LaneMask some = 0;
  Origin origin;
  for (uint32_t slot : use.sources) {
    const Entry* entry = slot == kNoRegister ? nullptr : find(frame + slot);
    if (!entry || !(entry->lanes & exec)) continue;
    some |= entry->lanes & exec;
    origin = entry->origin;
  }
  const bool passes_on = use.kind != RegisterUse::Kind::kUses && use.kind != RegisterUse::Kind::kLoads;
  if (some && !passes_on) report(warp, instruction, some, origin);
  const LaneMask undefined = some && passes_on ? result_lanes(warp, use, some) : 0;
  for (uint32_t slot : use.destinations) {
    if (slot != kNoRegister) set(frame + slot, exec, undefined, origin);
  }
}

void UndefinedRegisters::store(Warp& warp, const Instruction& instruction, const RegisterUse& use, LaneMask exec) {
  LaneMask some = 0;
  for (size_t i = 0; i < use.sources.size(); ++i) {
    const LaneMask lanes = source_lanes(warp, use, i) & exec;
    const bool is_address = i < use.address_sources;
    if (is_address && lanes)
      report(warp, instruction, lanes, find(static_cast<uint32_t>(warp.frame - warp.registers) + use.sources[i])->origin);
    if (!is_address) stored_.push_back(lanes);
    some |= is_address ? 0 : lanes;
  }
  if (!some) stored_.clear();
}

void UndefinedRegisters::written(int lane, uint8_t* flags, uint32_t bytes) const {
  const uint32_t element = bytes / static_cast<uint32_t>(stored_.size());
  for (uint32_t i = 0; i < stored_.size(); ++i) {
    if (stored_[i] >> lane & 1) std::fill_n(flags + i * element, element, uint8_t{0});
  }
}

void UndefinedRegisters::report(Warp& warp, const Instruction& instruction, LaneMask lanes, const Origin& origin) const {
  const Program& program = *warp.launch().program;
  std::string message = !origin.bytes ? "the shuffle reads a lane that does not take part in it"
                                      : "read of " + std::to_string(origin.bytes) + " bytes at " +
                                            describe_address(warp, origin.space, origin.address) + ": not written before";
  if (origin.pc != instruction.pc) message += ", used at " + program.place_of(instruction);
  for_lanes(lanes, [&](int lane) { warp.report(FindingKind::kUninitialised, program.code[origin.pc], lane, message); });
}

}  // namespace simulator
}  // namespace tilelang
