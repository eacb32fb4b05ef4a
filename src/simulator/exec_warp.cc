// Exchange between the lanes of a warp (PTX ISA: shfl.sync, vote.sync, match.sync, redux.sync, activemask, elect.sync).
#include <algorithm>

#include "lanes.h"
#include "numerics.h"
#include "shuffle.h"

namespace tilelang {
namespace simulator {
namespace {

/// The lanes of `lanes` that name the same members as the first of them.
LaneMask group_of_first(const uint32_t* masks, LaneMask lanes) {
  const uint32_t members = masks[__builtin_ctz(lanes)];
  return lanes & mask_lanes([&](int l) { return masks[l] == members; });
}

/// Whether all members of a group of lanes have come; reports masks that are no partition of the lanes.
bool members_are_here(Warp& w, const Instruction& in, LaneMask exec, LaneMask group, LaneMask members) {
  const LaneMask outside = group & ~members;
  if (outside) w.report(FindingKind::kUsage, in, __builtin_ctz(outside), "the thread is not in the member mask");
  const LaneMask different = exec & members & ~group;
  for_lanes(different, [&](int l) { w.report(FindingKind::kUsage, in, l, "the member masks of the lanes differ"); });
  return (members & w.live & ~exec) == 0;
}

/// Runs an exchange for each group of lanes with the same member mask, as soon as all members of all of them have come.
template <int mask, Step (*run)(Warp&, const Instruction&, LaneMask)>
Step run_groups(Warp& w, const Instruction& in, LaneMask exec) {
  const uint32_t* masks = w.reg<uint32_t>(in.op[mask]);
  bool complete = true;
  for (LaneMask rest = exec; rest;) {
    const LaneMask group = group_of_first(masks, rest);
    complete &= members_are_here(w, in, exec, group, masks[__builtin_ctz(rest)]);
    rest &= ~group;
  }
  if (!complete) return Step::kConverge;
  // The result may be written to the register of the masks.
  uint32_t named[kLanes];
  std::copy_n(masks, kLanes, named);
  for (LaneMask rest = exec; rest;) {
    const LaneMask group = group_of_first(named, rest);
    run(w, in, group);
    rest &= ~group;
  }
  return Step::kNext;
}

constexpr uint32_t kPoisonWord = 0x01010101u * kPoison;

template <uint32_t offset>
void exchange(const uint32_t* a, uint32_t* d) {
  uint32_t values[kLanes];
  for (uint32_t l = 0; l < kLanes; ++l) values[l] = a[l ^ offset];
  std::copy_n(values, kLanes, d);
}

/// A butterfly over the whole warp by a power of two that is the same for all lanes; false for others.
bool exchange_lanes(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* d) {
  constexpr uint32_t kWholeWarp = 31;
  uint32_t differences = 0;
  for (int l = 0; l < kLanes; ++l) differences |= (b[l] ^ b[0]) | (c[l] ^ kWholeWarp);
  if (differences) return false;
  switch (b[0]) {
    case 1:
      return exchange<1>(a, d), true;
    case 2:
      return exchange<2>(a, d), true;
    case 4:
      return exchange<4>(a, d), true;
    case 8:
      return exchange<8>(a, d), true;
    case 16:
      return exchange<16>(a, d), true;
    default:
      return false;
  }
}

template <Shuffle mode>
Step run_shfl(Warp& w, const Instruction& in, LaneMask exec) {
  const uint32_t* a = w.reg<uint32_t>(in.op[1]);
  const uint32_t* b = w.reg<uint32_t>(in.op[2]);
  const uint32_t* c = w.reg<uint32_t>(in.op[3]);
  if (mode == Shuffle::kButterfly && exec == kAllLanes && exchange_lanes(a, b, c, w.reg<uint32_t>(in.op[0]))) {
    if (in.variant) w.predicate(in.op[5]) = kAllLanes;
    return Step::kNext;
  }
  uint32_t values[kLanes];
  bool valid[kLanes];
  int sources[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    sources[l] = source_lane(mode, l, b[l], c[l], &valid[l]);
    values[l] = exec >> sources[l] & 1 ? a[sources[l]] : kPoisonWord;
  }
  const LaneMask valid_lanes = mask_lanes([&](int l) { return valid[l]; });
  // What a lane that does not take part would give is undefined; kernels may read it and not use it.
  const LaneMask undefined = exec & mask_lanes([&](int l) { return !(exec >> sources[l] & 1); });
  if (undefined && w.checking(kCheckInit)) w.undefined.not_given(w, in, undefined);
  write_lanes(w.reg<uint32_t>(in.op[0]), exec, [&](int l) { return values[l]; });
  if (in.variant) write_predicate(w.predicate(in.op[5]), exec, valid_lanes);
  return Step::kNext;
}

void decode_shfl(Decoder& d) {
  if (!d.modifiers.take("sync")) d.fail("only the .sync form exists on sm_70 and later");
  if (d.modifiers.take("up"))
    d.out.run = run_groups<4, run_shfl<Shuffle::kUp>>;
  else if (d.modifiers.take("down"))
    d.out.run = run_groups<4, run_shfl<Shuffle::kDown>>;
  else if (d.modifiers.take("bfly"))
    d.out.run = run_groups<4, run_shfl<Shuffle::kButterfly>>;
  else if (d.modifiers.take("idx"))
    d.out.run = run_groups<4, run_shfl<Shuffle::kIndex>>;
  else
    d.fail("expected .up, .down, .bfly or .idx");
  const TypeInfo* type = d.take_type();
  if (type->bytes != 4) d.fail("the type must be .b32");
  d.expect_no_more_modifiers();
  d.expect_operands(5, 5);
  const Operand& target = d.operand(0);
  bool pair = target.kind == Operand::Kind::kPair;
  d.out.op[0] = d.destination(pair ? target.children[0] : target, 4);
  if (pair) d.out.op[5] = d.predicate_destination(target.children[1]);
  for (size_t i = 1; i <= 4; ++i) d.out.op[i] = d.source_bits(i, 4);
  d.out.variant = pair;
}

enum class Vote : uint8_t { kAll, kAny, kUni, kBallot };

template <Vote mode>
Step run_vote(Warp& w, const Instruction& in, LaneMask exec) {
  LaneMask p = (w.predicate(in.op[1]) ^ (in.variant ? kAllLanes : 0)) & exec;
  if (mode == Vote::kBallot) {
    write_lanes(w.reg<uint32_t>(in.op[0]), exec, [&](int) { return p; });
    return Step::kNext;
  }
  bool result = mode == Vote::kAll ? p == exec : mode == Vote::kAny ? p != 0 : (p == exec || p == 0);
  write_predicate(w.predicate(in.op[0]), exec, result ? kAllLanes : 0);
  return Step::kNext;
}

void decode_vote(Decoder& d) {
  if (!d.modifiers.take("sync")) d.fail("only the .sync form exists on sm_70 and later");
  bool ballot = d.modifiers.take("ballot");
  if (ballot)
    d.out.run = run_groups<2, run_vote<Vote::kBallot>>;
  else if (d.modifiers.take("all"))
    d.out.run = run_groups<2, run_vote<Vote::kAll>>;
  else if (d.modifiers.take("any"))
    d.out.run = run_groups<2, run_vote<Vote::kAny>>;
  else if (d.modifiers.take("uni"))
    d.out.run = run_groups<2, run_vote<Vote::kUni>>;
  else
    d.fail("expected .all, .any, .uni or .ballot");
  if (!d.modifiers.take(ballot ? "b32" : "pred")) d.fail("bad type");
  d.expect_no_more_modifiers();
  d.expect_operands(3, 3);
  bool negated;
  d.out.op[0] = ballot ? d.destination(0, 4) : d.predicate_destination(0);
  d.out.op[1] = d.predicate(1, &negated);
  d.out.op[2] = d.source_bits(2, 4);
  d.out.variant = negated;
}

template <class T, bool all>
Step run_match(Warp& w, const Instruction& in, LaneMask exec) {
  const T* a = w.reg<T>(in.op[1]);
  uint32_t result[kLanes] = {};
  LaneMask agreed = 0;
  for_lanes(exec, [&](int l) {
    LaneMask same = 0;
    for_lanes(exec, [&](int other) {
      if (a[other] == a[l]) same |= 1u << other;
    });
    bool everyone = same == exec;
    result[l] = all ? (everyone ? exec : 0) : same;
    agreed |= static_cast<LaneMask>(everyone) << l;
  });
  write_each(w.reg<uint32_t>(in.op[0]), exec, [&](int l) { return result[l]; });
  if (in.variant) write_predicate(w.predicate(in.op[3]), exec, agreed);
  return Step::kNext;
}

void decode_match(Decoder& d) {
  bool all = d.modifiers.take("all");
  if (!all && !d.modifiers.take("any")) d.fail("expected .all or .any");
  if (!d.modifiers.take("sync")) d.fail("expected .sync");
  const TypeInfo* type = d.take_type();
  d.expect_no_more_modifiers();
  d.expect_operands(3, 3);
  const Operand& target = d.operand(0);
  bool pair = target.kind == Operand::Kind::kPair;
  if (pair && !all) d.fail("only .all has a predicate result");
  d.out.op[0] = d.destination(pair ? target.children[0] : target, 4);
  if (pair) d.out.op[3] = d.predicate_destination(target.children[1]);
  d.out.op[1] = d.source(1, type);
  d.out.op[2] = d.source_bits(2, 4);
  d.out.variant = pair;
  if (type->bytes == 4)
    d.out.run = all ? run_groups<2, run_match<uint32_t, true>> : run_groups<2, run_match<uint32_t, false>>;
  else if (type->bytes == 8)
    d.out.run = all ? run_groups<2, run_match<uint64_t, true>> : run_groups<2, run_match<uint64_t, false>>;
  else
    d.fail("the type must be .b32 or .b64");
}

// ---- redux ----

template <class T, class F>
T fold(const T* a, LaneMask exec, F f) {
  T result = a[__builtin_ctz(exec)];
  for_lanes(exec & (exec - 1), [&](int l) { result = f(result, a[l]); });
  return result;
}

enum class Redux : uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor };

template <class T>
T reduce(Redux operation, const T* a, LaneMask exec) {
  switch (operation) {
    case Redux::kAdd:
      return fold(a, exec,
                  [](T x, T y) { return static_cast<T>(static_cast<uint32_t>(x) + static_cast<uint32_t>(y)); });
    case Redux::kMin:
      return fold(a, exec, [](T x, T y) { return std::min(x, y); });
    case Redux::kMax:
      return fold(a, exec, [](T x, T y) { return std::max(x, y); });
    case Redux::kAnd:
      return fold(a, exec, [](T x, T y) { return x & y; });
    case Redux::kOr:
      return fold(a, exec, [](T x, T y) { return x | y; });
    default:
      return fold(a, exec, [](T x, T y) { return x ^ y; });
  }
}

template <class T>
Step run_redux(Warp& w, const Instruction& in, LaneMask exec) {
  T result = reduce(static_cast<Redux>(in.variant), w.reg<T>(in.op[1]), exec);
  write_lanes(w.reg<T>(in.op[0]), exec, [&](int) { return result; });
  return Step::kNext;
}

void decode_redux(Decoder& d) {
  if (!d.modifiers.take("sync")) d.fail("expected .sync");
  static const char* const names[] = {"add", "min", "max", "and", "or", "xor"};
  uint8_t operation = 0;
  while (operation < 6 && !d.modifiers.take(names[operation])) ++operation;
  if (operation == 6) d.fail("unknown operation ." + d.modifiers.peek());
  const TypeInfo* type = d.take_type();
  d.expect_no_more_modifiers();
  d.expect_operands(3, 3);
  if (type->bytes != 4 || (type->kind != 'u' && type->kind != 's' && type->kind != 'b')) d.fail("unsupported type");
  d.out.variant = operation;
  d.out.op[0] = d.destination(0, 4);
  d.out.op[1] = d.source(1, type);
  d.out.op[2] = d.source_bits(2, 4);
  d.out.run = type->kind == 's' ? run_groups<2, run_redux<int32_t>> : run_groups<2, run_redux<uint32_t>>;
}

// ---- activemask, elect ----

Step run_activemask(Warp& w, const Instruction& in, LaneMask exec) {
  write_lanes(w.reg<uint32_t>(in.op[0]), exec, [&](int) { return exec; });
  return Step::kNext;
}

void decode_activemask(Decoder& d) {
  if (!d.modifiers.take("b32")) d.fail("the type must be .b32");
  d.expect_operands(1, 1);
  d.out.op[0] = d.destination(0, 4);
  d.out.run = run_activemask;
}

Step run_elect(Warp& w, const Instruction& in, LaneMask exec) {
  // The choice is the implementation's; it must be the same for the same mask, so it does not come from the seed.
  uint32_t leader = static_cast<uint32_t>(__builtin_ctz(exec));
  write_lanes(w.reg<uint32_t>(in.op[0]), exec, [&](int) { return leader; });
  write_predicate(w.predicate(in.op[1]), exec, 1u << leader);
  return Step::kNext;
}

void decode_elect(Decoder& d) {
  if (!d.modifiers.take("sync")) d.fail("expected .sync");
  d.expect_no_more_modifiers();
  d.expect_operands(2, 2);
  const Operand& target = d.operand(0);
  if (target.kind != Operand::Kind::kPair) d.fail("expected d|p");
  d.out.op[0] = d.destination(target.children[0], 4);
  d.out.op[1] = d.predicate_destination(target.children[1]);
  d.out.op[2] = d.source_bits(1, 4);
  d.out.run = run_groups<2, run_elect>;
}

}  // namespace

const std::vector<OpcodeRow>& warp_opcodes() {
  static const std::vector<OpcodeRow> rows = {
      {"shfl", decode_shfl, "warp exchange", Effect::kDefines},
      {"vote", decode_vote, "warp exchange", Effect::kDefines},
      {"match", decode_match, "warp exchange", Effect::kDefines},
      {"redux", decode_redux, "warp exchange", Effect::kDefines},
      {"elect", decode_elect, "warp exchange"},
      {"activemask", decode_activemask, "warp exchange", Effect::kDefines},
  };
  return rows;
}

}  // namespace simulator
}  // namespace tilelang
