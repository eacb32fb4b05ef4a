// The NaN that floating-point instructions give.
#ifndef TILELANG_SIMULATOR_CANONICAL_NAN_H_
#define TILELANG_SIMULATOR_CANONICAL_NAN_H_

#include <cstdint>

namespace tilelang {
namespace simulator {

constexpr uint32_t kCanonicalNaN = 0x7fffffffu;

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_CANONICAL_NAN_H_
