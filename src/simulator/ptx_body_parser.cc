// Function bodies of PTX: scopes, declarations, statements, operands.
#include <cstdlib>

#include "ptx_parser.h"

namespace tilelang {
namespace simulator {
namespace {

constexpr int kMaximumNesting = 64;

}  // namespace

void Parser::parse_body(Function& function) {
  function_ = &function;
  scopes_.assign(1, Scope());
  statement_scopes_.clear();
  scope_ = 0;
  location_ = inner_ = SourceLocation();
  inlined_at_.clear();
  expect('{');
  int depth = 1;
  while (depth > 0) {
    if (token().kind == Token::Kind::kEnd) fail("missing '}' at the end of function " + function.name);
    if (take('{')) {
      if (++depth > kMaximumNesting) fail("blocks are nested too deeply");
      scopes_.push_back(Scope());
      scopes_.back().parent = scope_;
      scope_ = static_cast<int>(scopes_.size()) - 1;
    } else if (take('}')) {
      scope_ = scopes_[static_cast<size_t>(scope_)].parent;
      --depth;
    } else {
      parse_block_item();
    }
  }
  resolve_labels();
  function_ = nullptr;
}

void Parser::parse_block_item() {
  if (take(';')) return;
  if (token().kind == Token::Kind::kDirective) return parse_body_directive();
  parse_statement();
}

void Parser::parse_body_directive() {
  Token start = token();
  if (take_directive(".reg")) return parse_register_declaration();
  if (at_directive(".loc")) return parse_location();
  if (at_directive(".file")) return parse_file();
  if (take_directive(".pragma")) return parse_pragma();
  Space space;
  if (take_directive(".local"))
    space = Space::kLocal;
  else if (take_directive(".shared"))
    space = Space::kShared;
  else if (take_directive(".param"))
    space = Space::kParam;
  else if (take_directive(".global"))
    space = Space::kGlobal;
  else if (take_directive(".const"))
    space = Space::kConst;
  else
    fail("unknown directive " + describe());
  do {
    Variable variable = parse_variable(space, start);
    std::string name = variable.name;
    // The outermost block of a function has index 0; statics of different functions stay apart.
    variable.name = function_->name + "::" + name + (scope_ ? "#" + std::to_string(unique_++) : "");
    scopes_[static_cast<size_t>(scope_)].variables[name] = variable.name;
    if (space == Space::kGlobal || space == Space::kConst || space == Space::kShared)
      module_.variables.push_back(std::move(variable));
    else
      function_->variables.push_back(std::move(variable));
  } while (take(','));
  expect(';');
}

/// Hints have no effect, but "used_bytes_mask N" says which bytes of the next load are used.
void Parser::parse_pragma() {
  static const std::string kUsedBytes = "used_bytes_mask ";
  while (token().kind == Token::Kind::kString || token().is(',')) {
    const Token item = lexer_.next();
    if (item.text.compare(0, kUsedBytes.size(), kUsedBytes) == 0)
      used_bytes_ = static_cast<uint32_t>(std::strtoul(item.text.c_str() + kUsedBytes.size(), nullptr, 0));
  }
  expect(';');
}

void Parser::parse_register_declaration() {
  if (token().kind != Token::Kind::kDirective) fail("expected a register type, found " + describe());
  if (at_directive(".v2") || at_directive(".v4")) fail("vector registers are not supported");
  const TypeInfo* type = find_type(token().text.substr(1));
  if (!type) fail("unknown register type " + describe());
  lexer_.next();
  Scope& scope = scopes_[static_cast<size_t>(scope_)];
  do {
    std::string name = expect_word("a register name");
    if (take('<')) {
      int64_t count = parse_integer();
      if (count < 0 || count > 0x7fffffff) fail("bad register count");
      expect('>');
      scope.families[name] = {type, static_cast<uint32_t>(count)};
    } else {
      scope.registers[name] = static_cast<uint32_t>(function_->registers.size());
      function_->registers.push_back({name, type});
    }
  } while (take(','));
  expect(';');
}

void Parser::parse_location() {
  lexer_.next();
  SourceLocation here;
  here.file = static_cast<uint32_t>(parse_integer());
  here.line = static_cast<uint32_t>(parse_integer());
  here.column = static_cast<uint32_t>(parse_integer());
  inner_ = here;
  SourceLocation outer = here;
  if (take(',')) {
    // .loc f l c, function_name label, inlined_at f l c
    if (expect_word("function_name") != "function_name") fail("malformed .loc");
    expect_word("a label");
    if (take('+')) parse_integer();
    expect(',');
    if (expect_word("inlined_at") != "inlined_at") fail("malformed .loc");
    SourceLocation call;
    call.file = static_cast<uint32_t>(parse_integer());
    call.line = static_cast<uint32_t>(parse_integer());
    call.column = static_cast<uint32_t>(parse_integer());
    auto parent = inlined_at_.find(LocationKey(call.file, call.line, call.column));
    outer = parent == inlined_at_.end() ? call : parent->second;
    inlined_at_[LocationKey(here.file, here.line, here.column)] = outer;
  }
  location_ = outer;
}

void Parser::parse_label_list(const std::string& label) {
  std::vector<std::string>& targets = function_->branch_targets[label];
  do {
    targets.push_back(expect_word("a label"));
  } while (take(','));
  expect(';');
}

void Parser::parse_statement() {
  Statement statement;
  statement.line = token().line;
  if (take('@')) {
    statement.guard_negated = take('!');
    std::string name = expect_word("a predicate register");
    uint32_t index;
    if (!find_register(name, &index)) fail("unknown register " + name);
    if (function_->registers[index].type->kind != 'p') fail(name + " is not a predicate register");
    statement.guard = static_cast<int32_t>(index);
  }
  Token word = token();
  std::string text = expect_word("an instruction");
  if (statement.guard < 0 && take(':')) {  // label
    Scope& scope = scopes_[static_cast<size_t>(scope_)];
    if (scope.labels.count(text)) throw ProgramError(word.line, "label " + text + " is defined twice");
    std::string unique = scope_ ? text + "#" + std::to_string(unique_++) : text;
    scope.labels[text] = unique;
    if (take_directive(".branchtargets") || take_directive(".calltargets")) {
      parse_label_list(unique);
    } else if (take_directive(".callprototype")) {
      while (!take(';')) {
        if (token().kind == Token::Kind::kEnd) fail("missing ';'");
        lexer_.next();
      }
    } else {
      function_->labels[unique] = static_cast<uint32_t>(function_->statements.size());
    }
    return;
  }
  size_t start = 0;
  while (start <= text.size()) {
    size_t dot = text.find('.', start);
    std::string part = text.substr(start, dot == std::string::npos ? std::string::npos : dot - start);
    if (start == 0)
      statement.opcode = part;
    else
      statement.modifiers.push_back(part);
    if (dot == std::string::npos) break;
    start = dot + 1;
  }
  statement.location = location_;
  statement.inner = inner_;
  statement.used_bytes = used_bytes_;
  used_bytes_ = ~0u;
  if (!token().is(';')) {
    do {
      statement.operands.push_back(parse_operand());
    } while (take(','));
  }
  expect(';');
  function_->statements.push_back(std::move(statement));
  statement_scopes_.push_back(scope_);
}

void Parser::resolve_labels() {
  auto resolve = [&](std::string& name, int scope) {
    for (; scope >= 0; scope = scopes_[static_cast<size_t>(scope)].parent) {
      const auto& labels = scopes_[static_cast<size_t>(scope)].labels;
      auto found = labels.find(name);
      if (found != labels.end()) {
        name = found->second;
        return;
      }
    }
  };
  for (size_t i = 0; i < function_->statements.size(); ++i) {
    for (Operand& operand : function_->statements[i].operands) {
      if (operand.kind == Operand::Kind::kSymbol) resolve(operand.name, statement_scopes_[i]);
    }
  }
}

Operand Parser::parse_operand(int depth) {
  Operand first = parse_primary(depth);
  if (!take('|')) return first;
  Operand pair;
  pair.kind = Operand::Kind::kPair;
  pair.children.push_back(std::move(first));
  pair.children.push_back(parse_primary(depth));
  return pair;
}

Operand Parser::parse_primary(int depth) {
  if (depth > kMaximumNesting) fail("operands are nested too deeply");
  if (take('{')) return parse_list('}', Operand::Kind::kVector, depth);
  if (take('(')) return parse_list(')', Operand::Kind::kList, depth);
  if (take('[')) return parse_address(depth);
  if (take('!')) {
    Operand operand = parse_primary(depth + 1);
    if (operand.kind != Operand::Kind::kRegister) fail("'!' needs a predicate register");
    operand.negated = !operand.negated;
    return operand;
  }
  if (token().kind == Token::Kind::kWord) return parse_word_operand();
  Operand operand;
  bool negative = take('-');
  Token value = token();
  if (value.kind == Token::Kind::kInteger) {
    operand.kind = Operand::Kind::kInteger;
    operand.integer = negative ? static_cast<int64_t>(0 - static_cast<uint64_t>(value.integer)) : value.integer;
  } else if (value.kind == Token::Kind::kFloat) {
    operand.kind = Operand::Kind::kFloat;
    operand.real = negative ? -value.real : value.real;
    operand.integer = negative ? 0 : value.integer;
    operand.bytes = negative ? 0 : value.bytes;
  } else {
    fail("expected an operand, found " + describe());
  }
  lexer_.next();
  return operand;
}

Operand Parser::parse_list(char close, Operand::Kind kind, int depth) {
  Operand list;
  list.kind = kind;
  if (take(close)) return list;
  do {
    list.children.push_back(parse_operand(depth + 1));
  } while (take(','));
  expect(close);
  return list;
}

int64_t Parser::parse_offset() {
  int64_t offset = 0;
  while (token().is('+') || token().is('-')) {
    bool negative = lexer_.next().text[0] == '-';
    uint64_t value = static_cast<uint64_t>(parse_integer());
    offset =
        static_cast<int64_t>(negative ? static_cast<uint64_t>(offset) - value : static_cast<uint64_t>(offset) + value);
  }
  return offset;
}

Operand Parser::parse_address(int depth) {
  Operand address;
  address.kind = Operand::Kind::kAddress;
  Operand base = parse_operand(depth + 1);
  int64_t offset = parse_offset();
  base.integer = static_cast<int64_t>(static_cast<uint64_t>(base.integer) + static_cast<uint64_t>(offset));
  address.children.push_back(std::move(base));
  while (take(',')) address.children.push_back(parse_operand(depth + 1));
  expect(']');
  return address;
}

bool Parser::find_register(const std::string& name, uint32_t* index) {
  size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  for (int at = scope_; at >= 0; at = scopes_[static_cast<size_t>(at)].parent) {
    Scope& scope = scopes_[static_cast<size_t>(at)];
    auto found = scope.registers.find(name);
    if (found != scope.registers.end()) {
      *index = found->second;
      return true;
    }
    // %r12 may belong to family %r<20> (or %r1<5>): try every split between prefix and number.
    for (size_t split = digits; split < name.size(); ++split) {
      auto family = scope.families.find(name.substr(0, split));
      if (family == scope.families.end() || name.size() - split > 9) continue;
      if (std::stoul(name.substr(split)) >= family->second.second) continue;
      *index = static_cast<uint32_t>(function_->registers.size());
      function_->registers.push_back({name, family->second.first});
      scope.registers[name] = *index;
      return true;
    }
  }
  return false;
}

const std::string* Parser::find_variable(const std::string& name) const {
  for (int at = scope_; at >= 0; at = scopes_[static_cast<size_t>(at)].parent) {
    const auto& variables = scopes_[static_cast<size_t>(at)].variables;
    auto found = variables.find(name);
    if (found != variables.end()) return &found->second;
  }
  return nullptr;
}

Operand Parser::parse_word_operand() {
  Token word = lexer_.next();
  Operand operand;
  if (word.text == "_") return operand;
  if (word.text == "WARP_SZ") {
    operand.kind = Operand::Kind::kInteger;
    operand.integer = kLanes;
    return operand;
  }
  uint32_t index;
  if (find_register(word.text, &index)) {
    operand.kind = Operand::Kind::kRegister;
    operand.name = word.text;
    operand.index = index;
    return operand;
  }
  if (word.text[0] == '%') {
    operand.kind = Operand::Kind::kSpecial;
    operand.name = word.text;
    return operand;
  }
  operand.kind = Operand::Kind::kSymbol;
  const std::string* variable = find_variable(word.text);
  operand.name = variable ? *variable : word.text;
  operand.integer = parse_offset();
  return operand;
}

}  // namespace simulator
}  // namespace tilelang
