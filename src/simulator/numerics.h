// Number formats of PTX and the rounding between them, bit for bit.
//
// Every format narrower than binary64 decodes exactly into a double, so one decoder and one
// encoder (a significand, a power of two, a rounding mode) serve all conversions; the formats
// that kernels convert in their inner loops have branch-free twins that vectorise over lanes.
#ifndef TILELANG_SIMULATOR_NUMERICS_H_
#define TILELANG_SIMULATOR_NUMERICS_H_

#include <cmath>
#include <cstdint>
#include <cstring>

#include "canonical_nan.h"

namespace tilelang {
namespace simulator {

// ---------------------------------------------------------------------------------------------
// Bits and values

inline float float_from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t bits_from_float(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline double double_from_bits(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint64_t bits_from_double(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// ---------------------------------------------------------------------------------------------
// Formats

enum class Format : uint8_t {
  kF16,
  kBF16,
  kTF32,
  kF32,
  kF64,
  kE4M3,
  kE5M2,
  kE2M3,
  kE3M2,
  kE2M1,
  kU4,
  kS4,
  kU8,
  kS8,
  kU16,
  kS16,
  kU32,
  kS32,
  kU64,
  kS64,
};

constexpr bool is_float(Format format) { return format <= Format::kE2M1; }
constexpr bool is_signed_integer(Format format) {
  return format == Format::kS4 || format == Format::kS8 || format == Format::kS16 ||
         format == Format::kS32 || format == Format::kS64;
}

// What an encoding does above its largest finite number.
enum class Overflow : uint8_t {
  kInfinity,  // IEEE: infinities and NaNs
  kNaN,       // NaN only (e4m3)
  kSaturate,  // neither: the largest finite number (e2m3, e3m2, e2m1)
};

// How the bits of a floating-point format are read. TF32 lives in the upper 19 bits of a 32-bit
// register, hence `shift`.
struct FloatLayout {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Overflow overflow;
  uint64_t largest;  // the largest finite magnitude, before `shift`
  uint64_t nan;      // the register's canonical NaN; the largest number where there is none
  int shift;

  constexpr int width() const { return 1 + exponent_bits + mantissa_bits; }
};

const FloatLayout& float_layout(Format format);

// Bits of a register that an element of the format takes (TF32 takes 32).
int storage_bits(Format format);

enum class Round : uint8_t {
  kNearestEven,  // .rn, .rni
  kTowardZero,   // .rz, .rzi
  kDown,         // .rm, .rmi
  kUp,           // .rp, .rpi
  kNearestAway,  // .rna
};

// sign * significand * 2^exponent, plus a non-zero remainder below the significand if `sticky`,
// rounded into the format. `satfinite` clamps overflow to the largest finite number.
uint64_t encode_significand(bool negative, uint64_t significand, int exponent, bool sticky,
                            Format format, Round round, bool satfinite);

// A double rounded into the format. NaN gives the canonical NaN (or the largest number where
// the format has none).
uint64_t encode(double value, Format format, Round round = Round::kNearestEven,
                bool satfinite = false);

// The exact value of an element. NaN decodes to a quiet NaN.
double decode(uint64_t bits, Format format);

// ---------------------------------------------------------------------------------------------
// Branch-free conversions of the formats that appear in inner loops

// Exact for every input, subnormals included; NaN gives 0x7fffffff, as cvt.f32.f16 does.
inline float f16_to_f32(uint16_t half) {
  const uint32_t magnitude = half & 0x7fffu;
  // 2^112 moves the exponent bias from 15 to 127 and normalises subnormals by the way.
  const float scaled = float_from_bits(magnitude << 13) * 0x1p112f;
  uint32_t bits = bits_from_float(scaled);
  bits = magnitude >= 0x7c00u ? 0x7f800000u : bits;
  bits |= static_cast<uint32_t>(half & 0x8000u) << 16;
  bits = magnitude > 0x7c00u ? 0x7fffffffu : bits;
  return float_from_bits(bits);
}

inline float bf16_to_f32(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  return float_from_bits((half & 0x7fffu) > 0x7f80u ? 0x7fffffffu : bits);
}

// Round to nearest even; NaN gives 0x7fff.
inline uint16_t f32_to_f16(float value) {
  const uint32_t bits = bits_from_float(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Normal results: rebias the exponent and round by adding half an ulp less one, plus the odd bit.
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Subnormal results: adding 0.5 puts an ulp of 2^-24 at the bottom of the float's significand.
  const uint32_t subnormal = bits_from_float(float_from_bits(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x477ff000u ? 0x7c00u : half;
  half |= sign;
  half = magnitude > 0x7f800000u ? 0x7fffu : half;
  return static_cast<uint16_t>(half);
}

// Round to nearest even; NaN gives 0x7fff.
inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = bits_from_float(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
}

// The tensor cores read 19 bits of a TF32 operand and ignore the rest.
inline float tf32_operand(uint32_t bits) { return float_from_bits(bits & 0xffffe000u); }

// Tables of 256 floats.
const float* e4m3_table();
const float* e5m2_table();

inline uint32_t canonical_f32(float value) {
  return std::isnan(value) ? kCanonicalNaN : bits_from_float(value);
}

// .ftz: a subnormal becomes a zero of its sign.
inline float flush_f32(float value) {
  const uint32_t bits = bits_from_float(value);
  return (bits & 0x7f800000u) == 0 ? float_from_bits(bits & 0x80000000u) : value;
}

// ---------------------------------------------------------------------------------------------
// cvt

// One `cvt` between scalar elements. Packed forms apply it to each half (see convert_pair).
struct Convert {
  Format to;
  Format from;
  Round round = Round::kNearestEven;
  bool integral = false;   // .rni/.rzi/.rmi/.rpi between float formats: round to an integer
  bool saturate = false;   // .sat
  bool satfinite = false;  // .satfinite
  bool relu = false;       // .relu
  bool flush = false;      // .ftz
};

// Integers narrower than 64 bits are read from the low bits of `bits`; signed results are
// sign-extended to 64 bits, everything else zero-extended.
uint64_t convert(const Convert& spec, uint64_t bits);

// cvt.*x2.f32 d, a, b: `high` is PTX's first operand and lands in the upper half.
uint32_t convert_pair(const Convert& spec, uint32_t high, uint32_t low);

// cvt.*x2.*x2 (f16x2 to e4m3x2 and back): element-wise on packed operands.
uint32_t convert_packed(const Convert& spec, uint32_t packed);

// ---------------------------------------------------------------------------------------------
// f16 and bf16 arithmetic

struct HalfMode {
  bool flush = false;     // .ftz
  bool saturate = false;  // .sat: clamp to [0, 1], NaN to 0
  bool relu = false;      // fma.relu: negative to 0, NaN to canonical NaN
};

uint16_t half_add(Format format, uint16_t a, uint16_t b, HalfMode mode = {});
uint16_t half_sub(Format format, uint16_t a, uint16_t b, HalfMode mode = {});
uint16_t half_mul(Format format, uint16_t a, uint16_t b, HalfMode mode = {});
uint16_t half_fma(Format format, uint16_t a, uint16_t b, uint16_t c, HalfMode mode = {});

struct MinMaxMode {
  bool maximum = false;
  bool propagate_nan = false;  // .NaN
  bool xorsign_abs = false;    // .xorsign.abs
  bool flush = false;          // .ftz
};

uint16_t half_minmax(Format format, uint16_t a, uint16_t b, MinMaxMode mode);
float f32_minmax(float a, float b, MinMaxMode mode);
double f64_minmax(double a, double b, bool maximum);

// ---------------------------------------------------------------------------------------------
// f32 and f64 arithmetic in a directed rounding mode (.rz, .rm, .rp)

enum class Arithmetic : uint8_t { kAdd, kSub, kMul, kDiv, kFma, kSqrt };

float f32_arithmetic(Arithmetic operation, Round round, float a, float b, float c);
double f64_arithmetic(Arithmetic operation, Round round, double a, double b, double c);

// ---------------------------------------------------------------------------------------------
// Approximations. Each returns the correctly rounded value, or nearly so, which lies within the
// error bound that the PTX ISA states, and PTX's results for special inputs. `flush` is .ftz.

float ex2_approx(float x, bool flush);
float lg2_approx(float x, bool flush);
float rcp_approx(float x, bool flush);
float sqrt_approx(float x, bool flush);
float rsqrt_approx(float x, bool flush);
float sin_approx(float x, bool flush);
float cos_approx(float x, bool flush);
float tanh_approx(float x);
// div.approx: zero where |b| lies in (2^126, 2^128), NaN there for an infinite dividend.
float div_approx(float a, float b, bool flush);
float div_full(float a, float b, bool flush);
// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64: the low 32 bits of the result are zero.
double rcp_approx_f64(double x);
double rsqrt_approx_f64(double x);

uint16_t half_ex2_approx(Format format, uint16_t x, bool flush);
uint16_t half_tanh_approx(Format format, uint16_t x);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_NUMERICS_H_
