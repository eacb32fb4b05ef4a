#include "ptx_lexer.h"

#include <cctype>
#include <cstdlib>

namespace tilelang {
namespace simulator {
namespace {

bool is_word_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }

}  // namespace

Token Lexer::next() {
  Token token = token_;
  advance();
  return token;
}

void Lexer::skip_blanks() {
  while (position_ < text_.size()) {
    char c = text_[position_];
    if (c == '\n') {
      ++line_;
      ++position_;
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      ++position_;
    } else if (c == '/' && peek(1) == '/') {
      while (position_ < text_.size() && text_[position_] != '\n') ++position_;
    } else if (c == '/' && peek(1) == '*') {
      uint32_t start = line_;
      position_ += 2;
      while (position_ < text_.size() && !(text_[position_] == '*' && peek(1) == '/')) {
        if (text_[position_] == '\n') ++line_;
        ++position_;
      }
      if (position_ >= text_.size()) throw ProgramError(start, "comment is not closed");
      position_ += 2;
    } else {
      return;
    }
  }
}

void Lexer::advance() {
  skip_blanks();
  token_ = Token();
  token_.line = line_;
  if (position_ >= text_.size() || text_[position_] == '\0') return;
  char c = text_[position_];
  if (is_word_start(c) || (c == '.' && (is_word_start(peek(1))))) {
    lex_word();
  } else if (std::isdigit(static_cast<unsigned char>(c)) ||
             (c == '.' && std::isdigit(static_cast<unsigned char>(peek(1))))) {
    lex_number();
  } else if (c == '"') {
    lex_string();
  } else {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) {
      throw ProgramError(line_, "unexpected character code " + std::to_string(static_cast<unsigned char>(c)));
    }
    token_.kind = Token::Kind::kPunctuation;
    token_.text = std::string(1, c);
    ++position_;
  }
}

void Lexer::lex_word() {
  size_t start = position_;
  token_.kind = text_[start] == '.' ? Token::Kind::kDirective : Token::Kind::kWord;
  ++position_;
  while (position_ < text_.size()) {
    char c = text_[position_];
    if (is_word(c)) {
      ++position_;
    } else if (c == '.' && is_word(peek(1))) {
      ++position_;
    } else if (c == ':' && peek(1) == ':' && is_word(peek(2))) {
      position_ += 2;
    } else {
      break;
    }
  }
  token_.text = text_.substr(start, position_ - start);
}

void Lexer::lex_number() {
  const char* start = text_.c_str() + position_;
  char second = start[0] == '0' ? start[1] : '\0';
  char* end = nullptr;
  if (second == 'f' || second == 'F' || second == 'd' || second == 'D') {
    size_t digits = (second == 'f' || second == 'F') ? 8 : 16;
    uint64_t bits = 0;
    for (size_t i = 0; i < digits; ++i) {
      char c = peek(2 + i);
      if (!std::isxdigit(static_cast<unsigned char>(c))) throw ProgramError(line_, "malformed float literal");
      bits = bits * 16 + static_cast<uint64_t>(
                             std::isdigit(static_cast<unsigned char>(c)) ? c - '0' : (std::tolower(c) - 'a' + 10));
    }
    token_.kind = Token::Kind::kFloat;
    token_.integer = static_cast<int64_t>(bits);
    token_.bytes = static_cast<uint8_t>(digits / 2);
    token_.real =
        digits == 8 ? static_cast<double>(bit_cast<float>(static_cast<uint32_t>(bits))) : bit_cast<double>(bits);
    position_ += 2 + digits;
    return;
  }
  token_.kind = Token::Kind::kInteger;
  if (second == 'b' || second == 'B') {
    token_.integer = static_cast<int64_t>(std::strtoull(start + 2, &end, 2));
  } else {
    token_.integer = static_cast<int64_t>(std::strtoull(start, &end, 0));
    if (*end == '.' || ((*end == 'e' || *end == 'E') && second != 'x' && second != 'X')) {
      token_.kind = Token::Kind::kFloat;
      token_.real = std::strtod(start, &end);
      token_.integer = bit_cast<int64_t>(token_.real);
      token_.bytes = 0;
    }
  }
  if (end == start) throw ProgramError(line_, "malformed number");
  position_ += static_cast<size_t>(end - start);
  if (peek() == 'U') ++position_;
  if (is_word(peek())) throw ProgramError(line_, "malformed number");
}

void Lexer::lex_string() {
  token_.kind = Token::Kind::kString;
  ++position_;
  while (position_ < text_.size() && text_[position_] != '"' && text_[position_] != '\n') {
    if (text_[position_] == '\\' && position_ + 1 < text_.size()) ++position_;
    token_.text += text_[position_++];
  }
  if (peek() != '"') throw ProgramError(line_, "string is not closed");
  ++position_;
}

void Lexer::skip_braces() {
  uint32_t start = token_.line;
  int depth = 0;
  // Sections hold data that need not follow the instruction grammar: count braces in the raw text.
  for (--position_; position_ < text_.size(); ++position_) {
    char c = text_[position_];
    if (c == '\n') ++line_;
    if (c == '{') ++depth;
    if (c == '}' && --depth == 0) {
      ++position_;
      advance();
      return;
    }
  }
  throw ProgramError(start, "missing '}'");
}

}  // namespace simulator
}  // namespace tilelang
