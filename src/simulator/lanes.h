// Loops over the lanes of a warp, written so that the compiler turns them into vector code.
#ifndef TILELANG_SIMULATOR_LANES_H_
#define TILELANG_SIMULATOR_LANES_H_

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "decoder.h"
#include "machine.h"

namespace tilelang {
namespace simulator {

/// d[lane] = f(lane) for the lanes in exec. f must be harmless for the others. Sources may be d itself, or apart from it.
template <class D, class F>
inline void write_lanes(D* d, LaneMask exec, F&& f) {
  if (exec == kAllLanes) {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC ivdep
#endif
    for (int lane = 0; lane < kLanes; ++lane) d[lane] = f(lane);
    return;
  }
  alignas(64) D values[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) values[lane] = f(lane);
  for (int lane = 0; lane < kLanes; ++lane) d[lane] = (exec >> lane & 1) ? values[lane] : d[lane];
}

/// The same, one lane at a time and only for lanes in exec: for costly f.
template <class D, class F>
inline void write_each(D* d, LaneMask exec, F&& f) {
  for_lanes(exec, [&](int lane) { d[lane] = f(lane); });
}

/// Mask of the lanes for which f(lane) is true.
template <class F>
inline LaneMask mask_lanes(F&& f) {
  alignas(32) uint8_t flags[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) flags[lane] = f(lane) ? 0xff : 0;
#if defined(__AVX2__)
  return static_cast<LaneMask>(_mm256_movemask_epi8(_mm256_load_si256(reinterpret_cast<const __m256i*>(flags))));
#else
  LaneMask mask = 0;
  for (int lane = 0; lane < kLanes; ++lane) mask |= static_cast<LaneMask>(flags[lane] & 1) << lane;
  return mask;
#endif
}

/// Sets the bits of exec in a predicate register.
inline void write_predicate(LaneMask& predicate, LaneMask exec, LaneMask value) {
  predicate = (predicate & ~exec) | (value & exec);
}

// Handlers of element-wise instructions: Op has the types D, S (destination, source) and static D apply(S...).

template <class Op>
Step run_unary(Warp& w, const Instruction& in, LaneMask exec) {
  const auto* a = w.reg<typename Op::S>(in.op[1]);
  write_lanes(w.reg<typename Op::D>(in.op[0]), exec, [&](int l) { return Op::apply(a[l]); });
  return Step::kNext;
}

template <class Op>
Step run_binary(Warp& w, const Instruction& in, LaneMask exec) {
  const auto* a = w.reg<typename Op::S>(in.op[1]);
  const auto* b = w.reg<typename Op::S>(in.op[2]);
  write_lanes(w.reg<typename Op::D>(in.op[0]), exec, [&](int l) { return Op::apply(a[l], b[l]); });
  return Step::kNext;
}

template <class Op>
Step run_ternary(Warp& w, const Instruction& in, LaneMask exec) {
  const auto* a = w.reg<typename Op::S>(in.op[1]);
  const auto* b = w.reg<typename Op::S>(in.op[2]);
  const auto* c = w.reg<typename Op::C>(in.op[3]);
  write_lanes(w.reg<typename Op::D>(in.op[0]), exec, [&](int l) { return Op::apply(a[l], b[l], c[l]); });
  return Step::kNext;
}

/// Decodes "d, a", "d, a, b" and "d, a, b, c" with these types into op[0..].
inline void decode_elementwise(Decoder& d, const TypeInfo* result, std::initializer_list<const TypeInfo*> sources) {
  d.expect_no_more_modifiers();
  d.expect_operands(1 + sources.size(), 1 + sources.size());
  d.out.op[0] = d.destination(0, result->bytes);
  size_t index = 1;
  for (const TypeInfo* type : sources) {
    d.out.op[index] = d.source(index, type);
    ++index;
  }
}

/// The handler for operands of 2, 4 or 8 bytes; null where the instruction has none.
inline Handler by_width(Decoder& d, const TypeInfo* type, Handler two, Handler four, Handler eight) {
  Handler handler = type->bytes == 2 ? two : type->bytes == 4 ? four : type->bytes == 8 ? eight : nullptr;
  if (handler == nullptr) d.fail("unsupported width");
  return handler;
}

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_LANES_H_
