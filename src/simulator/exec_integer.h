// Integer forms of the instructions that floats have, too.
#ifndef TILELANG_SIMULATOR_EXEC_INTEGER_H_
#define TILELANG_SIMULATOR_EXEC_INTEGER_H_

#include "decoder.h"

namespace tilelang {
namespace simulator {

/// Decode add, sub, mul, mad, min, max, div, abs, neg when the type is an integer. The statement's modifiers have not
/// been consumed. Returns false (consuming nothing) when the type is not an integer.
bool decode_integer_arithmetic(Decoder& decoder);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_EXEC_INTEGER_H_
