// The fundamental and packed types of PTX (PTX ISA, "Types").
#include "ptx_ast.h"

namespace tilelang {
namespace simulator {
namespace {

const TypeInfo kTypes[] = {
    {"pred", 0, 'p'},    {"b8", 1, 'b'},     {"b16", 2, 'b'},    {"b32", 4, 'b'},    {"b64", 8, 'b'},
    {"b128", 16, 'b'},   {"u8", 1, 'u'},     {"u16", 2, 'u'},    {"u32", 4, 'u'},    {"u64", 8, 'u'},
    {"s8", 1, 's'},      {"s16", 2, 's'},    {"s32", 4, 's'},    {"s64", 8, 's'},    {"f16", 2, 'f'},
    {"f32", 4, 'f'},     {"f64", 8, 'f'},    {"bf16", 2, 'h'},   {"f16x2", 4, 'x'},  {"bf16x2", 4, 'x'},
    {"tf32", 4, 'x'},    {"e4m3", 1, 'x'},   {"e5m2", 1, 'x'},   {"e4m3x2", 2, 'x'}, {"e5m2x2", 2, 'x'},
    {"u16x2", 4, 'x'},   {"s16x2", 4, 'x'},  {"u4", 1, 'x'},     {"s4", 1, 'x'},     {"b1", 1, 'x'},
    {"ue8m0x2", 2, 'x'}, {"e2m1x2", 1, 'x'}, {"e2m3x2", 2, 'x'}, {"e3m2x2", 2, 'x'}, {"f32x2", 8, 'x'},
};

}  // namespace

const TypeInfo* find_type(const std::string& name) {
  for (const TypeInfo& type : kTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

}  // namespace simulator
}  // namespace tilelang
