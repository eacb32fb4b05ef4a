// ex2.approx, written so that the compiler turns a loop over lanes into vector code.
#ifndef TILELANG_SIMULATOR_EXP2_H_
#define TILELANG_SIMULATOR_EXP2_H_

#include "numerics.h"

namespace tilelang {
namespace simulator {

/// 2^x, computed in double precision and rounded once. NaN gives the canonical NaN.
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
  const double high = std::fma(std::fma(std::fma(c13, f, c12), f, c11), f, c10);
  const double middle = std::fma(std::fma(std::fma(std::fma(high, f, c9), f, c8), f, c7), f, c6);
  const double low = std::fma(std::fma(std::fma(std::fma(middle, f, c5), f, c4), f, c3), f, c2);
  const double sum = std::fma(std::fma(low, f, kLog), f, 1.0);
  const double scale = double_from_bits((bits_from_double(shifted) + 1023) << 52);
  const float result = static_cast<float>(sum * scale);
  return x == x ? result : float_from_bits(kCanonicalNaN);
}

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_EXP2_H_
