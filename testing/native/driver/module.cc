// Modules from PTX and from machine code, kernels and their attributes.
#include "module.h"

#include <algorithm>
#include <cstring>

#include "image.h"
#include "launch.h"

namespace test_driver {
namespace {

constexpr int kDefaultSharedBytes = 48 * 1024;

enum Attribute { kMaxThreads = 0, kSharedBytes = 1, kMaxDynamicShared = 8, kLargeClusters = 14 };

LoadedModule* find_module(Context& context, void* handle) {
  for (const auto& module : context.modules) {
    if (module.get() == handle) return module.get();
  }
  return nullptr;
}

Status load(Context& context, LoadedModule** out, const void* image) {
  if (out == nullptr || image == nullptr) return kInvalidValue;
  std::string ptx;
  if (const Status status = read_image(image, context.device->architecture(), driver().kernels, &ptx)) return status;
  auto module = std::make_unique<LoadedModule>();
  module->context = &context;
  try {
    module->program = tilelang::simulator::decode_module(tilelang::simulator::parse_ptx(ptx));
  } catch (const tilelang::simulator::ProgramError&) {
    return kInvalidPtx;
  }
  *out = module.get();
  context.modules.insert(std::move(module));
  return kSuccess;
}

Kernel* take_kernel(LoadedModule& module, const std::string& name) {
  for (const auto& known : module.kernels) {
    if (known->code->name == name) return known.get();
  }
  for (const auto& function : module.program->functions) {
    if (!function.is_entry || function.name != name) continue;
    auto kernel = std::make_unique<Kernel>();
    kernel->module = &module;
    kernel->code = &function;
    kernel->dynamic_shared_bytes = kDefaultSharedBytes - static_cast<int>(function.static_shared_bytes);
    module.kernels.push_back(std::move(kernel));
    return module.kernels.back().get();
  }
  return nullptr;
}

Status set_attribute(const Device& device, Kernel& kernel, int id, int value) {
  if (id == kMaxDynamicShared) {
    if (value < 0 || value + static_cast<int>(kernel.code->static_shared_bytes) > device.shared_bytes_per_block) return kInvalidValue;
    kernel.dynamic_shared_bytes = value;
    return kSuccess;
  }
  if (id == kLargeClusters && device.major >= 9 && (value == 0 || value == 1)) {
    kernel.large_clusters = value == 1;
    return kSuccess;
  }
  return kInvalidValue;
}

// Runs f(kernel) for a handle of the current context.
template <class F>
Status on_kernel(void* handle, F&& f) {
  return in_context([&](Context& context) -> Status {
    Kernel* kernel = find_kernel(context, handle);
    return kernel != nullptr ? f(context, *kernel) : Status(kInvalidHandle);
  });
}

}  // namespace

Kernel* find_kernel(Context& context, void* handle) {
  for (const auto& module : context.modules) {
    for (const auto& kernel : module->kernels) {
      if (kernel.get() == handle) return kernel.get();
    }
  }
  return nullptr;
}

DRIVER_FUNCTION cuModuleLoadData(LoadedModule** out, const void* image) {
  return in_context([&](Context& context) { return load(context, out, image); });
}

DRIVER_FUNCTION cuModuleUnload(void* handle) {
  return in_context([&](Context& context) -> Status {
    if (find_module(context, handle) == nullptr) return kInvalidHandle;
    const Status status = finish_all(context);
    auto found = std::find_if(context.modules.begin(), context.modules.end(), [&](const auto& m) { return m.get() == handle; });
    context.modules.erase(found);
    return status;
  });
}

DRIVER_FUNCTION cuModuleGetFunction(Kernel** out, void* handle, const char* name) {
  return in_context([&](Context& context) -> Status {
    LoadedModule* module = find_module(context, handle);
    if (module == nullptr) return kInvalidHandle;
    if (out == nullptr || name == nullptr) return kInvalidValue;
    *out = take_kernel(*module, name);
    return *out != nullptr ? kSuccess : kNotFound;
  });
}

DRIVER_FUNCTION cuFuncSetAttribute(void* handle, int id, int value) {
  return on_kernel(handle, [&](Context& context, Kernel& kernel) { return set_attribute(*context.device, kernel, id, value); });
}

DRIVER_FUNCTION cuFuncGetAttribute(int* out, int id, void* handle) {
  return on_kernel(handle, [&](Context&, Kernel& kernel) -> Status {
    if (out == nullptr) return kInvalidValue;
    if (id == kMaxThreads) *out = 1024;
    else if (id == kSharedBytes) *out = static_cast<int>(kernel.code->static_shared_bytes);
    else if (id == kMaxDynamicShared) *out = kernel.dynamic_shared_bytes;
    else if (id == kLargeClusters) *out = kernel.large_clusters;
    else return kInvalidValue;
    return kSuccess;
  });
}

DRIVER_FUNCTION cuFuncGetParamInfo(void* handle, size_t index, size_t* offset, size_t* bytes) {
  return on_kernel(handle, [&](Context&, Kernel& kernel) -> Status {
    if (offset == nullptr || index >= kernel.code->parameters.size()) return kInvalidValue;
    *offset = kernel.code->parameters[index].offset;
    if (bytes != nullptr) *bytes = kernel.code->parameters[index].bytes;
    return kSuccess;
  });
}

}  // namespace test_driver
