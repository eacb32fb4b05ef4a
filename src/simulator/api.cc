// The library's functions over tvm-ffi.
//
//   tilelang.simulator.load_module(ptx) -> module object
//   tilelang.simulator.describe(module) -> JSON: kernels with their parameters and sizes
//   tilelang.simulator.launch(module, kernel, sizes, parameters, allocations, names, checks, count, seed, workers,
//                             max_instructions, should_stop) -> JSON
//
//   tilelang.simulator.launch_beside(the same, hold) -> JSON, or a resident launch: all its blocks wait for what others write,
//                             or it is held until it is resumed
//   tilelang.simulator.resume(resident launch, give_up, should_stop) -> JSON, or whether it has got on
//
// `sizes` is an int64 array: grid (3), block (3), cluster (3), dynamic shared bytes. `parameters` are the packed
// kernel parameters. `allocations` is an int64 array of (base address, bytes, read-only) triples: the host memory the
// kernel may address; `names` says what each is called in findings. A cluster that runs more than `max_instructions` (0: no
// limit) is given up. `should_stop` (or None) is asked on the calling thread, some ten times a second, whether to end the launch.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

#include "launch.h"

namespace tilelang {
namespace simulator {
namespace {

using tvm::ffi::Any;
using tvm::ffi::Array;
using tvm::ffi::Bytes;
using tvm::ffi::Function;
using tvm::ffi::Optional;
using tvm::ffi::String;

class ModuleObject : public tvm::ffi::Object {
 public:
  std::unique_ptr<Program> program;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tilelang.simulator.Module", ModuleObject, tvm::ffi::Object);
};

class ModuleRef : public tvm::ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(ModuleRef, tvm::ffi::ObjectRef, ModuleObject);
};

/// A ValueError in Python. Without a backtrace of this library: the first one in a process reads the symbols of every loaded
/// library, which takes seconds, and a signal has to end a launch within 100 ms.
[[noreturn]] void throw_value_error(const std::exception& error) { throw tvm::ffi::Error("ValueError", error.what(), ""); }

/// Runs f; its errors become ValueErrors in Python.
template <class F>
auto guarded(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const ProgramError& error) {
    throw_value_error(error);
  } catch (const LaunchError& error) {
    throw_value_error(error);
  }
}

ModuleRef load_module(String ptx) {
  return guarded([&] {
    auto object = tvm::ffi::make_object<ModuleObject>();
    object->program = decode_module(parse_ptx(std::string(ptx)));
    return ModuleRef(object);
  });
}

std::string describe_kernel(const DecodedFunction& kernel) {
  std::string text = "{\"name\": \"" + kernel.name +
                     "\", \"static_shared_bytes\": " + std::to_string(kernel.static_shared_bytes) +
                     ", \"parameter_bytes\": " + std::to_string(kernel.parameter_bytes) + ", \"parameters\": [";
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const KernelParam& p = kernel.parameters[i];
    text += std::string(i ? ", " : "") + "{\"name\": \"" + p.name + "\", \"type\": \"" + p.type->name +
            "\", \"offset\": " + std::to_string(p.offset) + ", \"bytes\": " + std::to_string(p.bytes) + "}";
  }
  return text + "]}";
}

String describe(ModuleRef module) {
  std::string text = "[";
  for (const DecodedFunction& function : module->program->functions) {
    if (!function.is_entry) continue;
    text += (text.size() > 1 ? ", " : "") + describe_kernel(function);
  }
  return text + "]";
}

std::array<uint32_t, 3> take_triple(const Array<int64_t>& sizes, int64_t first) {
  std::array<uint32_t, 3> result{};
  for (int64_t i = 0; i < 3; ++i) {
    int64_t value = sizes[first + i];
    if (value < 0 || value > 0x7fffffff) throw LaunchError("a size of " + std::to_string(value) + " is out of range");
    result[static_cast<size_t>(i)] = static_cast<uint32_t>(value);
  }
  return result;
}

