#include "interpreter.h"

#include <algorithm>

#include "frames.h"

namespace tilelang {
namespace simulator {
namespace {

/// Backward jumps a fragment may make while other fragments of its warp could run.
constexpr uint32_t kFuel = 512;

void save(Warp& warp) {
  if (warp.current >= warp.fragments.size()) return;
  Fragment& fragment = warp.fragments[warp.current];
  fragment.mask = warp.mask;
  fragment.pc = warp.pc;
  fragment.resumed = warp.resumed;
}

void load(Warp& warp, uint32_t index) {
  Fragment& fragment = warp.fragments[index];
  warp.current = index;
  warp.mask = fragment.mask;
  warp.pc = fragment.pc;
  warp.resumed = fragment.resumed;
  warp.frame = warp.registers + fragment.frame->base;
}

/// Fragments that are at the same place in the same call become one.
void merge(Warp& warp) {
  auto& list = warp.fragments;
  for (size_t i = 0; i < list.size(); ++i) {
    for (size_t j = i + 1; j < list.size();) {
      bool same_place =
          list[i].pc == list[j].pc && list[i].frame == list[j].frame && !list[i].resumed && !list[j].resumed;
      bool may_meet = list[i].wait <= WaitKind::kConverge && list[j].wait <= WaitKind::kConverge;
      if (!same_place || !may_meet) {
        ++j;
        continue;
      }
      list[i].mask |= list[j].mask;
      list[i].wait = WaitKind::kRunning;
      list[i].fuel = std::min(list[i].fuel, list[j].fuel);
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(j));
    }
  }
}

/// Loads the runnable fragment that is earliest in the reconvergence order; false when none can run.
bool select(Warp& warp) {
  merge(warp);
  const Instruction* code = warp.launch().program->code.data();
  for (int round = 0; round < 2; ++round) {
    int best = -1;
    for (size_t i = 0; i < warp.fragments.size(); ++i) {
      const Fragment& f = warp.fragments[i];
      if (f.wait != WaitKind::kRunning || f.fuel >= kFuel) continue;
      if (best >= 0) {
        const Fragment& b = warp.fragments[static_cast<size_t>(best)];
        auto rank = [&](const Fragment& x) { return std::make_pair(code[x.pc].order, x.pc); };
        // A deeper call first: its lanes have to come back before the caller can go on together.
        if (f.frame->base < b.frame->base || (f.frame->base == b.frame->base && rank(b) <= rank(f))) continue;
      }
      best = static_cast<int>(i);
    }
    if (best >= 0) {
      load(warp, static_cast<uint32_t>(best));
      return true;
    }
    // Every runnable fragment has used up its fuel: all get some again.
    for (Fragment& f : warp.fragments) f.fuel = 0;
  }
  return false;
}

void wake(Fragment& fragment, bool retry) {
  fragment.wait = WaitKind::kRunning;
  fragment.resumed = !retry;
}

/// Lanes that wait for others of their warp check again, because lanes have arrived at their instruction or have exited.
void wake_converging(Warp& warp) {
  for (Fragment& fragment : warp.fragments) {
    if (fragment.wait == WaitKind::kConverge) fragment.wait = WaitKind::kRunning;
  }
}

template <class F>
void for_fragments(Cluster& cluster, F&& f) {
  for (auto& block : cluster.blocks) {
    for (auto& warp : block->warps) {
      for (Fragment& fragment : warp->fragments) f(fragment);
    }
  }
}

/// Takes lanes away from the running fragment; it vanishes when none are left.
void remove_lanes(Warp& warp, LaneMask lanes) {
  warp.mask &= ~lanes;
  if (warp.mask) {
    ++warp.pc;
    save(warp);
    return;
  }
  warp.fragments.erase(warp.fragments.begin() + warp.current);
  warp.current = static_cast<uint32_t>(warp.fragments.size());
}

void add_fragment(Warp& warp, LaneMask mask, uint32_t pc, std::shared_ptr<Frame> frame) {
  Fragment fragment;
  fragment.mask = mask;
  fragment.pc = pc;
  fragment.frame = std::move(frame);
  warp.fragments.push_back(std::move(fragment));
}

void count(Warp& warp, uint32_t pc, LaneMask exec) {
  InstructionCounters& counters = warp.counters->instructions[pc];
  ++counters.warps;
  counters.lanes += static_cast<uint64_t>(__builtin_popcount(exec));
}

}  // namespace

bool can_run(const Warp& warp) {
  return std::any_of(warp.fragments.begin(), warp.fragments.end(),
                     [](const Fragment& fragment) { return fragment.wait == WaitKind::kRunning; });
}

uint32_t fragment_pc(const Warp& warp, size_t fragment) { return warp.fragments[fragment].pc; }

Step branch(Warp& warp, LaneMask taken, uint32_t target) {
  if (target <= warp.pc) ++warp.fragments[warp.current].fuel;
  if (taken == warp.mask) {
    warp.pc = target;
    return Step::kJump;
  }
  std::shared_ptr<Frame> frame = warp.fragments[warp.current].frame;
  uint32_t fuel = warp.fragments[warp.current].fuel;
  warp.mask &= ~taken;
  ++warp.pc;
  save(warp);
  add_fragment(warp, taken, target, std::move(frame));
  warp.fragments.back().fuel = fuel;
  return Step::kReselect;
}

Step branch_indirect(Warp& warp, LaneMask exec, const uint32_t* targets) {
  std::shared_ptr<Frame> frame = warp.fragments[warp.current].frame;
  LaneMask rest = exec;
  bool whole = exec == warp.mask;
  while (rest) {
    uint32_t target = targets[__builtin_ctz(rest)];
    LaneMask same = 0;
    for_lanes(rest, [&](int lane) {
      if (targets[lane] == target) same |= 1u << lane;
    });
    if (whole && same == warp.mask) {
      warp.pc = target;
      return Step::kJump;
    }
    add_fragment(warp, same, target, frame);
    rest &= ~same;
  }
  remove_lanes(warp, exec);
  return Step::kReselect;
}

Step call_function(Warp& warp, LaneMask exec, uint32_t function, const std::vector<ParamArea>& arguments,
                   const std::vector<ParamArea>& results) {
  const DecodedFunction& callee = warp.launch().program->functions[function];
  save(warp);
  std::shared_ptr<Frame> caller = warp.fragments[warp.current].frame;
  std::shared_ptr<Frame> frame = make_frame(warp, function, caller);
  frame->return_pc = warp.pc + 1;
  frame->result_areas = results;
  const uint8_t* from = warp.registers + caller->base;
  uint8_t* to = warp.registers + frame->base;
  for (size_t i = 0; i < arguments.size() && i < callee.parameter_areas.size(); ++i) {
    uint32_t bytes = std::min(arguments[i].bytes, callee.parameter_areas[i].bytes);
    for_lanes(exec, [&](int lane) {
      uint32_t l = static_cast<uint32_t>(lane);
      std::memcpy(to + callee.parameter_areas[i].offset + l * callee.parameter_areas[i].bytes,
                  from + arguments[i].offset + l * arguments[i].bytes, bytes);
    });
  }
  remove_lanes(warp, exec);
  add_fragment(warp, exec, callee.first, std::move(frame));
  return Step::kReselect;
}

void split_here(Warp& warp, LaneMask lanes) {
  warp.mask &= ~lanes;
  save(warp);
  add_fragment(warp, lanes, warp.pc, warp.fragments[warp.current].frame);
}

Step return_lanes(Warp& warp, LaneMask exec) {
  if (!warp.fragments[warp.current].frame->caller) return exit_lanes(warp, exec);
  std::shared_ptr<Frame> frame = warp.fragments[warp.current].frame;
  const DecodedFunction& callee = warp.launch().program->functions[frame->function];
  const uint8_t* from = warp.registers + frame->base;
  uint8_t* to = warp.registers + frame->caller->base;
  for (size_t i = 0; i < callee.result_areas.size() && i < frame->result_areas.size(); ++i) {
    const ParamArea& source = callee.result_areas[i];
    const ParamArea& target = frame->result_areas[i];
    for_lanes(exec, [&](int lane) {
      uint32_t l = static_cast<uint32_t>(lane);
      std::memcpy(to + target.offset + l * target.bytes, from + source.offset + l * source.bytes,
                  std::min(source.bytes, target.bytes));
    });
  }
  remove_lanes(warp, exec);
  add_fragment(warp, exec, frame->return_pc, frame->caller);
  wake_converging(warp);
  return Step::kReselect;
}

Step exit_lanes(Warp& warp, LaneMask exec) {
  remove_lanes(warp, exec);
  warp.live &= ~exec;
  wake_converging(warp);
  lanes_exited(warp, exec);
  return Step::kReselect;
}

void start_warp(Warp& warp, LaneMask lanes) {
  warp.existing = warp.live = lanes;
  const Program& program = *warp.launch().program;
  uint32_t function = static_cast<uint32_t>(warp.launch().kernel - program.functions.data());
  std::shared_ptr<Frame> frame = make_frame(warp, function, nullptr);
  add_fragment(warp, lanes, program.functions[function].first, std::move(frame));
}

void wake_in_block(Block& block, WaitKind kind, uint32_t key) {
  for (auto& warp : block.warps) {
    for (Fragment& fragment : warp->fragments) {
      if (fragment.wait == kind && fragment.key == key) wake(fragment, false);
    }
  }
}

void wake_barrier(Block& block, uint32_t barrier) { wake_in_block(block, WaitKind::kBarrier, barrier); }

void wake_warpgroup(Block& block, uint32_t first_warp) { wake_in_block(block, WaitKind::kWarpgroup, first_warp); }

void wake_cluster_barrier(Cluster& cluster) {
  for_fragments(cluster, [](Fragment& fragment) {
    if (fragment.wait == WaitKind::kClusterBarrier) wake(fragment, false);
  });
}

void wake_mbarrier(Cluster& cluster, uint32_t address) {
  for_fragments(cluster, [&](Fragment& fragment) {
    if (fragment.wait == WaitKind::kMBarrier && fragment.key == address) wake(fragment, true);
  });
}

uint32_t wake_retries(Cluster& cluster, bool sleeping_only) {
  uint32_t woken = 0;
  for_fragments(cluster, [&](Fragment& fragment) {
    if (fragment.wait != WaitKind::kSleep && (sleeping_only || fragment.wait != WaitKind::kMBarrier)) return;
    wake(fragment, true);
    ++woken;
  });
  return woken;
}

WarpResult run_warp(Warp& warp, uint32_t quantum) {
  const Instruction* code = warp.launch().program->code.data();
  const bool counting = warp.counting;
  if (!select(warp)) return warp.fragments.empty() ? WarpResult::kDone : WarpResult::kBlocked;
  uint32_t left = quantum;
  while (left > 0) {
    const Instruction& in = code[warp.pc];
    LaneMask exec = warp.mask & (warp.predicate(in.guard) ^ in.guard_flip);
    --left;
    if (!warp.undefined.empty() && !warp.resumed) warp.undefined.before(warp, in, exec);
    Step step = Step::kNext;
    if (in.convergence == Convergence::kAligned && warp.mask != warp.live) {
      step = Step::kConverge;
    } else if (exec) {
      if (counting && !warp.resumed) count(warp, warp.pc, exec);
      if (warp.trace) {
        const InstructionCounters before = warp.counters->instructions[in.pc];
        step = in.run(warp, in, exec);
        if (step != Step::kBlock && step != Step::kRetry) record(warp, in, before);
      } else {
        step = in.run(warp, in, exec);
      }
      if (step != Step::kBlock) warp.resumed = false;
    }
    switch (step) {
      case Step::kNext:
        ++warp.pc;
        if (warp.fragments.size() == 1 || !code[warp.pc].leader) continue;
        save(warp);
        break;
      case Step::kJump:
        if (warp.fragments.size() == 1) continue;
        save(warp);
        break;
      case Step::kReselect:
        break;
      case Step::kConverge:
        warp.fragments[warp.current].wait = WaitKind::kConverge;
        save(warp);
        break;
      case Step::kRetry:
        ++warp.pc;
        save(warp);
        break;
      case Step::kBlock:
        save(warp);
        break;
    }
    if (!select(warp)) {
      warp.instructions += quantum - left;
      return warp.fragments.empty() ? WarpResult::kDone : WarpResult::kBlocked;
    }
  }
  save(warp);
  warp.instructions += quantum - left;
  return WarpResult::kQuantum;
}

}  // namespace simulator
}  // namespace tilelang
