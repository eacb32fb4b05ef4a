#include "machine.h"

#include "interpreter.h"
#include "race.h"

namespace tilelang {
namespace simulator {

Cluster::Cluster() = default;
Cluster::~Cluster() = default;

Cluster& Warp::cluster() { return *block->cluster; }
Launch& Warp::launch() { return *block->cluster->launch; }
Random& Warp::random() { return block->cluster->random; }

Step Warp::block_on(WaitKind kind, uint64_t key, uint32_t detail) {
  Fragment& fragment = fragments[current];
  fragment.wait = kind;
  fragment.key = key;
  fragment.detail = detail;
  return Step::kBlock;
}

Step Warp::retry_later(WaitKind kind, uint64_t key, uint32_t detail) {
  block_on(kind, key, detail);
  if (counting && kind == WaitKind::kMBarrier) ++counters->mbarrier_waits;
  return Step::kRetry;
}

Step Warp::polled(const Poll& poll) {
  if (poll == last_poll) return retry_later(WaitKind::kSleep, 0);
  last_poll = poll;
  return Step::kNext;
}

void Warp::report(FindingKind kind, const Instruction& instruction, int lane, const std::string& message) const {
  Launch& launch = *block->cluster->launch;
  Finding finding;
  finding.kind = kind;
  finding.message = message;
  finding.kernel = launch.kernel->name;
  finding.block = block->index;
  if (lane >= 0) {
    uint32_t linear = thread(lane);
    finding.has_thread = true;
    finding.thread = {linear % launch.block[0], linear / launch.block[0] % launch.block[1],
                      linear / launch.block[0] / launch.block[1]};
  }
  finding.pc = instruction.pc;
  finding.ptx_line = instruction.line;
  finding.instruction = launch.program->texts[instruction.pc];
  finding.line = instruction.location.line;
  finding.file = launch.program->file_of(instruction);
  launch.findings.add(std::move(finding));
}

Agent async_agent(Warp& warp, int lane, AsyncDomain domain, uint32_t key) {
  RaceChecker* race = warp.cluster().race.get();
  return race ? race->async_agent(warp, lane, domain, key) : Agent();
}

void async_done(Warp& warp, int lane, Agent agent) {
  if (RaceChecker* race = warp.cluster().race.get()) race->async_done(warp, lane, agent);
}

void fence(Warp& warp, LaneMask lanes, bool proxy_async) {
  RaceChecker* race = warp.cluster().race.get();
  if (!race) return;
  for_lanes(lanes, [&](int lane) {
    if (proxy_async)
      race->proxy_fence(race->thread_of(warp, lane));
    else
      race->fence(race->thread_of(warp, lane));
  });
}

void warp_sync(Warp& warp, LaneMask lanes) {
  if (RaceChecker* race = warp.cluster().race.get()) race->warp_barrier(warp, lanes);
}

}  // namespace simulator
}  // namespace tilelang
