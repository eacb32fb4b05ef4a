// Operands of one statement to slots of the register frame, and the table of instruction families.
#include "decoder.h"

#include <algorithm>

#include "function_decoder.h"

namespace tilelang {
namespace simulator {

const std::string& Modifiers::peek() const {
  static const std::string none;
  return done() ? none : items_[position_];
}

std::string Modifiers::next() { return done() ? std::string() : items_[position_++]; }

bool Modifiers::take(const char* text) {
  if (done() || items_[position_] != text) return false;
  ++position_;
  return true;
}

std::string Modifiers::take_any(std::initializer_list<const char*> texts) {
  for (const char* text : texts) {
    if (take(text)) return text;
  }
  return std::string();
}

void Decoder::fail(const std::string& message) const {
  std::string text = statement.opcode;
  for (const std::string& modifier : statement.modifiers) text += "." + modifier;
  throw ProgramError(statement.line, text + ": " + message);
}

void Decoder::expect_no_more_modifiers() const {
  if (!modifiers.done()) fail("unknown modifier ." + modifiers.peek());
}

void Decoder::expect_operands(size_t low, size_t high) const {
  if (operand_count() < low || operand_count() > high) {
    fail("expected " + std::to_string(low) + (high > low ? " to " + std::to_string(high) : "") + " operands, found " +
         std::to_string(operand_count()));
  }
}

const Operand& Decoder::operand(size_t index) const {
  if (index >= operand_count()) fail("operand " + std::to_string(index + 1) + " is missing");
  return statement.operands[index];
}

const TypeInfo* Decoder::take_type() {
  const TypeInfo* type = find_type(modifiers.peek());
  if (!type) fail(modifiers.done() ? "a type is missing" : "unknown type or modifier ." + modifiers.peek());
  modifiers.next();
  return type;
}

namespace {

/// Raw bits of a literal for an operand of that type.
uint64_t literal_bits(const Decoder& decoder, const Operand& operand, const TypeInfo* type) {
  if (operand.kind == Operand::Kind::kInteger) {
    if (type->kind == 'f' && type->bytes >= 4) decoder.fail("an integer literal where a float is expected");
    return static_cast<uint64_t>(operand.integer);
  }
  if (operand.bytes == type->bytes) return static_cast<uint64_t>(operand.integer);
  if (type->bytes == 8) return bit_cast<uint64_t>(operand.real);
  if (type->bytes == 4) return bit_cast<uint32_t>(static_cast<float>(operand.real));
  decoder.fail("a float literal where a " + std::string(type->name) + " is expected");
}

const TypeInfo* bits_type(const Decoder& decoder, uint32_t bytes) {
  switch (bytes) {
    case 1:
      return find_type("b8");
    case 2:
      return find_type("b16");
    case 4:
      return find_type("b32");
    case 8:
      return find_type("b64");
    case 16:
      return find_type("b128");
    default:
      decoder.fail("bad operand width");
  }
}

}  // namespace

uint32_t Decoder::source_wide(const Operand& operand, const TypeInfo* type, uint32_t* actual) {
  *actual = type->bytes;
  switch (operand.kind) {
    case Operand::Kind::kRegister: {
      const TypeInfo* declared = function_.register_type(operand.index);
      if (declared->kind == 'p') fail(operand.name + " is a predicate register");
      if (operand.negated) fail("'!' needs a predicate register");
      if (declared->bytes < type->bytes) {
        fail(operand.name + " has " + std::to_string(declared->bytes * 8) + " bits, ." + type->name + " needs " +
             std::to_string(type->bytes * 8));
      }
      *actual = declared->bytes;
      return function_.register_slot(operand.index, statement.line);
    }
    case Operand::Kind::kInteger:
    case Operand::Kind::kFloat:
      return function_.constant_slot(literal_bits(*this, operand, type),
                                     operand.integer < 0 && type->bytes == 16 ? ~0ull : 0, type->bytes);
    case Operand::Kind::kSpecial: {
      int clock = -1;
      uint32_t slot = function_.special_register(operand.name, type->bytes, statement.line, &clock);
      if (clock >= 0) fail(operand.name + " can only be read by mov");
      return slot;
    }
    case Operand::Kind::kSymbol: {
      const Symbol* symbol = function_.find_symbol(operand.name);
      if (!symbol) fail("unknown symbol " + operand.name);
      return function_.symbol_slot(*symbol, operand.integer, type->bytes, statement.line);
    }
    default:
      fail("expected a register or a literal");
  }
}

uint32_t Decoder::source_wide(size_t index, const TypeInfo* type, uint32_t* actual) {
  return source_wide(operand(index), type, actual);
}

uint32_t Decoder::source(const Operand& operand, const TypeInfo* type) {
  uint32_t actual;
  uint32_t slot = source_wide(operand, type, &actual);
  if (actual != type->bytes) {
    fail(operand.name + " has " + std::to_string(actual * 8) + " bits, ." + type->name + " needs " +
         std::to_string(type->bytes * 8));
  }
  return slot;
}

uint32_t Decoder::source(size_t index, const TypeInfo* type) { return source(operand(index), type); }
uint32_t Decoder::source_bits(const Operand& operand, uint32_t bytes) {
  return source(operand, bits_type(*this, bytes));
}
uint32_t Decoder::source_bits(size_t index, uint32_t bytes) { return source_bits(operand(index), bytes); }

uint32_t Decoder::predicate(const Operand& operand, bool* negated) {
  if (operand.kind == Operand::Kind::kInteger) {
    if (negated) *negated = false;
    // A literal predicate: all lanes or none.
    return operand.integer ? function_.true_slot() : function_.constant_slot(0, 0, 4);
  }
  if (operand.kind != Operand::Kind::kRegister || function_.register_type(operand.index)->kind != 'p') {
    fail("expected a predicate register");
  }
  if (operand.negated && !negated) fail("a negated predicate is not allowed here");
  if (negated) *negated = operand.negated;
  return function_.register_slot(operand.index, statement.line);
}

uint32_t Decoder::predicate(size_t index, bool* negated) { return predicate(operand(index), negated); }

uint32_t Decoder::destination_wide(const Operand& operand, uint32_t bytes, uint32_t* actual) {
  *actual = bytes;
  if (operand.kind == Operand::Kind::kSink) return function_.scratch_slot(bytes);
  if (operand.kind != Operand::Kind::kRegister || operand.negated) fail("the destination must be a register");
  const TypeInfo* declared = function_.register_type(operand.index);
  if (declared->kind == 'p') fail(operand.name + " is a predicate register");
  if (declared->bytes < bytes) {
    fail(operand.name + " has " + std::to_string(declared->bytes * 8) + " bits, the result has " +
         std::to_string(bytes * 8));
  }
  *actual = declared->bytes;
  return function_.register_slot(operand.index, statement.line);
}

uint32_t Decoder::destination_wide(size_t index, uint32_t bytes, uint32_t* actual) {
  return destination_wide(operand(index), bytes, actual);
}

uint32_t Decoder::destination(const Operand& operand, uint32_t bytes) {
  uint32_t actual;
  uint32_t slot = destination_wide(operand, bytes, &actual);
  if (actual != bytes) {
    fail(operand.name + " has " + std::to_string(actual * 8) + " bits, the result has " + std::to_string(bytes * 8));
  }
  return slot;
}

uint32_t Decoder::destination(size_t index, uint32_t bytes) { return destination(operand(index), bytes); }

uint32_t Decoder::predicate_destination(const Operand& operand) {
  if (operand.kind == Operand::Kind::kSink) return function_.scratch_slot(4);
  if (operand.kind != Operand::Kind::kRegister || operand.negated ||
      function_.register_type(operand.index)->kind != 'p') {
    fail("the destination must be a predicate register");
  }
  return function_.register_slot(operand.index, statement.line);
}

uint32_t Decoder::predicate_destination(size_t index) { return predicate_destination(operand(index)); }

std::vector<Operand> Decoder::elements(size_t index) const {
  const Operand& item = operand(index);
  if (item.kind == Operand::Kind::kVector) return item.children;
  return {item};
}

std::vector<uint32_t> Decoder::source_vector(size_t index, uint32_t bytes) {
  std::vector<uint32_t> slots;
  for (const Operand& item : elements(index)) slots.push_back(source_bits(item, bytes));
  return slots;
}

std::vector<uint32_t> Decoder::destination_vector(size_t index, uint32_t bytes) {
  std::vector<uint32_t> slots;
  for (const Operand& item : elements(index)) slots.push_back(destination(item, bytes));
  return slots;
}

Address Decoder::address(size_t index) { return address(operand(index)); }

Address Decoder::address(const Operand& operand) {
  if (operand.kind != Operand::Kind::kAddress || operand.children.empty()) fail("expected an address in brackets");
  const Operand& base = operand.children[0];
  Address result;
  result.offset = base.integer;
  switch (base.kind) {
    case Operand::Kind::kInteger:
      return result;
    case Operand::Kind::kRegister: {
      const TypeInfo* type = function_.register_type(base.index);
      if (type->bytes != 4 && type->bytes != 8) fail("an address needs a 32-bit or 64-bit register");
      result.has_base = true;
      result.base = function_.register_slot(base.index, statement.line);
      result.base_bytes = type->bytes;
      return result;
    }
    case Operand::Kind::kSymbol: {
      const Symbol* symbol = function_.find_symbol(base.name);
      if (!symbol) fail("unknown symbol " + base.name);
      if (symbol->kind == Symbol::Kind::kGlobal) {
        result.offset = static_cast<int64_t>(symbol->address + static_cast<uint64_t>(base.integer));
        return result;
      }
      result.has_base = true;
      result.base_bytes = 8;
      result.base = function_.symbol_slot(*symbol, 0, 8, statement.line);
      return result;
    }
    default:
      fail("unsupported address");
  }
}

std::vector<Operand> Decoder::address_children(size_t index) const {
  const Operand& item = operand(index);
  if (item.kind != Operand::Kind::kAddress) fail("expected an address in brackets");
  return std::vector<Operand>(item.children.begin() + 1, item.children.end());
}

int64_t Decoder::constant(const Operand& operand) const {
  if (operand.kind != Operand::Kind::kInteger) fail("expected an integer literal");
  return operand.integer;
}

int64_t Decoder::constant(size_t index) const { return constant(operand(index)); }
bool Decoder::is_constant(size_t index) const { return operand(index).kind == Operand::Kind::kInteger; }
uint32_t Decoder::splat32(uint32_t value) { return function_.constant_slot(value, 0, 4); }
uint32_t Decoder::splat64(uint64_t value) { return function_.constant_slot(value, 0, 8); }
uint32_t Decoder::true_predicate() { return function_.true_slot(); }

void Decoder::set_list(const std::vector<uint32_t>& slots) {
  auto list = std::make_unique<uint32_t[]>(std::max<size_t>(slots.size(), 1));
  std::copy(slots.begin(), slots.end(), list.get());
  out.list = list.get();
  out.list_size = static_cast<uint32_t>(slots.size());
  function_.program.lists.push_back(std::move(list));
}

void Decoder::keep(std::shared_ptr<void> item) { function_.program.attachments.push_back(std::move(item)); }

}  // namespace simulator
}  // namespace tilelang
