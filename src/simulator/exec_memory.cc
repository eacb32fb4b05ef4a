// ld and st (PTX ISA, "Data Movement and Conversion Instructions: ld, st") and cache hints.
#include <algorithm>

#include "exec_remote.h"
#include "function_decoder.h"
#include "lanes.h"
#include "memory.h"
#include "memory_operands.h"
#include "prefetcher.h"
#include "race.h"

namespace tilelang {
namespace simulator {
namespace {

constexpr int kWidest = 32;  // bytes of an access

struct MemorySpec {
  MemoryOrder order;
  Space space = Space::kGeneric;
  Address address;
  uint8_t element = 4;  // bytes
  uint8_t count = 1;    // vector elements
  uint8_t used = 0;     // of a load: bytes up to the last one that something reads
  uint8_t width = 4;    // register bytes
  bool sign = false;    // sign-extend into wider registers
};

template <class R, class E, uint32_t kCount>
void load_run(Warp& w, const Instruction& in, const uint8_t* memory) {
  R* d[kCount];
  for (uint32_t e = 0; e < kCount; ++e) d[e] = w.reg<R>(in.list[e]);
  E values[kLanes * kCount];
  std::memcpy(values, memory, sizeof values);
  for (uint32_t e = 0; e < kCount; ++e) {
    for (uint32_t l = 0; l < kLanes; ++l) d[e][l] = static_cast<R>(values[l * kCount + e]);
  }
}

template <class R, class E, uint32_t kCount>
void store_run(Warp& w, const Instruction& in, uint8_t* memory) {
  E values[kLanes * kCount];
  for (uint32_t e = 0; e < kCount; ++e) {
    const R* s = w.reg<R>(in.list[e]);
    for (uint32_t l = 0; l < kLanes; ++l) values[l * kCount + e] = static_cast<E>(s[l]);
  }
  std::memcpy(memory, values, sizeof values);
}

/// Moves what the lanes have one after the other in memory; of up to four elements a lane.
template <class R, class E>
void load_runs(Warp& w, const Instruction& in, uint8_t* memory, uint32_t count) {
  (count == 1 ? load_run<R, E, 1> : count == 2 ? load_run<R, E, 2> : load_run<R, E, 4>)(w, in, memory);
}

template <class R, class E>
void store_runs(Warp& w, const Instruction& in, uint8_t* memory, uint32_t count) {
  (count == 1 ? store_run<R, E, 1> : count == 2 ? store_run<R, E, 2> : store_run<R, E, 4>)(w, in, memory);
}

/// for_lanes, with a loop of known length where it can.
template <class F>
void for_many_lanes(LaneMask lanes, F&& f) {
  if (lanes != kAllLanes) return for_lanes(lanes, f);
  for (int l = 0; l < kLanes; ++l) f(l);
}

template <class R, class E>
void load_elements(Warp& w, const Instruction& in, uint8_t* const* pointers, LaneMask lanes, uint32_t count) {
  for (uint32_t e = 0; e < count; ++e) {
    R* d = w.reg<R>(in.list[e]);
    for_many_lanes(lanes, [&](int l) {
      E value;
      std::memcpy(&value, pointers[l] + e * sizeof(E), sizeof(E));
      d[l] = static_cast<R>(value);
    });
  }
}

template <class R, class E>
void store_elements(Warp& w, const Instruction& in, uint8_t* const* pointers, LaneMask lanes, uint32_t count) {
  for (uint32_t e = 0; e < count; ++e) {
    const R* s = w.reg<R>(in.list[e]);
    for_many_lanes(lanes, [&](int l) {
      E value = static_cast<E>(s[l]);
      std::memcpy(pointers[l] + e * sizeof(E), &value, sizeof(E));
    });
  }
}

struct Wide {
  uint64_t low, high;
};

/// How an access moves its elements between memory and registers.
struct ElementMover {
  void (*lanes)(Warp&, const Instruction&, uint8_t* const*, LaneMask, uint32_t) = nullptr;
  void (*run)(Warp&, const Instruction&, uint8_t*, uint32_t) = nullptr;
};

template <class R, class E>
constexpr ElementMover kLoader = {load_elements<R, E>, load_runs<R, E>};
template <class R, class E>
constexpr ElementMover kStorer = {store_elements<R, E>, store_runs<R, E>};

/// Mover for element bytes, register bytes and signedness.
ElementMover find_loader(const MemorySpec& s) {
  switch (s.element) {
    case 1:
      if (s.width == 1) return kLoader<uint8_t, uint8_t>;
      if (s.width == 2) return s.sign ? kLoader<int16_t, int8_t> : kLoader<uint16_t, uint8_t>;
      if (s.width == 4) return s.sign ? kLoader<int32_t, int8_t> : kLoader<uint32_t, uint8_t>;
      return s.sign ? kLoader<int64_t, int8_t> : kLoader<uint64_t, uint8_t>;
    case 2:
      if (s.width == 2) return kLoader<uint16_t, uint16_t>;
      if (s.width == 4) return s.sign ? kLoader<int32_t, int16_t> : kLoader<uint32_t, uint16_t>;
      return s.sign ? kLoader<int64_t, int16_t> : kLoader<uint64_t, uint16_t>;
    case 4:
      if (s.width == 4) return kLoader<uint32_t, uint32_t>;
      return s.sign ? kLoader<int64_t, int32_t> : kLoader<uint64_t, uint32_t>;
    case 8:
      return kLoader<uint64_t, uint64_t>;
    default:
      return kLoader<Wide, Wide>;
  }
}

ElementMover find_storer(const MemorySpec& s) {
  switch (s.element) {
    case 1:
      if (s.width == 1) return kStorer<uint8_t, uint8_t>;
      if (s.width == 2) return kStorer<uint16_t, uint8_t>;
      if (s.width == 4) return kStorer<uint32_t, uint8_t>;
      return kStorer<uint64_t, uint8_t>;
    case 2:
      if (s.width == 2) return kStorer<uint16_t, uint16_t>;
      if (s.width == 4) return kStorer<uint32_t, uint16_t>;
      return kStorer<uint64_t, uint16_t>;
    case 4:
      if (s.width == 4) return kStorer<uint32_t, uint32_t>;
      return kStorer<uint64_t, uint32_t>;
    case 8:
      return kStorer<uint64_t, uint64_t>;
    default:
      return kStorer<Wide, Wide>;
  }
}

struct Access {
  MemorySpec spec;
  ElementMover move;
};

void poison_lanes(Warp& w, const Instruction& in, const MemorySpec& s, LaneMask lanes) {
  for_lanes(lanes, [&](int l) {
    for (uint32_t e = 0; e < s.count; ++e)
      std::memset(w.frame + in.list[e] + static_cast<uint32_t>(l) * s.width, kPoison, s.width);
  });
}

/// What the first lane of a strong load has read, from its registers.
Poll poll_of(Warp& w, const Instruction& in, const uint64_t* addresses, LaneMask lanes, const MemorySpec& s) {
  auto lane = static_cast<uint32_t>(__builtin_ctz(lanes));
  Poll poll{in.pc, addresses[lane], 0};
  std::memcpy(&poll.value, w.frame + in.list[0] + lane * s.width, std::min<size_t>(s.width, sizeof poll.value));
  return poll;
}

/// Host memory of a plain access by all lanes to consecutive memory; null for others, which are made lane by lane.
uint8_t* find_run(Warp& w, const Instruction& in, const MemorySpec& s, const uint64_t* addresses, LaneMask exec,
                  AccessKind kind) {
  constexpr uint8_t kMostElements = 4;
  const uint32_t bytes = static_cast<uint32_t>(s.element) * s.count;
  if (exec != kAllLanes || s.order.strong || s.count > kMostElements || !is_run(addresses, bytes)) return nullptr;
  uint8_t* memory = access_run(w, in, s.space, addresses[0], bytes, kind);
  if (memory && s.space != Space::kShared) w.prefetcher->accessed(in.pc, w.index, memory, bytes * kLanes);
  return memory;
}

Step run_load(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& access = *static_cast<const Access*>(in.extra);
  const MemorySpec& s = access.spec;
  uint64_t addresses[kLanes];
  uint8_t* pointers[kLanes];
  lane_addresses(w, s.address, addresses);
  uint32_t bytes = static_cast<uint32_t>(s.element) * s.count;
  AccessKind kind = s.order.strong ? AccessKind::kStrongRead : AccessKind::kRead;
  if (uint8_t* memory = find_run(w, in, s, addresses, exec, kind)) {
    if (w.counting) count_access(w, in, s.space, addresses, exec, bytes, false);
    access.move.run(w, in, memory, s.count);
    return Step::kNext;
  }
  LaneMask good = access_lanes(w, in, s.space, addresses, exec, bytes, kind, pointers);
  if (w.counting) count_access(w, in, s.space, addresses, exec, bytes, false);
  access.move.lanes(w, in, pointers, good, s.count);
  // After the data: another worker's release may come in between, and must not be missed when its data was seen.
  if (s.order.strong) synchronise(w, s.space, addresses, good, s.order, true, false);
  if (good != exec) poison_lanes(w, in, s, exec & ~good);
  return s.order.strong && good ? w.polled(poll_of(w, in, addresses, good, s)) : Step::kNext;
}

/// A vector load whose last bytes nothing reads: a compiler made one access of fewer (three floats become .v4). Memory is
/// allocated in larger units than that, so the unused bytes are neither checked nor touched.
Step run_load_partly(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& access = *static_cast<const Access*>(in.extra);
  const MemorySpec& s = access.spec;
  uint64_t addresses[kLanes];
  uint8_t* pointers[kLanes];
  alignas(16) uint8_t values[kLanes][kWidest];
  lane_addresses(w, s.address, addresses);
  const uint32_t bytes = static_cast<uint32_t>(s.element) * s.count;
  if (w.counting) count_access(w, in, s.space, addresses, exec, bytes, false);
  LaneMask good = 0;
  std::memset(values, kPoison, sizeof values);
  for_lanes(exec, [&](int l) {
    const uint8_t* memory = access_aligned(w, in, l, s.space, addresses[l], s.used, bytes, AccessKind::kRead);
    if (!memory) return;
    std::memcpy(values[l], memory, s.used);
    pointers[l] = values[l];
    good |= 1u << l;
  });
  access.move.lanes(w, in, pointers, good, s.count);
  if (good != exec) poison_lanes(w, in, s, exec & ~good);
  return Step::kNext;
}

/// Lanes that need a closer look one after the other, so that a race of two lanes of this store that write the same value
/// is none.
void store_checked(Warp& w, const Instruction& in, const Access& access, const uint64_t* addresses, LaneMask exec,
                   AccessKind kind, StoreUnderWay& under_way) {
  const MemorySpec& s = access.spec;
  uint32_t bytes = static_cast<uint32_t>(s.element) * s.count;
  uint8_t* pointers[kLanes];
  const LaneMask clean = access_clean_lanes(w, in, s.space, addresses, exec, bytes, kind, pointers);
  access.move.lanes(w, in, pointers, clean, s.count);
  for_lanes(exec & ~clean, [&](int l) {
    alignas(16) uint8_t value[kWidest];
    pointers[l] = value;
    access.move.lanes(w, in, pointers, 1u << l, s.count);
    const auto is_present = [&] {
      const uint8_t* present = peek(w, s.space, addresses[l], bytes);
      return present && std::memcmp(present, value, bytes) == 0;
    };
    w.same_value = is_present();
    if (!w.same_value && s.space != Space::kShared) {
      under_way.await_others();
      w.same_value = is_present();
    }
    LaneMask good = access_lanes(w, in, s.space, addresses, 1u << l, bytes, kind, pointers);
    w.same_value = false;
    if (good) access.move.lanes(w, in, pointers, good, s.count);
  });
}

Step run_store(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& access = *static_cast<const Access*>(in.extra);
  const MemorySpec& s = access.spec;
  uint64_t addresses[kLanes];
  uint8_t* pointers[kLanes];
  lane_addresses(w, s.address, addresses);
  uint32_t bytes = static_cast<uint32_t>(s.element) * s.count;
  AccessKind kind = s.order.strong ? AccessKind::kStrongWrite : AccessKind::kWrite;
  ++w.cluster().progress;
  if (w.counting) count_access(w, in, s.space, addresses, exec, bytes, true);
  const bool local = s.space == Space::kShared || !w.cluster().race;
  StoreUnderWay under_way(local ? nullptr : w.cluster().race->stores());
  if (uint8_t* memory = find_run(w, in, s, addresses, exec, kind)) {
    access.move.run(w, in, memory, s.count);
    return Step::kNext;
  }
  if (s.order.strong) synchronise(w, s.space, addresses, exec, s.order, false, true);
  if (w.cluster().race) {
    store_checked(w, in, access, addresses, exec, kind, under_way);
    return Step::kNext;
  }
  LaneMask good = access_lanes(w, in, s.space, addresses, exec, bytes, kind, pointers);
  access.move.lanes(w, in, pointers, good, s.count);
  return Step::kNext;
}

template <class T>
void spread_lane(Warp& w, uint32_t offset, int lane, LaneMask exec) {
  T* registers = w.reg<T>(offset);
  const T value = registers[lane];
  write_lanes(registers, exec, [&](int) { return value; });
}

/// Kernel parameters: one value for all lanes at a known place.
Step run_load_param(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& access = *static_cast<const Access*>(in.extra);
  const MemorySpec& s = access.spec;
  const int lane = __builtin_ctz(exec);
  uint8_t* pointers[kLanes];
  pointers[lane] = const_cast<uint8_t*>(w.launch().parameters.data()) + in.immediate;
  access.move.lanes(w, in, pointers, 1u << lane, s.count);
  for (uint32_t e = 0; e < s.count; ++e) {
    (s.width == 8   ? spread_lane<uint64_t>
     : s.width == 4 ? spread_lane<uint32_t>
     : s.width == 2 ? spread_lane<uint16_t>
     : s.width == 1 ? spread_lane<uint8_t>
                    : spread_lane<Wide>)(w, in.list[e], lane, exec);
  }
  return Step::kNext;
}

/// Parameters and results of device functions: per-lane areas of the frame. op[5] is the area, immediate the byte
/// offset in it, target its bytes per lane.
Step run_area(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& access = *static_cast<const Access*>(in.extra);
  uint8_t* pointers[kLanes];
  for (uint32_t l = 0; l < kLanes; ++l) pointers[l] = w.frame + in.op[5] + l * in.target + in.immediate;
  access.move.lanes(w, in, pointers, exec, access.spec.count);
  return Step::kNext;
}

void decode_param(Decoder& d, Access& access, const Symbol& symbol, int64_t offset, bool store) {
  int64_t bytes = static_cast<int64_t>(access.spec.element) * access.spec.count;
  if (offset < 0 || offset + bytes > symbol.bytes) d.fail("the access leaves the parameter");
  if (symbol.kind == Symbol::Kind::kParam) {
    if (store) d.fail("kernel parameters are read-only");
    d.out.immediate = static_cast<int64_t>(symbol.address) + offset;
    d.out.run = run_load_param;
    return;
  }
  d.out.op[5] = symbol.area;
  d.out.immediate = offset;
  d.out.target = symbol.bytes;
  d.out.run = run_area;
}

/// The symbol of [symbol + offset] when it is a parameter, else null.
const Symbol* parameter_symbol(Decoder& d, size_t index, int64_t* offset) {
  const Operand& operand = d.operand(index);
  if (operand.kind != Operand::Kind::kAddress || operand.children[0].kind != Operand::Kind::kSymbol) return nullptr;
  const Symbol* symbol = d.function().find_symbol(operand.children[0].name);
  if (!symbol || (symbol->kind != Symbol::Kind::kParam && symbol->kind != Symbol::Kind::kCallParam)) return nullptr;
  *offset = operand.children[0].integer;
  return symbol;
}

uint8_t take_vector(Decoder& d) {
  std::string vector = d.modifiers.take_any({"v2", "v4", "v8"});
  return vector.empty() ? 1 : static_cast<uint8_t>(vector[1] - '0');
}

void decode_elements(Decoder& d, MemorySpec& s, const TypeInfo* type, size_t index, bool store) {
  std::vector<Operand> items = d.elements(index);
  if (items.size() != s.count)
    d.fail("expected " + std::to_string(s.count) + " vector elements, found " + std::to_string(items.size()));
  std::vector<uint32_t> slots;
  for (size_t i = 0; i < items.size(); ++i) {
    uint32_t width;
    const bool read = items[i].kind == Operand::Kind::kRegister && !d.function().is_named_once(items[i].index);
    if (read) s.used = static_cast<uint8_t>(s.element * (i + 1));
    slots.push_back(store ? d.source_wide(items[i], type, &width) : d.destination_wide(items[i], type->bytes, &width));
    if (i > 0 && width != s.width) d.fail("vector elements must be registers of one width");
    s.width = static_cast<uint8_t>(width);
  }
  d.set_list(slots);
}

void decode_access(Decoder& d, bool store) {
  if (store && d.modifiers.take("async")) return decode_store_async(d);
  auto& access = d.attach<Access>();
  MemorySpec& s = access.spec;
  const MemoryPlace place = take_memory_place(d);
  s.order = place.order;
  s.space = place.space;
  take_cache_hints(d);
  if (!s.order.strong && !store) d.modifiers.take("nc");
  take_cache_hints(d);
  s.count = take_vector(d);
  const TypeInfo* type = d.take_type();
  d.expect_no_more_modifiers();
  d.expect_operands(2, 3);  // a cache policy may follow
  if (type->bytes == 0) d.fail("predicates cannot be in memory");
  s.element = type->bytes;
  s.sign = type->kind == 's';
  if (s.element * s.count > kWidest) d.fail("the vector is too wide");
  decode_elements(d, s, type, store ? 1 : 0, store);
  while (s.used && !(d.statement.used_bytes >> (s.used - 1) & 1)) --s.used;
  access.move = store ? find_storer(s) : find_loader(s);
  int64_t offset = 0;
  if (const Symbol* symbol = parameter_symbol(d, store ? 0 : 1, &offset))
    return decode_param(d, access, *symbol, offset, store);
  s.address = d.address(store ? 0 : 1);
  const bool partly = !store && !s.order.strong && s.used > 0 && s.used < s.element * s.count;
  d.out.run = store ? run_store : partly ? run_load_partly : run_load;
}

Step run_nothing(Warp&, const Instruction&, LaneMask) { return Step::kNext; }

/// prefetch, prefetchu, applypriority, discard: hints. The address must be well-formed.
void decode_hint(Decoder& d) {
  while (!d.modifiers.done()) d.modifiers.next();
  d.expect_operands(1, 3);
  d.address(0);
  d.out.run = run_nothing;
}

}  // namespace

const std::vector<OpcodeRow>& memory_opcodes() {
  static const std::vector<OpcodeRow> rows = {
      {"ld", [](Decoder& d) { decode_access(d, false); }, "load", Effect::kDefines},
      {"ldu", [](Decoder& d) { decode_access(d, false); }, "load", Effect::kDefines},
      {"st", [](Decoder& d) { decode_access(d, true); }, "store"},
      {"prefetch", decode_hint, "hint"},
      {"prefetchu", decode_hint, "hint"},
      {"applypriority", decode_hint, "hint"},
      {"discard", decode_hint, "hint"},
  };
  return rows;
}

}  // namespace simulator
}  // namespace tilelang
