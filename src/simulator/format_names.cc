#include "format_names.h"

namespace tilelang {
namespace simulator {

namespace {

struct FormatName {
  const char* name;
  Format format;
};

constexpr FormatName kNames[] = {
    {"f16", Format::kF16},   {"bf16", Format::kBF16}, {"tf32", Format::kTF32}, {"f32", Format::kF32},
    {"f64", Format::kF64},   {"e4m3", Format::kE4M3}, {"e5m2", Format::kE5M2}, {"e2m3", Format::kE2M3},
    {"e3m2", Format::kE3M2}, {"e2m1", Format::kE2M1}, {"u4", Format::kU4},     {"s4", Format::kS4},
    {"u8", Format::kU8},     {"s8", Format::kS8},     {"u16", Format::kU16},   {"s16", Format::kS16},
    {"u32", Format::kU32},   {"s32", Format::kS32},   {"u64", Format::kU64},   {"s64", Format::kS64},
};

}  // namespace

bool find_format(const std::string& name, Format* format) {
  for (const FormatName& row : kNames) {
    if (name != row.name) continue;
    *format = row.format;
    return true;
  }
  return false;
}

}  // namespace simulator
}  // namespace tilelang
