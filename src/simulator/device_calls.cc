#include "device_calls.h"

#include <cstdio>

#include "memory_operands.h"

namespace tilelang {
namespace simulator {
namespace {

constexpr size_t kMaximumText = 1 << 16;

uint64_t argument(Warp& w, const CallAreas& areas, size_t index, int lane) {
  uint64_t value = 0;
  if (index >= areas.arguments.size()) return 0;
  const ParamArea& area = areas.arguments[index];
  std::memcpy(&value, w.frame + area.offset + static_cast<uint32_t>(lane) * area.bytes,
              std::min<uint32_t>(area.bytes, 8));
  return value;
}

void set_result(Warp& w, const CallAreas& areas, int lane, uint64_t value) {
  if (areas.results.empty()) return;
  const ParamArea& area = areas.results[0];
  std::memcpy(w.frame + area.offset + static_cast<uint32_t>(lane) * area.bytes, &value,
              std::min<uint32_t>(area.bytes, 8));
}

/// Byte at a generic address of the thread; false outside of known memory.
bool read_bytes(Warp& w, int lane, uint64_t generic, void* out, uint32_t bytes) {
  uint64_t plain;
  if (classify(generic, &plain) == Space::kLocal) {
    if (w.local.empty()) return false;
    const auto& local = w.local[static_cast<size_t>(lane)];
    if (plain > local.size() || bytes > local.size() - plain) return false;
    std::memcpy(out, local.data() + plain, bytes);
    return true;
  }
  const uint8_t* source = peek(w, Space::kGeneric, generic, bytes);
  if (source) std::memcpy(out, source, bytes);
  return source != nullptr;
}

std::string read_text(Warp& w, int lane, uint64_t address) {
  std::string text;
  char c;
  while (text.size() < kMaximumText && read_bytes(w, lane, address + text.size(), &c, 1) && c) text += c;
  return text;
}

/// Appends one conversion of a format string, taking its argument from the packed buffer.
class Formatter {
 public:
  Formatter(Warp& w, int lane, uint64_t arguments) : w_(w), lane_(lane), arguments_(arguments) {}

  std::string format(const std::string& text) {
    std::string out;
    for (size_t i = 0; i < text.size();) {
      if (text[i] != '%') {
        out += text[i++];
      } else if (i + 1 < text.size() && text[i + 1] == '%') {
        out += '%';
        i += 2;
      } else {
        i = conversion(text, i, out);
      }
    }
    return out;
  }

 private:
  size_t conversion(const std::string& text, size_t start, std::string& out) {
    std::string spec = "%";
    size_t i = start + 1;
    bool wide = false;
    for (; i < text.size(); ++i) {
      char c = text[i];
      if (c == 'l' || c == 'z' || c == 'j' || c == 't')
        wide = true;
      else if (c == '*')
        spec += std::to_string(static_cast<int32_t>(take(4)));
      else if (c == 'h')
        continue;
      else if ((c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == ' ' || c == '#')
        spec += c;
      else
        break;
    }
    if (i >= text.size() || spec.size() > 32) return text.size();
    append(out, spec, text[i], wide);
    return i + 1;
  }

  void append(std::string& out, const std::string& spec, char kind, bool wide) {
    char buffer[512];
    switch (kind) {
      case 'd':
      case 'i':
        std::snprintf(buffer, sizeof buffer, (spec + "lld").c_str(),
                      static_cast<long long>(wide ? static_cast<int64_t>(take(8)) : static_cast<int32_t>(take(4))));
        break;
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        std::snprintf(buffer, sizeof buffer, (spec + "ll" + kind).c_str(),
                      static_cast<unsigned long long>(take(wide ? 8 : 4)));
        break;
      case 'c':
        std::snprintf(buffer, sizeof buffer, (spec + "c").c_str(), static_cast<int>(take(4)));
        break;
      case 'p':
        std::snprintf(buffer, sizeof buffer, "0x%llx", static_cast<unsigned long long>(take(8)));
        break;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
      case 'a':
      case 'A':
        std::snprintf(buffer, sizeof buffer, (spec + kind).c_str(), bit_cast<double>(take(8)));
        break;
      case 's':
        out += read_text(w_, lane_, take(8));
        return;
      default:
        out += spec + kind;
        return;
    }
    out += buffer;
  }

  uint64_t take(uint32_t bytes) {
    offset_ = (offset_ + bytes - 1) / bytes * bytes;
    uint64_t value = 0;
    read_bytes(w_, lane_, arguments_ + offset_, &value, bytes);
    offset_ += bytes;
    return value;
  }

  Warp& w_;
  int lane_;
  uint64_t arguments_;
  uint64_t offset_ = 0;
};

Step call_vprintf(Warp& w, const Instruction&, LaneMask exec, const CallAreas& areas) {
  std::string text;
  for_lanes(exec, [&](int l) {
    text += Formatter(w, l, argument(w, areas, 1, l)).format(read_text(w, l, argument(w, areas, 0, l)));
    set_result(w, areas, l, 1);
  });
  Launch& launch = w.launch();
  std::lock_guard<std::mutex> guard(launch.print_mutex);
  launch.printed += text;
  return Step::kNext;
}

Step call_assertfail(Warp& w, const Instruction& in, LaneMask exec, const CallAreas& areas) {
  int lane = __builtin_ctz(exec);
  std::string message = "assertion '" + read_text(w, lane, argument(w, areas, 0, lane)) + "' failed in " +
                        read_text(w, lane, argument(w, areas, 1, lane)) + ":" +
                        std::to_string(argument(w, areas, 2, lane));
  w.report(FindingKind::kTrap, in, lane, message);
  throw KernelAbort();
}

}  // namespace

DeviceCall find_device_call(const std::string& name) {
  if (name == "vprintf") return call_vprintf;
  if (name == "__assertfail") return call_assertfail;
  return nullptr;
}

}  // namespace simulator
}  // namespace tilelang
