// Call frames: filling constants and special registers.
#ifndef TILELANG_SIMULATOR_FRAMES_H_
#define TILELANG_SIMULATOR_FRAMES_H_

#include "machine.h"

namespace tilelang {
namespace simulator {

/// Makes a frame of `function` that overlaps no live frame of the warp, and fills its constants and specials.
std::shared_ptr<Frame> make_frame(Warp& warp, uint32_t function, std::shared_ptr<Frame> caller);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_FRAMES_H_
