// cvt (PTX ISA, "Data Movement and Conversion Instructions: cvt").
#include "format_names.h"
#include "lanes.h"
#include "numerics.h"

namespace tilelang {
namespace simulator {
namespace {

struct ConvertSpec {
  Convert scalar;
  uint8_t source_register = 4, result_register = 4;  // bytes
};

uint64_t load_bits(const uint8_t* base, int lane, uint8_t bytes) {
  uint64_t value = 0;
  std::memcpy(&value, base + lane * bytes, bytes);
  return value;
}

void store_bits(uint8_t* base, int lane, uint8_t bytes, uint64_t value) { std::memcpy(base + lane * bytes, &value, bytes); }

/// Reads from and writes to registers of any width: cvt may widen into and narrow out of larger ones.
Step run_convert(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& spec = *static_cast<const ConvertSpec*>(in.extra);
  const uint8_t* source = w.frame + in.op[1];
  uint8_t* result = w.frame + in.op[0];
  // Register slots may be shared: read every lane before writing one of another width.
  uint64_t values[kLanes];
  for_lanes(exec, [&](int l) { values[l] = convert(spec.scalar, load_bits(source, l, spec.source_register)); });
  for_lanes(exec, [&](int l) { store_bits(result, l, spec.result_register, values[l]); });
  return Step::kNext;
}

Step run_convert_pair(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& spec = *static_cast<const ConvertSpec*>(in.extra);
  const uint32_t* high = w.reg<uint32_t>(in.op[1]);
  const uint32_t* low = w.reg<uint32_t>(in.op[2]);
  uint8_t* result = w.frame + in.op[0];
  uint32_t values[kLanes];
  for_lanes(exec, [&](int l) { values[l] = convert_pair(spec.scalar, high[l], low[l]); });
  for_lanes(exec, [&](int l) { store_bits(result, l, spec.result_register, values[l]); });
  return Step::kNext;
}

Step run_convert_packed(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& spec = *static_cast<const ConvertSpec*>(in.extra);
  const uint8_t* source = w.frame + in.op[1];
  uint8_t* result = w.frame + in.op[0];
  uint32_t values[kLanes];
  for_lanes(exec, [&](int l) {
    values[l] = convert_packed(spec.scalar, static_cast<uint32_t>(load_bits(source, l, spec.source_register)));
  });
  for_lanes(exec, [&](int l) { store_bits(result, l, spec.result_register, values[l]); });
  return Step::kNext;
}

// ---- frequent conversions, vectorised ----

template <class To, class From, To (*f)(From)>
Step run_fast(Warp& w, const Instruction& in, LaneMask exec) {
  const From* a = w.reg<From>(in.op[1]);
  write_lanes(w.reg<To>(in.op[0]), exec, [&](int l) { return f(a[l]); });
  return Step::kNext;
}

template <class To, class From>
To cast(From x) { return static_cast<To>(x); }

template <uint16_t (*f)(float)>
Step run_fast_pair(Warp& w, const Instruction& in, LaneMask exec) {
  const float* high = w.reg<float>(in.op[1]);
  const float* low = w.reg<float>(in.op[2]);
  write_lanes(w.reg<uint32_t>(in.op[0]), exec, [&](int l) { return static_cast<uint32_t>(f(low[l])) | static_cast<uint32_t>(f(high[l])) << 16; });
  return Step::kNext;
}

/// Plain conversions (round to nearest even where rounding is needed, no other modifier) by type names.
struct FastRow {
  const char* to;
  const char* from;
  Handler run;
};

const FastRow kFast[] = {
    {"f32", "f16", run_fast<float, uint16_t, f16_to_f32>},
    {"f32", "bf16", run_fast<float, uint16_t, bf16_to_f32>},
    {"f16", "f32", run_fast<uint16_t, float, f32_to_f16>},
    {"bf16", "f32", run_fast<uint16_t, float, f32_to_bf16>},
    {"u64", "u32", run_fast<uint64_t, uint32_t, cast<uint64_t, uint32_t>>},
    {"s64", "s32", run_fast<int64_t, int32_t, cast<int64_t, int32_t>>},
    {"u32", "u64", run_fast<uint32_t, uint64_t, cast<uint32_t, uint64_t>>},
    {"s32", "s64", run_fast<int32_t, int64_t, cast<int32_t, int64_t>>},
    {"u32", "u16", run_fast<uint32_t, uint16_t, cast<uint32_t, uint16_t>>},
    {"s32", "s16", run_fast<int32_t, int16_t, cast<int32_t, int16_t>>},
    {"u16", "u32", run_fast<uint16_t, uint32_t, cast<uint16_t, uint32_t>>},
    {"f32", "s32", run_fast<float, int32_t, cast<float, int32_t>>},
    {"f32", "u32", run_fast<float, uint32_t, cast<float, uint32_t>>},
    {"f64", "f32", run_fast<double, float, cast<double, float>>},
};

Handler find_fast(const std::string& to, const std::string& from) {
  for (const FastRow& row : kFast) {
    if (to == row.to && from == row.from) return row.run;
  }
  return nullptr;
}

/// Strips "x2": the element type of a packed type; false for a scalar type.
bool strip_packed(std::string* name) {
  if (name->size() < 3 || name->compare(name->size() - 2, 2, "x2")) return false;
  name->resize(name->size() - 2);
  return true;
}

Format format_of(Decoder& d, const std::string& name) {
  Format format;
  if (!find_format(name, &format)) d.fail("unsupported type ." + name);
  return format;
}

bool take_rounding(Decoder& d, Convert& c) {
  static const struct { const char* name; Round round; bool integral; } names[] = {
      {"rn", Round::kNearestEven, false}, {"rz", Round::kTowardZero, false}, {"rm", Round::kDown, false},
      {"rp", Round::kUp, false},          {"rna", Round::kNearestAway, false}, {"rni", Round::kNearestEven, true},
      {"rzi", Round::kTowardZero, true},  {"rmi", Round::kDown, true},       {"rpi", Round::kUp, true},
  };
  for (const auto& item : names) {
    if (!d.modifiers.take(item.name)) continue;
    c.round = item.round;
    c.integral = item.integral;
    return true;
  }
  return false;
}

void take_convert_modifiers(Decoder& d, Convert& c, bool* plain) {
  while (!d.modifiers.done() && !find_type(d.modifiers.peek())) {
    if (take_rounding(d, c)) {
      *plain = *plain && c.round == Round::kNearestEven;
      continue;
    }
    *plain = false;
    if (d.modifiers.take("ftz")) c.flush = true;
    else if (d.modifiers.take("sat")) c.saturate = true;
    else if (d.modifiers.take("satfinite")) c.satfinite = true;
    else if (d.modifiers.take("relu")) c.relu = true;
    else d.fail("unknown modifier ." + d.modifiers.peek());
  }
}

void decode_scalar(Decoder& d, ConvertSpec& spec, const TypeInfo* to, const TypeInfo* from, bool plain) {
  d.expect_operands(2, 2);
  spec.scalar.to = format_of(d, to->name);
  spec.scalar.from = format_of(d, from->name);
  uint32_t result, source;
  d.out.op[0] = d.destination_wide(0, to->bytes, &result);
  d.out.op[1] = d.source_wide(1, from, &source);
  spec.result_register = static_cast<uint8_t>(result);
  spec.source_register = static_cast<uint8_t>(source);
  d.out.run = run_convert;
  Handler fast = plain && result == to->bytes && source == from->bytes ? find_fast(to->name, from->name) : nullptr;
  if (fast && !spec.scalar.integral) d.out.run = fast;
}

void decode_packed(Decoder& d, ConvertSpec& spec, const TypeInfo* to, const TypeInfo* from, bool plain) {
  std::string to_name = to->name, from_name = from->name;
  strip_packed(&to_name);
  bool packed_source = strip_packed(&from_name);
  spec.scalar.to = format_of(d, to_name);
  spec.scalar.from = format_of(d, from_name);
  uint32_t result, source = 4;
  d.out.op[0] = d.destination_wide(0, to->bytes, &result);
  spec.result_register = static_cast<uint8_t>(result);
  if (packed_source) {
    d.expect_operands(2, 2);
    d.out.op[1] = d.source_wide(1, from, &source);
    spec.source_register = static_cast<uint8_t>(source);
    d.out.run = run_convert_packed;
    return;
  }
  d.expect_operands(3, 3);
  if (from_name != "f32") d.fail("the source type must be .f32 or packed");
  d.out.op[1] = d.source(1, from);
  d.out.op[2] = d.source(2, from);
  d.out.run = run_convert_pair;
  if (plain && to_name == "f16") d.out.run = run_fast_pair<f32_to_f16>;
  if (plain && to_name == "bf16") d.out.run = run_fast_pair<f32_to_bf16>;
}

void decode_cvt(Decoder& d) {
  if (d.modifiers.peek() == "pack") d.fail("cvt.pack is not supported");
  auto& spec = d.attach<ConvertSpec>();
  bool plain = true;
  take_convert_modifiers(d, spec.scalar, &plain);
  const TypeInfo* to = d.take_type();
  const TypeInfo* from = d.take_type();
  d.expect_no_more_modifiers();
  std::string name = to->name;
  if (strip_packed(&name)) decode_packed(d, spec, to, from, plain);
  else decode_scalar(d, spec, to, from, plain);
}

}  // namespace

const std::vector<OpcodeRow>& convert_opcodes() {
  static const std::vector<OpcodeRow> rows = {{"cvt", decode_cvt, "convert"}};
  return rows;
}

}  // namespace simulator
}  // namespace tilelang
