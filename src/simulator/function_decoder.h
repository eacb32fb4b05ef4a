// Decoding state of one function: where its registers, constants and parameters lie in the register frame.
#ifndef TILELANG_SIMULATOR_FUNCTION_DECODER_H_
#define TILELANG_SIMULATOR_FUNCTION_DECODER_H_

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "program.h"
#include "ptx_ast.h"

namespace tilelang {
namespace simulator {

/// A name a kernel can refer to.
struct Symbol {
  enum class Kind : uint8_t { kGlobal, kShared, kDynamicShared, kLocal, kParam, kCallParam, kFunction };
  Kind kind = Kind::kGlobal;
  uint64_t address = 0;  // host address, shared or local offset, parameter offset, function index
  uint32_t bytes = 0;
  uint32_t area = 0;  // kCallParam: byte offset of the per-lane area in the frame
};

using SymbolTable = std::unordered_map<std::string, Symbol>;

/// Generic address of function `index`: a tagged number, only good for calls.
constexpr uint64_t kFunctionWindow = 0x0400000000000000ull;

class FunctionDecoder {
 public:
  FunctionDecoder(const Function& function, const SymbolTable& symbols, Program& program, DecodedFunction& out);
  void decode();

  // Used by Decoder.
  uint32_t register_slot(uint32_t index, uint32_t line);
  const TypeInfo* register_type(uint32_t index) const { return function.registers[index].type; }
  /// Whether a register is named once only: what its one instruction writes to it is never read.
  bool is_named_once(uint32_t index) const { return mentions_[index] == 1; }
  uint32_t constant_slot(uint64_t low, uint64_t high, uint32_t bytes);
  uint32_t special_slot(SpecialKind kind, uint32_t payload, uint32_t bytes);
  /// Slot of a special register by name; `clock` receives which counter it is (-1: none).
  uint32_t special_register(const std::string& name, uint32_t bytes, uint32_t line, int* clock);
  uint32_t scratch_slot(uint32_t bytes);
  uint32_t true_slot();
  /// True when the module has a body for that function.
  bool is_defined(const std::string& name) const;
  const Symbol* find_symbol(const std::string& name) const;
  uint32_t symbol_slot(const Symbol& symbol, int64_t offset, uint32_t bytes, uint32_t line);
  uint32_t label_target(const std::string& name, uint32_t line) const;
  const std::vector<std::string>& label_list(const std::string& name, uint32_t line) const;

  const Function& function;
  Program& program;
  DecodedFunction& out;

 private:
  uint32_t allocate(uint32_t bytes);
  void place_variables();
  void place_registers();
  void decode_statement(const Statement& statement);
  void append_end();

  const SymbolTable& symbols_;
  SymbolTable own_symbols_;
  std::vector<uint32_t> register_slots_;
  std::vector<uint32_t> mentions_;  // of each register in the function
  std::map<std::tuple<uint64_t, uint64_t, uint32_t>, uint32_t> constants_;
  std::map<std::tuple<int, uint32_t, uint32_t>, uint32_t> specials_;
  std::map<uint32_t, uint32_t> scratch_;
};

/// Chooses frame slots for the registers of a function; registers whose live ranges cannot overlap share one.
/// Returns the byte offset of each register and the bytes used.
std::vector<uint32_t> allocate_registers(const Function& function, uint32_t first_offset, uint32_t* end_offset);

/// Finds basic blocks and gives each its position in the reconvergence order (see flow.cc).
void analyse_flow(Program& program, const DecodedFunction& function);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_FUNCTION_DECODER_H_
