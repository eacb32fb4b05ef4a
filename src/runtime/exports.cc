// The runtime over tvm-ffi, and the table of C functions for generated hosts.
//
//   load(device, cubin, ptx, kernels) -> module       device: "cuda" or "simulator"
//       kernels: [symbol, [bytes of each argument], [[data_type, interleave, swizzle, l2_promotion, fill, [box],
//       [element_strides]], ...]] each
//   address(module) -> int                            what generated hosts call `module`
//   host_api(module) -> int                           address of the tl_runtime for it
//   launch(module, kernel, [grid3, block3, cluster3, shared, flags], stream, arguments)
//       arguments: the values' bytes, one after the other
//   encode_tensor_map(module, kernel, map, base, shape, strides) -> 128 bytes
//   last_error() -> str
//   set_simulator_session(allocations, names, checks, count, seed, workers, on_report, should_stop)
//   set_simulator_streams(before_launch, on_resident), of the session
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

#include <cstring>

#include "device.h"
#include "host_api.h"
#include "simulator_session.h"

namespace tilelang::runtime {
namespace {

using tvm::ffi::Any;
using tvm::ffi::Array;
using tvm::ffi::Bytes;
using tvm::ffi::Function;
using tvm::ffi::Optional;
using tvm::ffi::String;

class LoadedModule : public tvm::ffi::Object {
 public:
  std::vector<KernelSpec> kernels;
  std::unique_ptr<DeviceModule> device;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tilelang.runtime.Module", LoadedModule, tvm::ffi::Object);
};

class LoadedModuleRef : public tvm::ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(LoadedModuleRef, tvm::ffi::ObjectRef, LoadedModule);
};

// Errors -------------------------------------------------------------------------------------------------------------

thread_local std::string last_error_text;

// Runs f for a generated host: 0, or -1 with the reason kept.
template <class F>
int32_t guarded(F&& f) {
  try {
    f();
    return 0;
  } catch (const tvm::ffi::Error& error) {
    last_error_text = error.message();
  } catch (const std::exception& error) {
    last_error_text = error.what();
  }
  return -1;
}

// Runs f for Python: errors as tvm-ffi's.
template <class F>
auto translated(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const DeviceError& error) {
    TVM_FFI_THROW(RuntimeError) << error.what();
  }
  TVM_FFI_UNREACHABLE();
}

// For generated hosts ------------------------------------------------------------------------------------------------

LaunchConfig config_of(const tl_launch& given) {
  LaunchConfig config;
  for (int axis = 0; axis < 3; ++axis) {
    config.grid[axis] = given.grid[axis];
    config.block[axis] = given.block[axis];
    config.cluster[axis] = given.cluster[axis];
  }
  config.shared_bytes = given.shared_bytes;
  config.cooperative = (given.flags & TL_COOPERATIVE) != 0;
  config.dependent_launch = (given.flags & TL_DEPENDENT_LAUNCH) != 0;
  config.stream = given.stream;
  return config;
}

int32_t host_launch(void* module, int32_t kernel, const tl_launch* given, void** args) {
  return guarded([&] { static_cast<LoadedModule*>(module)->device->launch(static_cast<size_t>(kernel), config_of(*given), args); });
}

const TensorMapSpec& map_of(const LoadedModule& module, int64_t kernel, int64_t map) {
  return module.kernels.at(static_cast<size_t>(kernel)).tensor_maps.at(static_cast<size_t>(map));
}

int32_t host_encode(void* module, int32_t kernel, int32_t map, void* base, const uint64_t* shape, const uint64_t* strides,
                    void* out) {
  return guarded([&] {
    auto* loaded = static_cast<LoadedModule*>(module);
    loaded->device->encode_tensor_map(map_of(*loaded, kernel, map), base, shape, strides, out);
  });
}

void* host_stream(int32_t device_type, int32_t device_id) {
  return device_type == 2 ? TVMFFIEnvGetStream(device_type, device_id) : nullptr;
}

const char* host_last_error() { return last_error_text.c_str(); }

// Loading ------------------------------------------------------------------------------------------------------------

std::vector<uint32_t> extents(const Array<int64_t>& values) {
  return std::vector<uint32_t>(values.begin(), values.end());
}

TensorMapSpec tensor_map_of(const Array<Any>& row) {
  TensorMapSpec spec;
  spec.data_type = row[0].cast<int32_t>();
  spec.interleave = row[1].cast<int32_t>();
  spec.swizzle = row[2].cast<int32_t>();
  spec.l2_promotion = row[3].cast<int32_t>();
  spec.fill = row[4].cast<int32_t>();
  spec.box = extents(row[5].cast<Array<int64_t>>());
  spec.element_strides = extents(row[6].cast<Array<int64_t>>());
  if (spec.box.empty() || spec.box.size() > kMaxTensorMapRank || spec.box.size() != spec.element_strides.size()) {
    throw DeviceError("a tensor map has 1 to 5 axes");
  }
  return spec;
}

