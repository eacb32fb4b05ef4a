// Recursive descent over the PTX grammar (PTX ISA, "Syntax" and "Directives").
#include <algorithm>
#include <memory>
#include <tuple>
#include <unordered_map>

#include "ptx_ast.h"
#include "ptx_lexer.h"

namespace tilelang {
namespace simulator {
namespace {

const TypeInfo kTypes[] = {
    {"pred", 0, 'p'},    {"b8", 1, 'b'},     {"b16", 2, 'b'},    {"b32", 4, 'b'},    {"b64", 8, 'b'},
    {"b128", 16, 'b'},   {"u8", 1, 'u'},     {"u16", 2, 'u'},    {"u32", 4, 'u'},    {"u64", 8, 'u'},
    {"s8", 1, 's'},      {"s16", 2, 's'},    {"s32", 4, 's'},    {"s64", 8, 's'},    {"f16", 2, 'f'},
    {"f32", 4, 'f'},     {"f64", 8, 'f'},    {"bf16", 2, 'h'},   {"f16x2", 4, 'x'},  {"bf16x2", 4, 'x'},
    {"tf32", 4, 'x'},    {"e4m3", 1, 'x'},   {"e5m2", 1, 'x'},   {"e4m3x2", 2, 'x'}, {"e5m2x2", 2, 'x'},
    {"u16x2", 4, 'x'},   {"s16x2", 4, 'x'},  {"u4", 1, 'x'},     {"s4", 1, 'x'},     {"b1", 1, 'x'},
    {"ue8m0x2", 2, 'x'}, {"e2m1x2", 1, 'x'}, {"e2m3x2", 2, 'x'}, {"e3m2x2", 2, 'x'}, {"f32x2", 8, 'x'},
};

constexpr uint64_t kMaximumVariableBytes = 1ull << 30;
constexpr int kMaximumNesting = 64;

/// Names visible in one { } block of a function body.
struct Scope {
  int parent = -1;
  std::unordered_map<std::string, uint32_t> registers;                             // name -> index
  std::unordered_map<std::string, std::pair<const TypeInfo*, uint32_t>> families;  // prefix -> type, count
  std::unordered_map<std::string, std::string> variables;                          // name -> unique name
  std::unordered_map<std::string, std::string> labels;
};

using LocationKey = std::tuple<uint32_t, uint32_t, uint32_t>;

class Parser {
 public:
  explicit Parser(const std::string& text) : lexer_(text) {}
  Module parse();

 private:
  // Module level.
  void parse_module_directive();
  void parse_file();
  void parse_module_variable();
  void parse_function(bool is_entry);
  std::vector<Variable> parse_parameter_list();
  void parse_performance_directives(Function& function);
  // Declarations.
  Variable parse_variable(Space space, const Token& start);
  void parse_initializer(Variable& variable);
  void parse_initializer_value(Variable& variable, uint64_t& index);
  // Function bodies.
  void parse_body(Function& function);
  void parse_block_item();
  void parse_body_directive();
  void parse_register_declaration();
  void parse_location();
  void parse_label_list(const std::string& label);
  void parse_statement();
  void resolve_labels();
  // Operands.
  Operand parse_operand(int depth = 0);
  Operand parse_primary(int depth);
  Operand parse_address(int depth);
  Operand parse_list(char close, Operand::Kind kind, int depth);
  Operand parse_word_operand();
  bool find_register(const std::string& name, uint32_t* index);
  const std::string* find_variable(const std::string& name) const;
  int64_t parse_offset();
  int64_t parse_integer();
  // Tokens.
  const Token& token() const { return lexer_.current(); }
  [[noreturn]] void fail(const std::string& message) const { throw ProgramError(token().line, message); }
  void expect(char c);
  bool take(char c);
  std::string expect_word(const char* what);
  bool at_directive(const char* name) const { return token().is_directive(name); }
  bool take_directive(const char* name);
  std::string describe() const;

