// Module level of PTX: directives, variables, function headers.
#include "ptx_parser.h"

#include <algorithm>

namespace tilelang {
namespace simulator {
namespace {

constexpr uint64_t kMaximumVariableBytes = 1ull << 30;

}  // namespace

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

Module parse_ptx(const std::string& text) { return Parser(text).parse(); }

}  // namespace simulator
}  // namespace tilelang
