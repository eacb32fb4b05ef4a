// A CUDA driver for tests, over the PTX simulator: what it knows of devices, contexts and their handles.
//
// It answers the driver functions that tilelang and cuda-python call, in the order and with the results that the driver API
// documents: not initialised, no context, the context's sticky error, then the arguments. Work on streams is done as late as
// the program allows (work.h), so that a missing wait shows. Everything runs under one lock.
//
// Settings, read by cuInit:
//   TEST_DRIVER_DEVICES   compute capabilities with commas, "9.0,8.0"; default "9.0"
//   TEST_DRIVER_KERNELS   a directory: machine code that is byte for byte a kernel.cubin below it runs as the kernel.ptx beside it
//   TEST_DRIVER_CHECKS    "all" also runs the simulator's checkers, whose findings end a kernel as an unspecified failure
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "status.h"
#include "work.h"

namespace test_driver {

struct Context;

struct Device {
  int major = 0, minor = 0;
  int multiprocessors = 0;
  int shared_bytes = 0;            // of a multiprocessor
  int shared_bytes_per_block = 0;  // the most that a block may opt in to
  int threads = 0;                 // of a multiprocessor
  uint64_t memory_bytes = 0;
  int retained = 0;  // how often the primary context is held
  std::unique_ptr<Context> primary;
  int architecture() const { return 10 * major + minor; }
};

struct Stream {
  Context* context = nullptr;
  bool blocking = true;  // waits for the default stream, and the default stream for it
  WorkRef last;
};

struct Event {
  Context* context = nullptr;
  WorkRef recorded;  // null before the first record
};

struct LoadedModule;

struct Context {
  Device* device = nullptr;
  Status sticky = kSuccess;  // the error that has broken it
  Stream default_stream;
  std::set<std::unique_ptr<Stream>> streams;
  std::set<std::unique_ptr<Event>> events;
  std::set<std::unique_ptr<LoadedModule>> modules;
  std::map<uint64_t, std::unique_ptr<uint8_t[]>> storage;  // by the address that the program sees
  std::map<uint64_t, uint64_t> allocations;                // address -> bytes

  // The stream of a handle, null and 1 and 2 (legacy, per thread) being the default stream; or null for a foreign handle.
  Stream* stream(void* handle);
  Event* event(void* handle);
};

struct Driver {
  std::recursive_mutex mutex;
  bool initialised = false;
  uint32_t checks = 0;
  std::string kernels;  // the directory of TEST_DRIVER_KERNELS
  std::vector<std::unique_ptr<Device>> devices;
};

Driver& driver();

// The stack of current contexts of this thread; the last is the current one.
std::vector<Context*>& context_stack();
Context* current_context();

// Runs f() under the lock once cuInit has been called.
template <class F>
Status initialised(F&& f) {
  std::lock_guard<std::recursive_mutex> guard(driver().mutex);
  return driver().initialised ? f() : Status(kNotInitialised);
}

// Runs f(context) for the current context unless an earlier kernel has broken it.
template <class F>
Status in_context(F&& f) {
  return initialised([&]() -> Status {
    Context* context = current_context();
    if (context == nullptr) return kInvalidContext;
    if (context->device->primary.get() != context) return kContextIsDestroyed;
    if (context->sticky != kSuccess) return context->sticky;
    return f(*context);
  });
}

}  // namespace test_driver

#define DRIVER_FUNCTION extern "C" __attribute__((visibility("default"))) int
