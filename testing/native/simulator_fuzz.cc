// Feeds damaged PTX to the simulator: every text must load or be refused with an error, and whatever loads must run or
// be stopped. Built with AddressSanitizer and UndefinedBehaviorSanitizer by simulator_fuzz.py.
//
//   simulator_fuzz SEED ITERATIONS FILE...
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "launch.h"
#include "ptx_ast.h"
#include "random.h"

namespace {

using tilelang::simulator::LaunchRequest;
using tilelang::simulator::Random;

constexpr uint64_t kMaximumInstructions = 20000;
constexpr size_t kBufferBytes = 1 << 14;

struct Outcome {
  uint64_t refused = 0, loaded = 0, launched = 0, not_launched = 0, with_findings = 0;
};

std::string read_file(const char* path) {
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

size_t token_end(const std::string& text, size_t at) {
  while (at < text.size() && text[at] != ' ' && text[at] != ',' && text[at] != '\n' && text[at] != ';') ++at;
  return at;
}

/// Damages the text in one place: characters, tokens, lines, numbers.
void mutate(std::string& text, const std::string& other, Random& random) {
  if (text.empty()) return;
  size_t at = random.below(static_cast<uint32_t>(text.size()));
  size_t end = token_end(text, at);
  static const char* const numbers[] = {"0",          "-1",      "4294967295", "18446744073709551615",
                                        "0x7fffffff", "1048576", "0f7FC00000"};
  switch (random.below(16)) {
    case 0:
      text[at] = static_cast<char>(random.below(128));
      break;
    case 1:
      text.erase(at, 1 + random.below(8));
      break;
    case 2:
      text.erase(at, end - at);
      break;
    case 3:
      text.insert(at, text.substr(random.below(static_cast<uint32_t>(text.size())), 1 + random.below(24)));
      break;
    case 4:
      text.replace(at, end - at, numbers[random.below(7)]);
      break;
    case 5: {  // a token of another file
      size_t from = random.below(static_cast<uint32_t>(other.size()));
      text.replace(at, end - at, other.substr(from, token_end(other, from) - from));
      break;
    }
    case 6: {  // swap two lines
      size_t line = text.find('\n', at);
      size_t next = line == std::string::npos ? line : text.find('\n', line + 1);
      if (next != std::string::npos)
        std::rotate(text.begin() + static_cast<std::ptrdiff_t>(at), text.begin() + static_cast<std::ptrdiff_t>(line),
                    text.begin() + static_cast<std::ptrdiff_t>(next));
      break;
    }
    case 7:
      text.resize(at);
      break;
    default: {  // another digit: registers, sizes, lanes, offsets
      size_t digit = text.find_first_of("0123456789", at);
      if (digit != std::string::npos) text[digit] = static_cast<char>('0' + random.below(10));
    }
  }
}

void launch_all(const tilelang::simulator::Program& program, std::vector<uint8_t>& buffer, Random& random,
                Outcome& outcome) {
  for (const auto& kernel : program.functions) {
    if (!kernel.is_entry) continue;
    LaunchRequest request;
    request.kernel = kernel.name;
    request.block = {64, 1, 1};
    request.shared_bytes = 4096;
    request.checks = 31;
    request.seed = random.next();
    request.grid = {4, 1, 1};
    request.workers = 1 + random.below(2);
    request.max_instructions = kMaximumInstructions;
    request.parameters.resize(kernel.parameter_bytes);
    for (const auto& parameter : kernel.parameters) {
      uint64_t value = parameter.bytes == 8 ? reinterpret_cast<uint64_t>(buffer.data()) : 3;
      std::copy_n(reinterpret_cast<uint8_t*>(&value), std::min<uint32_t>(parameter.bytes, 8),
                  request.parameters.begin() + parameter.offset);
    }
    request.allocations.push_back({reinterpret_cast<uint64_t>(buffer.data()), buffer.size(), false, "buffer"});
    try {
      outcome.with_findings += !run_launch(program, request).findings.empty();
      ++outcome.launched;
    } catch (const tilelang::simulator::LaunchError&) {
      ++outcome.not_launched;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  Random random(std::stoull(argv[1]));
  std::vector<std::string> corpus;
  for (int i = 3; i < argc; ++i) corpus.push_back(read_file(argv[i]));
  std::vector<uint8_t> buffer(kBufferBytes, 0);
  Outcome outcome;
  for (uint64_t i = 0; i < std::stoull(argv[2]); ++i) {
    std::string text = corpus[random.below(static_cast<uint32_t>(corpus.size()))];
    const std::string& other = corpus[random.below(static_cast<uint32_t>(corpus.size()))];
    for (uint32_t n = random.below(3) + (i >= corpus.size()); n > 0; --n) mutate(text, other, random);
    try {
      auto program = tilelang::simulator::decode_module(tilelang::simulator::parse_ptx(text));
      ++outcome.loaded;
      launch_all(*program, buffer, random, outcome);
    } catch (const tilelang::simulator::ProgramError&) {
      ++outcome.refused;
    }
  }
  std::printf("%llu refused, %llu loaded, %llu launched (%llu with findings), %llu not launched\n",
              static_cast<unsigned long long>(outcome.refused), static_cast<unsigned long long>(outcome.loaded),
              static_cast<unsigned long long>(outcome.launched), static_cast<unsigned long long>(outcome.with_findings),
              static_cast<unsigned long long>(outcome.not_launched));
  return 0;
}
