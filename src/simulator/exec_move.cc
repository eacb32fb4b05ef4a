// mov, address conversion and small data movement (PTX ISA, "Data Movement and Conversion Instructions").
#include <algorithm>
#include <chrono>

#include "function_decoder.h"
#include "lanes.h"
#include "memory.h"

namespace tilelang {
namespace simulator {
namespace {

struct Wide {
  uint64_t low, high;
};

template <class T>
Step run_mov(Warp& w, const Instruction& in, LaneMask exec) {
  const T* a = w.reg<T>(in.op[1]);
  T* d = w.reg<T>(in.op[0]);
  if (exec == kAllLanes)
    std::memmove(d, a, sizeof(T) * kLanes);
  else
    write_lanes(d, exec, [&](int l) { return a[l]; });
  return Step::kNext;
}

Step run_mov_predicate(Warp& w, const Instruction& in, LaneMask exec) {
  write_predicate(w.predicate(in.op[0]), exec, w.predicate(in.op[1]) ^ (in.variant ? kAllLanes : 0));
  return Step::kNext;
}

/// The list holds the parts; variant their bytes; immediate 1: pack into op[0], 0: unpack op[1].
Step run_mov_vector(Warp& w, const Instruction& in, LaneMask exec) {
  const uint32_t part = in.variant;
  const uint32_t total = part * in.list_size;
  for_lanes(exec, [&](int l) {
    uint8_t value[16];
    uint32_t lane = static_cast<uint32_t>(l);
    if (in.immediate) {
      for (uint32_t i = 0; i < in.list_size; ++i)
        std::memcpy(value + i * part, w.frame + in.list[i] + lane * part, part);
      std::memcpy(w.frame + in.op[0] + lane * total, value, total);
    } else {
      std::memcpy(value, w.frame + in.op[1] + lane * total, total);
      for (uint32_t i = 0; i < in.list_size; ++i)
        std::memcpy(w.frame + in.list[i] + lane * part, value + i * part, part);
    }
  });
  return Step::kNext;
}

uint64_t read_clock(const Warp& w, int which) {
  // Clocks count warp instructions; the global timer counts real nanoseconds.
  uint64_t cycles = w.instructions + w.block->cluster->instructions;
  uint64_t time = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  switch (which) {
    case 2:
      return time;
    case 3:
      return cycles >> 32;
    case 4:
      return time >> 32;
    default:
      return cycles;
  }
}

template <class T>
Step run_clock(Warp& w, const Instruction& in, LaneMask exec) {
  T value = static_cast<T>(read_clock(w, in.variant));
  write_lanes(w.reg<T>(in.op[0]), exec, [&](int) { return value; });
  return Step::kNext;
}

Handler mov_handler(uint32_t bytes) {
  switch (bytes) {
    case 1:
      return run_mov<uint8_t>;
    case 2:
      return run_mov<uint16_t>;
    case 4:
      return run_mov<uint32_t>;
    case 8:
      return run_mov<uint64_t>;
    default:
      return run_mov<Wide>;
  }
}

void decode_mov_vector(Decoder& d, const TypeInfo* type, bool pack) {
  std::vector<Operand> parts = d.elements(pack ? 1 : 0);
  if (parts.size() < 2 || parts.size() > 8 || type->bytes % parts.size()) d.fail("bad number of vector elements");
  uint32_t part = static_cast<uint32_t>(type->bytes / parts.size());
  d.set_list(pack ? d.source_vector(1, part) : d.destination_vector(0, part));
  if (pack)
    d.out.op[0] = d.destination(0, type->bytes);
  else
    d.out.op[1] = d.source_bits(1, type->bytes);
  d.out.variant = static_cast<uint8_t>(part);
  d.out.immediate = pack;
  d.out.run = run_mov_vector;
}

bool decode_clock(Decoder& d, const TypeInfo* type) {
  const Operand& source = d.operand(1);
  if (source.kind != Operand::Kind::kSpecial) return false;
  int clock = -1;
  d.function().special_register(source.name, type->bytes, d.statement.line, &clock);
  if (clock < 0) return false;
  d.out.op[0] = d.destination(0, type->bytes);
  d.out.variant = static_cast<uint8_t>(clock);
  d.out.run = type->bytes == 8 ? run_clock<uint64_t> : run_clock<uint32_t>;
  return true;
}

void decode_mov(Decoder& d) {
  const TypeInfo* type = d.take_type();
  d.expect_no_more_modifiers();
  d.expect_operands(2, 2);
  if (type->kind == 'p') {
    bool negated;
    d.out.op[0] = d.predicate_destination(0);
    d.out.op[1] = d.predicate(1, &negated);
    d.out.variant = negated;
    d.out.run = run_mov_predicate;
    return;
  }
  if (d.operand(1).kind == Operand::Kind::kVector) return decode_mov_vector(d, type, true);
  if (d.operand(0).kind == Operand::Kind::kVector) return decode_mov_vector(d, type, false);
  if (decode_clock(d, type)) return;
  d.out.op[0] = d.destination(0, type->bytes);
  d.out.op[1] = d.source(1, type);
  d.out.run = mov_handler(type->bytes);
}

// ---- cvta, isspacep, mapa, getctarank ----

uint64_t window_of(Space space) {
  if (space == Space::kShared) return kSharedWindow;
  return space == Space::kLocal ? kLocalWindow : 0;
}

template <class T>
Step run_cvta(Warp& w, const Instruction& in, LaneMask exec) {
  const T* a = w.reg<T>(in.op[1]);
  T window = static_cast<T>(static_cast<uint64_t>(in.immediate));
  if (in.variant)
    write_lanes(w.reg<T>(in.op[0]), exec, [&](int l) { return static_cast<T>(a[l] & ~window); });
  else
    write_lanes(w.reg<T>(in.op[0]), exec, [&](int l) { return static_cast<T>(a[l] | window); });
  return Step::kNext;
}

Space take_window(Decoder& d) {
  if (d.modifiers.take("global") || d.modifiers.take("const")) return Space::kGlobal;
  if (d.modifiers.take("param") || d.modifiers.take("param::entry")) return Space::kGlobal;
  if (d.modifiers.take("local")) return Space::kLocal;
  if (!d.modifiers.take_any({"shared", "shared::cta", "shared::cluster"}).empty()) return Space::kShared;
  d.fail("a state space is missing");
}

void decode_cvta(Decoder& d) {
  bool to = d.modifiers.take("to");
  Space space = take_window(d);
  const TypeInfo* type = d.take_type();
  d.expect_no_more_modifiers();
  d.expect_operands(2, 2);
  if (type->bytes != 8) d.fail("only 64-bit addresses are supported");
  d.out.op[0] = d.destination(0, 8);
  d.out.op[1] = d.source_bits(1, 8);
  d.out.variant = to;
  d.out.immediate = static_cast<int64_t>(window_of(space));
  d.out.run = run_cvta<uint64_t>;
}

Step run_isspacep(Warp& w, const Instruction& in, LaneMask exec) {
  const uint64_t* a = w.reg<uint64_t>(in.op[1]);
  const Launch& launch = w.launch();
  auto in_params = [&](uint64_t p) { return launch.resolve_parameter(p) != p; };
  write_predicate(w.predicate(in.op[0]), exec, mask_lanes([&](int l) {
                    uint64_t plain;
                    Space space = classify(a[l], &plain);
                    switch (in.variant) {
                      case 0:
                        return space == Space::kGlobal && !in_params(a[l]);
                      case 1:
                        return space == Space::kShared && (plain >> kSharedRankShift) == w.block->rank;
                      case 2:
                        return space == Space::kShared;
                      case 3:
                        return space == Space::kLocal;
                      case 4:
                        return false;
                      default:
                        return in_params(a[l]);
                    }
                  }));
  return Step::kNext;
}

void decode_isspacep(Decoder& d) {
  static const char* const names[] = {"global", "shared", "shared::cluster", "local", "const", "param"};
  uint8_t which = 0;
  if (d.modifiers.take("shared::cta"))
    which = 1;
  else if (d.modifiers.take("param::entry"))
    which = 5;
  else {
    while (which < 6 && !d.modifiers.take(names[which])) ++which;
  }
  if (which == 6) d.fail("unknown state space");
  d.expect_no_more_modifiers();
  d.expect_operands(2, 2);
  d.out.op[0] = d.predicate_destination(0);
  d.out.op[1] = d.source_bits(1, 8);
  d.out.variant = which;
  d.out.run = run_isspacep;
}

template <class T>
Step run_mapa(Warp& w, const Instruction& in, LaneMask exec) {
  const T* a = w.reg<T>(in.op[1]);
  const uint32_t* rank = w.reg<uint32_t>(in.op[2]);
  uint32_t blocks = w.launch().blocks_per_cluster();
  T* d = w.reg<T>(in.op[0]);
  for_lanes(exec, [&](int l) {
    if (rank[l] >= blocks)
      w.report(FindingKind::kUsage, in, l,
               "block rank " + std::to_string(rank[l]) + " is not in the cluster of " + std::to_string(blocks));
    T cleared = a[l] & ~static_cast<T>(0xffu << kSharedRankShift);
    d[l] = cleared | static_cast<T>((rank[l] & 0xff) << kSharedRankShift);
  });
  return Step::kNext;
}

void decode_mapa(Decoder& d) {
  d.modifiers.take("shared::cluster");
  const TypeInfo* type = d.take_type();
  d.expect_no_more_modifiers();
  d.expect_operands(3, 3);
  d.out.op[0] = d.destination(0, type->bytes);
  d.out.op[1] = d.source(1, type);
  d.out.op[2] = d.source_bits(2, 4);
  if (type->bytes == 4)
    d.out.run = run_mapa<uint32_t>;
  else if (type->bytes == 8)
    d.out.run = run_mapa<uint64_t>;
  else
    d.fail("the type must be .u32 or .u64");
}

template <class T>
Step run_getctarank(Warp& w, const Instruction& in, LaneMask exec) {
  const T* a = w.reg<T>(in.op[1]);
  write_lanes(w.reg<uint32_t>(in.op[0]), exec, [&](int l) { return static_cast<uint32_t>(a[l]) >> kSharedRankShift; });
  return Step::kNext;
}

void decode_getctarank(Decoder& d) {
  d.modifiers.take("shared::cluster");
  const TypeInfo* type = d.take_type();
  d.expect_no_more_modifiers();
  d.expect_operands(2, 2);
  d.out.op[0] = d.destination(0, 4);
  d.out.op[1] = d.source(1, type);
  d.out.run = type->bytes == 8 ? run_getctarank<uint64_t> : run_getctarank<uint32_t>;
}

/// createpolicy: a cache policy has no meaning here; any value will do.
Step run_createpolicy(Warp& w, const Instruction& in, LaneMask exec) {
  write_lanes(w.reg<uint64_t>(in.op[0]), exec, [](int) { return uint64_t(0); });
  return Step::kNext;
}

void decode_createpolicy(Decoder& d) {
  if (d.statement.modifiers.empty() || (d.statement.modifiers[0] != "fractional" &&
                                        d.statement.modifiers[0] != "range" && d.statement.modifiers[0] != "cvt")) {
    d.fail("unknown form of this instruction");
  }
  d.out.op[0] = d.destination(0, 8);
  d.out.run = run_createpolicy;
}

}  // namespace

const std::vector<OpcodeRow>& move_opcodes() {
  static const std::vector<OpcodeRow> rows = {
      {"mov", decode_mov, "move", Effect::kComputes},
      {"cvta", decode_cvta, "move", Effect::kComputes},
      {"isspacep", decode_isspacep, "move", Effect::kDefines},
      {"mapa", decode_mapa, "move", Effect::kDefines},
      {"getctarank", decode_getctarank, "move", Effect::kDefines},
      {"createpolicy", decode_createpolicy, "move"},
  };
  return rows;
}

}  // namespace simulator
}  // namespace tilelang
