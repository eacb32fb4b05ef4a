// Initialisation, devices, and how functions are found.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <sstream>

#include "machine.h"
#include "module.h"
#include "state.h"

namespace test_driver {
namespace {

constexpr int kVersion = 13000;
constexpr uint64_t kGiB = uint64_t{1} << 30;

std::string setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

std::unique_ptr<Device> make_device(int major, int minor) {
  auto device = std::make_unique<Device>();
  device->major = major;
  device->minor = minor;
  const bool server = minor == 0;  // 8.0 and 9.0, against 8.6 and 8.9
  device->multiprocessors = server ? (major == 9 ? 132 : 108) : 84;
  device->shared_bytes = (server ? (major == 9 ? 228 : 164) : 100) * 1024;
  device->shared_bytes_per_block = device->shared_bytes - 1024;
  device->threads = server ? 2048 : 1536;
  device->memory_bytes = 4 * kGiB;
  return device;
}

void make_devices(Driver& state) {
  std::istringstream list(setting("TEST_DRIVER_DEVICES", "9.0"));
  for (std::string item; std::getline(list, item, ',');) {
    state.devices.push_back(make_device(item.at(0) - '0', item.at(2) - '0'));
  }
}

Device* device_of(int ordinal) {
  auto& devices = driver().devices;
  return ordinal >= 0 && static_cast<size_t>(ordinal) < devices.size() ? devices[ordinal].get() : nullptr;
}

// CUdevice_attribute -> value.
int attribute(const Device& device, int id) {
  switch (id) {
    case 1: return 1024;                            // threads a block
    case 8: return 48 * 1024;                       // shared bytes a block without opting in
    case 10: return 32;                             // threads a warp
    case 16: return device.multiprocessors;
    case 39: return device.threads;                 // a multiprocessor
    case 75: return device.major;
    case 76: return device.minor;
    case 81: return device.shared_bytes;            // a multiprocessor
    case 95: return 1;                              // cooperative launches
    case 97: return device.shared_bytes_per_block;  // with opting in
    case 120: return device.major >= 9;             // cluster launches
    default: return -1;
  }
}

void* find_symbol(const std::string& name) {
  Dl_info self;
  dladdr(reinterpret_cast<void*>(&find_symbol), &self);
  void* library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  for (const char* suffix : {"_v2", ""}) {
    if (void* found = dlsym(library, (name + suffix).c_str())) return found;
  }
  return nullptr;
}

}  // namespace

Driver& driver() {
  static Driver* state = new Driver;  // never destroyed: threads may outlive main
  return *state;
}

DRIVER_FUNCTION cuInit(unsigned flags) {
  Driver& state = driver();
  std::lock_guard<std::recursive_mutex> guard(state.mutex);
  if (flags != 0) return kInvalidValue;
  if (state.initialised) return kSuccess;
  make_devices(state);
  if (state.devices.empty()) return kNoDevice;
  state.kernels = setting("TEST_DRIVER_KERNELS", "");
  using namespace tilelang::simulator;
  if (setting("TEST_DRIVER_CHECKS", "") == "all") {
    state.checks = kCheckInit | kCheckRace | kCheckBarrier | kCheckDescriptor | kCheckAsync;
  }
  state.initialised = true;
  return kSuccess;
}

DRIVER_FUNCTION cuDriverGetVersion(int* version) {
  if (version == nullptr) return kInvalidValue;
  *version = kVersion;
  return kSuccess;
}

DRIVER_FUNCTION cuGetProcAddress_v2(const char* name, void** out, int, uint64_t, int* found) {
  if (name == nullptr || out == nullptr) return kInvalidValue;
  *out = find_symbol(name);
  if (found != nullptr) *found = *out != nullptr ? 0 : 1;
  return *out != nullptr ? kSuccess : kNotFound;
}

// Tables for the toolkit's own libraries, of which this driver has none; NVRTC asks.
DRIVER_FUNCTION cuGetExportTable(const void** out, const void*) {
  if (out == nullptr) return kInvalidValue;
  *out = nullptr;
  return kNotFound;
}

DRIVER_FUNCTION cuDeviceGetCount(int* count) {
  return initialised([&] { return count ? (*count = static_cast<int>(driver().devices.size()), kSuccess) : kInvalidValue; });
}

DRIVER_FUNCTION cuDeviceGet(int* out, int ordinal) {
  return initialised([&] {
    if (out == nullptr) return kInvalidValue;
    if (device_of(ordinal) == nullptr) return kInvalidDevice;
    *out = ordinal;
    return kSuccess;
  });
}

DRIVER_FUNCTION cuDeviceGetAttribute(int* out, int id, int ordinal) {
  return initialised([&] {
    Device* device = device_of(ordinal);
    if (device == nullptr) return kInvalidDevice;
    if (out == nullptr || attribute(*device, id) < 0) return kInvalidValue;
    *out = attribute(*device, id);
    return kSuccess;
  });
}

// Primary contexts ----------------------------------------------------------------------------------------------------

DRIVER_FUNCTION cuDevicePrimaryCtxRetain(Context** out, int ordinal) {
  return initialised([&] {
    Device* device = device_of(ordinal);
    if (device == nullptr) return kInvalidDevice;
    if (out == nullptr) return kInvalidValue;
    if (!device->primary) {
      device->primary = std::make_unique<Context>();
      device->primary->device = device;
      device->primary->default_stream.context = device->primary.get();
    }
    ++device->retained;
    *out = device->primary.get();
    return kSuccess;
  });
}

DRIVER_FUNCTION cuDevicePrimaryCtxRelease_v2(int ordinal) {
  return initialised([&] {
    Device* device = device_of(ordinal);
    if (device == nullptr) return kInvalidDevice;
    if (device->retained == 0) return kInvalidContext;
    --device->retained;
    return kSuccess;
  });
}

}  // namespace test_driver
