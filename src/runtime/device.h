// The device runtime: what a loaded kernel needs of a device. Two implementations: the CUDA driver and the simulator.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace tilelang::runtime {

// What went wrong on a device; the message is for the user.
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

constexpr int kMaxTensorMapRank = 5;
constexpr uint32_t kTensorMapBytes = 128;

// The part of a tensor map that is known when a kernel is compiled. Numbers are those of the driver's enumerations
// (CUtensorMapDataType and the others), axes innermost first.
struct TensorMapSpec {
  int32_t data_type = 0;
  std::vector<uint32_t> box;
  std::vector<uint32_t> element_strides;
  int32_t interleave = 0;
  int32_t swizzle = 0;
  int32_t l2_promotion = 0;
  int32_t fill = 0;
};

// One kernel of a module.
struct KernelSpec {
  std::string symbol;
  std::vector<uint32_t> argument_bytes;
  std::vector<TensorMapSpec> tensor_maps;
};

struct LaunchConfig {
  std::array<uint32_t, 3> grid, block, cluster;
  uint32_t shared_bytes = 0;
  bool cooperative = false;
  bool dependent_launch = false;
  void* stream = nullptr;
};

// Kernels that are loaded. All functions throw DeviceError.
class DeviceModule {
 public:
  virtual ~DeviceModule() = default;
  // DLPack device type of the tensors that kernels take.
  virtual int32_t device_type() const = 0;
  // Launches kernel number `kernel`; args[i] is the address of argument i's value.
  virtual void launch(size_t kernel, const LaunchConfig& config, void** args) = 0;
  // Writes the 128 bytes of a tensor map. `shape` has the rank of the map, `strides` (bytes) one less.
  virtual void encode_tensor_map(const TensorMapSpec& spec, void* base, const uint64_t* shape, const uint64_t* strides,
                                 void* out) = 0;
};

// The device code, in order of preference: machine code, then PTX; either may be empty.
struct DeviceImage {
  std::string cubin;
  std::string ptx;
};

std::unique_ptr<DeviceModule> load_on_driver(DeviceImage image, std::vector<KernelSpec> kernels);
std::unique_ptr<DeviceModule> load_on_simulator(DeviceImage image, std::vector<KernelSpec> kernels);

}  // namespace tilelang::runtime