LaunchRequest make_request(String kernel, Array<int64_t> sizes, Bytes parameters, Array<int64_t> allocations,
                           Array<String> names, int64_t checks, bool count, int64_t seed, int64_t workers,
                           int64_t max_instructions) {
  if (sizes.size() != 10) throw LaunchError("sizes must have 10 entries");
  if (allocations.size() != 3 * names.size()) throw LaunchError("allocations and names disagree");
  LaunchRequest request;
  request.kernel = std::string(kernel);
  request.grid = take_triple(sizes, 0);
  request.block = take_triple(sizes, 3);
  request.cluster = take_triple(sizes, 6);
  if (sizes[9] < 0 || sizes[9] > (1 << 20)) throw LaunchError("shared_bytes is out of range");
  request.shared_bytes = static_cast<uint32_t>(sizes[9]);
  request.parameters.assign(parameters.data(), parameters.data() + parameters.size());
  for (size_t i = 0; i < names.size(); ++i) {
    int64_t at = static_cast<int64_t>(3 * i);
    request.allocations.push_back({static_cast<uint64_t>(allocations[at]), static_cast<uint64_t>(allocations[at + 1]),
                                   allocations[at + 2] != 0, std::string(names[static_cast<int64_t>(i)])});
  }
  request.checks = static_cast<uint32_t>(checks);
  request.count = count;
  request.seed = static_cast<uint64_t>(seed);
  request.workers = static_cast<uint32_t>(workers);
  request.max_instructions = static_cast<uint64_t>(max_instructions);
  return request;
}

std::function<bool()> asking(Optional<Function> should_stop) {
  if (!should_stop.has_value()) return nullptr;
  return [ask = should_stop.value()] { return ask().cast<bool>(); };
}

String launch(ModuleRef module, String kernel, Array<int64_t> sizes, Bytes parameters, Array<int64_t> allocations,
              Array<String> names, int64_t checks, bool count, int64_t seed, int64_t workers, int64_t max_instructions,
              Optional<Function> should_stop) {
  return guarded([&]() -> String {
    LaunchRequest request =
        make_request(kernel, sizes, parameters, allocations, names, checks, count, seed, workers, max_instructions);
    request.should_stop = asking(should_stop);
    return report_json(*module->program, run_launch(*module->program, request));
  });
}

class ResidentObject : public tvm::ffi::Object {
 public:
  ModuleRef module;  // whose program runs
  std::unique_ptr<ActiveLaunch> launch;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tilelang.simulator.Resident", ResidentObject, tvm::ffi::Object);
};

class ResidentRef : public tvm::ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(ResidentRef, tvm::ffi::ObjectRef, ResidentObject);
};

Any launch_beside(ModuleRef module, String kernel, Array<int64_t> sizes, Bytes parameters, Array<int64_t> allocations,
                  Array<String> names, int64_t checks, bool count, int64_t seed, int64_t workers, int64_t max_instructions,
                  Optional<Function> should_stop, bool hold) {
  return guarded([&]() -> Any {
    auto object = tvm::ffi::make_object<ResidentObject>();
    object->module = module;
    object->launch = std::make_unique<ActiveLaunch>(
        *module->program,
        make_request(kernel, sizes, parameters, allocations, names, checks, count, seed, workers, max_instructions));
    if (hold || object->launch->wait(asking(should_stop)) != ActiveLaunch::Outcome::kEnded) return ResidentRef(object);
    return String(report_json(*module->program, object->launch->report()));
  });
}

Any resume(ResidentRef resident, bool give_up, Optional<Function> should_stop) {
  return guarded([&]() -> Any {
    ActiveLaunch& launch = *resident->launch;
    const ActiveLaunch::Outcome outcome = launch.resume(give_up, asking(should_stop));
    if (outcome != ActiveLaunch::Outcome::kEnded) return outcome == ActiveLaunch::Outcome::kGotOn;
    return String(report_json(*resident->module->program, launch.report()));
  });
}

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::ObjectDef<ModuleObject>();
  tvm::ffi::reflection::ObjectDef<ResidentObject>();
  tvm::ffi::reflection::GlobalDef()
      .def("tilelang.simulator.load_module", load_module)
      .def("tilelang.simulator.describe", describe)
      .def("tilelang.simulator.launch", launch)
      .def("tilelang.simulator.launch_beside", launch_beside)
      .def("tilelang.simulator.resume", resume);
}

}  // namespace
}  // namespace simulator
}  // namespace tilelang
