// Fences and instructions that talk to the machine: membar, fence, nanosleep, griddepcontrol, setmaxnreg.
#include "lanes.h"
#include "memory_operands.h"

namespace tilelang {
namespace simulator {
namespace {

Step run_fence(Warp& w, const Instruction& in, LaneMask exec) {
  fence(w, exec, in.variant);
  return Step::kNext;
}

/// membar.cta, membar.gl, membar.sys, membar.proxy.alias
void decode_membar(Decoder& d) {
  bool proxy = d.modifiers.take("proxy");
  if (proxy)
    d.modifiers.next();
  else if (d.modifiers.take_any({"cta", "gl", "sys"}).empty())
    d.fail("expected .cta, .gl or .sys");
  d.expect_no_more_modifiers();
  d.expect_operands(0, 0);
  d.out.run = run_fence;
}

/// fence.{sc,acq_rel,acquire,release}{.sync_restrict...}.scope, fence.proxy.*, fence.mbarrier_init.*
void decode_fence(Decoder& d) {
  bool proxy = d.modifiers.take("proxy");
  if (proxy) {
    std::string kind = d.modifiers.next();
    bool known = kind == "alias" || kind.rfind("async", 0) == 0 || kind.rfind("tensormap", 0) == 0;
    if (!known) d.fail("unknown proxy ." + kind);
    while (!d.modifiers.done()) d.modifiers.next();
    d.out.variant = kind.rfind("async", 0) == 0;
  } else if (d.modifiers.take("mbarrier_init")) {
    if (!d.modifiers.take("release") || !d.modifiers.take("cluster")) d.fail("expected .release.cluster");
  } else {
    if (d.modifiers.take_any({"sc", "acq_rel", "acquire", "release"}).empty())
      d.fail("unknown fence ." + d.modifiers.peek());
    d.modifiers.take_any({"sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
    if (d.modifiers.take_any({"cta", "cluster", "gpu", "sys"}).empty()) d.fail("a scope is missing");
  }
  d.expect_no_more_modifiers();
  d.out.run = run_fence;
}

Step run_sleep(Warp& w, const Instruction&, LaneMask) { return w.retry_later(WaitKind::kSleep, 0); }

void decode_nanosleep(Decoder& d) {
  if (!d.modifiers.take("u32")) d.fail("the type must be .u32");
  d.expect_operands(1, 1);
  d.source_bits(0, 4);
  d.out.run = run_sleep;
}

Step run_nothing(Warp&, const Instruction&, LaneMask) { return Step::kNext; }

/// Programmatic dependent launch: one kernel runs at a time, so what it depends on has finished.
void decode_griddepcontrol(Decoder& d) {
  if (d.modifiers.take_any({"launch_dependents", "wait"}).empty()) d.fail("expected .launch_dependents or .wait");
  d.expect_no_more_modifiers();
  d.expect_operands(0, 0);
  d.out.run = run_nothing;
}

void decode_setmaxnreg(Decoder& d) {
  if (d.modifiers.take_any({"inc", "dec"}).empty()) d.fail("expected .inc or .dec");
  if (!d.modifiers.take("sync") || !d.modifiers.take("aligned")) d.fail("expected .sync.aligned");
  if (!d.modifiers.take("u32")) d.fail("the type must be .u32");
  d.expect_operands(1, 1);
  int64_t count = d.constant(0);
  if (count < 24 || count > 256 || count % 8) d.fail("the register count must be a multiple of 8 in [24, 256]");
  d.out.convergence = Convergence::kAligned;
  d.out.run = run_nothing;
}

}  // namespace

const std::vector<OpcodeRow>& system_opcodes() {
  static const std::vector<OpcodeRow> rows = {
      {"membar", decode_membar, "fence"},
      {"fence", decode_fence, "fence"},
      {"nanosleep", decode_nanosleep, "control"},
      {"griddepcontrol", decode_griddepcontrol, "control"},
      {"setmaxnreg", decode_setmaxnreg, "control"},
  };
  return rows;
}

}  // namespace simulator
}  // namespace tilelang