  Lexer lexer_;
  Module module_;
  Function* function_ = nullptr;
  std::vector<Scope> scopes_;
  std::vector<int> statement_scopes_;
  int scope_ = -1;
  uint32_t unique_ = 0;
  SourceLocation location_, inner_;
  std::map<LocationKey, SourceLocation> inlined_at_;
};

std::string Parser::describe() const {
  const Token& t = token();
  if (t.kind == Token::Kind::kEnd) return "the end of the text";
  if (t.kind == Token::Kind::kInteger) return std::to_string(t.integer);
  if (t.kind == Token::Kind::kFloat) return "a float literal";
  return "'" + t.text + "'";
}

void Parser::expect(char c) {
  if (!take(c)) fail(std::string("expected '") + c + "', found " + describe());
}

bool Parser::take(char c) {
  if (!token().is(c)) return false;
  lexer_.next();
  return true;
}

std::string Parser::expect_word(const char* what) {
  if (token().kind != Token::Kind::kWord) fail(std::string("expected ") + what + ", found " + describe());
  return lexer_.next().text;
}

bool Parser::take_directive(const char* name) {
  if (!at_directive(name)) return false;
  lexer_.next();
  return true;
}

int64_t Parser::parse_integer() {
  bool negative = take('-');
  if (token().kind != Token::Kind::kInteger) fail("expected an integer, found " + describe());
  int64_t value = lexer_.next().integer;
  return negative ? static_cast<int64_t>(0 - static_cast<uint64_t>(value)) : value;
}

Module Parser::parse() {
  if (!at_directive(".version")) fail("a PTX module starts with .version, found " + describe());
  while (token().kind != Token::Kind::kEnd) parse_module_directive();
  return std::move(module_);
}

void Parser::parse_module_directive() {
  Token start = token();
  if (take(';')) return;
  if (start.kind != Token::Kind::kDirective) fail("expected a directive, found " + describe());
  if (take_directive(".version")) {
    // Major.minor lexes as a float.
    Token version = lexer_.next();
    if (version.kind != Token::Kind::kFloat && version.kind != Token::Kind::kInteger) fail("malformed .version");
    module_.version =
        std::to_string(version.kind == Token::Kind::kFloat ? version.real : static_cast<double>(version.integer));
  } else if (take_directive(".target")) {
    module_.target = expect_word("a target");
    while (take(',')) expect_word("a target option");
  } else if (take_directive(".address_size")) {
    module_.address_bits = static_cast<uint32_t>(parse_integer());
    if (module_.address_bits != 64) fail("only .address_size 64 is supported");
  } else if (at_directive(".file")) {
    parse_file();
  } else if (take_directive(".section")) {
    if (token().kind != Token::Kind::kDirective && token().kind != Token::Kind::kWord) fail("malformed .section");
    lexer_.next();
    if (!token().is('{')) fail("expected '{' after .section, found " + describe());
    lexer_.skip_braces();
  } else if (take_directive(".pragma")) {
    while (token().kind == Token::Kind::kString || token().is(',')) lexer_.next();
    expect(';');
  } else if (take_directive(".alias")) {
    fail(".alias is not supported");
  } else {
    parse_module_variable();
  }
}

void Parser::parse_file() {
  lexer_.next();
  uint32_t index = static_cast<uint32_t>(parse_integer());
  if (token().kind != Token::Kind::kString) fail("expected a file name, found " + describe());
  module_.files[index] = lexer_.next().text;
  while (take(',')) parse_integer();  // time stamp, size
}

void Parser::parse_module_variable() {
  Token start = token();
  bool is_extern = false;
  while (true) {
    if (take_directive(".extern")) {
      is_extern = true;
    } else if (!take_directive(".visible") && !take_directive(".weak") && !take_directive(".common")) {
      break;
    }
  }
  if (take_directive(".entry")) return parse_function(true);
  if (take_directive(".func")) return parse_function(false);
  Space space;
  if (take_directive(".global")) {
    space = Space::kGlobal;
  } else if (take_directive(".const")) {
    space = Space::kConst;
  } else if (take_directive(".shared")) {
    space = Space::kShared;
  } else {
    fail("unknown directive " + describe());
  }
  do {
    Variable variable = parse_variable(space, start);
    variable.is_extern = is_extern;
    module_.variables.push_back(std::move(variable));
  } while (take(','));
  expect(';');
}

Variable Parser::parse_variable(Space space, const Token& start) {
  Variable variable;
  variable.space = space;
  variable.line = start.line;
  uint64_t vector = 1;
  uint64_t alignment = 0;
  while (token().kind == Token::Kind::kDirective) {
    Token directive = lexer_.next();
    const std::string name = directive.text.substr(1);
    if (name == "align") {
      alignment = static_cast<uint64_t>(parse_integer());
      if (alignment == 0 || (alignment & (alignment - 1)) || alignment > (1u << 20)) fail("bad alignment");
    } else if (name == "v2" || name == "v4") {
      vector = name == "v2" ? 2 : 4;
    } else if (name == "ptr" || name == "global" || name == "shared" || name == "const" || name == "local") {
      continue;  // attributes of a pointer parameter
    } else if (name == "attribute") {
      expect('(');
      while (!take(')')) {
        if (token().kind == Token::Kind::kEnd) fail("missing ')'");
        lexer_.next();
      }
    } else if (const TypeInfo* type = find_type(name)) {
      variable.type = type;
    } else {
      throw ProgramError(directive.line, "unexpected '" + directive.text + "' in a declaration");
    }
  }
  if (!variable.type || variable.type->bytes == 0) fail("a variable needs a type, found " + describe());
  variable.name = expect_word("a variable name");
  variable.count = vector;
  while (take('[')) {
    uint64_t extent = token().is(']') ? 0 : static_cast<uint64_t>(parse_integer());
    if (extent > kMaximumVariableBytes || variable.count * extent > kMaximumVariableBytes) fail("array is too large");
    variable.count *= extent;
    expect(']');
  }
  variable.alignment = static_cast<uint32_t>(std::max<uint64_t>(alignment, variable.type->bytes * vector));
  if (take('=')) parse_initializer(variable);
  return variable;
}

void Parser::parse_initializer(Variable& variable) {
  uint64_t index = 0;
  parse_initializer_value(variable, index);
  if (variable.count == 0) variable.count = index;
  if (index > variable.count) fail("too many initialisers for " + variable.name);
}

void Parser::parse_initializer_value(Variable& variable, uint64_t& index) {
  if (take('{')) {
    if (take('}')) return;
    do {
      parse_initializer_value(variable, index);
    } while (take(','));
    expect('}');
    return;
  }
  Variable::Initializer item;
  item.offset = index * variable.type->bytes;
  item.bytes = variable.type->bytes;
  bool negative = take('-');
  Token value = lexer_.next();
  if (value.kind == Token::Kind::kFloat) {
    bool narrow = variable.type->bytes == 4;
    double real = negative ? -value.real : value.real;
    if (value.bytes == variable.type->bytes)
      item.bits = static_cast<uint64_t>(value.integer);
    else
      item.bits = narrow ? bit_cast<uint32_t>(static_cast<float>(real)) : bit_cast<uint64_t>(real);
  } else if (value.kind == Token::Kind::kInteger && token().is('(')) {  // mask(symbol)
    uint64_t mask = static_cast<uint64_t>(value.integer);
    item.shift = static_cast<uint8_t>(mask ? __builtin_ctzll(mask) : 0);
    expect('(');
    item.symbol = expect_word("a symbol");
    if (take('+')) item.bits = static_cast<uint64_t>(parse_integer());
    expect(')');
  } else if (value.kind == Token::Kind::kInteger) {
    item.bits = static_cast<uint64_t>(value.integer);
    if (negative) item.bits = 0 - item.bits;
  } else if (value.kind == Token::Kind::kWord) {
    item.symbol = value.text;
    if (value.text == "generic" && take('(')) {
      item.symbol = expect_word("a symbol");
      expect(')');
    }
    if (take('+')) item.bits = static_cast<uint64_t>(parse_integer());
  } else {
    throw ProgramError(value.line, "malformed initialiser");
  }
  variable.initializers.push_back(item);
  ++index;
}

std::vector<Variable> Parser::parse_parameter_list() {
  std::vector<Variable> list;
  expect('(');
  if (take(')')) return list;
  do {
    Token start = token();
    if (at_directive(".reg")) fail("parameters in registers are not supported");
    if (!take_directive(".param")) fail("expected .param, found " + describe());
    list.push_back(parse_variable(Space::kParam, start));
  } while (take(','));
  expect(')');
  return list;
}

void Parser::parse_performance_directives(Function& function) {
  auto triple = [&](uint32_t* out) {
    for (int i = 0; i < 3; ++i) out[i] = 1;
    for (int i = 0; i < 3; ++i) {
      int64_t value = parse_integer();
      if (value < 0 || value > 0x7fffffff) fail("bad launch bound");
      out[i] = static_cast<uint32_t>(value);
      if (i < 2 && !take(',')) break;
    }
  };
  while (token().kind == Token::Kind::kDirective) {
    std::string name = lexer_.next().text;
    if (name == ".maxntid") {
      triple(function.maximum_threads);
    } else if (name == ".reqntid") {
      triple(function.required_threads);
    } else if (name == ".reqnctapercluster") {
      triple(function.cluster);
    } else if (name == ".minnctapersm" || name == ".maxnctapersm" || name == ".maxnreg" || name == ".maxclusterrank" ||
               name == ".abi_preserve" || name == ".abi_preserve_control") {
      parse_integer();
    } else if (name == ".explicitcluster" || name == ".noreturn" || name == ".blocksareclusters" || name == ".unique") {
      continue;
    } else if (name == ".pragma") {
      while (token().kind == Token::Kind::kString || token().is(',')) lexer_.next();
      expect(';');
    } else {
      fail("unknown function directive " + name);
    }
  }
}

void Parser::parse_function(bool is_entry) {
  Function function;
  function.is_entry = is_entry;
  function.line = token().line;
  if (at_directive(".attribute")) {
    lexer_.next();
    expect('(');
    while (!take(')')) {
      if (token().kind == Token::Kind::kEnd) fail("missing ')'");
      lexer_.next();
    }
  }
  if (token().is('(')) function.results = parse_parameter_list();
  function.name = expect_word("a function name");
  if (token().is('(')) function.parameters = parse_parameter_list();
  parse_performance_directives(function);
  if (take(';')) {
    module_.functions.push_back(std::move(function));
    return;
  }
  function.has_body = true;
  parse_body(function);
  module_.functions.push_back(std::move(function));
}

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
  if (take_directive(".pragma")) {
    while (token().kind == Token::Kind::kString || token().is(',')) lexer_.next();
    return expect(';');
  }
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

}  // namespace

const TypeInfo* find_type(const std::string& name) {
  for (const TypeInfo& type : kTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

Module parse_ptx(const std::string& text) { return Parser(text).parse(); }

}  // namespace simulator
}  // namespace tilelang
