// Work on streams: what is to be done, and after what. It is done when a call waits for it, never before, and of what may be
// done next the latest comes first: work that nothing orders is done in another order than it was submitted in.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "status.h"

namespace test_driver {

struct Context;
struct Stream;

struct Work;
using WorkRef = std::shared_ptr<Work>;

struct Work {
  Context* context = nullptr;
  std::function<Status()> run;  // empty for a mere point in the order
  std::vector<WorkRef> after;
  uint64_t number = 0;  // in order of submission
  bool done = false;
  std::chrono::steady_clock::time_point finished{};
};

// Adds work at the end of a stream. A stream that blocks comes after the default stream's work, and the default stream after that
// of all streams that block.
WorkRef enqueue(Stream& stream, std::function<Status()> run, WorkRef also_after = nullptr);

// Does this work and all that comes before it. A failure becomes the sticky error of its context, whose other work is then
// dropped. Returns the sticky error of the work's context.
Status finish(const WorkRef& work);

// Does everything that streams of the context wait for.
Status finish_all(Context& context);

}  // namespace test_driver
