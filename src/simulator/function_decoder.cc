#include "function_decoder.h"

#include <algorithm>
#include <unordered_set>

#include "decoder.h"
#include "undefined.h"

namespace tilelang {
namespace simulator {
namespace {

using OpcodeTable = std::unordered_map<std::string, OpcodeRow>;

OpcodeTable build_opcode_table() {
  OpcodeTable table;
  for (const auto* family :
       {&integer_opcodes(), &extended_opcodes(), &logic_opcodes(), &compare_opcodes(), &float_opcodes(),
        &minmax_opcodes(), &convert_opcodes(), &move_opcodes(), &memory_opcodes(), &atomic_opcodes(), &warp_opcodes(),
        &control_opcodes(), &barrier_opcodes(), &system_opcodes(), &matrix_opcodes(), &async_opcodes()}) {
    for (const OpcodeRow& row : *family) {
      if (!table.emplace(row.opcode, row).second) {
        throw std::logic_error(std::string("two instruction families define ") + row.opcode);
      }
    }
  }
  return table;
}

void count_mentions(const Operand& operand, std::vector<uint32_t>& mentions) {
  if (operand.kind == Operand::Kind::kRegister) ++mentions[operand.index];
  for (const Operand& child : operand.children) count_mentions(child, mentions);
}

const OpcodeTable& opcode_table() {
  static const OpcodeTable table = build_opcode_table();
  return table;
}

}  // namespace

Effect effect_of(const std::string& opcode) {
  const auto row = opcode_table().find(opcode);
  return row == opcode_table().end() ? Effect::kOther : row->second.effect;
}

namespace {

struct SpecialName {
  const char* name;
  SpecialKind kind;
  uint32_t payload;
};

// PTX ISA, "Special Registers". Vector registers are listed per component.
const SpecialName kSpecialNames[] = {
    {"%tid.x", SpecialKind::kThread, 0},
    {"%tid.y", SpecialKind::kThread, 1},
    {"%tid.z", SpecialKind::kThread, 2},
    {"%ntid.x", SpecialKind::kThreadCount, 0},
    {"%ntid.y", SpecialKind::kThreadCount, 1},
    {"%ntid.z", SpecialKind::kThreadCount, 2},
    {"%ctaid.x", SpecialKind::kBlockIndex, 0},
    {"%ctaid.y", SpecialKind::kBlockIndex, 1},
    {"%ctaid.z", SpecialKind::kBlockIndex, 2},
    {"%nctaid.x", SpecialKind::kBlockCount, 0},
    {"%nctaid.y", SpecialKind::kBlockCount, 1},
    {"%nctaid.z", SpecialKind::kBlockCount, 2},
    {"%clusterid.x", SpecialKind::kClusterIndex, 0},
    {"%clusterid.y", SpecialKind::kClusterIndex, 1},
    {"%clusterid.z", SpecialKind::kClusterIndex, 2},
    {"%nclusterid.x", SpecialKind::kClusterCount, 0},
    {"%nclusterid.y", SpecialKind::kClusterCount, 1},
    {"%nclusterid.z", SpecialKind::kClusterCount, 2},
    {"%cluster_ctaid.x", SpecialKind::kClusterBlock, 0},
    {"%cluster_ctaid.y", SpecialKind::kClusterBlock, 1},
    {"%cluster_ctaid.z", SpecialKind::kClusterBlock, 2},
    {"%cluster_nctaid.x", SpecialKind::kClusterBlockCount, 0},
    {"%cluster_nctaid.y", SpecialKind::kClusterBlockCount, 1},
    {"%cluster_nctaid.z", SpecialKind::kClusterBlockCount, 2},
    {"%cluster_ctarank", SpecialKind::kClusterRank, 0},
    {"%cluster_nctarank", SpecialKind::kClusterSize, 0},
    {"%is_explicit_cluster", SpecialKind::kIsExplicitCluster, 0},
    {"%laneid", SpecialKind::kLane, 0},
    {"%warpid", SpecialKind::kWarp, 0},
    {"%nwarpid", SpecialKind::kWarpCount, 0},
    {"%lanemask_eq", SpecialKind::kLaneMaskEq, 0},
    {"%lanemask_le", SpecialKind::kLaneMaskLe, 0},
    {"%lanemask_lt", SpecialKind::kLaneMaskLt, 0},
    {"%lanemask_ge", SpecialKind::kLaneMaskGe, 0},
    {"%lanemask_gt", SpecialKind::kLaneMaskGt, 0},
    {"%smid", SpecialKind::kMultiprocessor, 0},
    {"%nsmid", SpecialKind::kMultiprocessorCount, 0},
    {"%gridid", SpecialKind::kGrid, 0},
    {"%dynamic_smem_size", SpecialKind::kDynamicSharedSize, 0},
    {"%total_smem_size", SpecialKind::kTotalSharedSize, 0},
    {"%clock", SpecialKind::kClock, 0},
    {"%clock_hi", SpecialKind::kClock, 3},
    {"%clock64", SpecialKind::kClock, 1},
    {"%globaltimer", SpecialKind::kClock, 2},
    {"%globaltimer_lo", SpecialKind::kClock, 2},
    {"%globaltimer_hi", SpecialKind::kClock, 4},
};

constexpr uint32_t kSlotAlignment = 64;
constexpr uint32_t kMaximumFrameBytes = 1u << 30;

std::string full_text(const Statement& statement) {
  std::string text = statement.opcode;
  for (const std::string& modifier : statement.modifiers) text += "." + modifier;
  return text;
}

}  // namespace

FunctionDecoder::FunctionDecoder(const Function& function, const SymbolTable& symbols, Program& program,
                                 DecodedFunction& out)
    : function(function), program(program), out(out), symbols_(symbols), mentions_(function.registers.size(), 0) {
  for (const Statement& statement : function.statements) {
    if (statement.guard >= 0) ++mentions_[static_cast<size_t>(statement.guard)];
    for (const Operand& operand : statement.operands) count_mentions(operand, mentions_);
  }
}

uint32_t FunctionDecoder::allocate(uint32_t bytes) {
  uint32_t offset = out.frame_bytes;
  uint64_t end = static_cast<uint64_t>(offset) + (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
  if (end > kMaximumFrameBytes) throw ProgramError(function.line, function.name + " needs too many registers");
  out.frame_bytes = static_cast<uint32_t>(end);
  return offset;
}

void FunctionDecoder::place_registers() {
  uint32_t end = 0;
  register_slots_ = allocate_registers(function, out.frame_bytes, &end);
  out.frame_bytes = end;
}

void FunctionDecoder::place_variables() {
  auto add_area = [&](const Variable& variable, const std::string& name) {
    if (variable.bytes() > (1u << 16))
      throw ProgramError(variable.line, "parameter " + variable.name + " is too large");
    Symbol symbol;
    symbol.kind = Symbol::Kind::kCallParam;
    symbol.bytes = static_cast<uint32_t>(variable.bytes());
    symbol.area = allocate(symbol.bytes * kLanes);
    own_symbols_[name] = symbol;
    return ParamArea{symbol.area, symbol.bytes};
  };
  if (function.is_entry) {
    for (const Variable& variable : function.parameters) {
      uint64_t offset = (out.parameter_bytes + variable.alignment - 1) / variable.alignment * variable.alignment;
      if (offset + variable.bytes() > (1u << 16)) throw ProgramError(variable.line, "kernel parameters are too large");
      KernelParam parameter;
      parameter.name = variable.name;
      parameter.type = variable.type;
      parameter.offset = static_cast<uint32_t>(offset);
      parameter.bytes = static_cast<uint32_t>(variable.bytes());
      out.parameter_bytes = parameter.offset + parameter.bytes;
      Symbol symbol;
      symbol.kind = Symbol::Kind::kParam;
      symbol.address = offset;
      symbol.bytes = parameter.bytes;
      own_symbols_[variable.name] = symbol;
      out.parameters.push_back(std::move(parameter));
    }
  } else {
    for (const Variable& variable : function.parameters)
      out.parameter_areas.push_back(add_area(variable, variable.name));
    for (const Variable& variable : function.results) out.result_areas.push_back(add_area(variable, variable.name));
  }
  for (const Variable& variable : function.variables) {
    if (variable.space == Space::kParam) {
      add_area(variable, variable.name);
      continue;
    }
    uint64_t offset =
        (static_cast<uint64_t>(out.local_bytes) + variable.alignment - 1) / variable.alignment * variable.alignment;
    if (offset + variable.bytes() > (512u << 10))
      throw ProgramError(variable.line, "local memory exceeds 512 KiB per thread");
    Symbol symbol;
    symbol.kind = Symbol::Kind::kLocal;
    symbol.address = offset;
    symbol.bytes = static_cast<uint32_t>(variable.bytes());
    own_symbols_[variable.name] = symbol;
    out.local_bytes = static_cast<uint32_t>(offset + variable.bytes());
  }
  out.local_bytes = (out.local_bytes + 15) / 16 * 16;
}

uint32_t FunctionDecoder::register_slot(uint32_t index, uint32_t line) {
  if (index >= register_slots_.size()) throw ProgramError(line, "unknown register");
  return register_slots_[index];
}

uint32_t FunctionDecoder::constant_slot(uint64_t low, uint64_t high, uint32_t bytes) {
  if (bytes < 8) low &= (1ull << (bytes * 8)) - 1;
  auto key = std::make_tuple(low, high, bytes);
  auto found = constants_.find(key);
  if (found != constants_.end()) return found->second;
  uint32_t offset = allocate(bytes * kLanes);
  out.constants.resize(out.frame_bytes - out.constants_offset);
  uint8_t value[16];
  std::memcpy(value, &low, 8);
  std::memcpy(value + 8, &high, 8);
  for (int lane = 0; lane < kLanes; ++lane) {
    std::memcpy(out.constants.data() + (offset - out.constants_offset) + static_cast<uint32_t>(lane) * bytes, value,
                bytes);
  }
  constants_[key] = offset;
  return offset;
}

uint32_t FunctionDecoder::true_slot() {
  // A predicate is one 32-bit mask: lane 0 of a constant of ones.
  return constant_slot(0xffffffffu, 0, 4);
}

uint32_t FunctionDecoder::scratch_slot(uint32_t bytes) {
  auto found = scratch_.find(bytes);
  if (found != scratch_.end()) return found->second;
  uint32_t offset = allocate(bytes * kLanes);
  out.constants.resize(out.frame_bytes - out.constants_offset);
  return scratch_[bytes] = offset;
}

uint32_t FunctionDecoder::special_slot(SpecialKind kind, uint32_t payload, uint32_t bytes) {
  auto key = std::make_tuple(static_cast<int>(kind), payload, bytes);
  auto found = specials_.find(key);
  if (found != specials_.end()) return found->second;
  SpecialSlot slot;
  slot.offset = allocate(bytes * kLanes);
  slot.kind = kind;
  slot.bytes = static_cast<uint8_t>(bytes);
  slot.payload = payload;
  out.constants.resize(out.frame_bytes - out.constants_offset);
  out.specials.push_back(slot);
  return specials_[key] = slot.offset;
}

uint32_t FunctionDecoder::special_register(const std::string& name, uint32_t bytes, uint32_t line, int* clock) {
  for (const SpecialName& special : kSpecialNames) {
    if (name != special.name) continue;
    if (bytes < 2) break;
    if (special.kind == SpecialKind::kClock) {
      *clock = static_cast<int>(special.payload);
      return 0;
    }
    return special_slot(special.kind, special.payload, bytes);
  }
  // Performance and environment registers have no defined value for a kernel; they read as zero.
  if (name.rfind("%pm", 0) == 0 || name.rfind("%envreg", 0) == 0) return constant_slot(0, 0, bytes);
  throw ProgramError(line, "unknown register " + name);
}

bool FunctionDecoder::is_defined(const std::string& name) const {
  auto found = program.function_index.find(name);
  return found != program.function_index.end() && program.functions[found->second].has_body;
}

const Symbol* FunctionDecoder::find_symbol(const std::string& name) const {
  auto own = own_symbols_.find(name);
  if (own != own_symbols_.end()) return &own->second;
  auto found = symbols_.find(name);
  return found == symbols_.end() ? nullptr : &found->second;
}

uint32_t FunctionDecoder::symbol_slot(const Symbol& symbol, int64_t offset, uint32_t bytes, uint32_t line) {
  if (bytes != 4 && bytes != 8) throw ProgramError(line, "an address needs a 32-bit or 64-bit register");
  uint32_t payload = static_cast<uint32_t>(symbol.address + static_cast<uint64_t>(offset));
  switch (symbol.kind) {
    case Symbol::Kind::kGlobal:
      return constant_slot(symbol.address + static_cast<uint64_t>(offset), 0, bytes);
    case Symbol::Kind::kShared:
      return special_slot(SpecialKind::kSharedAddress, payload, bytes);
    case Symbol::Kind::kDynamicShared:
      return special_slot(SpecialKind::kDynamicAddress, payload, bytes);
    case Symbol::Kind::kLocal:
      return special_slot(SpecialKind::kLocalAddress, payload, bytes);
    case Symbol::Kind::kParam:
      return special_slot(SpecialKind::kParamAddress, payload, bytes);
    case Symbol::Kind::kFunction:
      return constant_slot(kFunctionWindow | symbol.address, 0, bytes);
    case Symbol::Kind::kCallParam:
      break;
  }
  throw ProgramError(line, "the address of a call parameter cannot be taken");
}

uint32_t FunctionDecoder::label_target(const std::string& name, uint32_t line) const {
  auto found = function.labels.find(name);
  if (found == function.labels.end()) throw ProgramError(line, "unknown label " + name);
  return out.first + found->second;
}

const std::vector<std::string>& FunctionDecoder::label_list(const std::string& name, uint32_t line) const {
  auto found = function.branch_targets.find(name);
  if (found == function.branch_targets.end()) throw ProgramError(line, "unknown .branchtargets list " + name);
  return found->second;
}

void FunctionDecoder::decode_statement(const Statement& statement) {
  program.code.emplace_back();
  Instruction instruction;
  instruction.pc = static_cast<uint32_t>(program.code.size() - 1);
  instruction.line = statement.line;
  instruction.location = statement.location;
  instruction.guard =
      statement.guard < 0 ? true_slot() : register_slot(static_cast<uint32_t>(statement.guard), statement.line);
  instruction.guarded = statement.guard >= 0;
  instruction.guard_flip = statement.guard_negated ? kAllLanes : 0;
  auto row = opcode_table().find(statement.opcode);
  if (row == opcode_table().end()) throw ProgramError(statement.line, "unknown instruction " + full_text(statement));
  Decoder decoder(*this, statement, instruction);
  row->second.decode(decoder);
  if (!instruction.run) throw std::logic_error("no handler for " + full_text(statement));
  auto known = std::find(program.classes.begin(), program.classes.end(), row->second.counter_class);
  instruction.counter_class = static_cast<uint16_t>(known - program.classes.begin());
  if (known == program.classes.end()) program.classes.push_back(row->second.counter_class);
  program.code.back() = instruction;
  program.texts.push_back(full_text(statement));
  program.register_uses.push_back(register_use(statement, register_slots_));
}

void FunctionDecoder::append_end() {
  // Falling off the end is a return.
  Statement end;
  end.opcode = "ret";
  end.line = function.statements.empty() ? function.line : function.statements.back().line;
  decode_statement(end);
}

void FunctionDecoder::decode() {
  out.name = function.name;
  out.is_entry = function.is_entry;
  out.has_body = true;
  out.first = static_cast<uint32_t>(program.code.size());
  std::copy(function.required_threads, function.required_threads + 3, out.required_threads);
  std::copy(function.maximum_threads, function.maximum_threads + 3, out.maximum_threads);
  std::copy(function.cluster, function.cluster + 3, out.cluster);
  place_variables();
  place_registers();
  out.constants_offset = out.frame_bytes;
  true_slot();
  for (const Statement& statement : function.statements) decode_statement(statement);
  append_end();
  out.last = static_cast<uint32_t>(program.code.size());
  analyse_flow(program, out);
}

}  // namespace simulator
}  // namespace tilelang
