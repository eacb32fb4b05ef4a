#include "work.h"

#include <algorithm>
#include <set>
#include <utility>

#include "state.h"

namespace test_driver {
namespace {

void add_if_pending(std::vector<WorkRef>& after, const WorkRef& work) {
  if (work && !work->done) after.push_back(work);
}

bool is_ready(const Work& work) {
  return std::all_of(work.after.begin(), work.after.end(), [](const WorkRef& earlier) { return earlier->done; });
}

// What has to be done for this work, itself among it; the latest first.
std::vector<WorkRef> pending_for(const std::vector<WorkRef>& wanted) {
  std::set<WorkRef> known;
  std::vector<WorkRef> found, left(wanted);
  while (!left.empty()) {
    WorkRef work = left.back();
    left.pop_back();
    if (!work || work->done || !known.insert(work).second) continue;
    found.push_back(work);
    left.insert(left.end(), work->after.begin(), work->after.end());
  }
  std::sort(found.begin(), found.end(), [](const WorkRef& a, const WorkRef& b) { return a->number > b->number; });
  return found;
}

void execute(Work& work) {
  Status& sticky = work.context->sticky;
  if (work.run && sticky == kSuccess) sticky = work.run();
  work.done = true;
  work.finished = std::chrono::steady_clock::now();
  work.run = nullptr;
  work.after.clear();
}

// The latest of what is ready, again and again.
void do_all(const std::vector<WorkRef>& wanted) {
  std::vector<WorkRef> pending = pending_for(wanted);
  while (!pending.empty()) {
    const auto next = std::find_if(pending.begin(), pending.end(), [](const WorkRef& work) { return is_ready(*work); });
    execute(**next);
    pending.erase(next);
  }
}

}  // namespace

WorkRef enqueue(Stream& stream, std::function<Status()> run, WorkRef also_after) {
  Context& context = *stream.context;
  static uint64_t submitted = 0;  // under the driver's lock
  auto work = std::make_shared<Work>();
  work->number = ++submitted;
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
  Context& context = *work->context;
  do_all({work});
  return context.sticky;
}

Status finish_all(Context& context) {
  std::vector<WorkRef> wanted{context.default_stream.last};
  for (const auto& stream : context.streams) wanted.push_back(stream->last);
  do_all(wanted);
  return context.sticky;
}

}  // namespace test_driver
