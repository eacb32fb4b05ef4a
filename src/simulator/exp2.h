// ex2.approx, written so that the compiler turns a loop over lanes into vector code.
#ifndef TILELANG_SIMULATOR_EXP2_H_
#define TILELANG_SIMULATOR_EXP2_H_

#include <cstdint>
#include <cstring>

#include "canonical_nan.h"

namespace tilelang {
namespace simulator {

/// What the library as a whole is compiled for.
struct LibraryMachine;

/// 2^x, computed in double precision and rounded once. NaN gives the canonical NaN. Each instruction set that it is compiled for has
/// a `Machine` of its own, so that the linker does not take one for the other.
template <class Machine>
inline float exp2_rounded(float x) {
  // ln(2)^k / k!: the Taylor series, whose remainder for |fraction| <= 1/2 is far below a double's precision.
  constexpr double kLog = 0.69314718055994530942;
  constexpr double c2 = kLog * kLog / 2, c3 = c2 * kLog / 3, c4 = c3 * kLog / 4, c5 = c4 * kLog / 5, c6 = c5 * kLog / 6,
                   c7 = c6 * kLog / 7, c8 = c7 * kLog / 8, c9 = c8 * kLog / 9, c10 = c9 * kLog / 10, c11 = c10 * kLog / 11,
                   c12 = c11 * kLog / 12, c13 = c12 * kLog / 13;
  constexpr double kFarthest = 300, kRounder = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
  const double value = x < -kFarthest ? -kFarthest : x > kFarthest ? kFarthest : static_cast<double>(x);
  const double shifted = value + kRounder;
  const double f = value - (shifted - kRounder);
  const double high = __builtin_fma(__builtin_fma(__builtin_fma(c13, f, c12), f, c11), f, c10);
  const double middle = __builtin_fma(__builtin_fma(__builtin_fma(__builtin_fma(high, f, c9), f, c8), f, c7), f, c6);
  const double low = __builtin_fma(__builtin_fma(__builtin_fma(__builtin_fma(middle, f, c5), f, c4), f, c3), f, c2);
  const double sum = __builtin_fma(__builtin_fma(low, f, kLog), f, 1.0);
  uint64_t exponent;
  std::memcpy(&exponent, &shifted, sizeof exponent);
  exponent = (exponent + 1023) << 52;
  double scale;
  std::memcpy(&scale, &exponent, sizeof scale);
  float nan;
  std::memcpy(&nan, &kCanonicalNaN, sizeof nan);
  const float result = static_cast<float>(sum * scale);
  return x == x ? result : nan;
}

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_EXP2_H_
