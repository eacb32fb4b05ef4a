// How findings name places in the memory that a launch may touch.
#ifndef TILELANG_SIMULATOR_ALLOCATION_MAP_H_
#define TILELANG_SIMULATOR_ALLOCATION_MAP_H_

#include <cstdint>
#include <string>

#include "memory.h"

namespace tilelang {
namespace simulator {

/// "offset 64 of A", for an address inside of an allocation.
std::string place_in(const AllocationMap& map, uint64_t address);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_ALLOCATION_MAP_H_
