// The device runtime over the CUDA driver.
//
// A module is loaded into each context in which one of its kernels is launched: the current one, which the framework that
// owns the tensors has made current, or the primary context of device 0 where there is none.
#include <atomic>
#include <mutex>
#include <utility>

#include "device.h"
#include "driver_api.h"

namespace tilelang::runtime {
namespace {

constexpr uint32_t kDefaultSharedBytes = 48 * 1024;
constexpr uint32_t kPortableClusterSize = 8;

driver::Context current_context() {
  const driver::Api& api = driver::api();
  driver::Context context = nullptr;
  driver::check(api.current_context(&context), "cannot ask for the CUDA context");
  if (context == nullptr) {
    driver::check(api.retain_primary_context(&context, 0), "cannot open CUDA device 0");
    driver::check(api.set_current_context(context), "cannot use CUDA device 0");
  }
  return context;
}

// The driver reads as many values as the kernel's own parameters need, whatever it is given.
void check_parameters(driver::Function function, const KernelSpec& spec) {
  const auto info = driver::api().parameter_info;
  if (info == nullptr) return;
  size_t count = 0, offset = 0, bytes = 0;
  while (info(function, count, &offset, &bytes) == 0) {
    if (count >= spec.argument_bytes.size() || bytes != spec.argument_bytes[count]) break;
    ++count;
  }
  if (count != spec.argument_bytes.size() || info(function, count, &offset, &bytes) == 0) {
    throw DeviceError("the kernel " + spec.symbol + " does not take the arguments of its record: parameter " +
                      std::to_string(count) + " differs");
  }
}

// One kernel in one context.
struct LoadedKernel {
  driver::Function function = nullptr;
  std::atomic<uint32_t> shared_bytes{kDefaultSharedBytes};  // what it has been allowed so far; grows only
  std::atomic<bool> large_cluster{false};
  std::mutex limits;
};

// What PTX was compiled for, as the end of an error.
std::string compiled_for(const std::string& ptx) {
  const std::string directive = ".target ";
  const size_t at = ptx.find(directive);
  if (at == std::string::npos) return "";
  const size_t start = at + directive.size();
  return " (it was compiled for " + ptx.substr(start, ptx.find_first_of(", \r\n", start) - start) + ")";
}

// The module in one context; never unloaded while the process may still launch from it.
struct ContextModule {
  driver::Context context = nullptr;
  driver::Module module = nullptr;
  std::vector<LoadedKernel> kernels;

  ContextModule(driver::Context owner, const DeviceImage& image, const std::vector<KernelSpec>& specs)
      : context(owner), module(load(image)), kernels(specs.size()) {
    for (size_t i = 0; i < specs.size(); ++i) {
      driver::check(driver::api().get_function(&kernels[i].function, module, specs[i].symbol.c_str()),
                    ("cannot find the kernel " + specs[i].symbol).c_str());
      check_parameters(kernels[i].function, specs[i]);
    }
  }

  static driver::Module load(const DeviceImage& image) {
    const driver::Api& api = driver::api();
    driver::Module module = nullptr;
    driver::Status status = driver::kNoBinaryForGpu;
    if (!image.cubin.empty()) status = api.load_module(&module, image.cubin.data());
    // Machine code for another architecture; the driver can translate PTX for a newer one.
    if (status == driver::kNoBinaryForGpu && !image.ptx.empty()) status = api.load_module(&module, image.ptx.c_str());
    driver::check(status, ("cannot load the kernel on this GPU" + compiled_for(image.ptx)).c_str());
    return module;
  }
};

class DriverModule : public DeviceModule {
 public:
  DriverModule(DeviceImage image, std::vector<KernelSpec> kernels) : image_(std::move(image)), kernels_(std::move(kernels)) {
    driver::api();  // a machine without a driver is told at load time
  }

  int32_t device_type() const override { return 2; }

