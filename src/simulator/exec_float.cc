// Floating-point arithmetic (PTX ISA, "Floating Point Instructions" and "Half Precision Floating Point Instructions").
#include <cmath>

#include "exec_float.h"
#include "exp2.h"
#include "exec_integer.h"
#include "lanes.h"
#include "numerics.h"
#include "vector_functions.h"

namespace tilelang {
namespace simulator {

FloatMode take_float_mode(Decoder& d) {
  FloatMode mode;
  while (!d.modifiers.done() && !find_type(d.modifiers.peek())) {
    if (d.modifiers.take("rn")) continue;
    if (d.modifiers.take("rz"))
      mode.round = Round::kTowardZero, mode.directed = true;
    else if (d.modifiers.take("rm"))
      mode.round = Round::kDown, mode.directed = true;
    else if (d.modifiers.take("rp"))
      mode.round = Round::kUp, mode.directed = true;
    else if (d.modifiers.take("approx"))
      mode.approx = true;
    else if (d.modifiers.take("full"))
      mode.full = true;
    else if (d.modifiers.take("ftz"))
      mode.flush = true;
    else if (d.modifiers.take("sat"))
      mode.saturate = true;
    else if (d.modifiers.take("relu"))
      mode.relu = true;
    else if (d.modifiers.take("NaN"))
      mode.minmax.propagate_nan = true;
    else if (d.modifiers.take("xorsign")) {
      if (!d.modifiers.take("abs")) d.fail("expected .abs after .xorsign");
      mode.minmax.xorsign_abs = true;
    } else {
      d.fail("unknown modifier ." + d.modifiers.peek());
    }
  }
  mode.minmax.flush = mode.flush;
  return mode;
}

bool is_half(const TypeInfo* type, Format* format, bool* packed) {
  std::string name = type->name;
  *packed = name == "f16x2" || name == "bf16x2";
  *format = name.rfind("bf16", 0) == 0 ? Format::kBF16 : Format::kF16;
  return *packed || name == "f16" || name == "bf16";
}

void decode_sources(Decoder& d, const TypeInfo* type, size_t sources) {
  d.expect_no_more_modifiers();
  d.expect_operands(sources + 1, sources + 1);
  d.out.op[0] = d.destination(0, type->bytes);
  for (size_t i = 1; i <= 3; ++i) d.out.op[i] = d.source(i <= sources ? i : 1, type);
}

namespace {

inline float saturate(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

// ---- f32 and f64: the operations rounded to nearest even ----

struct AddOp {
  template <class T>
  static T apply(T a, T b, T) {
    return a + b;
  }
};
struct SubOp {
  template <class T>
  static T apply(T a, T b, T) {
    return a - b;
  }
};
struct MulOp {
  template <class T>
  static T apply(T a, T b, T) {
    return a * b;
  }
};
struct DivOp {
  template <class T>
  static T apply(T a, T b, T) {
    return a / b;
  }
};
struct FmaOp {
  template <class T>
  static T apply(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};
struct SqrtOp {
  template <class T>
  static T apply(T a, T, T) {
    return std::sqrt(a);
  }
};
struct RcpOp {
  template <class T>
  static T apply(T a, T, T) {
    return T(1) / a;
  }
};

template <class T, class Op, bool flush, bool sat>
Step run_nearest(Warp& w, const Instruction& in, LaneMask exec) {
  const T* a = w.reg<T>(in.op[1]);
  const T* b = w.reg<T>(in.op[2]);
  const T* c = w.reg<T>(in.op[3]);
  write_lanes(w.reg<T>(in.op[0]), exec, [&](int l) {
    T x = a[l], y = b[l], z = c[l];
    if constexpr (flush) x = flush_f32(x), y = flush_f32(y), z = flush_f32(z);
    T r = canonical(Op::apply(x, y, z));
    if constexpr (flush) r = flush_f32(r);
    if constexpr (sat) r = saturate(r);
    return r;
  });
  return Step::kNext;
}

template <class Op>
Handler nearest_f32(const FloatMode& mode) {
  if (mode.flush) return mode.saturate ? run_nearest<float, Op, true, true> : run_nearest<float, Op, true, false>;
  return mode.saturate ? run_nearest<float, Op, false, true> : run_nearest<float, Op, false, false>;
}

// ---- f32 and f64 in a directed rounding mode ----

struct Directed {
  Arithmetic operation;
  FloatMode mode;
};

Step run_directed_f32(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& spec = *static_cast<const Directed*>(in.extra);
  const float* a = w.reg<float>(in.op[1]);
  const float* b = w.reg<float>(in.op[2]);
  const float* c = w.reg<float>(in.op[3]);
  auto flush = [&](float x) { return spec.mode.flush ? flush_f32(x) : x; };
  write_each(w.reg<float>(in.op[0]), exec, [&](int l) {
    float r = flush(canonical(f32_arithmetic(spec.operation, spec.mode.round, flush(a[l]), flush(b[l]), flush(c[l]))));
    return spec.mode.saturate ? saturate(r) : r;
  });
  return Step::kNext;
}

Step run_directed_f64(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& spec = *static_cast<const Directed*>(in.extra);
  const double* a = w.reg<double>(in.op[1]);
  const double* b = w.reg<double>(in.op[2]);
  const double* c = w.reg<double>(in.op[3]);
  write_each(w.reg<double>(in.op[0]), exec,
             [&](int l) { return f64_arithmetic(spec.operation, spec.mode.round, a[l], b[l], c[l]); });
  return Step::kNext;
}

// ---- f16 and bf16 ----

struct HalfSpec {
  Format format;
  HalfMode mode;
  Arithmetic operation;
};

uint16_t half_arithmetic(const HalfSpec& s, uint16_t a, uint16_t b, uint16_t c) {
  switch (s.operation) {
    case Arithmetic::kAdd:
      return half_add(s.format, a, b, s.mode);
    case Arithmetic::kSub:
      return half_sub(s.format, a, b, s.mode);
    case Arithmetic::kMul:
      return half_mul(s.format, a, b, s.mode);
    default:
      return half_fma(s.format, a, b, c, s.mode);
  }
}

Step run_half(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& spec = *static_cast<const HalfSpec*>(in.extra);
  const uint16_t* a = w.reg<uint16_t>(in.op[1]);
  const uint16_t* b = w.reg<uint16_t>(in.op[2]);
  const uint16_t* c = w.reg<uint16_t>(in.op[3]);
  write_each(w.reg<uint16_t>(in.op[0]), exec, [&](int l) { return half_arithmetic(spec, a[l], b[l], c[l]); });
  return Step::kNext;
}

Step run_half2(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& spec = *static_cast<const HalfSpec*>(in.extra);
  const uint32_t* a = w.reg<uint32_t>(in.op[1]);
  const uint32_t* b = w.reg<uint32_t>(in.op[2]);
  const uint32_t* c = w.reg<uint32_t>(in.op[3]);
  write_each(w.reg<uint32_t>(in.op[0]), exec, [&](int l) {
    auto half = [&](int shift) {
      return static_cast<uint32_t>(half_arithmetic(spec, static_cast<uint16_t>(a[l] >> shift),
                                                   static_cast<uint16_t>(b[l] >> shift),
                                                   static_cast<uint16_t>(c[l] >> shift)));
    };
    return half(0) | half(16) << 16;
  });
  return Step::kNext;
}

// ---- decoding of add, sub, mul, fma, div, sqrt, rcp ----

struct ArithmeticRow {
  const char* opcode;
  Arithmetic operation;
  size_t sources;
  bool half;
  Handler (*f32)(const FloatMode&);
  Handler f64;
};

const ArithmeticRow kArithmetic[] = {
    {"add", Arithmetic::kAdd, 2, true, nearest_f32<AddOp>, run_nearest<double, AddOp, false, false>},
    {"sub", Arithmetic::kSub, 2, true, nearest_f32<SubOp>, run_nearest<double, SubOp, false, false>},
    {"mul", Arithmetic::kMul, 2, true, nearest_f32<MulOp>, run_nearest<double, MulOp, false, false>},
    {"fma", Arithmetic::kFma, 3, true, nearest_f32<FmaOp>, run_nearest<double, FmaOp, false, false>},
    {"mad", Arithmetic::kFma, 3, false, nearest_f32<FmaOp>, run_nearest<double, FmaOp, false, false>},
    {"div", Arithmetic::kDiv, 2, false, nearest_f32<DivOp>, run_nearest<double, DivOp, false, false>},
    {"sqrt", Arithmetic::kSqrt, 1, false, nearest_f32<SqrtOp>, run_nearest<double, SqrtOp, false, false>},
    {"rcp", Arithmetic::kDiv, 1, false, nearest_f32<RcpOp>, run_nearest<double, RcpOp, false, false>},
};

void decode_plain_arithmetic(Decoder& d, const ArithmeticRow& row, const FloatMode& mode, const TypeInfo* type) {
  Format format;
  bool packed;
  if (row.half && is_half(type, &format, &packed)) {
    if (mode.directed) d.fail("half precision only rounds to nearest");
    decode_sources(d, type, row.sources);
    auto& spec = d.attach<HalfSpec>();
    spec.format = format;
    spec.mode = {mode.flush, mode.saturate, mode.relu};
    spec.operation = row.operation;
    d.out.run = packed ? run_half2 : run_half;
    return;
  }
  std::string name = type->name;
  if (name != "f32" && name != "f64") d.fail("unsupported type");
  decode_sources(d, type, row.sources);
  if (mode.relu) d.fail("unknown modifier .relu");
  if (name == "f64" && (mode.flush || mode.saturate)) d.fail("a modifier that .f64 does not have");
  if (!mode.directed) {
    d.out.run = name == "f32" ? row.f32(mode) : row.f64;
    return;
  }
  if (std::string(row.opcode) == "rcp") {
    d.out.op[2] = d.out.op[1];
    d.out.op[1] = name == "f32" ? d.splat32(0x3f800000u) : d.splat64(0x3ff0000000000000ull);
  }
  auto& spec = d.attach<Directed>();
  spec.operation = row.operation;
  spec.mode = mode;
  d.out.run = name == "f32" ? run_directed_f32 : run_directed_f64;
}

void decode_arithmetic(Decoder& d) {
  if (decode_integer_arithmetic(d)) return;
  for (const ArithmeticRow& row : kArithmetic) {
    if (d.statement.opcode != row.opcode) continue;
    FloatMode mode = take_float_mode(d);
    decode_plain_arithmetic(d, row, mode, d.take_type());
    return;
  }
}

// ---- approximations ----

struct Approximation {
  float (*f32)(float, bool);
};

Step run_approximation(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& spec = *static_cast<const Approximation*>(in.extra);
  const float* a = w.reg<float>(in.op[1]);
  bool flush = in.variant;
  write_each(w.reg<float>(in.op[0]), exec, [&](int l) { return spec.f32(a[l], flush); });
  return Step::kNext;
}

Step run_approximate_division(Warp& w, const Instruction& in, LaneMask exec) {
  const float* a = w.reg<float>(in.op[1]);
  const float* b = w.reg<float>(in.op[2]);
  write_each(w.reg<float>(in.op[0]), exec, [&](int l) {
    return (in.variant & 2) ? div_full(a[l], b[l], in.variant & 1) : div_approx(a[l], b[l], in.variant & 1);
  });
  return Step::kNext;
}

template <double (*f)(double)>
Step run_approximation_f64(Warp& w, const Instruction& in, LaneMask exec) {
  const double* a = w.reg<double>(in.op[1]);
  write_each(w.reg<double>(in.op[0]), exec, [&](int l) { return f(a[l]); });
  return Step::kNext;
}

void exp2_lanes(const float* x, float* result) {
  if (const auto wider = vector_functions().exp2) return wider(x, result);
  for (int l = 0; l < kLanes; ++l) result[l] = exp2_rounded<LibraryMachine>(x[l]);
}

template <bool flush>
Step run_exp2(Warp& w, const Instruction& in, LaneMask exec) {
  const float* a = w.reg<float>(in.op[1]);
  alignas(64) float x[kLanes], result[kLanes];
  for (int l = 0; l < kLanes; ++l) x[l] = flush ? flush_f32(a[l]) : a[l];
  exp2_lanes(x, result);
  write_lanes(w.reg<float>(in.op[0]), exec, [&](int l) { return flush ? flush_f32(result[l]) : result[l]; });
  return Step::kNext;
}

struct HalfApproximation {
  Format format;
  bool tanh;
  bool flush;
  uint16_t operator()(uint16_t x) const {
    return tanh ? half_tanh_approx(format, x) : half_ex2_approx(format, x, flush);
  }
};

Step run_half_approximation(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& f = *static_cast<const HalfApproximation*>(in.extra);
  if (in.variant) {
    const uint32_t* a = w.reg<uint32_t>(in.op[1]);
    write_each(w.reg<uint32_t>(in.op[0]), exec, [&](int l) {
      return static_cast<uint32_t>(f(static_cast<uint16_t>(a[l]))) |
             static_cast<uint32_t>(f(static_cast<uint16_t>(a[l] >> 16))) << 16;
    });
  } else {
    const uint16_t* a = w.reg<uint16_t>(in.op[1]);
    write_each(w.reg<uint16_t>(in.op[0]), exec, [&](int l) { return f(a[l]); });
  }
  return Step::kNext;
}

void decode_f32_approximation(Decoder& d, float (*f)(float, bool), const FloatMode& mode) {
  const TypeInfo* type = find_type("f32");
  decode_sources(d, type, 1);
  d.attach<Approximation>().f32 = f;
  d.out.variant = mode.flush;
  d.out.run = f != ex2_approx ? run_approximation : mode.flush ? run_exp2<true> : run_exp2<false>;
}

float tanh_f32(float x, bool) { return tanh_approx(x); }

struct ApproximationRow {
  const char* opcode;
  float (*f32)(float, bool);
  double (*f64)(double);
  bool half;
};

const ApproximationRow kApproximations[] = {
    {"ex2", ex2_approx, nullptr, true},
    {"lg2", lg2_approx, nullptr, false},
    {"sin", sin_approx, nullptr, false},
    {"cos", cos_approx, nullptr, false},
    {"rsqrt", rsqrt_approx, rsqrt_approx_f64, false},
    {"tanh", tanh_f32, nullptr, true},
    {"sqrt", sqrt_approx, nullptr, false},
    {"rcp", rcp_approx, rcp_approx_f64, false},
};

void decode_approximation_row(Decoder& d, const ApproximationRow& row, const FloatMode& mode, const TypeInfo* type) {
  std::string name = type->name;
  Format format;
  bool packed;
  if (name == "f32") return decode_f32_approximation(d, row.f32, mode);
  if (name == "f64" && row.f64) {
    decode_sources(d, type, 1);
    d.out.run = std::string(row.opcode) == "rcp" ? run_approximation_f64<rcp_approx_f64>
                                                 : run_approximation_f64<rsqrt_approx_f64>;
    return;
  }
  if (!row.half || !is_half(type, &format, &packed)) d.fail("unsupported type");
  decode_sources(d, type, 1);
  d.attach<HalfApproximation>() = {format, std::string(row.opcode) == "tanh", mode.flush};
  d.out.variant = packed;
  d.out.run = run_half_approximation;
}

void decode_approximation(Decoder& d) {
  FloatMode mode = take_float_mode(d);
  if (!mode.approx) d.fail("expected .approx");
  for (const ApproximationRow& row : kApproximations) {
    if (d.statement.opcode == row.opcode) return decode_approximation_row(d, row, mode, d.take_type());
  }
}

/// sqrt, rcp: .approx or rounded. div: .approx, .full or rounded.
void decode_root_or_reciprocal(Decoder& d) {
  for (const std::string& modifier : d.statement.modifiers) {
    if (modifier == "approx") return decode_approximation(d);
  }
  decode_arithmetic(d);
}

void decode_division(Decoder& d) {
  if (decode_integer_arithmetic(d)) return;
  for (const std::string& modifier : d.statement.modifiers) {
    if (modifier != "approx" && modifier != "full") continue;
    FloatMode mode = take_float_mode(d);
    const TypeInfo* type = d.take_type();
    if (std::string(type->name) != "f32") d.fail("the type must be .f32");
    decode_sources(d, type, 2);
    d.out.variant = static_cast<uint8_t>((mode.flush ? 1 : 0) | (mode.full ? 2 : 0));
    d.out.run = run_approximate_division;
    return;
  }
  decode_arithmetic(d);
}

}  // namespace

const std::vector<OpcodeRow>& float_opcodes() {
  static const std::vector<OpcodeRow> rows = {
      {"add", decode_arithmetic, "arithmetic", Effect::kComputes},
      {"sub", decode_arithmetic, "arithmetic", Effect::kComputes},
      {"mul", decode_arithmetic, "arithmetic", Effect::kComputes},
      {"fma", decode_arithmetic, "arithmetic", Effect::kComputes},
      {"mad", decode_arithmetic, "arithmetic", Effect::kComputes},
      {"div", decode_division, "arithmetic", Effect::kComputes},
      {"sqrt", decode_root_or_reciprocal, "special function", Effect::kComputes},
      {"rcp", decode_root_or_reciprocal, "special function", Effect::kComputes},
      {"rsqrt", decode_approximation, "special function", Effect::kComputes},
      {"ex2", decode_approximation, "special function", Effect::kComputes},
      {"lg2", decode_approximation, "special function", Effect::kComputes},
      {"sin", decode_approximation, "special function", Effect::kComputes},
      {"cos", decode_approximation, "special function", Effect::kComputes},
      {"tanh", decode_approximation, "special function", Effect::kComputes},
  };
  return rows;
}

}  // namespace simulator
}  // namespace tilelang
