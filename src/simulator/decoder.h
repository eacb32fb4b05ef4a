// What an instruction family needs in order to be decoded: a table row per opcode and the operand resolver.
#ifndef TILELANG_SIMULATOR_DECODER_H_
#define TILELANG_SIMULATOR_DECODER_H_

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "program.h"
#include "ptx_ast.h"

namespace tilelang {
namespace simulator {

class Decoder;
class FunctionDecoder;

/// What the passes over registers may assume of an opcode. Each value includes those before it.
enum class Effect : uint8_t {
  kOther,     // nothing: correct for every opcode
  kDefines,   // it overwrites its first operand unread, so another register may lie there before (register_allocation.cc)
  kComputes,  // its result depends on its lane's operands alone, which may be undefined where it is (undefined.cc)
};

/// One row of the instruction table: the decode function validates the statement and fills Decoder::out,
/// `run` included. `counter_class` is the row of the counters table this opcode is summed under.
struct OpcodeRow {
  const char* opcode;
  void (*decode)(Decoder& decoder);
  const char* counter_class;
  Effect effect = Effect::kOther;
};

/// The effect in the opcode's row; kOther for an opcode without a row.
Effect effect_of(const std::string& opcode);

// The instruction families. Each returns its rows; duplicates are rejected when the table is built.
const std::vector<OpcodeRow>& integer_opcodes();
const std::vector<OpcodeRow>& extended_opcodes();
const std::vector<OpcodeRow>& logic_opcodes();
const std::vector<OpcodeRow>& compare_opcodes();
const std::vector<OpcodeRow>& float_opcodes();
const std::vector<OpcodeRow>& minmax_opcodes();
const std::vector<OpcodeRow>& convert_opcodes();
const std::vector<OpcodeRow>& move_opcodes();
const std::vector<OpcodeRow>& memory_opcodes();
const std::vector<OpcodeRow>& atomic_opcodes();
const std::vector<OpcodeRow>& warp_opcodes();
const std::vector<OpcodeRow>& control_opcodes();
const std::vector<OpcodeRow>& barrier_opcodes();
const std::vector<OpcodeRow>& system_opcodes();
const std::vector<OpcodeRow>& matrix_opcodes();  // exec_matrix.cc
const std::vector<OpcodeRow>& async_opcodes();   // exec_async.cc

/// A memory operand: the per-lane base register (if any) plus a constant.
struct Address {
  bool has_base = false;
  uint32_t base = 0;       // byte offset of the base register in the frame
  uint8_t base_bytes = 8;  // 4 or 8
  int64_t offset = 0;      // includes the address of a symbol
};

/// The statement's modifiers, consumed from left to right.
class Modifiers {
 public:
  explicit Modifiers(const std::vector<std::string>& items) : items_(items) {}
  bool done() const { return position_ >= items_.size(); }
  /// The next modifier, or "" at the end.
  const std::string& peek() const;
  std::string next();
  /// Consumes the next modifier when it is `text`.
  bool take(const char* text);
  /// Consumes and returns the next modifier if it is one of the listed ones, else "".
  std::string take_any(std::initializer_list<const char*> texts);
  size_t position() const { return position_; }

 private:
  const std::vector<std::string>& items_;
  size_t position_ = 0;
};

/// Resolves the operands of one statement. All methods throw ProgramError with the statement's line.
class Decoder {
 public:
  Decoder(FunctionDecoder& function, const Statement& statement, Instruction& out)
      : statement(statement), modifiers(statement.modifiers), out(out), function_(function) {}

  const Statement& statement;
  Modifiers modifiers;
  Instruction& out;

  [[noreturn]] void fail(const std::string& message) const;
  /// Fails unless every modifier has been consumed ("unknown modifier .foo").
  void expect_no_more_modifiers() const;
  /// Fails unless the number of operands is in [low, high].
  void expect_operands(size_t low, size_t high) const;
  size_t operand_count() const { return statement.operands.size(); }
  const Operand& operand(size_t index) const;
  /// Consumes the next modifier, which must be a type.
  const TypeInfo* take_type();

  /// Source: register, immediate (splat to 32 lanes), or symbol address. `bytes` is 1, 2, 4, 8 or 16; a register
  /// must have exactly that width. `type` decides how a literal is converted (an integer literal for a float
  /// type is an error; a float literal becomes f32 or f64).
  uint32_t source(size_t index, const TypeInfo* type);
  uint32_t source(const Operand& operand, const TypeInfo* type);
  /// Source of raw bits of that width.
  uint32_t source_bits(size_t index, uint32_t bytes);
  uint32_t source_bits(const Operand& operand, uint32_t bytes);
  /// Source whose register may be wider than `bytes`; `actual` receives the register's width.
  uint32_t source_wide(size_t index, const TypeInfo* type, uint32_t* actual);
  uint32_t source_wide(const Operand& operand, const TypeInfo* type, uint32_t* actual);
  /// Predicate source: the slot holds one 32-bit mask. `negated` (may be null: then negation is an error) receives !p.
  uint32_t predicate(size_t index, bool* negated = nullptr);
  uint32_t predicate(const Operand& operand, bool* negated = nullptr);
  /// Destination register of that width; `_` gives a scratch slot.
  uint32_t destination(size_t index, uint32_t bytes);
  uint32_t destination(const Operand& operand, uint32_t bytes);
  uint32_t destination_wide(size_t index, uint32_t bytes, uint32_t* actual);
  uint32_t destination_wide(const Operand& operand, uint32_t bytes, uint32_t* actual);
  uint32_t predicate_destination(size_t index);
  uint32_t predicate_destination(const Operand& operand);
  /// The elements of {a, b, c}, or the operand itself when it is no vector.
  std::vector<Operand> elements(size_t index) const;
  /// Slots of all elements of a vector operand, as sources or destinations of `bytes` each.
  std::vector<uint32_t> source_vector(size_t index, uint32_t bytes);
  std::vector<uint32_t> destination_vector(size_t index, uint32_t bytes);
  /// [base + offset] of operand `index`.
  Address address(size_t index);
  Address address(const Operand& operand);
  /// [base, {c0, c1, ...}, extra...]: base is address(index); the remaining children as they are.
  std::vector<Operand> address_children(size_t index) const;
  /// An operand that must be an integer literal.
  int64_t constant(size_t index) const;
  int64_t constant(const Operand& operand) const;
  bool is_constant(size_t index) const;
  /// Slot with this 32-bit (64-bit) value in all lanes.
  uint32_t splat32(uint32_t value);
  uint32_t splat64(uint64_t value);
  /// Slot of the always-true predicate.
  uint32_t true_predicate();

  /// Stores the slots in the program and points out.list at them.
  void set_list(const std::vector<uint32_t>& slots);
  /// Creates a T owned by the program and points out.extra at it.
  template <class T>
  T& attach() {
    auto item = std::make_shared<T>();
    T& result = *item;
    keep(item);
    out.extra = item.get();
    return result;
  }

  FunctionDecoder& function() { return function_; }

 private:
  void keep(std::shared_ptr<void> item);
  FunctionDecoder& function_;
};

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_DECODER_H_
