// The report as JSON. Written by hand: the simulator depends on nothing but tvm-ffi's headers.
#include <cstdio>
#include <map>

#include "launch.h"

namespace tilelang {
namespace simulator {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    unsigned char u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (u < 0x20 || u > 0x7e) {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\u%04x", u);
      out += buffer;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

/// {"a": 1, ...} from the members that are added.
class JsonObject {
 public:
  JsonObject& raw(const char* key, const std::string& value) {
    text_ += (text_.size() > 1 ? ", " : "") + quoted(key) + ": " + value;
    return *this;
  }
  JsonObject& text(const char* key, const std::string& value) { return raw(key, quoted(value)); }
  JsonObject& number(const char* key, uint64_t value) { return raw(key, std::to_string(value)); }
  std::string str() const { return text_ + "}"; }

 private:
  std::string text_ = "{";
};

template <class Range, class F>
std::string array(const Range& range, F&& f) {
  std::string out = "[";
  for (const auto& item : range) out += (out.size() > 1 ? ", " : "") + f(item);
  return out + "]";
}

std::string dim(const std::array<uint32_t, 3>& t) {
  return array(t, [](uint32_t x) { return std::to_string(x); });
}

std::string finding_json(const Finding& f) {
  JsonObject o;
  o.text("kind", finding_name(f.kind)).text("message", f.message).text("kernel", f.kernel).raw("block", dim(f.block));
  o.raw("thread", f.has_thread ? dim(f.thread) : "null")
      .number("ptx_line", f.ptx_line)
      .text("instruction", f.instruction);
  o.text("file", f.file).number("line", f.line).number("occurrences", f.occurrences);
  return o.str();
}

void add_counters(JsonObject& o, const InstructionCounters& c) {
  o.number("warps", c.warps).number("threads", c.lanes);
  if (c.requests) o.number("requests", c.requests).number("bytes", c.bytes);
  if (c.wavefronts)
    o.number("shared_wavefronts", c.wavefronts)
        .number("bank_conflicts", c.wavefronts > c.ideal ? c.wavefronts - c.ideal : 0);
  if (c.sectors) o.number("global_sectors", c.sectors);
  if (c.multiply_adds) o.number("tensor_multiply_adds", c.multiply_adds);
}

std::string instruction_json(const Program& program, size_t pc, const InstructionCounters& c) {
  const Instruction& instruction = program.code[pc];
  JsonObject o;
  o.text("instruction", program.texts[pc])
      .number("ptx_line", instruction.line)
      .number("pc", pc)
      .text("class", program.classes[instruction.counter_class])
      .text("file", program.file_of(instruction))
      .number("line", instruction.location.line);
  add_counters(o, c);
  return o.str();
}

std::string launch_json(const LaunchReport& report) {
  JsonObject o;
  o.raw("grid", dim(report.grid)).raw("block", dim(report.block)).raw("cluster", dim(report.cluster));
  return o.number("shared_bytes", report.shared_bytes).str();
}

std::string traffic_json(const MemoryTraffic& t) {
  JsonObject o;
  o.number("global_read", t.global_read).number("global_write", t.global_write).number("shared_read", t.shared_read);
  o.number("shared_write", t.shared_write).number("local_read", t.local_read).number("local_write", t.local_write);
  o.number("async_to_shared", t.async_to_shared)
      .number("async_to_global", t.async_to_global)
      .number("cluster_shared", t.cluster_shared);
  return o.str();
}

std::string counters_json(const Program& program, const LaunchReport& report) {
  std::map<std::string, InstructionCounters> classes;
  std::string instructions = "[";
  InstructionCounters total;
  for (size_t pc = 0; pc < report.counters.instructions.size(); ++pc) {
    const InstructionCounters& c = report.counters.instructions[pc];
    if (!c.warps) continue;
    classes[program.classes[program.code[pc].counter_class]] += c;
    total += c;
    instructions += (instructions.size() > 1 ? ", " : "") + instruction_json(program, pc, c);
  }
  JsonObject by_class;
  for (const auto& item : classes) {
    JsonObject o;
    add_counters(o, item.second);
    by_class.raw(item.first.c_str(), o.str());
  }
  JsonObject sum;
  add_counters(sum, total);
  JsonObject o;
  o.raw("total", sum.str()).raw("classes", by_class.str()).raw("traffic", traffic_json(report.counters.traffic));
  o.number("barrier_waits", report.counters.barrier_waits)
      .number("barriers_completed", report.counters.barriers_completed);
  o.number("mbarrier_waits", report.counters.mbarrier_waits).raw("instructions", instructions + "]");
  return o.str();
}

}  // namespace

std::string report_json(const Program& program, const LaunchReport& report) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.6f", report.seconds);
  JsonObject o;
  o.text("kernel", report.kernel).raw("findings", array(report.findings, finding_json));
  o.raw("launch", launch_json(report));
  o.raw("counters", counters_json(program, report))
      .number("warp_instructions", report.instructions)
      .raw("seconds", seconds);
  o.text("trace", trace_text(report.trace));
  o.raw("aborted", report.aborted ? "true" : "false").text("printed", report.printed);
  return o.str();
}

}  // namespace simulator
}  // namespace tilelang
