#include "work.h"

#include <utility>

#include "state.h"

namespace test_driver {
namespace {

void add_if_pending(std::vector<WorkRef>& after, const WorkRef& work) {
  if (work && !work->done) after.push_back(work);
}

void execute(Work& work) {
  Status& sticky = work.context->sticky;
  if (work.run && sticky == kSuccess) sticky = work.run();
  work.done = true;
  work.finished = std::chrono::steady_clock::now();
  work.run = nullptr;
  work.after.clear();
}

}  // namespace

WorkRef enqueue(Stream& stream, std::function<Status()> run, WorkRef also_after) {
  Context& context = *stream.context;
  auto work = std::make_shared<Work>();
  work->context = &context;
  work->run = std::move(run);
  add_if_pending(work->after, stream.last);
  add_if_pending(work->after, also_after);
  if (&stream == &context.default_stream) {
    for (const auto& other : context.streams) {
      if (other->blocking) add_if_pending(work->after, other->last);
    }
  } else if (stream.blocking) {
    add_if_pending(work->after, context.default_stream.last);
  }
  stream.last = work;
  return work;
}

Status finish(const WorkRef& work) {
  if (!work) return kSuccess;
  std::vector<WorkRef> pending{work};  // a chain may be long: no recursion
  while (!pending.empty()) {
    WorkRef next = pending.back();
    WorkRef before;
    for (const WorkRef& earlier : next->after) {
      if (!earlier->done) before = earlier;
    }
    if (before) {
      pending.push_back(before);
      continue;
    }
    if (!next->done) execute(*next);
    pending.pop_back();
  }
  return work->context->sticky;
}

Status finish_all(Context& context) {
  finish(context.default_stream.last);
  for (const auto& stream : context.streams) finish(stream->last);
  return context.sticky;
}

}  // namespace test_driver
