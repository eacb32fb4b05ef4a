// A parsed module to a program: module-level storage, shared-memory layout, then every function.
#include <algorithm>
#include <functional>
#include <set>

#include "function_decoder.h"

namespace tilelang {
namespace simulator {
namespace {

void collect_symbols(const Operand& operand, std::set<std::string>& names) {
  if (operand.kind == Operand::Kind::kSymbol) names.insert(operand.name);
  for (const Operand& child : operand.children) collect_symbols(child, names);
}

std::set<std::string> used_symbols(const Function& function) {
  std::set<std::string> names;
  for (const Statement& statement : function.statements) {
    for (const Operand& operand : statement.operands) collect_symbols(operand, names);
  }
  return names;
}

uint64_t align_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

class ModuleDecoder {
 public:
  explicit ModuleDecoder(const Module& module) : module_(module), program_(std::make_unique<Program>()) {}
  std::unique_ptr<Program> decode();

 private:
  void allocate_globals();
  void initialise_globals();
  void register_functions();
  void place_common_shared();
  /// Adds a shared variable to a layout that starts at `*end`.
  void place_shared(const Variable& variable, SymbolTable& symbols, uint64_t* end, uint32_t* dynamic_alignment);
  void decode_function(const Function& function);

  const Module& module_;
  std::unique_ptr<Program> program_;
  SymbolTable symbols_;
  uint64_t common_shared_ = kSharedBase;
  uint32_t dynamic_alignment_ = 16;
  std::set<std::string> common_names_;
};

void ModuleDecoder::allocate_globals() {
  for (const Variable& variable : module_.variables) {
    if (variable.space == Space::kShared) continue;
    if (variable.is_extern) continue;
    GlobalVariable global;
    global.name = variable.name;
    global.is_const = variable.space == Space::kConst;
    global.bytes = variable.bytes();
    uint64_t alignment = std::max<uint64_t>(variable.alignment, 16);
    global.storage = std::make_unique<uint8_t[]>(global.bytes + alignment);
    std::memset(global.storage.get(), 0, global.bytes + alignment);
    global.data = reinterpret_cast<uint8_t*>(align_up(reinterpret_cast<uint64_t>(global.storage.get()), alignment));
    Symbol symbol;
    symbol.address = reinterpret_cast<uint64_t>(global.data);
    symbol.bytes = static_cast<uint32_t>(global.bytes);
    if (!symbols_.emplace(variable.name, symbol).second)
      throw ProgramError(variable.line, variable.name + " is defined twice");
    program_->globals.push_back(std::move(global));
  }
}

void ModuleDecoder::initialise_globals() {
  for (const Variable& variable : module_.variables) {
    for (const Variable::Initializer& item : variable.initializers) {
      if (variable.space == Space::kShared) throw ProgramError(variable.line, "shared variables cannot be initialised");
      uint64_t bits = item.bits;
      if (!item.symbol.empty()) {
        auto symbol = symbols_.find(item.symbol);
        if (symbol == symbols_.end()) throw ProgramError(variable.line, "unknown symbol " + item.symbol);
        uint64_t base = symbol->second.address;
        if (symbol->second.kind == Symbol::Kind::kFunction) base |= kFunctionWindow;
        bits = (base + bits) >> item.shift;
      }
      auto* data = reinterpret_cast<uint8_t*>(symbols_.at(variable.name).address);
      std::memcpy(data + item.offset, &bits, std::min<uint32_t>(item.bytes, 8));
    }
  }
}

void ModuleDecoder::register_functions() {
  // A declaration and its definition share one index.
  for (const Function& function : module_.functions) {
    auto known = program_->function_index.find(function.name);
    if (known != program_->function_index.end()) {
      program_->functions[known->second].has_body |= function.has_body;
      continue;
    }
    Symbol symbol;
    symbol.kind = Symbol::Kind::kFunction;
    symbol.address = program_->functions.size();
    program_->function_index[function.name] = static_cast<uint32_t>(program_->functions.size());
    program_->functions.emplace_back();
    program_->functions.back().name = function.name;
    program_->functions.back().has_body = function.has_body;
    symbols_[function.name] = symbol;
  }
}

void ModuleDecoder::place_shared(const Variable& variable, SymbolTable& symbols, uint64_t* end,
                                 uint32_t* dynamic_alignment) {
  Symbol symbol;
  symbol.bytes = static_cast<uint32_t>(variable.bytes());
  if (variable.is_extern || variable.count == 0) {
    symbol.kind = Symbol::Kind::kDynamicShared;
    *dynamic_alignment = std::max(*dynamic_alignment, variable.alignment);
  } else {
    symbol.kind = Symbol::Kind::kShared;
    symbol.address = align_up(*end, variable.alignment);
    *end = symbol.address + variable.bytes();
    if (*end > (1u << 20)) throw ProgramError(variable.line, "shared variables exceed 1 MiB");
  }
  symbols[variable.name] = symbol;
}

void ModuleDecoder::place_common_shared() {
  // Variables that device functions use have one address for all kernels that may call them.
  std::set<std::string> used;
  for (const Function& function : module_.functions) {
    if (function.is_entry) continue;
    auto names = used_symbols(function);
    used.insert(names.begin(), names.end());
  }
  for (const Variable& variable : module_.variables) {
    if (variable.space != Space::kShared || !used.count(variable.name)) continue;
    place_shared(variable, symbols_, &common_shared_, &dynamic_alignment_);
    common_names_.insert(variable.name);
  }
}

void ModuleDecoder::decode_function(const Function& function) {
  DecodedFunction decoded;
  SymbolTable symbols = symbols_;
  uint64_t end = common_shared_;
  decoded.dynamic_shared_alignment = dynamic_alignment_;
  auto used = used_symbols(function);
  for (const Variable& variable : module_.variables) {
    if (variable.space != Space::kShared || common_names_.count(variable.name) || !used.count(variable.name)) continue;
    place_shared(variable, symbols, &end, &decoded.dynamic_shared_alignment);
  }
  decoded.static_shared_bytes = static_cast<uint32_t>(end - kSharedBase);
  FunctionDecoder(function, symbols, *program_, decoded).decode();
  DecodedFunction& place = program_->functions[program_->function_index.at(function.name)];
  if (place.last) throw ProgramError(function.line, "function " + function.name + " is defined twice");
  place = std::move(decoded);
}

std::unique_ptr<Program> ModuleDecoder::decode() {
  program_->files = module_.files;
  program_->target = module_.target;
  allocate_globals();
  register_functions();
  initialise_globals();
  place_common_shared();
  for (const Function& function : module_.functions) {
    if (function.has_body) decode_function(function);
  }
  return std::move(program_);
}

}  // namespace

std::unique_ptr<Program> decode_module(const Module& module) { return ModuleDecoder(module).decode(); }

}  // namespace simulator
}  // namespace tilelang
