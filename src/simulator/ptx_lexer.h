// Characters of a PTX text to words, numbers and punctuation, with the line of each.
#ifndef TILELANG_SIMULATOR_PTX_LEXER_H_
#define TILELANG_SIMULATOR_PTX_LEXER_H_

#include <cstdint>
#include <string>

#include "types.h"

namespace tilelang {
namespace simulator {

struct Token {
  enum class Kind : uint8_t {
    kEnd,
    kWord,       // foo, %r1, $L1, ld.global.f32 (dots and :: included), %tid.x
    kDirective,  // .foo (dots included: .foo.bar)
    kInteger,
    kFloat,
    kString,
    kPunctuation,  // one character in text
  };
  Kind kind = Kind::kEnd;
  std::string text;
  int64_t integer = 0;
  double real = 0;
  uint8_t bytes = 0;  // 4 or 8 for 0f / 0d literals
  uint32_t line = 1;

  bool is(char c) const { return kind == Kind::kPunctuation && text[0] == c; }
  bool is_directive(const char* name) const { return kind == Kind::kDirective && text == name; }
};

class Lexer {
 public:
  explicit Lexer(const std::string& text) : text_(text) { advance(); }
  /// The current token.
  const Token& current() const { return token_; }
  /// Returns the current token and moves on.
  Token next();
  /// Skips a balanced { ... }; the current token is '{'.
  void skip_braces();

 private:
  void advance();
  void skip_blanks();
  void lex_word();
  void lex_number();
  void lex_string();
  char peek(size_t ahead = 0) const { return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0'; }
  const std::string& text_;
  size_t position_ = 0;
  uint32_t line_ = 1;
  Token token_;
};

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_PTX_LEXER_H_
