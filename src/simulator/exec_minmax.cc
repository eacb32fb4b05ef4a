// min, max, abs, neg of floats (integers are handed on to exec_integer.cc).
#include <cmath>

#include "exec_float.h"
#include "exec_integer.h"
#include "lanes.h"

namespace tilelang {
namespace simulator {
namespace {

struct MinMaxSpec {
  MinMaxMode mode;
  Format format;
  bool has_third;
};

template <bool maximum>
Step run_minmax_f32_plain(Warp& w, const Instruction& in, LaneMask exec) {
  const float* a = w.reg<float>(in.op[1]);
  const float* b = w.reg<float>(in.op[2]);
  write_lanes(w.reg<float>(in.op[0]), exec, [&](int l) {
    float x = a[l], y = b[l];
    // +0 is larger than -0; a NaN loses against a number.
    bool first = maximum ? (x > y || (x == y && !std::signbit(x))) : (x < y || (x == y && std::signbit(x)));
    float r = first ? x : y;
    r = x != x ? y : y != y ? x : r;
    return canonical(r);
  });
  return Step::kNext;
}

Step run_minmax_f32(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& spec = *static_cast<const MinMaxSpec*>(in.extra);
  const float* a = w.reg<float>(in.op[1]);
  const float* b = w.reg<float>(in.op[2]);
  const float* c = w.reg<float>(in.op[3]);
  write_each(w.reg<float>(in.op[0]), exec, [&](int l) {
    float r = f32_minmax(a[l], b[l], spec.mode);
    return spec.has_third ? f32_minmax(r, c[l], spec.mode) : r;
  });
  return Step::kNext;
}

template <bool maximum>
Step run_minmax_f64(Warp& w, const Instruction& in, LaneMask exec) {
  const double* a = w.reg<double>(in.op[1]);
  const double* b = w.reg<double>(in.op[2]);
  write_each(w.reg<double>(in.op[0]), exec, [&](int l) { return f64_minmax(a[l], b[l], maximum); });
  return Step::kNext;
}

Step run_minmax_half(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& spec = *static_cast<const MinMaxSpec*>(in.extra);
  const uint16_t* a = w.reg<uint16_t>(in.op[1]);
  const uint16_t* b = w.reg<uint16_t>(in.op[2]);
  write_each(w.reg<uint16_t>(in.op[0]), exec, [&](int l) { return half_minmax(spec.format, a[l], b[l], spec.mode); });
  return Step::kNext;
}

Step run_minmax_half2(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& spec = *static_cast<const MinMaxSpec*>(in.extra);
  const uint32_t* a = w.reg<uint32_t>(in.op[1]);
  const uint32_t* b = w.reg<uint32_t>(in.op[2]);
  write_each(w.reg<uint32_t>(in.op[0]), exec, [&](int l) {
    auto half = [&](int shift) {
      return static_cast<uint32_t>(half_minmax(spec.format, static_cast<uint16_t>(a[l] >> shift),
                                               static_cast<uint16_t>(b[l] >> shift), spec.mode));
    };
    return half(0) | half(16) << 16;
  });
  return Step::kNext;
}

template <bool maximum>
void decode_minmax(Decoder& d) {
  if (decode_integer_arithmetic(d)) return;
  FloatMode mode = take_float_mode(d);
  const TypeInfo* type = d.take_type();
  size_t sources = std::string(type->name) == "f32" && d.operand_count() == 4 ? 3 : 2;
  decode_sources(d, type, sources);
  auto& spec = d.attach<MinMaxSpec>();
  spec.mode = mode.minmax;
  spec.mode.maximum = maximum;
  spec.has_third = sources == 3;
  bool packed;
  std::string name = type->name;
  bool special = spec.mode.propagate_nan || spec.mode.xorsign_abs || spec.mode.flush || spec.has_third;
  if (name == "f32")
    d.out.run = special ? run_minmax_f32 : run_minmax_f32_plain<maximum>;
  else if (name == "f64")
    d.out.run = run_minmax_f64<maximum>;
  else if (is_half(type, &spec.format, &packed))
    d.out.run = packed ? run_minmax_half2 : run_minmax_half;
  else
    d.fail("unsupported type");
}

// ---- abs, neg: on the sign bits ----

template <class T, bool negate, bool flush>
Step run_sign(Warp& w, const Instruction& in, LaneMask exec) {
  const T* a = w.reg<T>(in.op[1]);
  const T sign = static_cast<T>(in.immediate);
  write_lanes(w.reg<T>(in.op[0]), exec, [&](int l) {
    T x = a[l];
    if constexpr (flush) x = bits_from_float(flush_f32(float_from_bits(x)));
    return static_cast<T>(negate ? x ^ sign : x & ~sign);
  });
  return Step::kNext;
}

template <bool negate>
void decode_sign(Decoder& d) {
  if (decode_integer_arithmetic(d)) return;
  FloatMode mode = take_float_mode(d);
  const TypeInfo* type = d.take_type();
  decode_sources(d, type, 1);
  std::string name = type->name;
  Format format;
  bool packed;
  if (name == "f32") {
    d.out.immediate = 0x80000000;
    d.out.run = mode.flush ? run_sign<uint32_t, negate, true> : run_sign<uint32_t, negate, false>;
  } else if (name == "f64") {
    d.out.immediate = INT64_MIN;
    d.out.run = run_sign<uint64_t, negate, false>;
  } else if (is_half(type, &format, &packed)) {
    d.out.immediate = packed ? 0x80008000 : 0x8000;
    d.out.run = packed ? run_sign<uint32_t, negate, false> : run_sign<uint16_t, negate, false>;
  } else {
    d.fail("unsupported type");
  }
}

}  // namespace

const std::vector<OpcodeRow>& minmax_opcodes() {
  static const std::vector<OpcodeRow> rows = {
      {"min", decode_minmax<false>, "arithmetic", Effect::kComputes},
      {"max", decode_minmax<true>, "arithmetic", Effect::kComputes},
      {"abs", decode_sign<false>, "arithmetic", Effect::kComputes},
      {"neg", decode_sign<true>, "arithmetic", Effect::kComputes},
  };
  return rows;
}

}  // namespace simulator
}  // namespace tilelang
