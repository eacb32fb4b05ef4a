// Extended precision (the carry lives in Warp::carry) and dot products of packed bytes.
#include "exec_integer_extended.h"

#include "lanes.h"

namespace tilelang {
namespace simulator {
namespace {

template <class T>
T multiply_low(T a, T b) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) * static_cast<std::make_unsigned_t<T>>(b));
}

template <class T>
Step run_carry(Warp& w, const Instruction& in, LaneMask exec) {
  // variant: bit 0 uses the carry, bit 1 sets it, bit 2 subtracts.
  const T* a = w.reg<T>(in.op[1]);
  const T* b = w.reg<T>(in.op[2]);
  T* d = w.reg<T>(in.op[0]);
  LaneMask carry_out = w.carry;
  for_lanes(exec, [&](int l) {
    bool carry_in = (in.variant & 1) && (w.carry >> l & 1);
    T result, partial;
    bool c1, c2;
    if (in.variant & 4) {
      c1 = __builtin_sub_overflow(a[l], b[l], &partial);
      c2 = __builtin_sub_overflow(partial, static_cast<T>(carry_in), &result);
    } else {
      c1 = __builtin_add_overflow(a[l], b[l], &partial);
      c2 = __builtin_add_overflow(partial, static_cast<T>(carry_in), &result);
    }
    carry_out = (carry_out & ~(1u << l)) | static_cast<LaneMask>(c1 | c2) << l;
    d[l] = result;
  });
  if (in.variant & 2) w.carry = carry_out;
  return Step::kNext;
}

template <class T>
Step run_mad_carry(Warp& w, const Instruction& in, LaneMask exec) {
  // variant: bit 0 uses the carry, bit 1 sets it, bit 3 takes the high half of the product.
  using U = std::make_unsigned_t<T>;
  const T* a = w.reg<T>(in.op[1]);
  const T* b = w.reg<T>(in.op[2]);
  const T* c = w.reg<T>(in.op[3]);
  T* d = w.reg<T>(in.op[0]);
  LaneMask carry_out = w.carry;
  for_lanes(exec, [&](int l) {
    U product = static_cast<U>((in.variant & 8) ? multiply_high(a[l], b[l]) : multiply_low(a[l], b[l]));
    U partial, result;
    bool c1 = __builtin_add_overflow(product, static_cast<U>(c[l]), &partial);
    bool c2 = __builtin_add_overflow(partial, static_cast<U>((in.variant & 1) && (w.carry >> l & 1)), &result);
    carry_out = (carry_out & ~(1u << l)) | static_cast<LaneMask>(c1 | c2) << l;
    d[l] = static_cast<T>(result);
  });
  if (in.variant & 2) w.carry = carry_out;
  return Step::kNext;
}

inline int64_t element(uint32_t word, int index, int bits, bool is_signed) {
  uint32_t value = word >> (index * bits) & ((1u << bits) - 1);
  return is_signed ? static_cast<int32_t>(value << (32 - bits)) >> (32 - bits) : static_cast<int64_t>(value);
}

Step run_dot(Warp& w, const Instruction& in, LaneMask exec) {
  // variant: bit 0 a is signed, bit 1 b is signed, bit 2 dp2a, bit 3 dp2a.hi.
  const uint32_t* a = w.reg<uint32_t>(in.op[1]);
  const uint32_t* b = w.reg<uint32_t>(in.op[2]);
  const uint32_t* c = w.reg<uint32_t>(in.op[3]);
  bool two = in.variant & 4;
  int first = (in.variant & 8) ? 2 : 0;
  write_each(w.reg<uint32_t>(in.op[0]), exec, [&](int l) {
    int64_t sum = 0;
    for (int i = 0; i < (two ? 2 : 4); ++i) {
      sum += element(a[l], i, two ? 16 : 8, in.variant & 1) * element(b[l], two ? first + i : i, 8, in.variant & 2);
    }
    return static_cast<uint32_t>(c[l] + static_cast<uint32_t>(sum));
  });
  return Step::kNext;
}

void decode_dot(Decoder& d, bool two) {
  uint8_t variant = two ? 4 : 0;
  if (two) {
    if (d.modifiers.take("hi"))
      variant |= 8;
    else if (!d.modifiers.take("lo"))
      d.fail("expected .lo or .hi");
  }
  const TypeInfo* a = d.take_type();
  const TypeInfo* b = d.take_type();
  if (a->bytes != 4 || b->bytes != 4) d.fail("the types must be .u32 or .s32");
  variant |= static_cast<uint8_t>((a->kind == 's' ? 1 : 0) | (b->kind == 's' ? 2 : 0));
  const TypeInfo* word = find_type("b32");
  decode_elementwise(d, word, {word, word, word});
  d.out.variant = variant;
  d.out.run = run_dot;
}

}  // namespace

/// add.cc, addc, sub.cc, subc.
void decode_carry(Decoder& d, bool subtract, bool uses) {
  d.out.variant = static_cast<uint8_t>((uses ? 1 : 0) | (d.modifiers.take("cc") ? 2 : 0) | (subtract ? 4 : 0));
  const TypeInfo* type = d.take_type();
  if (type->kind != 'u' && type->kind != 's' && type->kind != 'b') d.fail("an integer type is needed");
  decode_elementwise(d, type, {type, type});
  if (type->bytes == 4)
    d.out.run = run_carry<uint32_t>;
  else if (type->bytes == 8)
    d.out.run = run_carry<uint64_t>;
  else
    d.fail("the type must have 32 or 64 bits");
}

void decode_mad_carry(Decoder& d, bool uses) {
  uint8_t variant = uses ? 1 : 0;
  if (d.modifiers.take("hi"))
    variant |= 8;
  else if (!d.modifiers.take("lo"))
    d.fail("expected .lo or .hi");
  if (d.modifiers.take("cc")) variant |= 2;
  const TypeInfo* type = d.take_type();
  decode_elementwise(d, type, {type, type, type});
  d.out.variant = variant;
  std::string name = type->name;
  if (name == "u32")
    d.out.run = run_mad_carry<uint32_t>;
  else if (name == "s32")
    d.out.run = run_mad_carry<int32_t>;
  else if (name == "u64")
    d.out.run = run_mad_carry<uint64_t>;
  else if (name == "s64")
    d.out.run = run_mad_carry<int64_t>;
  else
    d.fail("unsupported type");
}

const std::vector<OpcodeRow>& extended_opcodes() {
  static const std::vector<OpcodeRow> rows = {
      {"addc", [](Decoder& d) { decode_carry(d, false, true); }, "integer", Effect::kDefines},
      {"subc", [](Decoder& d) { decode_carry(d, true, true); }, "integer", Effect::kDefines},
      {"madc", [](Decoder& d) { decode_mad_carry(d, true); }, "integer", Effect::kDefines},
      {"dp4a", [](Decoder& d) { decode_dot(d, false); }, "integer", Effect::kComputes},
      {"dp2a", [](Decoder& d) { decode_dot(d, true); }, "integer", Effect::kComputes},
  };
  return rows;
}

}  // namespace simulator
}  // namespace tilelang
