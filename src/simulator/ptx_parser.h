// The parser's state: recursive descent over the PTX grammar (PTX ISA, "Syntax" and "Directives").
#ifndef TILELANG_SIMULATOR_PTX_PARSER_H_
#define TILELANG_SIMULATOR_PTX_PARSER_H_

#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ptx_ast.h"
#include "ptx_lexer.h"

namespace tilelang {
namespace simulator {

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
  void parse_pragma();
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
  uint32_t used_bytes_ = ~0u;  // of the next instruction
  std::map<LocationKey, SourceLocation> inlined_at_;
};

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_PTX_PARSER_H_
