// Bits: logic, shifts, permutation, fields (PTX ISA, "Logic and Shift Instructions" and the bit-field instructions).
#include <algorithm>

#include "lanes.h"

namespace tilelang {
namespace simulator {
namespace {

template <class T>
struct Same {
  using D = T;
  using S = T;
  using C = T;
};
template <class T>
constexpr uint32_t kBits = sizeof(T) * 8;

template <class T>
struct And : Same<T> {
  static T apply(T a, T b) { return a & b; }
};
template <class T>
struct Or : Same<T> {
  static T apply(T a, T b) { return a | b; }
};
template <class T>
struct Xor : Same<T> {
  static T apply(T a, T b) { return a ^ b; }
};
template <class T>
struct Not : Same<T> {
  static T apply(T a) { return static_cast<T>(~a); }
};
template <class T>
struct CNot : Same<T> {
  static T apply(T a) { return a == 0; }
};

// Shift amounts are 32-bit and clamp at the width.
template <class T>
struct Shl {
  using D = T;
  static T apply(T a, uint32_t n) { return n >= kBits<T> ? T(0) : static_cast<T>(static_cast<uint64_t>(a) << n); }
};
template <class T>
struct Shr {
  using D = T;
  static T apply(T a, uint32_t n) {
    constexpr uint32_t last = kBits<T> - 1;
    if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> (n > last ? last : n));
    return n > last ? T(0) : static_cast<T>(a >> n);
  }
};

template <class Op>
Step run_shift(Warp& w, const Instruction& in, LaneMask exec) {
  using T = typename Op::D;
  const T* a = w.reg<T>(in.op[1]);
  const uint32_t* n = w.reg<uint32_t>(in.op[2]);
  write_lanes(w.reg<T>(in.op[0]), exec, [&](int l) { return Op::apply(a[l], n[l]); });
  return Step::kNext;
}

template <bool left, bool wrap>
Step run_funnel(Warp& w, const Instruction& in, LaneMask exec) {
  const uint32_t* a = w.reg<uint32_t>(in.op[1]);
  const uint32_t* b = w.reg<uint32_t>(in.op[2]);
  const uint32_t* c = w.reg<uint32_t>(in.op[3]);
  write_lanes(w.reg<uint32_t>(in.op[0]), exec, [&](int l) {
    uint32_t n = wrap ? (c[l] & 31) : (c[l] > 32 ? 32 : c[l]);
    uint64_t pair = static_cast<uint64_t>(b[l]) << 32 | a[l];
    return static_cast<uint32_t>(left ? (pair << n) >> 32 : pair >> n);
  });
  return Step::kNext;
}

Step run_lop3(Warp& w, const Instruction& in, LaneMask exec) {
  const uint32_t* a = w.reg<uint32_t>(in.op[1]);
  const uint32_t* b = w.reg<uint32_t>(in.op[2]);
  const uint32_t* c = w.reg<uint32_t>(in.op[3]);
  // Each bit of the table selects one product of the inputs: all ones where the table has a one.
  uint32_t t[8];
  for (int i = 0; i < 8; ++i) t[i] = (in.immediate >> i & 1) ? 0xffffffffu : 0;
  auto value = [&](int l) {
    uint32_t x = a[l], y = b[l], z = c[l];
    return (t[0] & ~x & ~y & ~z) | (t[1] & ~x & ~y & z) | (t[2] & ~x & y & ~z) | (t[3] & ~x & y & z) |
           (t[4] & x & ~y & ~z) | (t[5] & x & ~y & z) | (t[6] & x & y & ~z) | (t[7] & x & y & z);
  };
  if (in.variant == 0) {
    write_lanes(w.reg<uint32_t>(in.op[0]), exec, value);
    return Step::kNext;
  }
  // d|p = lop3.BoolOp(...) q: the predicate is (d != 0) op q.
  alignas(64) uint32_t result[kLanes];
  for (int l = 0; l < kLanes; ++l) result[l] = value(l);
  LaneMask nonzero = mask_lanes([&](int l) { return result[l] != 0; });
  LaneMask q = w.predicate(in.op[5]) ^ ((in.variant & 4) ? kAllLanes : 0);
  write_predicate(w.predicate(in.op[4]), exec, (in.variant & 2) ? (nonzero & q) : (nonzero | q));
  write_lanes(w.reg<uint32_t>(in.op[0]), exec, [&](int l) { return result[l]; });
  return Step::kNext;
}

inline uint32_t pick_byte(uint64_t pair, uint32_t selector) {
  uint32_t byte = static_cast<uint32_t>(pair >> ((selector & 7) * 8)) & 0xff;
  return (selector & 8) ? ((byte & 0x80) ? 0xff : 0) : byte;
}

/// Selector of prmt's special modes for control value c (PTX ISA, prmt, table of modes).
uint32_t mode_selector(int mode, uint32_t c) {
  static const uint32_t tables[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543},  // f4e
      {0x5670, 0x6701, 0x7012, 0x0123},  // b4e
      {0x0000, 0x1111, 0x2222, 0x3333},  // rc8
      {0x3210, 0x3211, 0x3222, 0x3333},  // ecl
      {0x0000, 0x1110, 0x2210, 0x3210},  // ecr
      {0x1010, 0x3232, 0x1010, 0x3232},  // rc16
  };
  return tables[mode - 1][c & 3];
}

Step run_prmt(Warp& w, const Instruction& in, LaneMask exec) {
  const uint32_t* a = w.reg<uint32_t>(in.op[1]);
  const uint32_t* b = w.reg<uint32_t>(in.op[2]);
  const uint32_t* c = w.reg<uint32_t>(in.op[3]);
  write_lanes(w.reg<uint32_t>(in.op[0]), exec, [&](int l) {
    uint64_t pair = static_cast<uint64_t>(b[l]) << 32 | a[l];
    uint32_t s = in.variant ? mode_selector(in.variant, c[l]) : c[l];
    return pick_byte(pair, s) | pick_byte(pair, s >> 4) << 8 | pick_byte(pair, s >> 8) << 16 |
           pick_byte(pair, s >> 12) << 24;
  });
  return Step::kNext;
}

template <class T>
struct Bfe {
  static T apply(T a, uint32_t position, uint32_t length) {
    using U = std::make_unsigned_t<T>;
    position &= 0xff;
    length &= 0xff;
    if (length == 0) return 0;
    constexpr uint32_t last = kBits<T> - 1;
    U value = position > last ? U(0) : static_cast<U>(static_cast<U>(a) >> position);
    bool fill = false;
    if constexpr (std::is_signed_v<T>) fill = static_cast<U>(a) >> std::min(position + length - 1, last) & 1;
    uint32_t available = position > last ? 0 : kBits<T> - position;
    uint32_t valid = std::min(length, available);
    if (valid >= kBits<T>) return static_cast<T>(value);
    U mask = (U(1) << valid) - 1;
    return static_cast<T>((value & mask) | (fill ? ~mask : U(0)));
  }
};

template <class T>
Step run_bfe(Warp& w, const Instruction& in, LaneMask exec) {
  const T* a = w.reg<T>(in.op[1]);
  const uint32_t* b = w.reg<uint32_t>(in.op[2]);
  const uint32_t* c = w.reg<uint32_t>(in.op[3]);
  write_lanes(w.reg<T>(in.op[0]), exec, [&](int l) { return Bfe<T>::apply(a[l], b[l], c[l]); });
  return Step::kNext;
}

template <class T>
Step run_bfi(Warp& w, const Instruction& in, LaneMask exec) {
  const T* a = w.reg<T>(in.op[1]);
  const T* b = w.reg<T>(in.op[2]);
  const uint32_t* c = w.reg<uint32_t>(in.op[3]);
  const uint32_t* e = w.reg<uint32_t>(in.op[4]);
  write_lanes(w.reg<T>(in.op[0]), exec, [&](int l) {
    uint32_t position = c[l] & 0xff, length = e[l] & 0xff;
    if (position >= kBits<T> || length == 0) return b[l];
    T mask = length >= kBits<T> ? static_cast<T>(~T(0)) : static_cast<T>((T(1) << length) - 1);
    return static_cast<T>((b[l] & ~(mask << position)) | ((a[l] & mask) << position));
  });
  return Step::kNext;
}

template <class T>
struct BitFind {
  using D = uint32_t;
  using S = T;
  static uint32_t apply(T a) {
    using U = std::make_unsigned_t<T>;
    U value = static_cast<U>(a < 0 ? ~a : a);
    if (value == 0) return 0xffffffffu;
    return 63 - static_cast<uint32_t>(__builtin_clzll(value));
  }
};
template <class T>
struct BitFindShift {
  using D = uint32_t;
  using S = T;
  static uint32_t apply(T a) {
    uint32_t position = BitFind<T>::apply(a);
    return position == 0xffffffffu ? position : kBits<T> - 1 - position;
  }
};
template <class T>
struct Popc {
  using D = uint32_t;
  using S = T;
  static uint32_t apply(T a) { return static_cast<uint32_t>(__builtin_popcountll(a)); }
};
template <class T>
struct Clz {
  using D = uint32_t;
  using S = T;
  static uint32_t apply(T a) { return a ? static_cast<uint32_t>(__builtin_clzll(a)) - (64 - kBits<T>) : kBits<T>; }
};
template <class T>
struct Brev : Same<T> {
  static T apply(T a) {
    T r = 0;
    for (uint32_t i = 0; i < kBits<T>; ++i) r |= (a >> i & 1) << (kBits<T> - 1 - i);
    return r;
  }
};

/// A run of ones: bmsk d, position, count.
template <bool wrap>
Step run_bmsk(Warp& w, const Instruction& in, LaneMask exec) {
  const uint32_t* a = w.reg<uint32_t>(in.op[1]);
  const uint32_t* b = w.reg<uint32_t>(in.op[2]);
  write_lanes(w.reg<uint32_t>(in.op[0]), exec, [&](int l) {
    uint64_t position = wrap ? a[l] & 31 : std::min<uint32_t>(a[l], 32);
    uint64_t length = wrap ? b[l] & 31 : std::min<uint32_t>(b[l], 32);
    return static_cast<uint32_t>(((1ull << length) - 1) << position);
  });
  return Step::kNext;
}

/// The |offset|-th set bit of the mask, counted from bit `base` upwards (downwards for a negative offset); 0: bit `base` itself.
uint32_t find_nth_set(uint32_t mask, uint32_t base, int32_t offset) {
  if (base > 31) return ~0u;
  if (offset == 0) return mask >> base & 1 ? base : ~0u;
  int64_t missing = offset < 0 ? -static_cast<int64_t>(offset) : offset;
  for (int position = static_cast<int>(base); position >= 0 && position < 32; position += offset < 0 ? -1 : 1) {
    if ((mask >> position & 1) && --missing == 0) return static_cast<uint32_t>(position);
  }
  return ~0u;
}

Step run_fns(Warp& w, const Instruction& in, LaneMask exec) {
  const uint32_t* mask = w.reg<uint32_t>(in.op[1]);
  const uint32_t* base = w.reg<uint32_t>(in.op[2]);
  const int32_t* offset = w.reg<int32_t>(in.op[3]);
  write_lanes(w.reg<uint32_t>(in.op[0]), exec, [&](int l) { return find_nth_set(mask[l], base[l], offset[l]); });
  return Step::kNext;
}

template <bool wrap, bool is_signed>
Step run_szext(Warp& w, const Instruction& in, LaneMask exec) {
  const uint32_t* a = w.reg<uint32_t>(in.op[1]);
  const uint32_t* b = w.reg<uint32_t>(in.op[2]);
  write_lanes(w.reg<uint32_t>(in.op[0]), exec, [&](int l) {
    uint32_t n = wrap ? b[l] & 31 : std::min<uint32_t>(b[l], 32);
    if (n == 0) return 0u;
    if (n == 32) return a[l];
    uint32_t value = a[l] & ((1u << n) - 1);
    bool sign = is_signed && (value >> (n - 1) & 1);
    return sign ? value | ~((1u << n) - 1) : value;
  });
  return Step::kNext;
}

template <int op>
Step run_predicate_logic(Warp& w, const Instruction& in, LaneMask exec) {
  LaneMask a = w.predicate(in.op[1]) ^ ((in.variant & 1) ? kAllLanes : 0);
  LaneMask b = w.predicate(in.op[2]) ^ ((in.variant & 2) ? kAllLanes : 0);
  LaneMask r = op == 0 ? (a & b) : op == 1 ? (a | b) : op == 2 ? (a ^ b) : ~a;
  write_predicate(w.predicate(in.op[0]), exec, r);
  return Step::kNext;
}

template <template <class> class Op>
Handler binary_by_width(Decoder& d, const TypeInfo* type) {
  return by_width(d, type, run_binary<Op<uint16_t>>, run_binary<Op<uint32_t>>, run_binary<Op<uint64_t>>);
}

template <template <class> class Op>
Handler unary_by_width(Decoder& d, const TypeInfo* type) {
  return by_width(d, type, run_unary<Op<uint16_t>>, run_unary<Op<uint32_t>>, run_unary<Op<uint64_t>>);
}

template <template <class> class Op, int predicate_op>
void decode_logic(Decoder& d) {
  const TypeInfo* type = d.take_type();
  if (type->kind == 'p') {
    d.expect_no_more_modifiers();
    d.expect_operands(3, 3);
    bool na, nb;
    d.out.op[0] = d.predicate_destination(0);
    d.out.op[1] = d.predicate(1, &na);
    d.out.op[2] = d.predicate(2, &nb);
    d.out.variant = static_cast<uint8_t>((na ? 1 : 0) | (nb ? 2 : 0));
    d.out.run = run_predicate_logic<predicate_op>;
    return;
  }
  if (type->kind != 'b') d.fail("an untyped width (.b32) is needed");
  decode_elementwise(d, type, {type, type});
  d.out.run = binary_by_width<Op>(d, type);
}

void decode_not(Decoder& d) {
  const TypeInfo* type = d.take_type();
  if (type->kind == 'p') {
    d.expect_no_more_modifiers();
    d.expect_operands(2, 2);
    bool negated;
    d.out.op[0] = d.predicate_destination(0);
    d.out.op[1] = d.out.op[2] = d.predicate(1, &negated);
    d.out.variant = negated ? 1 : 0;
    d.out.run = run_predicate_logic<3>;
    return;
  }
  decode_elementwise(d, type, {type});
  d.out.run = unary_by_width<Not>(d, type);
}

void decode_cnot(Decoder& d) {
  const TypeInfo* type = d.take_type();
  decode_elementwise(d, type, {type});
  d.out.run = unary_by_width<CNot>(d, type);
}

void decode_shl(Decoder& d) {
  const TypeInfo* type = d.take_type();
  decode_elementwise(d, type, {type, find_type("u32")});
  d.out.run = by_width(d, type, run_shift<Shl<uint16_t>>, run_shift<Shl<uint32_t>>, run_shift<Shl<uint64_t>>);
}

void decode_shr(Decoder& d) {
  const TypeInfo* type = d.take_type();
  decode_elementwise(d, type, {type, find_type("u32")});
  d.out.run = type->kind == 's'
                  ? by_width(d, type, run_shift<Shr<int16_t>>, run_shift<Shr<int32_t>>, run_shift<Shr<int64_t>>)
                  : by_width(d, type, run_shift<Shr<uint16_t>>, run_shift<Shr<uint32_t>>, run_shift<Shr<uint64_t>>);
}

void decode_shf(Decoder& d) {
  bool left = d.modifiers.take("l");
  if (!left && !d.modifiers.take("r")) d.fail("expected .l or .r");
  bool wrap = d.modifiers.take("wrap");
  if (!wrap && !d.modifiers.take("clamp")) d.fail("expected .wrap or .clamp");
  const TypeInfo* type = d.take_type();
  if (std::string(type->name) != "b32") d.fail("the type must be .b32");
  decode_elementwise(d, type, {type, type, type});
  d.out.run = left ? (wrap ? run_funnel<true, true> : run_funnel<true, false>)
                   : (wrap ? run_funnel<false, true> : run_funnel<false, false>);
}

void decode_lop3(Decoder& d) {
  bool with_and = d.modifiers.take("and");
  bool with_or = !with_and && d.modifiers.take("or");
  const TypeInfo* type = d.take_type();
  if (std::string(type->name) != "b32") d.fail("the type must be .b32");
  d.expect_no_more_modifiers();
  bool combined = with_and || with_or;
  d.expect_operands(combined ? 6 : 5, combined ? 6 : 5);
  if (combined) {
    if (d.operand(0).kind != Operand::Kind::kPair) d.fail("expected d|p");
    bool negated;
    d.out.op[0] = d.destination(d.operand(0).children[0], 4);
    d.out.op[4] = d.predicate_destination(d.operand(0).children[1]);
    d.out.op[5] = d.predicate(5, &negated);
    d.out.variant = static_cast<uint8_t>(1 | (with_and ? 2 : 0) | (negated ? 4 : 0));
  } else {
    d.out.op[0] = d.destination(0, 4);
  }
  for (size_t i = 1; i <= 3; ++i) d.out.op[i] = d.source(i, type);
  d.out.immediate = d.constant(4);
  if (d.out.immediate < 0 || d.out.immediate > 255) d.fail("the table must be in [0, 255]");
  d.out.run = run_lop3;
}

void decode_prmt(Decoder& d) {
  const TypeInfo* type = d.take_type();
  if (std::string(type->name) != "b32") d.fail("the type must be .b32");
  static const char* const modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  for (uint8_t i = 0; i < 6; ++i) {
    if (d.modifiers.take(modes[i])) d.out.variant = static_cast<uint8_t>(i + 1);
  }
  decode_elementwise(d, type, {type, type, type});
  d.out.run = run_prmt;
}

void decode_bfe(Decoder& d) {
  const TypeInfo* type = d.take_type();
  const TypeInfo* word = find_type("u32");
  decode_elementwise(d, type, {type, word, word});
  d.out.run = type->kind == 's' ? by_width(d, type, nullptr, run_bfe<int32_t>, run_bfe<int64_t>)
                                : by_width(d, type, nullptr, run_bfe<uint32_t>, run_bfe<uint64_t>);
}

void decode_bfi(Decoder& d) {
  const TypeInfo* type = d.take_type();
  const TypeInfo* word = find_type("u32");
  decode_elementwise(d, type, {type, type, word, word});
  d.out.run = by_width(d, type, nullptr, run_bfi<uint32_t>, run_bfi<uint64_t>);
}

void decode_bfind(Decoder& d) {
  bool shift = d.modifiers.take("shiftamt");
  const TypeInfo* type = d.take_type();
  decode_elementwise(d, find_type("u32"), {type});
  std::string name = type->name;
  if (name == "u32")
    d.out.run = shift ? run_unary<BitFindShift<uint32_t>> : run_unary<BitFind<uint32_t>>;
  else if (name == "s32")
    d.out.run = shift ? run_unary<BitFindShift<int32_t>> : run_unary<BitFind<int32_t>>;
  else if (name == "u64")
    d.out.run = shift ? run_unary<BitFindShift<uint64_t>> : run_unary<BitFind<uint64_t>>;
  else if (name == "s64")
    d.out.run = shift ? run_unary<BitFindShift<int64_t>> : run_unary<BitFind<int64_t>>;
  else
    d.fail("unsupported type");
}

template <template <class> class Op>
void decode_count(Decoder& d) {
  const TypeInfo* type = d.take_type();
  decode_elementwise(d, find_type("u32"), {type});
  d.out.run = by_width(d, type, nullptr, run_unary<Op<uint32_t>>, run_unary<Op<uint64_t>>);
}

void decode_brev(Decoder& d) {
  const TypeInfo* type = d.take_type();
  decode_elementwise(d, type, {type});
  d.out.run = by_width(d, type, nullptr, run_unary<Brev<uint32_t>>, run_unary<Brev<uint64_t>>);
}

bool take_wrap(Decoder& d) {
  bool wrap = d.modifiers.take("wrap");
  if (!wrap && !d.modifiers.take("clamp")) d.fail("expected .wrap or .clamp");
  return wrap;
}

void decode_bmsk(Decoder& d) {
  bool wrap = take_wrap(d);
  const TypeInfo* type = d.take_type();
  if (type->bytes != 4) d.fail("the type must be .b32");
  decode_elementwise(d, type, {type, type});
  d.out.run = wrap ? run_bmsk<true> : run_bmsk<false>;
}

void decode_fns(Decoder& d) {
  const TypeInfo* type = d.take_type();
  if (std::string(type->name) != "b32") d.fail("the type must be .b32");
  decode_elementwise(d, type, {type, type, find_type("s32")});
  d.out.run = run_fns;
}

void decode_szext(Decoder& d) {
  bool wrap = take_wrap(d);
  const TypeInfo* type = d.take_type();
  if (type->bytes != 4) d.fail("the type must have 32 bits");
  decode_elementwise(d, type, {type, type});
  bool is_signed = type->kind == 's';
  d.out.run = wrap ? (is_signed ? run_szext<true, true> : run_szext<true, false>)
                   : (is_signed ? run_szext<false, true> : run_szext<false, false>);
}

}  // namespace

