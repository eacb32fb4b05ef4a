// The device runtime over the simulator, which is reached through its tvm-ffi functions.
//
// The simulator checks every address, so it has to know which memory a launch may touch, under which settings it runs, and
// where its report goes: the caller says so before a call, by `set_session`, for its thread.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <cstring>
#include <optional>
#include <utility>

#include "device.h"
#include "simulator_session.h"

namespace tilelang::runtime {
namespace {

using tvm::ffi::Any;
using tvm::ffi::Array;
using tvm::ffi::Bytes;
using tvm::ffi::Function;
using tvm::ffi::ObjectRef;
using tvm::ffi::String;

thread_local SimulatorSession current_session;

uint32_t aligned(uint32_t offset, uint32_t bytes) {
  const uint32_t alignment = bytes == kTensorMapBytes ? 64 : bytes;
  return (offset + alignment - 1) / alignment * alignment;
}

// The parameter buffer: each value at the next multiple of its size (PTX ISA, kernel parameters).
std::string pack(const KernelSpec& kernel, void** args) {
  std::string buffer;
  for (size_t i = 0; i < kernel.argument_bytes.size(); ++i) {
    const uint32_t bytes = kernel.argument_bytes[i];
    buffer.resize(aligned(static_cast<uint32_t>(buffer.size()), bytes));
    buffer.append(static_cast<const char*>(args[i]), bytes);
  }
  return buffer;
}

class SimulatorModule : public DeviceModule {
 public:
  SimulatorModule(const DeviceImage& image, std::vector<KernelSpec> kernels)
      : kernels_(std::move(kernels)),
        launch_(Function::GetGlobalRequired("tilelang.simulator.launch")),
        launch_beside_(Function::GetGlobalRequired("tilelang.simulator.launch_beside")),
        encode_(Function::GetGlobalRequired("tilelang.simulator.encode_tensor_map_tiled")),
        module_(Function::GetGlobalRequired("tilelang.simulator.load_module")(String(image.ptx)).cast<ObjectRef>()) {}

  int32_t device_type() const override { return 1; }

  void launch(size_t index, const LaunchConfig& config, void** args) override {
    if (config.grid[0] == 0 || config.grid[1] == 0 || config.grid[2] == 0) return;
    const KernelSpec& kernel = kernels_.at(index);
    const SimulatorSession& session = current_session;
    Array<int64_t> sizes;
    for (const auto& triple : {config.grid, config.block, config.cluster}) {
      for (uint32_t extent : triple) sizes.push_back(extent);
    }
    sizes.push_back(config.shared_bytes);
    const std::string parameters = pack(kernel, args);
    const Bytes values(parameters.data(), parameters.size());
    Any ended;
    if (session.on_resident.has_value()) {
      const bool hold = session.before_launch.value()().cast<bool>();
      ended = launch_beside_(module_, String(kernel.symbol), sizes, values, session.allocations, session.names, session.checks,
                             session.count, session.seed, session.workers, 0, session.should_stop, hold);
    } else {
      ended = launch_(module_, String(kernel.symbol), sizes, values, session.allocations, session.names, session.checks,
                      session.count, session.seed, session.workers, 0, session.should_stop);
    }
    const std::optional<String> report = ended.as<String>();
    if (!report) {
      session.on_resident.value()(ended);
    } else if (session.on_report.has_value()) {
      session.on_report.value()(*report);
    }
  }

  void encode_tensor_map(const TensorMapSpec& spec, void* base, const uint64_t* shape, const uint64_t* strides,
                         void* out) override {
    const size_t rank = spec.box.size();
    const std::string map = encode_(static_cast<int64_t>(spec.data_type), reinterpret_cast<int64_t>(base), numbers(shape, rank),
                              numbers(strides, rank - 1), numbers(spec.box.data(), rank), numbers(spec.element_strides.data(), rank),
                              static_cast<int64_t>(spec.interleave), static_cast<int64_t>(spec.swizzle),
                              static_cast<int64_t>(spec.l2_promotion), static_cast<int64_t>(spec.fill))
                                .cast<Bytes>();
    if (map.size() != kTensorMapBytes) throw DeviceError("the simulator gave a tensor map of the wrong size");
    std::memcpy(out, map.data(), map.size());
  }

 private:
  template <class Number>
  static Array<int64_t> numbers(const Number* values, size_t count) {
    Array<int64_t> result;
    for (size_t i = 0; i < count; ++i) result.push_back(static_cast<int64_t>(values[i]));
    return result;
  }

  const std::vector<KernelSpec> kernels_;
  const Function launch_;
  const Function launch_beside_;
  const Function encode_;
  const ObjectRef module_;
};

}  // namespace

void set_session(SimulatorSession session) { current_session = std::move(session); }

void set_streams(Function before_launch, Function on_resident) {
  current_session.before_launch = std::move(before_launch);
  current_session.on_resident = std::move(on_resident);
}

std::unique_ptr<DeviceModule> load_on_simulator(DeviceImage image, std::vector<KernelSpec> kernels) {
  return std::make_unique<SimulatorModule>(image, std::move(kernels));
}

}  // namespace tilelang::runtime
