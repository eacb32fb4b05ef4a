// Cancellation of a launch by its caller.
#ifndef TILELANG_SIMULATOR_CALLER_WATCH_H_
#define TILELANG_SIMULATOR_CALLER_WATCH_H_

#include <chrono>
#include <functional>

#include "machine.h"

namespace tilelang {
namespace simulator {

/// Asks now and then whether a launch should be given up (a signal has arrived). Belongs to the thread that called the
/// launch: an interpreter runs the handlers of its signals there only.
class CallerWatch {
 public:
  static constexpr std::chrono::milliseconds kPeriod{20};

  CallerWatch(Launch& launch, std::function<bool()> should_stop)
      : launch_(launch), should_stop_(std::move(should_stop)), last_(std::chrono::steady_clock::now()) {}

  /// Sets Launch::abort when the caller wants the launch to end; cheap until a period has passed.
  void look() {
    auto now = std::chrono::steady_clock::now();
    if (!should_stop_ || stopped_ || now - last_ < kPeriod) return;
    last_ = now;
    stopped_ = should_stop_();
    if (stopped_) launch_.abort = true;
  }

  bool stopped() const { return stopped_; }

 private:
  Launch& launch_;
  const std::function<bool()> should_stop_;
  std::chrono::steady_clock::time_point last_;
  bool stopped_ = false;
};

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_CALLER_WATCH_H_
