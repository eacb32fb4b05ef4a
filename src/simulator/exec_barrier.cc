// bar, barrier, barrier.cluster and bar.warp (PTX ISA, "Parallel Synchronization ...: bar, barrier, barrier.cluster").
#include <algorithm>

#include "interpreter.h"
#include "lanes.h"
#include "race.h"

namespace tilelang {
namespace simulator {
namespace {

enum class BarrierOperation : uint8_t { kSync, kArrive, kRedPopc, kRedAnd, kRedOr };

struct BarrierSpec {
  BarrierOperation operation = BarrierOperation::kSync;
  uint32_t barrier = 0;  // slots
  uint32_t count = 0;
  bool has_count = false;
  uint32_t predicate = 0;  // bar.red
  bool negated = false;
  uint32_t result = 0;
};

std::vector<uint32_t> race_threads(const Block& block, const BarrierState& state) {
  std::vector<uint32_t> threads;
  uint32_t base = block.rank * block.cluster->launch->threads_per_block();
  for (uint32_t t : state.waiting_threads) threads.push_back(base + t);
  return threads;
}

/// All expected threads are there: lets them go and prepares the next generation.
void complete(Block& block, uint32_t number) {
  BarrierState& state = block.barriers[number];
  Cluster& cluster = *block.cluster;
  if (cluster.race) {
    bool everyone = state.waiting_threads.size() >= block.cluster->launch->threads_per_block();
    if (everyone)
      cluster.race->block_barrier(block.rank);
    else
      cluster.race->partial_barrier(race_threads(block, state), state.released);
  }
  state.red_and = state.count_and;
  state.red_or = state.count_or;
  state.red_sum = state.count_sum;
  state.count_and = 1;
  state.count_or = state.count_sum = 0;
  state.arrived = 0;
  state.waiting_threads.clear();
  state.released.clear();
  ++state.generation;
  ++cluster.progress;
  wake_barrier(block, number);
}

void write_reduction(Warp& w, const BarrierSpec& spec, const BarrierState& state, LaneMask exec) {
  switch (spec.operation) {
    case BarrierOperation::kRedPopc:
      write_lanes(w.reg<uint32_t>(spec.result), exec, [&](int) { return state.red_sum; });
      return;
    case BarrierOperation::kRedAnd:
      return write_predicate(w.predicate(spec.result), exec, state.red_and ? kAllLanes : 0);
    case BarrierOperation::kRedOr:
      return write_predicate(w.predicate(spec.result), exec, state.red_or ? kAllLanes : 0);
    default:
      return;
  }
}

/// Opens a generation or checks that the arrival agrees with it.
bool join_generation(Warp& w, const Instruction& in, const BarrierSpec& spec, BarrierState& state, LaneMask exec) {
  int lane = __builtin_ctz(exec);
  uint32_t expected = spec.has_count ? w.reg<uint32_t>(spec.count)[lane] : w.block->live_threads;
  if (spec.has_count && (expected == 0 || expected % kLanes)) {
    w.report(FindingKind::kBarrier, in, lane,
             "the thread count " + std::to_string(expected) + " is not a positive multiple of 32");
    throw KernelAbort();
  }
  if (state.arrived == 0) {
    state.expected = expected;
    state.whole_block = !spec.has_count;
    state.pc = in.pc;
  } else if (state.expected != expected) {
    const Program& program = *w.launch().program;
    w.report(FindingKind::kBarrier, in, lane,
             "barrier " + std::to_string(w.reg<uint32_t>(spec.barrier)[lane]) + " is used with " +
                 std::to_string(expected) + " threads here and with " + std::to_string(state.expected) +
                 " at " + program.place_of(program.code[state.pc]));
    throw KernelAbort();
  }
  return true;
}

void arrive(Warp& w, const Instruction& in, const BarrierSpec& spec, BarrierState& state, LaneMask exec) {
  // A warp counts as a whole: lanes that do not exist or have exited are never waited for.
  bool whole_warp = exec == w.live;
  uint32_t lanes = static_cast<uint32_t>(__builtin_popcount(exec));
  state.arrived += whole_warp && spec.has_count ? kLanes : lanes;
  RaceChecker* race = w.cluster().race.get();
  for_lanes(exec, [&](int l) {
    if (spec.operation != BarrierOperation::kArrive)
      state.waiting_threads.push_back(w.thread(l));
    else if (race)
      race->release(race->thread_of(w, l), state.released);
  });
  if (spec.operation >= BarrierOperation::kRedPopc) {
    LaneMask p = (w.predicate(spec.predicate) ^ (spec.negated ? kAllLanes : 0)) & exec;
    state.count_sum += static_cast<uint32_t>(__builtin_popcount(p));
    state.count_or |= p != 0;
    state.count_and &= p == exec;
  }
  if (w.checking(kCheckBarrier) && in.convergence == Convergence::kAligned && !whole_warp) {
    w.report(FindingKind::kBarrier, in, __builtin_ctz(exec),
             "only " + std::to_string(lanes) + " of " + std::to_string(__builtin_popcount(w.live)) +
                 " threads of the warp execute this barrier");
  }
  if (w.checking(kCheckBarrier) && state.whole_block && w.block->live_threads < w.launch().threads_per_block()) {
    w.report(FindingKind::kBarrier, in, __builtin_ctz(exec),
             std::to_string(w.launch().threads_per_block() - w.block->live_threads) +
                 " threads of the block have exited without reaching this barrier");
  }
}

Step run_barrier(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& spec = *static_cast<const BarrierSpec*>(in.extra);
  int lane = __builtin_ctz(exec);
  uint32_t number = w.reg<uint32_t>(spec.barrier)[lane];
  if (number >= 16) {
    w.report(FindingKind::kBarrier, in, lane, "barrier " + std::to_string(number) + " does not exist, there are 16");
    throw KernelAbort();
  }
  BarrierState& state = w.block->barriers[number];
  if (w.resumed) {
    write_reduction(w, spec, state, exec);
    return Step::kNext;
  }
  join_generation(w, in, spec, state, exec);
  arrive(w, in, spec, state, exec);
  if (state.arrived > state.expected) {
    w.report(FindingKind::kBarrier, in, lane,
             "barrier " + std::to_string(number) + " waits for " + std::to_string(state.expected) + " threads, " +
                 std::to_string(state.arrived) + " have arrived");
    throw KernelAbort();
  }
  if (state.arrived == state.expected) {
    if (w.counting) ++w.counters->barriers_completed;
    complete(*w.block, number);
    write_reduction(w, spec, state, exec);
    return Step::kNext;
  }
  if (spec.operation == BarrierOperation::kArrive) return Step::kNext;
  if (w.counting) ++w.counters->barrier_waits;
  return w.block_on(WaitKind::kBarrier, number);
}

BarrierOperation take_operation(Decoder& d) {
  if (d.modifiers.take("sync")) return BarrierOperation::kSync;
  if (d.modifiers.take("arrive")) return BarrierOperation::kArrive;
  if (!d.modifiers.take("red")) d.fail("expected .sync, .arrive or .red");
  if (d.modifiers.take("popc")) return BarrierOperation::kRedPopc;
  if (d.modifiers.take("and")) return BarrierOperation::kRedAnd;
  if (d.modifiers.take("or")) return BarrierOperation::kRedOr;
  d.fail("expected .popc, .and or .or");
}

void decode_named(Decoder& d, bool aligned_by_default) {
  d.modifiers.take("cta");
  auto& spec = d.attach<BarrierSpec>();
  spec.operation = take_operation(d);
  bool aligned = d.modifiers.take("aligned") || aligned_by_default;
  bool reduction = spec.operation >= BarrierOperation::kRedPopc;
  if (reduction) d.modifiers.take_any({"u32", "pred"});
  if (!aligned) aligned = d.modifiers.take("aligned");
  d.expect_no_more_modifiers();
  size_t index = 0;
  if (reduction) {
    spec.result = spec.operation == BarrierOperation::kRedPopc ? d.destination(0, 4) : d.predicate_destination(0);
    index = 1;
  }
  spec.barrier = d.source_bits(index++, 4);
  size_t last = d.operand_count() - (reduction ? 1 : 0);
  if (index < last) {
    spec.has_count = true;
    spec.count = d.source_bits(index++, 4);
  }
  if (spec.operation == BarrierOperation::kArrive && !spec.has_count) d.fail("bar.arrive needs a thread count");
  if (reduction) spec.predicate = d.predicate(index++, &spec.negated);
  d.expect_operands(index, index);
  if (aligned) d.out.convergence = Convergence::kAligned;
  d.out.run = run_barrier;
}

// ---- bar.warp.sync ----

Step run_warp_barrier(Warp& w, const Instruction& in, LaneMask exec) {
  LaneMask members = w.reg<uint32_t>(in.op[0])[__builtin_ctz(exec)];
  if ((members & exec) != exec) {
    w.report(FindingKind::kUsage, in, __builtin_ctz(exec & ~members), "the thread is not in its own member mask");
  }
  if (members & w.live & ~exec) return Step::kConverge;
  warp_sync(w, exec);
  return Step::kNext;
}

// ---- barrier.cluster ----

Step run_cluster_arrive(Warp& w, const Instruction& in, LaneMask exec) {
  Cluster& cluster = w.cluster();
  for_lanes(exec, [&](int l) {
    w.cluster_phase[l] = cluster.barrier_generation + 1;
    if (cluster.race && !in.variant) cluster.race->release(cluster.race->thread_of(w, l), cluster.barrier_pending);
  });
  cluster.barrier_arrived += static_cast<uint32_t>(__builtin_popcount(exec));
  complete_cluster_barrier(cluster);
  return Step::kNext;
}

Step run_cluster_wait(Warp& w, const Instruction& in, LaneMask exec) {
  Cluster& cluster = w.cluster();
  int lane = __builtin_ctz(exec);
  if (w.cluster_phase[lane] == 0) {
    w.report(FindingKind::kBarrier, in, lane, "barrier.cluster.wait without a barrier.cluster.arrive before it");
    return Step::kNext;
  }
  if (cluster.barrier_generation < w.cluster_phase[lane]) {
    if (w.counting) ++w.counters->barrier_waits;
    return w.block_on(WaitKind::kClusterBarrier, 0);
  }
  if (cluster.race) {
    cluster.race->acquire(w, exec, cluster.barrier_completed);
  }
  return Step::kNext;
}

void decode_cluster(Decoder& d) {
  bool arrive = d.modifiers.take("arrive");
  if (!arrive && !d.modifiers.take("wait")) d.fail("expected .arrive or .wait");
  bool relaxed = d.modifiers.take("relaxed");
  d.modifiers.take_any({"release", "acquire"});
  if (d.modifiers.take("aligned")) d.out.convergence = Convergence::kAligned;
  d.expect_no_more_modifiers();
  d.expect_operands(0, 0);
  d.out.variant = relaxed;
  d.out.run = arrive ? run_cluster_arrive : run_cluster_wait;
}

void decode_bar(Decoder& d) {
  if (!d.modifiers.take("warp")) return decode_named(d, true);
  if (!d.modifiers.take("sync")) d.fail("expected .sync");
  d.expect_no_more_modifiers();
  d.expect_operands(1, 1);
  d.out.op[0] = d.source_bits(0, 4);
  d.out.run = run_warp_barrier;
}

void decode_barrier(Decoder& d) {
  if (d.modifiers.take("cluster")) return decode_cluster(d);
  decode_named(d, false);
}

}  // namespace

void complete_cluster_barrier(Cluster& cluster) {
  if (cluster.barrier_arrived == 0 || cluster.barrier_arrived < cluster.live_threads) return;
  cluster.barrier_arrived = 0;
  ++cluster.barrier_generation;
  ++cluster.progress;
  cluster.barrier_completed.swap(cluster.barrier_pending);
  cluster.barrier_pending.clear();
  wake_cluster_barrier(cluster);
}

void lanes_exited(Warp& w, LaneMask lanes) {
  Block& block = *w.block;
  uint32_t count = static_cast<uint32_t>(__builtin_popcount(lanes));
  block.live_threads -= count;
  block.cluster->live_threads -= count;
  ++block.cluster->progress;
  // Threads that have arrived at the cluster barrier and leave are neither waited for nor counted.
  if (block.cluster->barrier_arrived) {
    for_lanes(lanes, [&](int l) {
      if (w.cluster_phase[l] == block.cluster->barrier_generation + 1) --block.cluster->barrier_arrived;
    });
  }
  for (uint32_t i = 0; i < 16; ++i) {
    BarrierState& state = block.barriers[i];
    if (!state.arrived || !state.whole_block) continue;
    state.expected = block.live_threads;
    if (state.arrived < state.expected) continue;
    if (w.checking(kCheckBarrier)) {
      w.report(FindingKind::kBarrier, w.launch().program->code[state.pc], __builtin_ctz(lanes),
               "threads of the block exited without reaching this barrier");
    }
    complete(block, i);
  }
  complete_cluster_barrier(*block.cluster);
}

const std::vector<OpcodeRow>& barrier_opcodes() {
  static const std::vector<OpcodeRow> rows = {
      {"bar", decode_bar, "barrier"},
      {"barrier", decode_barrier, "barrier"},
  };
  return rows;
}

}  // namespace simulator
}  // namespace tilelang
