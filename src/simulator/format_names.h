// PTX's names of number formats.
#ifndef TILELANG_SIMULATOR_FORMAT_NAMES_H_
#define TILELANG_SIMULATOR_FORMAT_NAMES_H_

#include <string>

#include "numerics.h"

namespace tilelang {
namespace simulator {

// "f16", "bf16", "tf32", "e4m3", "s8", ...; false when it is none of them.
bool find_format(const std::string& name, Format* format);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_FORMAT_NAMES_H_
