// cvt (PTX ISA, "Data Movement and Conversion Instructions: cvt").
#include <algorithm>

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

void store_bits(uint8_t* base, int lane, uint8_t bytes, uint64_t value) {
  std::memcpy(base + lane * bytes, &value, bytes);
}

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
To cast(From x) {
  return static_cast<To>(x);
}

template <uint16_t (*f)(float)>
Step run_fast_pair(Warp& w, const Instruction& in, LaneMask exec) {
  const float* high = w.reg<float>(in.op[1]);
  const float* low = w.reg<float>(in.op[2]);
  write_lanes(w.reg<uint32_t>(in.op[0]), exec,
              [&](int l) { return static_cast<uint32_t>(f(low[l])) | static_cast<uint32_t>(f(high[l])) << 16; });
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
  static const struct {
    const char* name;
    Round round;
    bool integral;
  } names[] = {
      {"rn", Round::kNearestEven, false}, {"rz", Round::kTowardZero, false},   {"rm", Round::kDown, false},
      {"rp", Round::kUp, false},          {"rna", Round::kNearestAway, false}, {"rni", Round::kNearestEven, true},
      {"rzi", Round::kTowardZero, true},  {"rmi", Round::kDown, true},         {"rpi", Round::kUp, true},
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
    if (d.modifiers.take("ftz"))
      c.flush = true;
    else if (d.modifiers.take("sat"))
      c.saturate = true;
    else if (d.modifiers.take("satfinite"))
      c.satfinite = true;
    else if (d.modifiers.take("relu"))
      c.relu = true;
    else
      d.fail("unknown modifier ." + d.modifiers.peek());
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

// ---- cvt.pack: two integers, saturated to a narrow type, in front of the upper bits of a third ----

struct PackSpec {
  int64_t low = 0, high = 0;  // range of the narrow type
  uint32_t bits = 16;
  bool has_rest = false;
};

Step run_pack(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& spec = *static_cast<const PackSpec*>(in.extra);
  const int32_t* a = w.reg<int32_t>(in.op[1]);
  const int32_t* b = w.reg<int32_t>(in.op[2]);
  const uint32_t* c = w.reg<uint32_t>(in.op[3]);
  const uint32_t mask = (1u << spec.bits) - 1;
  auto narrow = [&](int32_t x) {
    return static_cast<uint32_t>(std::min(std::max<int64_t>(x, spec.low), spec.high)) & mask;
  };
  write_lanes(w.reg<uint32_t>(in.op[0]), exec, [&](int l) {
    uint32_t pair = narrow(a[l]) << spec.bits | narrow(b[l]);
    return spec.has_rest ? c[l] << (2 * spec.bits) | pair : pair;
  });
  return Step::kNext;
}

void decode_pack(Decoder& d) {
  if (!d.modifiers.take("sat")) d.fail("expected .sat");
  auto& spec = d.attach<PackSpec>();
  static const struct {
    const char* name;
    uint32_t bits;
    bool is_signed;
  } types[] = {{"u16", 16, false}, {"s16", 16, true}, {"u8", 8, false}, {"s8", 8, true},
               {"u4", 4, false},   {"s4", 4, true},   {"u2", 2, false}, {"s2", 2, true}};
  bool found = false;
  for (const auto& type : types) {
    if (found || !d.modifiers.take(type.name)) continue;
    found = true;
    spec.bits = type.bits;
    spec.low = type.is_signed ? -(int64_t(1) << (type.bits - 1)) : 0;
    spec.high = type.is_signed ? (int64_t(1) << (type.bits - 1)) - 1 : (int64_t(1) << type.bits) - 1;
  }
  if (!found) d.fail("unknown type ." + d.modifiers.peek());
  if (!d.modifiers.take("s32")) d.fail("the source type must be .s32");
  spec.has_rest = d.modifiers.take("b32");
  d.expect_no_more_modifiers();
  size_t sources = spec.has_rest ? 3 : 2;
  d.expect_operands(sources + 1, sources + 1);
  d.out.op[0] = d.destination(0, 4);
  for (size_t i = 1; i <= 3; ++i) d.out.op[i] = d.source_bits(i <= sources ? i : 1, 4);
  d.out.run = run_pack;
}

void decode_cvt(Decoder& d) {
  if (d.modifiers.take("pack")) return decode_pack(d);
  auto& spec = d.attach<ConvertSpec>();
  bool plain = true;
  take_convert_modifiers(d, spec.scalar, &plain);
  const TypeInfo* to = d.take_type();
  const TypeInfo* from = d.take_type();
  d.expect_no_more_modifiers();
  std::string name = to->name;
  if (strip_packed(&name))
    decode_packed(d, spec, to, from, plain);
  else
    decode_scalar(d, spec, to, from, plain);
}

}  // namespace

const std::vector<OpcodeRow>& convert_opcodes() {
  static const std::vector<OpcodeRow> rows = {
      {"cvt", decode_cvt, "convert", Effect::kComputes},
  };
  return rows;
}

}  // namespace simulator
}  // namespace tilelang
