// The current context of a thread.
#include "module.h"
#include "state.h"

namespace test_driver {

std::vector<Context*>& context_stack() {
  thread_local std::vector<Context*> stack;
  return stack;
}

Context* current_context() { return context_stack().empty() ? nullptr : context_stack().back(); }

Stream* Context::stream(void* handle) {
  constexpr uintptr_t kPerThread = 2;
  if (reinterpret_cast<uintptr_t>(handle) <= kPerThread) return &default_stream;
  for (const auto& known : streams) {
    if (known.get() == handle) return known.get();
  }
  return nullptr;
}

Event* Context::event(void* handle) {
  for (const auto& known : events) {
    if (known.get() == handle) return known.get();
  }
  return nullptr;
}

DRIVER_FUNCTION cuCtxGetCurrent(Context** out) {
  return initialised([&] { return out ? (*out = current_context(), kSuccess) : kInvalidValue; });
}

DRIVER_FUNCTION cuCtxSetCurrent(Context* context) {
  return initialised([&] {
    auto& stack = context_stack();
    if (!stack.empty()) stack.pop_back();
    if (context != nullptr) stack.push_back(context);
    return kSuccess;
  });
}

DRIVER_FUNCTION cuCtxPushCurrent_v2(Context* context) {
  return initialised([&] {
    if (context == nullptr) return kInvalidContext;
    context_stack().push_back(context);
    return kSuccess;
  });
}

DRIVER_FUNCTION cuCtxPopCurrent_v2(Context** out) {
  return initialised([&] {
    if (current_context() == nullptr) return kInvalidContext;
    if (out != nullptr) *out = current_context();
    context_stack().pop_back();
    return kSuccess;
  });
}

DRIVER_FUNCTION cuCtxGetDevice(int* out) {
  return initialised([&] {
    if (current_context() == nullptr) return kInvalidContext;
    if (out == nullptr) return kInvalidValue;
    auto& devices = driver().devices;
    for (size_t i = 0; i < devices.size(); ++i) {
      if (devices[i].get() == current_context()->device) *out = static_cast<int>(i);
    }
    return kSuccess;
  });
}

DRIVER_FUNCTION cuCtxSynchronize() {
  return in_context([](Context& context) { return finish_all(context); });
}

}  // namespace test_driver
