#include "numerics.h"

#include <array>
#include <limits>

namespace tilelang {
namespace simulator {

namespace {

constexpr int kDoubleMantissa = 52;
constexpr int kDoubleBias = 1023;

// Indexed by Format.
constexpr FloatLayout kLayouts[] = {
    {5, 10, 15, Overflow::kInfinity, 0x7bff, 0x7fff, 0},                              // f16
    {8, 7, 127, Overflow::kInfinity, 0x7f7f, 0x7fff, 0},                              // bf16
    {8, 10, 127, Overflow::kInfinity, 0x3fbff, 0x7fffffff, 13},                       // tf32
    {8, 23, 127, Overflow::kInfinity, 0x7f7fffff, 0x7fffffff, 0},                     // f32
    {11, 52, 1023, Overflow::kInfinity, 0x7fefffffffffffff, 0x7ff8000000000000, 0},   // f64
    {4, 3, 7, Overflow::kNaN, 0x7e, 0x7f, 0},                                         // e4m3
    {5, 2, 15, Overflow::kInfinity, 0x7b, 0x7f, 0},                                   // e5m2
    {2, 3, 1, Overflow::kSaturate, 0x1f, 0x1f, 0},                                    // e2m3
    {3, 2, 3, Overflow::kSaturate, 0x1f, 0x1f, 0},                                    // e3m2
    {2, 1, 1, Overflow::kSaturate, 0x07, 0x07, 0},                                    // e2m1
};

// Indexed by Format.
constexpr int kStorageBits[] = {16, 16, 32, 32, 64, 8, 8, 8, 8, 4, 4, 4, 8, 8, 16, 16, 32, 32, 64, 64};

// Whether a magnitude with a discarded remainder moves up by one ulp.
// `above_half` compares the remainder with half an ulp: -1 below, 0 equal, 1 above.
bool rounds_away(Round round, bool negative, bool odd, int above_half) {
  switch (round) {
    case Round::kNearestEven:
      return above_half > 0 || (above_half == 0 && odd);
    case Round::kNearestAway:
      return above_half >= 0;
    case Round::kTowardZero:
      return false;
    case Round::kDown:
      return negative;
    case Round::kUp:
      return !negative;
  }
  return false;
}

// The magnitude that a format gives to a finite number beyond its range.
uint64_t overflowed(const FloatLayout& layout, Round round, bool negative, bool satfinite) {
  const bool toward_zero = round == Round::kTowardZero || (round == Round::kDown && !negative) ||
                           (round == Round::kUp && negative);
  if (satfinite || toward_zero || layout.overflow == Overflow::kSaturate) return layout.largest;
  return layout.overflow == Overflow::kNaN ? layout.nan : layout.largest + 1;
}

double round_to_integral(double value, Round round) {
  switch (round) {
    case Round::kNearestEven:
      return std::nearbyint(value);
    case Round::kTowardZero:
      return std::trunc(value);
    case Round::kDown:
      return std::floor(value);
    case Round::kUp:
      return std::ceil(value);
    case Round::kNearestAway:
      return std::round(value);
  }
  return value;
}

uint64_t integer_mask(int bits) { return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }

int64_t sign_extend(uint64_t bits, int width) {
  const int unused = 64 - width;
  return static_cast<int64_t>(bits << unused) >> unused;
}

uint64_t lowest_integer(Format format) {
  const int width = storage_bits(format);
  return is_signed_integer(format) ? ~uint64_t{0} << (width - 1) : 0;
}

uint64_t highest_integer(Format format) {
  const int width = storage_bits(format);
  return integer_mask(is_signed_integer(format) ? width - 1 : width);
}

uint64_t float_to_integer(double value, Format to, Round round) {
  if (std::isnan(value)) return 0;
  const double integral = round_to_integral(value, round);
  const int magnitude_bits = storage_bits(to) - (is_signed_integer(to) ? 1 : 0);
  if (integral >= std::ldexp(1.0, magnitude_bits)) return highest_integer(to);
  if (!is_signed_integer(to)) return integral <= 0 ? 0 : static_cast<uint64_t>(integral);
  if (integral < -std::ldexp(1.0, magnitude_bits)) return lowest_integer(to);
  return static_cast<uint64_t>(static_cast<int64_t>(integral));
}

uint64_t integer_to_float(uint64_t bits, Format from, Format to, Round round) {
  const int width = storage_bits(from);
  uint64_t magnitude = bits & integer_mask(width);
  bool negative = false;
  if (is_signed_integer(from)) {
    const int64_t value = sign_extend(bits, width);
    negative = value < 0;
    magnitude = negative ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  }
  return encode_significand(negative, magnitude, 0, false, to, round, false);
}

uint64_t integer_to_integer(const Convert& spec, uint64_t bits) {
  const int from_width = storage_bits(spec.from);
  const bool from_signed = is_signed_integer(spec.from);
  uint64_t value = from_signed ? static_cast<uint64_t>(sign_extend(bits, from_width))
                               : bits & integer_mask(from_width);
  if (spec.saturate) {
    const bool negative = from_signed && static_cast<int64_t>(value) < 0;
    if (negative) {
      const int64_t lowest = static_cast<int64_t>(lowest_integer(spec.to));
      if (static_cast<int64_t>(value) < lowest) value = static_cast<uint64_t>(lowest);
    } else if (value > highest_integer(spec.to)) {
      value = highest_integer(spec.to);
    }
  }
  const int to_width = storage_bits(spec.to);
  return is_signed_integer(spec.to) ? static_cast<uint64_t>(sign_extend(value, to_width))
                                    : value & integer_mask(to_width);
}

bool is_plain(const Convert& spec) {
  return spec.round == Round::kNearestEven && !spec.integral && !spec.saturate &&
         !spec.satfinite && !spec.relu && !spec.flush;
}

uint64_t float_to_float(const Convert& spec, uint64_t bits) {
  double value = decode(bits, spec.from);
  if (std::isnan(value)) {
    if (spec.saturate) return 0;
    // Double precision passes NaN payloads through; every other format has one NaN.
    if (spec.to == Format::kF64 && spec.from == Format::kF64) return bits;
    return float_layout(spec.to).nan;
  }
  if (spec.flush && spec.from == Format::kF32) value = flush_f32(static_cast<float>(value));
  if (spec.integral) value = round_to_integral(value, spec.round);
  if (spec.saturate) value = value > 0.0 ? (value < 1.0 ? value : 1.0) : 0.0;
  if (spec.relu && std::signbit(value)) value = 0.0;
  const uint64_t encoded = encode(value, spec.to, spec.round, spec.satfinite);
  if (!spec.flush || spec.to != Format::kF32) return encoded;
  return bits_from_float(flush_f32(float_from_bits(static_cast<uint32_t>(encoded))));
}

std::array<float, 256> decode_table(Format format) {
  std::array<float, 256> table;
  for (int bits = 0; bits < 256; ++bits) table[bits] = static_cast<float>(decode(bits, format));
  return table;
}

}  // namespace

const FloatLayout& float_layout(Format format) { return kLayouts[static_cast<int>(format)]; }

int storage_bits(Format format) { return kStorageBits[static_cast<int>(format)]; }

uint64_t encode_significand(bool negative, uint64_t significand, int exponent, bool sticky,
                            Format format, Round round, bool satfinite) {
  const FloatLayout& layout = float_layout(format);
  const uint64_t sign = static_cast<uint64_t>(negative) << (layout.width() - 1);
  if (significand == 0) return sign << layout.shift;
  // Bring the leading one to bit 63; `top` is the power of two that it stands for.
  const int zeros = __builtin_clzll(significand);
  significand <<= zeros;
  const int top = exponent + 63 - zeros;
  const int lowest_normal = 1 - layout.bias;
  const int subnormal_shift = top < lowest_normal ? lowest_normal - top : 0;
  const int discarded = 63 - layout.mantissa_bits + subnormal_shift;

  uint64_t kept = 0;
  bool inexact = sticky;
  int above_half = -1;
  if (discarded < 64) {
    kept = significand >> discarded;
    const uint64_t half = uint64_t{1} << (discarded - 1);
    const uint64_t remainder = significand & (2 * half - 1);
    inexact = inexact || remainder != 0;
    above_half = remainder > half || (remainder == half && sticky) ? 1 : (remainder == half ? 0 : -1);
  } else {
    inexact = true;
    if (discarded == 64) above_half = significand > (uint64_t{1} << 63) || sticky ? 1 : 0;
  }
  // `kept` carries the implicit one; a carry out of the mantissa moves the exponent by itself.
  uint64_t magnitude = kept;
  if (subnormal_shift == 0) {
    const uint64_t implicit = uint64_t{1} << layout.mantissa_bits;
    magnitude = kept - implicit;
    const int biased = top + layout.bias;
    if (biased >= (1 << layout.exponent_bits)) {
      magnitude = layout.largest + 1;
      inexact = false;
    } else {
      magnitude += static_cast<uint64_t>(biased) << layout.mantissa_bits;
    }
  }
  if (inexact && rounds_away(round, negative, kept & 1, above_half)) ++magnitude;
  if (magnitude > layout.largest) {
    magnitude = overflowed(layout, round, negative, satfinite);
  }
  return (sign | magnitude) << layout.shift;
}

uint64_t encode(double value, Format format, Round round, bool satfinite) {
  const FloatLayout& layout = float_layout(format);
  if (std::isnan(value)) return layout.nan;
  const uint64_t bits = bits_from_double(value);
  const bool negative = bits >> 63;
  const int biased = static_cast<int>(bits >> kDoubleMantissa) & 0x7ff;
  const uint64_t fraction = bits & integer_mask(kDoubleMantissa);
  if (biased == 0x7ff) {
    // An infinity overflows in every rounding mode.
    const uint64_t sign = static_cast<uint64_t>(negative) << (layout.width() - 1);
    return (sign | overflowed(layout, Round::kNearestEven, negative, satfinite)) << layout.shift;
  }
  const uint64_t significand = biased == 0 ? fraction : fraction | (uint64_t{1} << kDoubleMantissa);
  const int exponent = (biased == 0 ? 1 : biased) - kDoubleBias - kDoubleMantissa;
  return encode_significand(negative, significand, exponent, false, format, round, satfinite);
}

double decode(uint64_t bits, Format format) {
  if (format == Format::kF64) return double_from_bits(bits);
  if (format == Format::kF32) return float_from_bits(static_cast<uint32_t>(bits));
  if (!is_float(format)) {
    const int width = storage_bits(format);
    return is_signed_integer(format) ? static_cast<double>(sign_extend(bits, width))
                                     : static_cast<double>(bits & integer_mask(width));
  }
  const FloatLayout& layout = float_layout(format);
  bits >>= layout.shift;
  const bool negative = (bits >> (layout.width() - 1)) & 1;
  const uint64_t magnitude = bits & integer_mask(layout.width() - 1);
  if (magnitude > layout.largest) {
    const bool infinite = layout.overflow == Overflow::kInfinity && magnitude == layout.largest + 1;
    if (!infinite) return std::numeric_limits<double>::quiet_NaN();
    return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }
  const int biased = static_cast<int>(magnitude >> layout.mantissa_bits);
  const uint64_t fraction = magnitude & integer_mask(layout.mantissa_bits);
  const uint64_t significand = biased == 0 ? fraction : fraction | (uint64_t{1} << layout.mantissa_bits);
  const int exponent = (biased == 0 ? 1 : biased) - layout.bias - layout.mantissa_bits;
  const double value = std::ldexp(static_cast<double>(significand), exponent);
  return negative ? -value : value;
}

const float* e4m3_table() {
  static const std::array<float, 256> table = decode_table(Format::kE4M3);
  return table.data();
}

const float* e5m2_table() {
  static const std::array<float, 256> table = decode_table(Format::kE5M2);
  return table.data();
}

uint64_t convert(const Convert& spec, uint64_t bits) {
  if (!is_float(spec.from)) {
    if (!is_float(spec.to)) return integer_to_integer(spec, bits);
    const uint64_t result = integer_to_float(bits, spec.from, spec.to, spec.round);
    if (!spec.saturate) return result;
    const Convert clamp = {spec.to, spec.to, Round::kNearestEven, false, true};
    return float_to_float(clamp, result);
  }
  if (is_plain(spec)) {
    const uint16_t low = static_cast<uint16_t>(bits);
    if (spec.to == Format::kF32 && spec.from == Format::kF16) return bits_from_float(f16_to_f32(low));
    if (spec.to == Format::kF32 && spec.from == Format::kBF16) return bits_from_float(bf16_to_f32(low));
    const float single = float_from_bits(static_cast<uint32_t>(bits));
    if (spec.from == Format::kF32 && spec.to == Format::kF16) return f32_to_f16(single);
    if (spec.from == Format::kF32 && spec.to == Format::kBF16) return f32_to_bf16(single);
  }
  if (is_float(spec.to)) return float_to_float(spec, bits);
  double value = decode(bits, spec.from);
  if (spec.flush && spec.from == Format::kF32) value = flush_f32(static_cast<float>(value));
  return float_to_integer(value, spec.to, spec.round);
}

uint32_t convert_pair(const Convert& spec, uint32_t high, uint32_t low) {
  const uint32_t upper = static_cast<uint32_t>(convert(spec, high));
  const uint32_t lower = static_cast<uint32_t>(convert(spec, low));
  return upper << storage_bits(spec.to) | lower;
}

uint32_t convert_packed(const Convert& spec, uint32_t packed) {
  const int width = storage_bits(spec.from);
  const uint32_t mask = static_cast<uint32_t>(integer_mask(width));
  return convert_pair(spec, (packed >> width) & mask, packed & mask);
}

}  // namespace simulator
}  // namespace tilelang