  void launch(size_t index, const LaunchConfig& config, void** args) override {
    if (config.grid[0] == 0 || config.grid[1] == 0 || config.grid[2] == 0) return;  // nothing to do
    LoadedKernel& kernel = in_current_context().kernels.at(index);
    allow(kernel, config);
    driver::LaunchAttribute attributes[3] = {};
    driver::LaunchConfig request{};
    request.attributes = attributes;
    for (int axis = 0; axis < 3; ++axis) {
      request.grid[axis] = config.grid[axis];
      request.block[axis] = config.block[axis];
    }
    request.shared_bytes = config.shared_bytes;
    request.stream = config.stream;
    if (clustered(config)) {
      driver::LaunchAttribute& attribute = add(request, driver::kClusterDimension);
      for (int axis = 0; axis < 3; ++axis) attribute.value.extent[axis] = config.cluster[axis];
    }
    if (config.cooperative) add(request, driver::kCooperative).value.flag = 1;
    if (config.dependent_launch) add(request, driver::kProgrammaticStreamSerialization).value.flag = 1;
    driver::check(driver::api().launch(&request, kernel.function, args, nullptr),
                  ("cannot launch " + kernels_[index].symbol).c_str());
  }

  void encode_tensor_map(const TensorMapSpec& spec, void* base, const uint64_t* shape, const uint64_t* strides,
                         void* out) override {
    const auto encode = driver::api().encode_tiled;
    if (encode == nullptr) throw DeviceError("the CUDA driver is too old for tensor maps (12.0 is needed)");
    driver::check(encode(out, spec.data_type, static_cast<uint32_t>(spec.box.size()), base, shape, strides, spec.box.data(),
                         spec.element_strides.data(), spec.interleave, spec.swizzle, spec.l2_promotion, spec.fill),
                  "cannot encode a tensor map (base address, sizes or strides do not suit it)");
  }

 private:
  static bool clustered(const LaunchConfig& config) { return config.cluster[0] * config.cluster[1] * config.cluster[2] > 1; }

  static driver::LaunchAttribute& add(driver::LaunchConfig& request, driver::LaunchAttributeId id) {
    driver::LaunchAttribute& attribute = request.attributes[request.attribute_count++];
    attribute.id = id;
    return attribute;
  }

  // Raises the kernel's limits to what this launch needs. One thread at a time, as the driver's limit is what was set last.
  void allow(LoadedKernel& kernel, const LaunchConfig& config) {
    const bool large = config.cluster[0] * config.cluster[1] * config.cluster[2] > kPortableClusterSize;
    if (config.shared_bytes <= kernel.shared_bytes && (!large || kernel.large_cluster)) return;
    std::lock_guard<std::mutex> guard(kernel.limits);
    const driver::Api& api = driver::api();
    if (config.shared_bytes > kernel.shared_bytes) {
      driver::check(api.set_attribute(kernel.function, driver::kMaxDynamicSharedBytes, static_cast<int>(config.shared_bytes)),
                    ("the GPU does not have " + std::to_string(config.shared_bytes) + " bytes of shared memory a block").c_str());
      kernel.shared_bytes = config.shared_bytes;
    }
    if (large && !kernel.large_cluster) {
      driver::check(api.set_attribute(kernel.function, driver::kNonPortableClusterSize, 1), "the GPU refuses clusters of this size");
      kernel.large_cluster = true;
    }
  }

  ContextModule& in_current_context() {
    const driver::Context context = current_context();
    ContextModule* last = last_.load(std::memory_order_acquire);
    if (last != nullptr && last->context == context) return *last;
    std::lock_guard<std::mutex> guard(mutex_);
    for (const auto& loaded : loaded_) {
      if (loaded->context == context) return remember(*loaded);
    }
    loaded_.push_back(std::make_unique<ContextModule>(context, image_, kernels_));
    return remember(*loaded_.back());
  }

  ContextModule& remember(ContextModule& loaded) {
    last_.store(&loaded, std::memory_order_release);
    return loaded;
  }

  const DeviceImage image_;
  const std::vector<KernelSpec> kernels_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ContextModule>> loaded_;
  std::atomic<ContextModule*> last_{nullptr};
};

}  // namespace

std::unique_ptr<DeviceModule> load_on_driver(DeviceImage image, std::vector<KernelSpec> kernels) {
  return std::make_unique<DriverModule>(std::move(image), std::move(kernels));
}

}  // namespace tilelang::runtime
