#include "reduction.h"

#include <algorithm>
#include <cstring>

namespace tilelang {
namespace simulator {

namespace {

struct Name {
  const char* text;
  Reduction reduction;
};

constexpr Name kNames[] = {
    {"add", Reduction::kAdd}, {"min", Reduction::kMin}, {"max", Reduction::kMax}, {"inc", Reduction::kInc},
    {"dec", Reduction::kDec}, {"and", Reduction::kAnd}, {"or", Reduction::kOr},   {"xor", Reduction::kXor},
};

constexpr uint32_t bit(Reduction reduction) { return 1u << static_cast<int>(reduction); }

constexpr uint32_t kOrdered = bit(Reduction::kAdd) | bit(Reduction::kMin) | bit(Reduction::kMax);
constexpr uint32_t kLogical = bit(Reduction::kAnd) | bit(Reduction::kOr) | bit(Reduction::kXor);
constexpr uint32_t kWrapping = bit(Reduction::kInc) | bit(Reduction::kDec);

uint32_t reductions_of(Format format) {
  switch (format) {
    case Format::kF16:
    case Format::kBF16:
      return kOrdered;
    case Format::kF32:
    case Format::kF64:
      return bit(Reduction::kAdd);
    case Format::kU32:
      return kOrdered | kLogical | kWrapping;
    case Format::kS32:
    case Format::kU64:
      return kOrdered | kLogical;
    case Format::kS64:
      return bit(Reduction::kMin) | bit(Reduction::kMax) | kLogical;
    default:
      return 0;
  }
}

// Wrapping arithmetic on the unsigned type; `Ordered` compares.
template <typename Unsigned, typename Ordered>
Unsigned integer_result(Reduction reduction, Unsigned old, Unsigned value) {
  const Ordered a = static_cast<Ordered>(old), b = static_cast<Ordered>(value);
  switch (reduction) {
    case Reduction::kAdd:
      return old + value;
    case Reduction::kMin:
      return static_cast<Unsigned>(std::min(a, b));
    case Reduction::kMax:
      return static_cast<Unsigned>(std::max(a, b));
    case Reduction::kInc:
      return old >= value ? 0 : old + 1;
    case Reduction::kDec:
      return old == 0 || old > value ? value : old - 1;
    case Reduction::kAnd:
      return old & value;
    case Reduction::kOr:
      return old | value;
    default:
      return old ^ value;
  }
}

uint16_t half_result(Reduction reduction, Format format, uint16_t old, uint16_t value) {
  if (reduction == Reduction::kAdd) return half_add(format, old, value);
  MinMaxMode mode;
  mode.maximum = reduction == Reduction::kMax;
  return half_minmax(format, old, value, mode);
}

template <typename Word, typename Combine>
void update_words(uint8_t* target, const uint8_t* source, uint32_t bytes, Combine combine) {
  auto* words = reinterpret_cast<Word*>(target);
  for (uint32_t i = 0; i < bytes / sizeof(Word); ++i) {
    Word value;
    std::memcpy(&value, source + i * sizeof(Word), sizeof(Word));
    Word old = __atomic_load_n(words + i, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(words + i, &old, combine(old, value), true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
  }
}

}  // namespace

Reduction find_reduction(const std::string& name) {
  for (const Name& row : kNames) {
    if (name == row.text) return row.reduction;
  }
  return Reduction::kNone;
}

bool reduction_exists(Reduction reduction, Format format) { return (reductions_of(format) & bit(reduction)) != 0; }

void reduce_elements(Reduction reduction, Format format, uint8_t* target, const uint8_t* source, uint32_t bytes) {
  switch (format) {
    case Format::kF16:
    case Format::kBF16:
      return update_words<uint16_t>(target, source, bytes, [=](uint16_t old, uint16_t value) {
        return half_result(reduction, format, old, value);
      });
    case Format::kF32:
      return update_words<uint32_t>(target, source, bytes, [](uint32_t old, uint32_t value) {
        return canonical_f32(float_from_bits(old) + float_from_bits(value));
      });
    case Format::kF64:
      return update_words<uint64_t>(target, source, bytes, [](uint64_t old, uint64_t value) {
        return bits_from_double(double_from_bits(old) + double_from_bits(value));
      });
    case Format::kU32:
      return update_words<uint32_t>(target, source, bytes, [=](uint32_t old, uint32_t value) {
        return integer_result<uint32_t, uint32_t>(reduction, old, value);
      });
    case Format::kS32:
      return update_words<uint32_t>(target, source, bytes, [=](uint32_t old, uint32_t value) {
        return integer_result<uint32_t, int32_t>(reduction, old, value);
      });
    case Format::kU64:
      return update_words<uint64_t>(target, source, bytes, [=](uint64_t old, uint64_t value) {
        return integer_result<uint64_t, uint64_t>(reduction, old, value);
      });
    default:
      return update_words<uint64_t>(target, source, bytes, [=](uint64_t old, uint64_t value) {
        return integer_result<uint64_t, int64_t>(reduction, old, value);
      });
  }
}

}  // namespace simulator
}  // namespace tilelang
