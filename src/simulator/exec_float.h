// What the decoders of floating-point instructions share.
#ifndef TILELANG_SIMULATOR_EXEC_FLOAT_H_
#define TILELANG_SIMULATOR_EXEC_FLOAT_H_

#include "decoder.h"
#include "numerics.h"

namespace tilelang {
namespace simulator {

/// NaN results of f32 instructions have one bit pattern; f64 keeps the host's.
inline float canonical(float x) { return x == x ? x : float_from_bits(0x7fffffffu); }
inline double canonical(double x) { return x; }

/// Modifiers of an arithmetic instruction, in PTX's order.
struct FloatMode {
  Round round = Round::kNearestEven;
  bool directed = false;  // a rounding other than to nearest even
  bool approx = false, full = false;
  bool flush = false, saturate = false, relu = false;
  MinMaxMode minmax;
};

FloatMode take_float_mode(Decoder& decoder);

/// Whether the type is f16, bf16 or a pair of them.
bool is_half(const TypeInfo* type, Format* format, bool* packed);

/// Sources into op[1..3]; unused ones repeat the first so that every handler may read three.
void decode_sources(Decoder& decoder, const TypeInfo* type, size_t sources);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_EXEC_FLOAT_H_
