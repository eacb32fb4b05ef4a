#include "driver_api.h"

#include <dlfcn.h>

#include <string>

#include "device.h"

namespace tilelang::runtime::driver {
namespace {

template <class Function>
void resolve(void* library, const char* name, Function* function, bool optional = false) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr && !optional) {
    throw DeviceError(std::string("the CUDA driver is too old: it has no ") + name);
  }
}

Api open() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw DeviceError("no CUDA driver on this machine (libcuda.so.1 cannot be opened)");
  }
  Api api{};
  resolve(library, "cuInit", &api.initialise);
  resolve(library, "cuGetErrorString", &api.error_string);
  resolve(library, "cuCtxGetCurrent", &api.current_context);
  resolve(library, "cuCtxSetCurrent", &api.set_current_context);
  resolve(library, "cuDevicePrimaryCtxRetain", &api.retain_primary_context);
  resolve(library, "cuModuleLoadData", &api.load_module);
  resolve(library, "cuModuleGetFunction", &api.get_function);
  resolve(library, "cuFuncSetAttribute", &api.set_attribute);
  resolve(library, "cuLaunchKernelEx", &api.launch);
  resolve(library, "cuFuncGetParamInfo", &api.parameter_info, /*optional=*/true);
  resolve(library, "cuTensorMapEncodeTiled", &api.encode_tiled, /*optional=*/true);
  if (const Status status = api.initialise(0)) {
    throw DeviceError("the CUDA driver cannot be initialised (error " + std::to_string(status) + "): is there a GPU?");
  }
  return api;
}

}  // namespace

const Api& api() {
  static const Api instance = open();  // tried again at the next call if it throws
  return instance;
}

void check(Status status, const char* what) {
  if (status == 0) return;
  const char* text = nullptr;
  api().error_string(status, &text);
  throw DeviceError(std::string(what) + ": " + (text != nullptr ? text : "unknown error") + " (CUDA error " +
                    std::to_string(status) + ")");
}

}  // namespace tilelang::runtime::driver