KernelSpec kernel_of(const Array<Any>& row) {
  KernelSpec spec;
  spec.symbol = std::string(row[0].cast<String>());
  spec.argument_bytes = extents(row[1].cast<Array<int64_t>>());
  for (const Array<Any>& map : row[2].cast<Array<Array<Any>>>()) spec.tensor_maps.push_back(tensor_map_of(map));
  return spec;
}

LoadedModuleRef load(String device, Bytes cubin, Bytes ptx, Array<Array<Any>> kernels) {
  return translated([&] {
    auto object = tvm::ffi::make_object<LoadedModule>();
    for (const Array<Any>& row : kernels) object->kernels.push_back(kernel_of(row));
    DeviceImage image{std::string(cubin.data(), cubin.size()), std::string(ptx.data(), ptx.size())};
    object->device = (device == "simulator" ? load_on_simulator : load_on_driver)(std::move(image), object->kernels);
    return LoadedModuleRef(object);
  });
}

int64_t address(LoadedModuleRef module) { return reinterpret_cast<int64_t>(module.get()); }

int64_t host_api(LoadedModuleRef module) {
  static const tl_runtime on_gpu{2, host_launch, host_encode, host_stream, host_last_error};
  static const tl_runtime on_simulator{1, host_launch, host_encode, host_stream, host_last_error};
  return reinterpret_cast<int64_t>(module->device->device_type() == 2 ? &on_gpu : &on_simulator);
}

// For Python hosts ---------------------------------------------------------------------------------------------------

void launch(LoadedModuleRef module, int64_t kernel, Array<int64_t> sizes, int64_t stream, Bytes values) {
  translated([&] {
    if (sizes.size() != 11) throw DeviceError("a launch has 11 sizes");
    tl_launch given{};
    for (int axis = 0; axis < 3; ++axis) {
      given.grid[axis] = static_cast<uint32_t>(sizes[axis]);
      given.block[axis] = static_cast<uint32_t>(sizes[3 + axis]);
      given.cluster[axis] = static_cast<uint32_t>(sizes[6 + axis]);
    }
    given.shared_bytes = static_cast<uint32_t>(sizes[9]);
    given.flags = static_cast<uint32_t>(sizes[10]);
    given.stream = reinterpret_cast<void*>(stream);
    const KernelSpec& spec = module->kernels.at(static_cast<size_t>(kernel));
    std::vector<void*> args;
    size_t offset = 0;
    for (uint32_t bytes : spec.argument_bytes) {
      args.push_back(const_cast<char*>(values.data()) + offset);
      offset += bytes;
    }
    if (offset != values.size()) throw DeviceError(spec.symbol + " takes " + std::to_string(offset) + " bytes of arguments");
    module->device->launch(static_cast<size_t>(kernel), config_of(given), args.data());
  });
}

Bytes encode_tensor_map(LoadedModuleRef module, int64_t kernel, int64_t map, int64_t base, Array<int64_t> shape,
                        Array<int64_t> strides) {
  return translated([&] {
    const TensorMapSpec& spec = map_of(*module.get(), kernel, map);
    if (shape.size() != spec.box.size() || strides.size() + 1 != shape.size()) {
      throw DeviceError("shape and strides do not have the rank of the tensor map");
    }
    const std::vector<uint64_t> extents(shape.begin(), shape.end()), steps(strides.begin(), strides.end());
    alignas(64) char out[kTensorMapBytes];
    module->device->encode_tensor_map(spec, reinterpret_cast<void*>(base), extents.data(), steps.data(), out);
    return Bytes(out, sizeof(out));
  });
}

String last_error() { return String(last_error_text); }

void set_simulator_session(Array<int64_t> allocations, Array<String> names, int64_t checks, bool count, int64_t seed,
                           int64_t workers, Optional<Function> on_report, Optional<Function> should_stop) {
  set_session({allocations, names, checks, count, seed, workers, on_report, should_stop, {}, {}});
}

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::ObjectDef<LoadedModule>();
  tvm::ffi::reflection::GlobalDef()
      .def("tilelang.runtime.load", load)
      .def("tilelang.runtime.address", address)
      .def("tilelang.runtime.host_api", host_api)
      .def("tilelang.runtime.launch", launch)
      .def("tilelang.runtime.encode_tensor_map", encode_tensor_map)
      .def("tilelang.runtime.last_error", last_error)
      .def("tilelang.runtime.set_simulator_session", set_simulator_session)
      .def("tilelang.runtime.set_simulator_streams", set_streams);
}

}  // namespace
}  // namespace tilelang::runtime
