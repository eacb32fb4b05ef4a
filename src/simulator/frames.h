// Call frames: filling constants and special registers.
#ifndef TILELANG_SIMULATOR_FRAMES_H_
#define TILELANG_SIMULATOR_FRAMES_H_

#include "machine.h"

namespace tilelang {
namespace simulator {

/// Where registers start in their storage, which begins at any address.
inline uint8_t* first_register(std::vector<uint8_t>& storage) {
  return storage.data() + (64 - reinterpret_cast<uint64_t>(storage.data()) % 64) % 64;
}

/// Makes a frame of `function` that overlaps no live frame of the warp, and fills its constants and specials.
std::shared_ptr<Frame> make_frame(Warp& warp, uint32_t function, std::shared_ptr<Frame> caller);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_FRAMES_H_
