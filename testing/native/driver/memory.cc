// Device memory: the host's, at the same addresses, each allocation with limits of its own.
#include <cstring>

#include "module.h"
#include "state.h"

namespace test_driver {
namespace {

constexpr uint64_t kAlignment = 256;
constexpr uint8_t kFresh = 0xff;  // what is in memory that nothing has written: NaN as a float

// Whether [address, address + bytes) lies in one allocation.
bool is_device_memory(const Context& context, uint64_t address, uint64_t bytes) {
  auto next = context.allocations.upper_bound(address);
  if (next == context.allocations.begin()) return false;
  const auto& [base, size] = *std::prev(next);
  return bytes <= size && address - base <= size - bytes;
}

uint64_t used_bytes(const Context& context) {
  uint64_t sum = 0;
  for (const auto& [base, bytes] : context.allocations) sum += bytes;
  return sum;
}

// A copy that is done when its stream comes to it. A copy that names no allocation is refused at once.
Status copy(void* stream_handle, uint64_t to, uint64_t from, uint64_t bytes, uint64_t device_side, bool wait) {
  return in_context([&](Context& context) -> Status {
    Stream* stream = context.stream(stream_handle);
    if (stream == nullptr) return kInvalidHandle;
    if (bytes == 0) return kSuccess;
    if (!is_device_memory(context, device_side, bytes)) return kInvalidValue;
    const WorkRef work = enqueue(*stream, [=]() -> Status {
      std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
      return kSuccess;
    });
    return wait ? finish(work) : kSuccess;
  });
}

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace

DRIVER_FUNCTION cuMemAlloc_v2(uint64_t* out, size_t bytes) {
  return in_context([&](Context& context) -> Status {
    if (out == nullptr || bytes == 0) return kInvalidValue;
    if (bytes > context.device->memory_bytes - used_bytes(context)) return kOutOfMemory;
    auto storage = std::make_unique<uint8_t[]>(bytes + kAlignment);
    const uint64_t address = (number(storage.get()) + kAlignment - 1) / kAlignment * kAlignment;
    std::memset(reinterpret_cast<void*>(address), kFresh, bytes);
    context.storage[address] = std::move(storage);
    context.allocations[address] = bytes;
    *out = address;
    return kSuccess;
  });
}

DRIVER_FUNCTION cuMemFree_v2(uint64_t address) {
  return in_context([&](Context& context) -> Status {
    if (address == 0) return kSuccess;
    if (!context.allocations.count(address)) return kInvalidValue;
    const Status status = finish_all(context);
    context.allocations.erase(address);  // its storage stays, so that a later access is not one to other memory
    return status;
  });
}

DRIVER_FUNCTION cuMemGetInfo_v2(size_t* free, size_t* total) {
  return in_context([&](Context& context) -> Status {
    *total = context.device->memory_bytes;
    *free = *total - used_bytes(context);
    return kSuccess;
  });
}

DRIVER_FUNCTION cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
  return copy(nullptr, to, number(from), bytes, to, true);
}

DRIVER_FUNCTION cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
  return copy(nullptr, number(to), from, bytes, from, true);
}

DRIVER_FUNCTION cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  return copy(stream, to, number(from), bytes, to, false);
}

DRIVER_FUNCTION cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  return copy(stream, number(to), from, bytes, from, false);
}

DRIVER_FUNCTION cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void* stream_handle) {
  return in_context([&](Context& context) -> Status {
    Stream* stream = context.stream(stream_handle);
    if (stream == nullptr) return kInvalidHandle;
    if (!is_device_memory(context, to, bytes)) return kInvalidValue;
    enqueue(*stream, [=]() -> Status { return std::memset(reinterpret_cast<void*>(to), value, bytes), kSuccess; });
    return kSuccess;
  });
}

}  // namespace test_driver
