// Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions" and "Extended-Precision ...").
#include "exec_integer.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "exec_integer_extended.h"
#include "lanes.h"

namespace tilelang {
namespace simulator {
namespace {

template <class T>
constexpr int kBits = static_cast<int>(sizeof(T) * 8);

// Wrapping arithmetic: in the unsigned type, at least 32 bits wide so that nothing promotes to int.
template <class T>
using Work = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
struct Same {
  using D = T;
  using S = T;
  using C = T;
};

template <class T>
struct Add : Same<T> {
  static T apply(T a, T b) { return static_cast<T>(static_cast<Work<T>>(a) + static_cast<Work<T>>(b)); }
};
template <class T>
struct Sub : Same<T> {
  static T apply(T a, T b) { return static_cast<T>(static_cast<Work<T>>(a) - static_cast<Work<T>>(b)); }
};
template <class T>
struct MulLo : Same<T> {
  static T apply(T a, T b) { return static_cast<T>(static_cast<Work<T>>(a) * static_cast<Work<T>>(b)); }
};
template <class T>
struct MadLo : Same<T> {
  static T apply(T a, T b, T c) {
    return static_cast<T>(static_cast<Work<T>>(a) * static_cast<Work<T>>(b) + static_cast<Work<T>>(c));
  }
};
template <class T>
struct Min : Same<T> {
  static T apply(T a, T b) { return a < b ? a : b; }
};
template <class T>
struct Max : Same<T> {
  static T apply(T a, T b) { return a > b ? a : b; }
};
template <class T>
struct MinRelu : Same<T> {
  static T apply(T a, T b) { return std::max<T>(std::min(a, b), 0); }
};
template <class T>
struct MaxRelu : Same<T> {
  static T apply(T a, T b) { return std::max<T>(std::max(a, b), 0); }
};
template <class T>
struct Abs : Same<T> {
  static T apply(T a) { return a < 0 ? static_cast<T>(Work<T>(0) - static_cast<Work<T>>(a)) : a; }
};
template <class T>
struct Neg : Same<T> {
  static T apply(T a) { return static_cast<T>(Work<T>(0) - static_cast<Work<T>>(a)); }
};
template <class T>
struct Sad : Same<T> {
  static T apply(T a, T b, T c) {
    Work<T> d =
        a > b ? static_cast<Work<T>>(a) - static_cast<Work<T>>(b) : static_cast<Work<T>>(b) - static_cast<Work<T>>(a);
    return static_cast<T>(d + static_cast<Work<T>>(c));
  }
};

template <class T>
struct MulHi : Same<T> {
  static T apply(T a, T b) { return multiply_high(a, b); }
};
template <class T>
struct MadHi : Same<T> {
  static T apply(T a, T b, T c) {
    return static_cast<T>(static_cast<Work<T>>(multiply_high(a, b)) + static_cast<Work<T>>(c));
  }
};

template <class T>
struct Widen;
template <>
struct Widen<int16_t> {
  using Type = int32_t;
};
template <>
struct Widen<uint16_t> {
  using Type = uint32_t;
};
template <>
struct Widen<int32_t> {
  using Type = int64_t;
};
template <>
struct Widen<uint32_t> {
  using Type = uint64_t;
};

template <class T>
struct MulWide {
  using D = typename Widen<T>::Type;
  using S = T;
  static D apply(T a, T b) { return static_cast<D>(a) * static_cast<D>(b); }
};
template <class T>
struct MadWide {
  using D = typename Widen<T>::Type;
  using S = T;
  using C = D;
  static D apply(T a, T b, C c) {
    return static_cast<D>(static_cast<Work<D>>(static_cast<D>(a) * static_cast<D>(b)) + static_cast<Work<D>>(c));
  }
};

// Division by zero gives all ones (the PTX ISA leaves it open; this is what the hardware's sequence gives).
template <class T>
struct Div : Same<T> {
  static T apply(T a, T b) {
    if (b == 0) return static_cast<T>(~T(0));
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return Neg<T>::apply(a);
    }
    return static_cast<T>(a / b);
  }
};
template <class T>
struct Rem : Same<T> {
  static T apply(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};

struct AddSat : Same<int32_t> {
  static int32_t apply(int32_t a, int32_t b) {
    int64_t sum = static_cast<int64_t>(a) + b;
    return static_cast<int32_t>(std::min<int64_t>(std::max<int64_t>(sum, INT32_MIN), INT32_MAX));
  }
};
struct SubSat : Same<int32_t> {
  static int32_t apply(int32_t a, int32_t b) {
    int64_t difference = static_cast<int64_t>(a) - b;
    return static_cast<int32_t>(std::min<int64_t>(std::max<int64_t>(difference, INT32_MIN), INT32_MAX));
  }
};
struct MadHiSat : Same<int32_t> {
  static int32_t apply(int32_t a, int32_t b, int32_t c) { return AddSat::apply(multiply_high(a, b), c); }
};

/// Two 16-bit lanes in a 32-bit register.
template <template <class> class Op, class T>
struct Packed {
  using D = uint32_t;
  using S = uint32_t;
  static uint32_t apply(uint32_t a, uint32_t b) {
    auto low = static_cast<uint16_t>(Op<T>::apply(static_cast<T>(a), static_cast<T>(b)));
    auto high = static_cast<uint16_t>(Op<T>::apply(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
    return static_cast<uint32_t>(high) << 16 | low;
  }
};

inline int32_t sign24(int32_t a) { return static_cast<int32_t>(static_cast<uint32_t>(a) << 8) >> 8; }
inline uint32_t sign24(uint32_t a) { return a & 0xffffff; }
template <class T, bool high>
struct Mul24 : Same<T> {
  static T apply(T a, T b) {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    Wide product = static_cast<Wide>(sign24(a)) * static_cast<Wide>(sign24(b));
    return static_cast<T>(high ? product >> 16 : product);
  }
};
template <class T, bool high>
struct Mad24 : Same<T> {
  static T apply(T a, T b, T c) { return Add<T>::apply(Mul24<T, high>::apply(a, b), c); }
};

/// The handler of an element-wise operation for each integer type; null entries do not exist.
struct TypedHandlers {
  Handler u16, s16, u32, s32, u64, s64, u16x2, s16x2;
};

Handler pick(const TypedHandlers& handlers, const std::string& type) {
  if (type == "u16") return handlers.u16;
  if (type == "s16") return handlers.s16;
  if (type == "u32") return handlers.u32;
  if (type == "s32") return handlers.s32;
  if (type == "u64") return handlers.u64;
  if (type == "s64") return handlers.s64;
  if (type == "u16x2") return handlers.u16x2;
  if (type == "s16x2") return handlers.s16x2;
  return nullptr;
}

template <template <class> class Op>
constexpr TypedHandlers binary(bool packed = false) {
  return {run_binary<Op<uint16_t>>,
          run_binary<Op<int16_t>>,
          run_binary<Op<uint32_t>>,
          run_binary<Op<int32_t>>,
          run_binary<Op<uint64_t>>,
          run_binary<Op<int64_t>>,
          packed ? run_binary<Packed<Op, uint16_t>> : nullptr,
          packed ? run_binary<Packed<Op, int16_t>> : nullptr};
}
template <template <class> class Op>
constexpr TypedHandlers ternary() {
  return {run_ternary<Op<uint16_t>>,
          run_ternary<Op<int16_t>>,
          run_ternary<Op<uint32_t>>,
          run_ternary<Op<int32_t>>,
          run_ternary<Op<uint64_t>>,
          run_ternary<Op<int64_t>>,
          nullptr,
          nullptr};
}
template <template <class> class Op>
constexpr TypedHandlers unary_signed() {
  return {nullptr, run_unary<Op<int16_t>>, nullptr, run_unary<Op<int32_t>>,
          nullptr, run_unary<Op<int64_t>>, nullptr, nullptr};
}
constexpr TypedHandlers kMulWide = {run_binary<MulWide<uint16_t>>,
                                    run_binary<MulWide<int16_t>>,
                                    run_binary<MulWide<uint32_t>>,
                                    run_binary<MulWide<int32_t>>,
                                    nullptr,
                                    nullptr,
                                    nullptr,
                                    nullptr};
constexpr TypedHandlers kMadWide = {run_ternary<MadWide<uint16_t>>,
                                    run_ternary<MadWide<int16_t>>,
                                    run_ternary<MadWide<uint32_t>>,
                                    run_ternary<MadWide<int32_t>>,
                                    nullptr,
                                    nullptr,
                                    nullptr,
                                    nullptr};
constexpr TypedHandlers kMinRelu = {nullptr, nullptr, nullptr, run_binary<MinRelu<int32_t>>,
                                    nullptr, nullptr, nullptr, run_binary<Packed<MinRelu, int16_t>>};
constexpr TypedHandlers kMaxRelu = {nullptr, nullptr, nullptr, run_binary<MaxRelu<int32_t>>,
                                    nullptr, nullptr, nullptr, run_binary<Packed<MaxRelu, int16_t>>};

/// One element-wise instruction: opcode, the modifiers before the type, and its handlers.
struct Row {
  const char* opcode;
  const char* modifier;  // "" or one modifier
  int sources;
  TypedHandlers handlers;
};

const Row kRows[] = {
    {"add", "", 2, binary<Add>(true)},
    {"sub", "", 2, binary<Sub>()},
    {"mul", "lo", 2, binary<MulLo>()},
    {"mul", "hi", 2, binary<MulHi>()},
    {"mul", "wide", 2, kMulWide},
    {"mad", "lo", 3, ternary<MadLo>()},
    {"mad", "hi", 3, ternary<MadHi>()},
    {"mad", "wide", 3, kMadWide},
    {"min", "", 2, binary<Min>(true)},
    {"max", "", 2, binary<Max>(true)},
    {"min", "relu", 2, kMinRelu},
    {"max", "relu", 2, kMaxRelu},
    {"div", "", 2, binary<Div>()},
    {"rem", "", 2, binary<Rem>()},
    {"abs", "", 1, unary_signed<Abs>()},
    {"neg", "", 1, unary_signed<Neg>()},
    {"sad", "", 3, ternary<Sad>()},
    {"add", "sat", 2, {nullptr, nullptr, nullptr, run_binary<AddSat>, nullptr, nullptr, nullptr, nullptr}},
    {"sub", "sat", 2, {nullptr, nullptr, nullptr, run_binary<SubSat>, nullptr, nullptr, nullptr, nullptr}},
};

bool find_integer_type(const Decoder& d, const TypeInfo** type) {
  if (d.statement.modifiers.empty()) return false;
  *type = find_type(d.statement.modifiers.back());
  if (!*type) return false;
  std::string name = (*type)->name;
  return (*type)->kind == 'u' || (*type)->kind == 's' || name == "u16x2" || name == "s16x2";
}

/// Row for the statement's opcode and modifiers; consumes them, the type included.
const Row* find_row(Decoder& d, const TypeInfo* type) {
  for (const Row& row : kRows) {
    if (d.statement.opcode != row.opcode) continue;
    size_t expected = row.modifier[0] ? 2 : 1;
    if (d.statement.modifiers.size() != expected) continue;
    // .relu follows the type's rounding position in min/max: both orders name the same operation.
    if (expected == 2 && d.statement.modifiers[0] != row.modifier) continue;
    if (!pick(row.handlers, type->name)) continue;
    while (!d.modifiers.done()) d.modifiers.next();
    return &row;
  }
  return nullptr;
}

/// Result type of mul.wide and mad.wide.
const TypeInfo* widened(const TypeInfo* type) {
  std::string name(1, type->kind);
  return find_type(name + std::to_string(type->bytes * 16));
}

void decode_row(Decoder& d, const Row& row, const TypeInfo* type) {
  bool wide = std::string(row.modifier) == "wide";
  const TypeInfo* result = wide ? widened(type) : type;
  if (row.sources == 1) decode_elementwise(d, result, {type});
  if (row.sources == 2) decode_elementwise(d, result, {type, type});
  if (row.sources == 3) decode_elementwise(d, result, {type, type, wide ? result : type});
  d.out.run = pick(row.handlers, type->name);
}

void decode_integer_only(Decoder& d) {
  if (!decode_integer_arithmetic(d)) d.fail("an integer type is needed");
}

void decode_24(Decoder& d, bool add) {
  bool high = d.modifiers.take("hi");
  if (!high && !d.modifiers.take("lo")) d.fail("expected .lo or .hi");
  const TypeInfo* type = d.take_type();
  std::string name = type->name;
  if (name != "u32" && name != "s32") d.fail("the type must be .u32 or .s32");
  if (add)
    decode_elementwise(d, type, {type, type, type});
  else
    decode_elementwise(d, type, {type, type});
  bool is_signed = name == "s32";
  if (add) {
    d.out.run = is_signed ? (high ? run_ternary<Mad24<int32_t, true>> : run_ternary<Mad24<int32_t, false>>)
                          : (high ? run_ternary<Mad24<uint32_t, true>> : run_ternary<Mad24<uint32_t, false>>);
  } else {
    d.out.run = is_signed ? (high ? run_binary<Mul24<int32_t, true>> : run_binary<Mul24<int32_t, false>>)
                          : (high ? run_binary<Mul24<uint32_t, true>> : run_binary<Mul24<uint32_t, false>>);
  }
}

}  // namespace

bool decode_integer_arithmetic(Decoder& d) {
  const TypeInfo* type = nullptr;
  if (!find_integer_type(d, &type)) return false;
  const auto& modifiers = d.statement.modifiers;
  const std::string& opcode = d.statement.opcode;
  bool carry = std::find(modifiers.begin(), modifiers.end(), "cc") != modifiers.end();
  if (carry && opcode == "add") return decode_carry(d, false, false), true;
  if (carry && opcode == "sub") return decode_carry(d, true, false), true;
  if (carry && opcode == "mad") return decode_mad_carry(d, false), true;
  if (opcode == "mad" && modifiers.size() == 3 && modifiers[0] == "hi" && modifiers[1] == "sat" &&
      modifiers[2] == "s32") {
    while (!d.modifiers.done()) d.modifiers.next();
    decode_elementwise(d, type, {type, type, type});
    d.out.run = run_ternary<MadHiSat>;
    return true;
  }
  const Row* row = find_row(d, type);
  if (!row) d.fail("unknown form of this instruction");
  decode_row(d, *row, type);
  return true;
}

const std::vector<OpcodeRow>& integer_opcodes() {
  static const std::vector<OpcodeRow> rows = {
      {"rem", decode_integer_only, "integer", Effect::kComputes},
      {"sad", decode_integer_only, "integer", Effect::kComputes},
      {"mul24", [](Decoder& d) { decode_24(d, false); }, "integer", Effect::kComputes},
      {"mad24", [](Decoder& d) { decode_24(d, true); }, "integer", Effect::kComputes},
  };
  return rows;
}

}  // namespace simulator
}  // namespace tilelang