const std::vector<OpcodeRow>& logic_opcodes() {
  static const std::vector<OpcodeRow> rows = {
      {"and", decode_logic<And, 0>, "logic", Effect::kComputes},
      {"or", decode_logic<Or, 1>, "logic", Effect::kComputes},
      {"xor", decode_logic<Xor, 2>, "logic", Effect::kComputes},
      {"not", decode_not, "logic", Effect::kComputes},
      {"cnot", decode_cnot, "logic", Effect::kComputes},
      {"shl", decode_shl, "logic", Effect::kComputes},
      {"shr", decode_shr, "logic", Effect::kComputes},
      {"shf", decode_shf, "logic", Effect::kComputes},
      {"lop3", decode_lop3, "logic", Effect::kComputes},
      {"prmt", decode_prmt, "logic", Effect::kComputes},
      {"bfe", decode_bfe, "logic", Effect::kComputes},
      {"bfi", decode_bfi, "logic", Effect::kComputes},
      {"bfind", decode_bfind, "logic", Effect::kComputes},
      {"popc", decode_count<Popc>, "logic", Effect::kComputes},
      {"clz", decode_count<Clz>, "logic", Effect::kComputes},
      {"brev", decode_brev, "logic", Effect::kComputes},
      {"bmsk", decode_bmsk, "logic", Effect::kComputes},
      {"szext", decode_szext, "logic", Effect::kComputes},
      {"fns", decode_fns, "logic", Effect::kComputes},
  };
  return rows;
}

}  // namespace simulator
}  // namespace tilelang
