// Streams and events.
#include <algorithm>

#include "module.h"
#include "state.h"

namespace test_driver {
namespace {

constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING

template <class T>
void forget(std::set<std::unique_ptr<T>>& known, const T* handle) {
  auto found = std::find_if(known.begin(), known.end(), [&](const auto& item) { return item.get() == handle; });
  known.erase(found);
}

// Runs f(stream) for a handle of the current context.
template <class F>
Status on_stream(void* handle, F&& f) {
  return in_context([&](Context& context) -> Status {
    Stream* stream = context.stream(handle);
    return stream != nullptr ? f(*stream) : Status(kInvalidHandle);
  });
}

template <class F>
Status on_event(void* handle, F&& f) {
  return in_context([&](Context& context) -> Status {
    Event* event = context.event(handle);
    return event != nullptr ? f(context, *event) : Status(kInvalidHandle);
  });
}

}  // namespace

DRIVER_FUNCTION cuStreamCreate(Stream** out, unsigned flags) {
  return in_context([&](Context& context) -> Status {
    if (out == nullptr || flags > kNonBlocking) return kInvalidValue;
    auto stream = std::make_unique<Stream>();
    stream->context = &context;
    stream->blocking = flags != kNonBlocking;
    *out = stream.get();
    context.streams.insert(std::move(stream));
    return kSuccess;
  });
}

DRIVER_FUNCTION cuStreamDestroy_v2(void* handle) {
  return on_stream(handle, [](Stream& stream) -> Status {
    if (&stream == &stream.context->default_stream) return kInvalidHandle;
    const Status status = finish(stream.last);
    forget(stream.context->streams, &stream);
    return status;
  });
}

DRIVER_FUNCTION cuStreamSynchronize(void* handle) {
  return on_stream(handle, [](Stream& stream) { return finish(enqueue(stream, nullptr)); });
}

DRIVER_FUNCTION cuStreamQuery(void* handle) {
  return on_stream(handle, [](Stream& stream) -> Status { return stream.last && !stream.last->done ? kNotReady : kSuccess; });
}

DRIVER_FUNCTION cuStreamWaitEvent(void* handle, void* event_handle, unsigned flags) {
  return on_stream(handle, [&](Stream& stream) -> Status {
    Event* event = stream.context->event(event_handle);
    if (event == nullptr) return kInvalidHandle;
    if (flags != 0) return kInvalidValue;
    if (event->recorded) enqueue(stream, nullptr, event->recorded);
    return kSuccess;
  });
}

DRIVER_FUNCTION cuEventCreate(Event** out, unsigned flags) {
  constexpr unsigned kKnownFlags = 7;  // blocking sync, no timing, between processes
  return in_context([&](Context& context) -> Status {
    if (out == nullptr || flags > kKnownFlags) return kInvalidValue;
    auto event = std::make_unique<Event>();
    event->context = &context;
    *out = event.get();
    context.events.insert(std::move(event));
    return kSuccess;
  });
}

DRIVER_FUNCTION cuEventDestroy_v2(void* handle) {
  return on_event(handle, [](Context& context, Event& event) -> Status {
    forget(context.events, &event);
    return kSuccess;
  });
}

DRIVER_FUNCTION cuEventRecord(void* handle, void* stream_handle) {
  return on_event(handle, [&](Context& context, Event& event) -> Status {
    Stream* stream = context.stream(stream_handle);
    if (stream == nullptr) return kInvalidHandle;
    event.recorded = enqueue(*stream, nullptr);
    return kSuccess;
  });
}

DRIVER_FUNCTION cuEventSynchronize(void* handle) {
  return on_event(handle, [](Context&, Event& event) { return finish(event.recorded); });
}

DRIVER_FUNCTION cuEventQuery(void* handle) {
  return on_event(handle, [](Context&, Event& event) -> Status {
    return event.recorded && !event.recorded->done ? kNotReady : kSuccess;
  });
}

DRIVER_FUNCTION cuEventElapsedTime_v2(float* milliseconds, void* start_handle, void* end_handle) {
  return on_event(start_handle, [&](Context& context, Event& start) -> Status {
    Event* end = context.event(end_handle);
    if (end == nullptr || !start.recorded || !end->recorded) return kInvalidHandle;
    if (!start.recorded->done || !end->recorded->done) return kNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(end->recorded->finished - start.recorded->finished).count();
    return kSuccess;
  });
}

}  // namespace test_driver
