// Functions the CUDA runtime provides to kernels: vprintf, __assertfail.
#ifndef TILELANG_SIMULATOR_DEVICE_CALLS_H_
#define TILELANG_SIMULATOR_DEVICE_CALLS_H_

#include <string>
#include <vector>

#include "machine.h"

namespace tilelang {
namespace simulator {

struct CallAreas {
  const std::vector<ParamArea>& arguments;
  const std::vector<ParamArea>& results;
};

using DeviceCall = Step (*)(Warp& warp, const Instruction& instruction, LaneMask exec, const CallAreas& areas);

/// Null when the runtime provides no such function.
DeviceCall find_device_call(const std::string& name);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_DEVICE_CALLS_H_
