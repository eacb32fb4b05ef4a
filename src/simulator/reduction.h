// Element-wise read-modify-write of the .reduce forms of the bulk copies.
#ifndef TILELANG_SIMULATOR_REDUCTION_H_
#define TILELANG_SIMULATOR_REDUCTION_H_

#include <cstdint>
#include <string>

#include "numerics.h"

namespace tilelang {
namespace simulator {

enum class Reduction : uint8_t { kNone, kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor };

// "add", "min", ...; kNone when it is no reduction.
Reduction find_reduction(const std::string& name);

// Whether the bulk copies can reduce elements of this format so.
bool reduction_exists(Reduction reduction, Format format);

// target[i] = target[i] op source[i] for `bytes` of elements, each atomically with respect to other threads of the
// host. `target` is aligned to the element.
void reduce_elements(Reduction reduction, Format format, uint8_t* target, const uint8_t* source, uint32_t bytes);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_REDUCTION_H_
