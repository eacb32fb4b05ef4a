// f16 and bf16 arithmetic, minimum and maximum, and arithmetic in a directed rounding mode.
#include <cfenv>

#include "numerics.h"

namespace tilelang {
namespace simulator {

namespace {

// Adds so that a later rounding to a narrower format sees whether bits were lost (round to odd).
double add_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  // Knuth's two-sum: `error` is exactly what the addition lost.
  const double part = sum - a;
  const double error = (a - (sum - part)) + (b - part);
  const uint64_t bits = bits_from_double(sum);
  if (error == 0.0 || (bits & 1u)) return sum;
  const bool error_grows_magnitude = std::signbit(error) == std::signbit(sum);
  return double_from_bits(error_grows_magnitude ? bits + 1 : bits - 1);
}

uint16_t flush_half(Format format, uint16_t bits) {
  const uint16_t exponent_mask = format == Format::kF16 ? 0x7c00 : 0x7f80;
  return (bits & exponent_mask) == 0 ? bits & 0x8000 : bits;
}

double half_operand(Format format, uint16_t bits, bool flush) {
  if (flush) bits = flush_half(format, bits);
  return format == Format::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

uint16_t half_result(Format format, double value, HalfMode mode) {
  if (std::isnan(value)) return mode.saturate ? 0 : 0x7fff;
  if (mode.saturate) value = value > 0.0 ? (value < 1.0 ? value : 1.0) : 0.0;
  if (mode.relu && std::signbit(value)) value = 0.0;
  const uint16_t bits = static_cast<uint16_t>(encode(value, format));
  return mode.flush ? flush_half(format, bits) : bits;
}

int fenv_mode(Round round) {
  switch (round) {
    case Round::kTowardZero:
      return FE_TOWARDZERO;
    case Round::kDown:
      return FE_DOWNWARD;
    case Round::kUp:
      return FE_UPWARD;
    default:
      return FE_TONEAREST;
  }
}

class ScopedRounding {
 public:
  explicit ScopedRounding(Round round) : saved_(std::fegetround()) { std::fesetround(fenv_mode(round)); }
  ~ScopedRounding() { std::fesetround(saved_); }

 private:
  int saved_;
};

template <typename T>
T arithmetic(Arithmetic operation, Round round, T a, T b, T c) {
  // Volatile operands and result keep the operation between the two changes of mode.
  volatile T x = a, y = b, z = c;
  volatile T result = 0;
  ScopedRounding scope(round);
  switch (operation) {
    case Arithmetic::kAdd:
      result = x + y;
      break;
    case Arithmetic::kSub:
      result = x - y;
      break;
    case Arithmetic::kMul:
      result = x * y;
      break;
    case Arithmetic::kDiv:
      result = x / y;
      break;
    case Arithmetic::kFma:
      result = std::fma(T(x), T(y), T(z));
      break;
    case Arithmetic::kSqrt:
      result = std::sqrt(T(x));
      break;
  }
  return result;
}

}  // namespace

// Sums and products of two halves are exact in double, or so nearly that no second rounding
// can differ; only fma can lose bits that matter, hence the rounding to odd.
uint16_t half_add(Format format, uint16_t a, uint16_t b, HalfMode mode) {
  const double sum = add_to_odd(half_operand(format, a, mode.flush), half_operand(format, b, mode.flush));
  return half_result(format, sum, mode);
}

uint16_t half_sub(Format format, uint16_t a, uint16_t b, HalfMode mode) {
  const double difference =
      add_to_odd(half_operand(format, a, mode.flush), -half_operand(format, b, mode.flush));
  return half_result(format, difference, mode);
}

uint16_t half_mul(Format format, uint16_t a, uint16_t b, HalfMode mode) {
  return half_result(format, half_operand(format, a, mode.flush) * half_operand(format, b, mode.flush), mode);
}

uint16_t half_fma(Format format, uint16_t a, uint16_t b, uint16_t c, HalfMode mode) {
  const double product = half_operand(format, a, mode.flush) * half_operand(format, b, mode.flush);
  return half_result(format, add_to_odd(product, half_operand(format, c, mode.flush)), mode);
}

uint16_t half_minmax(Format format, uint16_t a, uint16_t b, MinMaxMode mode) {
  if (mode.flush) {
    a = flush_half(format, a);
    b = flush_half(format, b);
  }
  MinMaxMode wide = mode;
  wide.flush = false;
  const float x = format == Format::kF16 ? f16_to_f32(a) : bf16_to_f32(a);
  const float y = format == Format::kF16 ? f16_to_f32(b) : bf16_to_f32(b);
  const float result = f32_minmax(x, y, wide);
  return format == Format::kF16 ? f32_to_f16(result) : f32_to_bf16(result);
}

float f32_minmax(float a, float b, MinMaxMode mode) {
  if (mode.flush) {
    a = flush_f32(a);
    b = flush_f32(b);
  }
  const bool a_nan = std::isnan(a), b_nan = std::isnan(b);
  if ((a_nan && b_nan) || (mode.propagate_nan && (a_nan || b_nan))) return float_from_bits(0x7fffffffu);
  const uint32_t sign = (bits_from_float(a) ^ bits_from_float(b)) & 0x80000000u;
  if (mode.xorsign_abs) {
    a = std::fabs(a);
    b = std::fabs(b);
  }
  // Zeros of opposite sign are ordered: -0 < +0.
  const bool a_below = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  const float chosen = a_nan ? b : (b_nan ? a : (a_below != mode.maximum ? a : b));
  return mode.xorsign_abs ? float_from_bits(bits_from_float(chosen) | sign) : chosen;
}

double f64_minmax(double a, double b, bool maximum) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  const bool a_below = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  return a_below != maximum ? a : b;
}

float f32_arithmetic(Arithmetic operation, Round round, float a, float b, float c) {
  return float_from_bits(canonical_f32(arithmetic<float>(operation, round, a, b, c)));
}

double f64_arithmetic(Arithmetic operation, Round round, double a, double b, double c) {
  return arithmetic<double>(operation, round, a, b, c);
}

uint16_t half_ex2_approx(Format format, uint16_t x, bool flush) {
  return half_result(format, std::exp2(half_operand(format, x, flush)), {flush, false, false});
}

uint16_t half_tanh_approx(Format format, uint16_t x) {
  return half_result(format, std::tanh(half_operand(format, x, false)), {});
}

}  // namespace simulator
}  // namespace tilelang
