// A PTX module as the parser found it: names and literals, nothing resolved.
#ifndef TILELANG_SIMULATOR_PTX_AST_H_
#define TILELANG_SIMULATOR_PTX_AST_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "types.h"

namespace tilelang {
namespace simulator {

/// Width and kind of a PTX fundamental or packed type.
struct TypeInfo {
  const char* name;  // without the dot
  uint8_t bytes;     // 0 for pred
  char kind;         // 'b' untyped, 'u', 's', 'f' (IEEE), 'h' (bf16), 'p' predicate, 'x' other packed or narrow float
};

/// Looks a type name (without the dot) up; nullptr when it is none.
const TypeInfo* find_type(const std::string& name);

struct Operand {
  enum class Kind : uint8_t {
    kRegister,  // name; negated for !p; index in Function::registers
    kSpecial,   // name of a special register, %tid.x
    kInteger,   // integer
    kFloat,     // real (also 0f/0d literals; integer then holds the raw bits and bytes their size)
    kSymbol,    // name + integer
    kAddress,   // [name + integer], [integer] or, with children, [base, {coordinates}, ...]
    kVector,    // {children}
    kSink,      // _
    kPair,      // children[0]|children[1]
    kList,      // (children): call arguments
  };
  Kind kind = Kind::kSink;
  bool negated = false;
  uint8_t bytes = 0;
  uint32_t index = 0;
  std::string name;
  int64_t integer = 0;
  double real = 0;
  std::vector<Operand> children;
};

/// A place in the CUDA source: file index of a .file directive, line, column; line 0 means unknown.
struct SourceLocation {
  uint32_t file = 0;
  uint32_t line = 0;
  uint32_t column = 0;
};

struct Statement {
  int32_t guard = -1;  // index of the register of @p, -1 when unguarded
  bool guard_negated = false;
  std::string opcode;                  // "ld"
  std::vector<std::string> modifiers;  // "global", "nc", "v4", "f32"
  std::vector<Operand> operands;
  uint32_t used_bytes = ~0u;  // of a load: bit n says whether anything uses its byte n
  uint32_t line = 0;
  SourceLocation location;  // in the outermost function: where inlined code was called from
  SourceLocation inner;     // in the function the code was written in
};

struct Variable {
  std::string name;
  Space space = Space::kGlobal;
  const TypeInfo* type = nullptr;
  uint32_t alignment = 1;
  uint64_t count = 1;  // elements; 0 for an unsized extern array
  bool is_extern = false;
  struct Initializer {
    uint64_t offset = 0;  // byte offset in the variable
    uint32_t bytes = 0;
    uint64_t bits = 0;
    std::string symbol;  // address of this symbol plus bits
    uint8_t shift = 0;   // bits to shift the address right (byte masks)
  };
  std::vector<Initializer> initializers;
  uint32_t line = 0;
  uint64_t bytes() const { return count * type->bytes; }
};

struct Register {
  std::string name;
  const TypeInfo* type = nullptr;
};

struct Function {
  std::string name;
  bool is_entry = false;
  bool has_body = false;
  std::vector<Variable> parameters;
  std::vector<Variable> results;
  std::vector<Register> registers;  // those that are used
  std::vector<Variable> variables;  // .local, .shared, .param inside the body, renamed when shadowed
  std::vector<Statement> statements;
  std::map<std::string, uint32_t> labels;                          // index of the statement that follows
  std::map<std::string, std::vector<std::string>> branch_targets;  // .branchtargets / .calltargets lists
  uint32_t required_threads[3] = {0, 0, 0};                        // .reqntid
  uint32_t maximum_threads[3] = {0, 0, 0};                         // .maxntid
  uint32_t cluster[3] = {0, 0, 0};                                 // .reqnctapercluster
  uint32_t line = 0;
};

struct Module {
  std::string version;
  std::string target;
  uint32_t address_bits = 64;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::map<uint32_t, std::string> files;
};

/// Parses PTX text. Throws ProgramError for malformed text.
TILELANG_SIMULATOR_EXPORT Module parse_ptx(const std::string& text);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_PTX_AST_H_
