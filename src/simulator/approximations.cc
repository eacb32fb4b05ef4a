// The .approx and .full instructions on single and double precision.
#include "exp2.h"
#include "numerics.h"

namespace tilelang {
namespace simulator {

namespace {

template <typename Function>
float approximate(float x, bool flush, Function function) {
  if (flush) x = flush_f32(x);
  const float result = static_cast<float>(function(static_cast<double>(x)));
  if (std::isnan(result)) return float_from_bits(0x7fffffffu);
  return flush ? flush_f32(result) : result;
}

double reciprocal_root(double x) { return 1.0 / std::sqrt(x); }

// The double-precision approximations keep the upper 32 bits of the result only.
double upper_word(double value) {
  return double_from_bits(bits_from_double(value) & 0xffffffff00000000u);
}

double flush_f64(double value) {
  const uint64_t bits = bits_from_double(value);
  return (bits & 0x7ff0000000000000u) == 0 ? double_from_bits(bits & 0x8000000000000000u) : value;
}

double approximate_f64(double x, double (*function)(double)) {
  if (std::isnan(x)) return x;
  const double result = function(flush_f64(x));
  return std::isnan(result) ? double_from_bits(0x7fffffff00000000u) : flush_f64(upper_word(result));
}

}  // namespace

float ex2_approx(float x, bool flush) {
  return flush ? flush_f32(exp2_rounded<LibraryMachine>(flush_f32(x))) : exp2_rounded<LibraryMachine>(x);
}

float lg2_approx(float x, bool flush) {
  return approximate(x, flush, [](double v) { return std::log2(v); });
}

float rcp_approx(float x, bool flush) {
  return approximate(x, flush, [](double v) { return 1.0 / v; });
}

float sqrt_approx(float x, bool flush) {
  return approximate(x, flush, [](double v) { return std::sqrt(v); });
}

float rsqrt_approx(float x, bool flush) { return approximate(x, flush, reciprocal_root); }

float sin_approx(float x, bool flush) {
  return approximate(x, flush, [](double v) { return std::sin(v); });
}

float cos_approx(float x, bool flush) {
  return approximate(x, flush, [](double v) { return std::cos(v); });
}

float tanh_approx(float x) {
  return approximate(x, false, [](double v) { return std::tanh(v); });
}

float div_approx(float a, float b, bool flush) {
  const float magnitude = std::fabs(b);
  if (magnitude > 0x1p126f && std::isfinite(b)) {
    if (!std::isfinite(a)) return float_from_bits(0x7fffffffu);
    return std::signbit(a) != std::signbit(b) ? -0.0f : 0.0f;
  }
  return div_full(a, b, flush);
}

float div_full(float a, float b, bool flush) {
  const double divisor = flush ? flush_f32(b) : b;
  return approximate(a, flush, [divisor](double dividend) { return dividend / divisor; });
}

double rcp_approx_f64(double x) {
  return approximate_f64(x, [](double v) { return 1.0 / v; });
}

double rsqrt_approx_f64(double x) { return approximate_f64(x, reciprocal_root); }

}  // namespace simulator
}  // namespace tilelang
