// Comparison and selection (PTX ISA, "Comparison and Selection Instructions", half precision included).
#include <cmath>

#include "lanes.h"
#include "numerics.h"

namespace tilelang {
namespace simulator {
namespace {

/// Comparison operators; the unordered forms are true when an operand is NaN.
enum class Compare : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };

const char* const kCompareNames[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                     "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

/// The unsigned spellings of integer comparisons.
const std::pair<const char*, Compare> kUnsignedNames[] = {
    {"lo", Compare::kLt}, {"ls", Compare::kLe}, {"hi", Compare::kGt}, {"hs", Compare::kGe}};

template <class T, class Load>
LaneMask compare_lanes(Compare op, const Load& a, const Load& b) {
  // Ordered comparisons are false on NaN except ne, whose C++ operator is true: exclude NaN there.
  switch (op) {
    case Compare::kEq:
      return mask_lanes([&](int l) { return a(l) == b(l); });
    case Compare::kNe:
      if constexpr (std::is_floating_point_v<T>) return mask_lanes([&](int l) { return a(l) < b(l) || a(l) > b(l); });
      return mask_lanes([&](int l) { return a(l) != b(l); });
    case Compare::kLt:
      return mask_lanes([&](int l) { return a(l) < b(l); });
    case Compare::kLe:
      return mask_lanes([&](int l) { return a(l) <= b(l); });
    case Compare::kGt:
      return mask_lanes([&](int l) { return a(l) > b(l); });
    case Compare::kGe:
      return mask_lanes([&](int l) { return a(l) >= b(l); });
    case Compare::kEqu:
      return mask_lanes([&](int l) { return !(a(l) < b(l) || a(l) > b(l)); });
    case Compare::kNeu:
      return mask_lanes([&](int l) { return !(a(l) == b(l)); });
    case Compare::kLtu:
      return mask_lanes([&](int l) { return !(a(l) >= b(l)); });
    case Compare::kLeu:
      return mask_lanes([&](int l) { return !(a(l) > b(l)); });
    case Compare::kGtu:
      return mask_lanes([&](int l) { return !(a(l) <= b(l)); });
    case Compare::kGeu:
      return mask_lanes([&](int l) { return !(a(l) < b(l)); });
    case Compare::kNum:
      return mask_lanes([&](int l) { return a(l) == a(l) && b(l) == b(l); });
    case Compare::kNan:
      return mask_lanes([&](int l) { return !(a(l) == a(l) && b(l) == b(l)); });
  }
  return 0;
}

// How a register becomes a comparable value.
template <class T>
struct Plain {
  using Register = T;
  using Value = T;
  static T value(T x) { return x; }
};
struct FlushF32 {
  using Register = float;
  using Value = float;
  static float value(float x) { return flush_f32(x); }
};
template <bool flush>
struct HalfF16 {
  using Register = uint16_t;
  using Value = float;
  static float value(uint16_t x) {
    return f16_to_f32(flush && (x & 0x7c00) == 0 ? static_cast<uint16_t>(x & 0x8000) : x);
  }
};
struct HalfBF16 {
  using Register = uint16_t;
  using Value = float;
  static float value(uint16_t x) { return bf16_to_f32(x); }
};

template <class V>
LaneMask compare_registers(Warp& w, Compare op, uint32_t a_slot, uint32_t b_slot) {
  const auto* a = w.reg<typename V::Register>(a_slot);
  const auto* b = w.reg<typename V::Register>(b_slot);
  struct Load {
    const typename V::Register* p;
    typename V::Value operator()(int l) const { return V::value(p[l]); }
  };
  return compare_lanes<typename V::Value>(op, Load{a}, Load{b});
}

struct CompareSpec {
  Compare op;
  LaneMask (*compare)(Warp&, Compare, uint32_t, uint32_t);
  enum class Combine : uint8_t { kNone, kAnd, kOr, kXor } combine = Combine::kNone;
  bool c_negated = false;
  bool packed = false;
  Format half = Format::kF16;
  bool flush = false;
  uint8_t result_bytes = 0;  // set: width of d
  bool result_float = false;
};

LaneMask combine(const CompareSpec& spec, LaneMask value, LaneMask c) {
  switch (spec.combine) {
    case CompareSpec::Combine::kAnd:
      return value & c;
    case CompareSpec::Combine::kOr:
      return value | c;
    case CompareSpec::Combine::kXor:
      return value ^ c;
    default:
      return value;
  }
}

/// Compares one half of packed operands.
LaneMask compare_half(Warp& w, const CompareSpec& spec, uint32_t a_slot, uint32_t b_slot, int shift) {
  const uint32_t* a = w.reg<uint32_t>(a_slot);
  const uint32_t* b = w.reg<uint32_t>(b_slot);
  struct Load {
    const uint32_t* p;
    int shift;
    const CompareSpec& spec;
    float operator()(int l) const {
      auto x = static_cast<uint16_t>(p[l] >> shift);
      if (spec.half == Format::kBF16) return bf16_to_f32(x);
      return spec.flush ? HalfF16<true>::value(x) : HalfF16<false>::value(x);
    }
  };
  return compare_lanes<float>(spec.op, Load{a, shift, spec}, Load{b, shift, spec});
}

Step run_setp(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& spec = *static_cast<const CompareSpec*>(in.extra);
  LaneMask c = 0;
  if (spec.combine != CompareSpec::Combine::kNone) c = w.predicate(in.op[4]) ^ (spec.c_negated ? kAllLanes : 0);
  if (spec.packed) {
    LaneMask low = combine(spec, compare_half(w, spec, in.op[2], in.op[3], 0), c);
    LaneMask high = combine(spec, compare_half(w, spec, in.op[2], in.op[3], 16), c);
    write_predicate(w.predicate(in.op[0]), exec, low);
    write_predicate(w.predicate(in.op[1]), exec, high);
    return Step::kNext;
  }
  LaneMask value = spec.compare(w, spec.op, in.op[2], in.op[3]);
  write_predicate(w.predicate(in.op[0]), exec, combine(spec, value, c));
  if (in.variant) write_predicate(w.predicate(in.op[1]), exec, combine(spec, ~value, c));
  return Step::kNext;
}

/// setp without a combining predicate and without a second result: nearly all of them.
template <class V>
Step run_setp_plain(Warp& w, const Instruction& in, LaneMask exec) {
  LaneMask value = compare_registers<V>(w, static_cast<Compare>(in.variant), in.op[2], in.op[3]);
  write_predicate(w.predicate(in.op[0]), exec, value);
  return Step::kNext;
}

Step run_set(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& spec = *static_cast<const CompareSpec*>(in.extra);
  LaneMask c = 0;
  if (spec.combine != CompareSpec::Combine::kNone) c = w.predicate(in.op[4]) ^ (spec.c_negated ? kAllLanes : 0);
  if (spec.packed) {
    LaneMask low = combine(spec, compare_half(w, spec, in.op[2], in.op[3], 0), c);
    LaneMask high = combine(spec, compare_half(w, spec, in.op[2], in.op[3], 16), c);
    uint32_t one = !spec.result_float ? 0xffff : spec.half == Format::kBF16 ? 0x3f80 : 0x3c00;
    write_lanes(w.reg<uint32_t>(in.op[0]), exec,
                [&](int l) { return (low >> l & 1 ? one : 0) | (high >> l & 1 ? one << 16 : 0); });
    return Step::kNext;
  }
  LaneMask value = combine(spec, spec.compare(w, spec.op, in.op[2], in.op[3]), c);
  if (spec.result_bytes == 2) {
    uint16_t one = !spec.result_float ? 0xffff : spec.half == Format::kBF16 ? 0x3f80 : 0x3c00;
    write_lanes(w.reg<uint16_t>(in.op[0]), exec,
                [&](int l) { return static_cast<uint16_t>(value >> l & 1 ? one : 0); });
  } else {
    uint32_t one = spec.result_float ? 0x3f800000u : 0xffffffffu;
    write_lanes(w.reg<uint32_t>(in.op[0]), exec, [&](int l) { return value >> l & 1 ? one : 0u; });
  }
  return Step::kNext;
}

struct TypedCompare {
  const char* type;
  LaneMask (*compare)(Warp&, Compare, uint32_t, uint32_t);
  LaneMask (*flushed)(Warp&, Compare, uint32_t, uint32_t);
  Handler plain, plain_flushed;
};

template <class V, class F = V>
constexpr TypedCompare typed(const char* type) {
  return {type, compare_registers<V>, compare_registers<F>, run_setp_plain<V>, run_setp_plain<F>};
}

const TypedCompare kTyped[] = {
    typed<Plain<uint16_t>>("b16"), typed<Plain<uint32_t>>("b32"),
    typed<Plain<uint64_t>>("b64"), typed<Plain<uint16_t>>("u16"),
    typed<Plain<uint32_t>>("u32"), typed<Plain<uint64_t>>("u64"),
    typed<Plain<int16_t>>("s16"),  typed<Plain<int32_t>>("s32"),
    typed<Plain<int64_t>>("s64"),  typed<Plain<float>, FlushF32>("f32"),
    typed<Plain<double>>("f64"),   typed<HalfF16<false>, HalfF16<true>>("f16"),
    typed<HalfBF16>("bf16"),
};

Compare take_compare(Decoder& d) {
  for (int i = 0; i < 14; ++i) {
    if (d.modifiers.take(kCompareNames[i])) return static_cast<Compare>(i);
  }
  for (const auto& item : kUnsignedNames) {
    if (d.modifiers.take(item.first)) return item.second;
  }
  d.fail("unknown comparison ." + d.modifiers.peek());
}

CompareSpec::Combine take_combine(Decoder& d) {
  if (d.modifiers.take("and")) return CompareSpec::Combine::kAnd;
  if (d.modifiers.take("or")) return CompareSpec::Combine::kOr;
  if (d.modifiers.take("xor")) return CompareSpec::Combine::kXor;
  return CompareSpec::Combine::kNone;
}

/// Modifiers up to the (source) type, and the sources. Fills everything but the destination.
const TypedCompare* decode_comparison(Decoder& d, CompareSpec& spec, const TypeInfo* result) {
  const TypeInfo* type = d.take_type();
  if (result && find_type(d.modifiers.peek())) {
    spec.result_float =
        type->kind == 'f' || type->kind == 'h' || (type->kind == 'x' && type->name[0] != 'u' && type->name[0] != 's');
    spec.result_bytes = type->bytes;
    type = d.take_type();
  }
  d.expect_no_more_modifiers();
  std::string name = type->name;
  spec.packed = name == "f16x2" || name == "bf16x2";
  spec.half = name.rfind("bf16", 0) == 0 ? Format::kBF16 : Format::kF16;
  d.out.op[2] = d.source(1, type);
  d.out.op[3] = d.source(2, type);
  bool combined = spec.combine != CompareSpec::Combine::kNone;
  d.expect_operands(combined ? 4 : 3, combined ? 4 : 3);
  if (combined) d.out.op[4] = d.predicate(3, &spec.c_negated);
  if (spec.packed) return nullptr;
  for (const TypedCompare& row : kTyped) {
    if (name != row.type) continue;
    spec.compare = spec.flush ? row.flushed : row.compare;
    return &row;
  }
  d.fail("unsupported type");
}

void decode_setp(Decoder& d) {
  auto& spec = d.attach<CompareSpec>();
  spec.op = take_compare(d);
  spec.combine = take_combine(d);
  spec.flush = d.modifiers.take("ftz");
  const TypedCompare* row = decode_comparison(d, spec, nullptr);
  const Operand& target = d.operand(0);
  bool pair = target.kind == Operand::Kind::kPair;
  if (spec.packed && !pair) d.fail("packed comparisons need p|q");
  d.out.op[0] = d.predicate_destination(pair ? target.children[0] : target);
  if (pair) d.out.op[1] = d.predicate_destination(target.children[1]);
  d.out.variant = pair ? 1 : 0;
  d.out.run = run_setp;
  if (row && !pair && spec.combine == CompareSpec::Combine::kNone) {
    d.out.variant = static_cast<uint8_t>(spec.op);
    d.out.run = spec.flush ? row->plain_flushed : row->plain;
  }
}

void decode_set(Decoder& d) {
  auto& spec = d.attach<CompareSpec>();
  spec.op = take_compare(d);
  spec.combine = take_combine(d);
  spec.flush = d.modifiers.take("ftz");
  const TypeInfo* result = find_type(d.modifiers.peek());
  decode_comparison(d, spec, result);
  if (spec.result_bytes == 0) d.fail("a result type is missing");
  d.out.op[0] = d.destination(0, spec.packed ? 4 : spec.result_bytes);
  d.out.run = run_set;
}

template <class T>
Step run_selp(Warp& w, const Instruction& in, LaneMask exec) {
  const T* a = w.reg<T>(in.op[1]);
  const T* b = w.reg<T>(in.op[2]);
  LaneMask p = w.predicate(in.op[3]) ^ (in.variant ? kAllLanes : 0);
  write_lanes(w.reg<T>(in.op[0]), exec, [&](int l) { return (p >> l & 1) ? a[l] : b[l]; });
  return Step::kNext;
}

void decode_selp(Decoder& d) {
  const TypeInfo* type = d.take_type();
  d.expect_no_more_modifiers();
  d.expect_operands(4, 4);
  bool negated;
  d.out.op[0] = d.destination(0, type->bytes);
  d.out.op[1] = d.source(1, type);
  d.out.op[2] = d.source(2, type);
  d.out.op[3] = d.predicate(3, &negated);
  d.out.variant = negated ? 1 : 0;
  d.out.run = by_width(d, type, run_selp<uint16_t>, run_selp<uint32_t>, run_selp<uint64_t>);
}

template <class T>
Step run_slct(Warp& w, const Instruction& in, LaneMask exec) {
  const T* a = w.reg<T>(in.op[1]);
  const T* b = w.reg<T>(in.op[2]);
  LaneMask p;
  if (in.variant & 1) {
    const float* c = w.reg<float>(in.op[3]);
    bool flush = in.variant & 2;
    p = mask_lanes([&](int l) { return (flush ? flush_f32(c[l]) : c[l]) >= 0; });
  } else {
    const int32_t* c = w.reg<int32_t>(in.op[3]);
    p = mask_lanes([&](int l) { return c[l] >= 0; });
  }
  write_lanes(w.reg<T>(in.op[0]), exec, [&](int l) { return (p >> l & 1) ? a[l] : b[l]; });
  return Step::kNext;
}

void decode_slct(Decoder& d) {
  bool flush = d.modifiers.take("ftz");
  const TypeInfo* type = d.take_type();
  const TypeInfo* selector = d.take_type();
  if (selector->bytes != 4) d.fail("the selector must be .s32 or .f32");
  decode_elementwise(d, type, {type, type, selector});
  d.out.variant = static_cast<uint8_t>((selector->kind == 'f' ? 1 : 0) | (flush ? 2 : 0));
  d.out.run = by_width(d, type, run_slct<uint16_t>, run_slct<uint32_t>, run_slct<uint64_t>);
}

const char* const kTests[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};

template <class T>
bool test_number(int test, T x) {
  switch (test) {
    case 0:
      return std::isfinite(x);
    case 1:
      return std::isinf(x);
    case 2:
      return !std::isnan(x);
    case 3:
      return std::isnan(x);
    case 4:
      return std::isnormal(x);
    default:
      return std::fpclassify(x) == FP_SUBNORMAL;
  }
}

template <class T>
Step run_testp(Warp& w, const Instruction& in, LaneMask exec) {
  const T* a = w.reg<T>(in.op[1]);
  write_predicate(w.predicate(in.op[0]), exec, mask_lanes([&](int l) { return test_number(in.variant, a[l]); }));
  return Step::kNext;
}

void decode_testp(Decoder& d) {
  uint8_t test = 0;
  while (test < 6 && !d.modifiers.take(kTests[test])) ++test;
  if (test == 6) d.fail("unknown test ." + d.modifiers.peek());
  const TypeInfo* type = d.take_type();
  d.expect_no_more_modifiers();
  d.expect_operands(2, 2);
  d.out.variant = test;
  d.out.op[0] = d.predicate_destination(0);
  d.out.op[1] = d.source(1, type);
  if (std::string(type->name) == "f32")
    d.out.run = run_testp<float>;
  else if (std::string(type->name) == "f64")
    d.out.run = run_testp<double>;
  else
    d.fail("the type must be .f32 or .f64");
}

template <class T>
struct CopySign {
  using D = T;
  using S = T;
  static T apply(T a, T b) {
    constexpr T sign = T(1) << (sizeof(T) * 8 - 1);
    return static_cast<T>((a & sign) | (b & ~sign));
  }
};

void decode_copysign(Decoder& d) {
  const TypeInfo* type = d.take_type();
  decode_elementwise(d, type, {type, type});
  if (std::string(type->name) == "f32")
    d.out.run = run_binary<CopySign<uint32_t>>;
  else if (std::string(type->name) == "f64")
    d.out.run = run_binary<CopySign<uint64_t>>;
  else
    d.fail("the type must be .f32 or .f64");
}

}  // namespace

const std::vector<OpcodeRow>& compare_opcodes() {
  static const std::vector<OpcodeRow> rows = {
      {"setp", decode_setp, "compare", Effect::kComputes},
      {"set", decode_set, "compare", Effect::kComputes},
      {"selp", decode_selp, "compare", Effect::kComputes},
      {"slct", decode_slct, "compare", Effect::kComputes},
      {"testp", decode_testp, "compare", Effect::kComputes},
      {"copysign", decode_copysign, "compare", Effect::kComputes},
  };
  return rows;
}

}  // namespace simulator
}  // namespace tilelang
