// atom and red (PTX ISA, "Parallel Synchronization ...: atom, red").
#include <algorithm>

#include "exec_remote.h"
#include "function_decoder.h"
#include "lanes.h"
#include "memory.h"
#include "memory_operands.h"
#include "numerics.h"

namespace tilelang {
namespace simulator {
namespace {

enum class Atomic : uint8_t { kAnd, kOr, kXor, kExchange, kCas, kAdd, kInc, kDec, kMin, kMax };
const char* const kAtomicNames[] = {"and", "or", "xor", "exch", "cas", "add", "inc", "dec", "min", "max"};

struct Wide {
  uint64_t low, high;
};

struct AtomicSpec {
  Atomic operation;
  MemoryOrder order;
  Space space = Space::kGeneric;
  Address address;
  const TypeInfo* type = nullptr;
  bool returns = false;  // atom
  uint8_t count = 1;     // elements of a vector form
  std::vector<uint32_t> result, value, compare;
  bool discards = false;  // nothing reads the result
};

template <class T>
uint64_t integer_result(Atomic operation, uint64_t old_bits, uint64_t value_bits) {
  T old = static_cast<T>(old_bits), value = static_cast<T>(value_bits);
  switch (operation) {
    case Atomic::kMin:
      return static_cast<uint64_t>(std::min(old, value));
    case Atomic::kMax:
      return static_cast<uint64_t>(std::max(old, value));
    case Atomic::kInc:
      return old >= value ? 0 : static_cast<uint64_t>(old) + 1;
    case Atomic::kDec:
      return old == 0 || old > value ? value_bits : static_cast<uint64_t>(old) - 1;
    default:
      return old_bits + value_bits;
  }
}

uint32_t half_result(Format format, Atomic operation, uint32_t old, uint32_t value) {
  auto a = static_cast<uint16_t>(old), b = static_cast<uint16_t>(value);
  if (operation == Atomic::kAdd) return half_add(format, a, b);
  MinMaxMode mode;
  mode.maximum = operation == Atomic::kMax;
  return half_minmax(format, a, b, mode);
}

uint64_t typed_result(const AtomicSpec& s, uint64_t old, uint64_t value) {
  const std::string name = s.type->name;
  if (name == "f32")
    return bits_from_float(float_from_bits(static_cast<uint32_t>(old)) + float_from_bits(static_cast<uint32_t>(value)));
  if (name == "f64") return bits_from_double(double_from_bits(old) + double_from_bits(value));
  Format format = name.rfind("bf16", 0) == 0 ? Format::kBF16 : Format::kF16;
  auto o = static_cast<uint32_t>(old), v = static_cast<uint32_t>(value);
  if (name == "f16" || name == "bf16") return half_result(format, s.operation, o, v);
  if (name == "f16x2" || name == "bf16x2")
    return half_result(format, s.operation, o, v) | half_result(format, s.operation, o >> 16, v >> 16) << 16;
  if (s.type->kind == 's')
    return s.type->bytes == 8 ? integer_result<int64_t>(s.operation, old, value)
                              : integer_result<int32_t>(s.operation, old, value);
  return s.type->bytes == 8 ? integer_result<uint64_t>(s.operation, old, value)
                            : integer_result<uint32_t>(s.operation, old, value);
}

uint64_t apply(const AtomicSpec& s, uint64_t old, uint64_t value, uint64_t compare) {
  switch (s.operation) {
    case Atomic::kAnd:
      return old & value;
    case Atomic::kOr:
      return old | value;
    case Atomic::kXor:
      return old ^ value;
    case Atomic::kExchange:
      return value;
    case Atomic::kCas:
      return old == compare ? value : old;
    default:
      return typed_result(s, old, value);
  }
}

/// Read-modify-write that is atomic for the other workers, too.
template <class T>
uint64_t exchange(const AtomicSpec& s, uint8_t* pointer, uint64_t value, uint64_t compare) {
  T* place = reinterpret_cast<T*>(pointer);
  T old = __atomic_load_n(place, __ATOMIC_SEQ_CST);
  while (true) {
    T next = static_cast<T>(apply(s, old, static_cast<T>(value), static_cast<T>(compare)));
    if (__atomic_compare_exchange_n(place, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return old;
  }
}

uint64_t exchange_bytes(const AtomicSpec& s, uint8_t* pointer, uint64_t value, uint64_t compare) {
  switch (s.type->bytes) {
    case 2:
      return exchange<uint16_t>(s, pointer, value, compare);
    case 4:
      return exchange<uint32_t>(s, pointer, value, compare);
    default:
      return exchange<uint64_t>(s, pointer, value, compare);
  }
}

uint64_t load_bits(Warp& w, uint32_t slot, int lane, uint32_t bytes) {
  uint64_t value = 0;
  std::memcpy(&value, w.frame + slot + static_cast<uint32_t>(lane) * bytes, bytes);
  return value;
}

void count_atomic(Warp& w, const Instruction& in, const AtomicSpec& s, const uint64_t* addresses, LaneMask exec) {
  if (w.counting) count_access(w, in, s.space, addresses, exec, static_cast<uint32_t>(s.type->bytes) * s.count, true);
}

/// A compare-and-swap that changes some bytes of a word touches those alone: how kernels update an element that is smaller than
/// any atomic operation. Where a neighbour has changed it fails, and is repeated.
LaneMask access_swapped(Warp& w, const Instruction& in, const uint64_t* addresses, LaneMask exec, uint8_t** pointers) {
  const auto& s = *static_cast<const AtomicSpec*>(in.extra);
  const uint32_t bytes = s.type->bytes;
  LaneMask good = 0;
  for_lanes(exec, [&](int l) {
    const uint64_t changes = load_bits(w, s.value[0], l, bytes) ^ load_bits(w, s.compare[0], l, bytes);
    const bool whole = changes == 0 || (addresses[l] & (bytes - 1)) != 0;
    const uint32_t first = whole ? 0 : static_cast<uint32_t>(__builtin_ctzll(changes)) / 8;
    const uint32_t end = whole ? bytes : 8 - static_cast<uint32_t>(__builtin_clzll(changes)) / 8;
    uint8_t* place = access_aligned(w, in, l, s.space, addresses[l] + first, end - first, whole ? bytes : 1, AccessKind::kAtomic);
    if (!place) return;
    pointers[l] = place - first;
    good |= 1u << l;
  });
  return good;
}

Step run_atomic(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& s = *static_cast<const AtomicSpec*>(in.extra);
  uint64_t addresses[kLanes];
  uint8_t* pointers[kLanes];
  lane_addresses(w, s.address, addresses);
  uint32_t bytes = static_cast<uint32_t>(s.type->bytes) * s.count;
  count_atomic(w, in, s, addresses, exec);
  const LaneMask good = s.operation == Atomic::kCas && s.count == 1
                            ? access_swapped(w, in, addresses, exec, pointers)
                            : access_lanes(w, in, s.space, addresses, exec, bytes, AccessKind::kAtomic, pointers);
  synchronise(w, s.space, addresses, good, s.order, false, true);
  bool changed = false;
  for_lanes(good, [&](int l) {
    for (uint32_t e = 0; e < s.count; ++e) {
      uint64_t value = load_bits(w, s.value[e], l, s.type->bytes);
      uint64_t compare = s.compare.empty() ? 0 : load_bits(w, s.compare[e], l, s.type->bytes);
      uint64_t old = exchange_bytes(s, pointers[l] + e * s.type->bytes, value, compare);
      changed |= apply(s, old, value, compare) != old;
      if (s.returns) std::memcpy(w.frame + s.result[e] + static_cast<uint32_t>(l) * s.type->bytes, &old, s.type->bytes);
    }
  });
  // Releases are published before the data changes, acquired after it was seen.
  if (s.returns) synchronise(w, s.space, addresses, good, s.order, true, false);
  if (changed) ++w.cluster().progress;
  if (changed || !s.returns || !good) return Step::kNext;
  int first = __builtin_ctz(good);
  return w.polled({in.pc, addresses[first], load_bits(w, s.result[0], first, s.type->bytes)});
}

/// The byte of a bitwise operation's operand that leaves a byte as it is.
uint8_t neutral_byte(Atomic operation) { return operation == Atomic::kAnd ? 0xff : 0; }

void combine_byte(Atomic operation, uint8_t* place, uint8_t value) {
  if (operation == Atomic::kAnd)
    __atomic_fetch_and(place, value, __ATOMIC_SEQ_CST);
  else if (operation == Atomic::kOr)
    __atomic_fetch_or(place, value, __ATOMIC_SEQ_CST);
  else
    __atomic_fetch_xor(place, value, __ATOMIC_SEQ_CST);
}

/// A bitwise operation whose result is not read touches only the bytes that its operand can change: how kernels store parts
/// of a word, also at the end of a tensor whose size is no multiple of it.
Step run_bitwise(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& s = *static_cast<const AtomicSpec*>(in.extra);
  uint64_t addresses[kLanes];
  lane_addresses(w, s.address, addresses);
  count_atomic(w, in, s, addresses, exec);
  LaneMask good = 0;
  const uint32_t bytes = s.type->bytes;
  for_lanes(exec, [&](int l) {
    uint8_t value[8];
    const uint64_t bits = load_bits(w, s.value[0], l, bytes);
    std::memcpy(value, &bits, sizeof bits);
    uint32_t first = 0, end = bytes;
    while (first < end && value[first] == neutral_byte(s.operation)) ++first;
    while (end > first && value[end - 1] == neutral_byte(s.operation)) --end;
    if (first == end) return;
    const bool aligned = (addresses[l] & (bytes - 1)) == 0;
    uint8_t* place = aligned ? access_aligned(w, in, l, s.space, addresses[l] + first, end - first, 1, AccessKind::kUpdate)
                             : access(w, in, l, s.space, addresses[l], bytes, AccessKind::kUpdate);
    if (!place || !aligned) return;
    good |= 1u << l;
    synchronise(w, s.space, addresses, 1u << l, s.order, false, true);
    for (uint32_t i = first; i < end; ++i) combine_byte(s.operation, place + (i - first), value[i]);
    if (s.operation == Atomic::kXor) return;  // it defines nothing
    for (uint8_t& byte : value) byte = s.operation == Atomic::kAnd ? ~byte : byte;
    define_bits(w.cluster(), place, value + first, end - first);
  });
  if (good) ++w.cluster().progress;
  return Step::kNext;
}

/// 128-bit exchange and compare-and-swap.
Step run_atomic_wide(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& s = *static_cast<const AtomicSpec*>(in.extra);
  uint64_t addresses[kLanes];
  uint8_t* pointers[kLanes];
  lane_addresses(w, s.address, addresses);
  count_atomic(w, in, s, addresses, exec);
  LaneMask good = access_lanes(w, in, s.space, addresses, exec, 16, AccessKind::kAtomic, pointers);
  synchronise(w, s.space, addresses, good, s.order, s.returns, true);
  ++w.cluster().progress;
  std::lock_guard<std::mutex> guard(w.launch().atomic_mutex);
  for_lanes(good, [&](int l) {
    Wide old, value = w.reg<Wide>(s.value[0])[l];
    std::memcpy(&old, pointers[l], 16);
    bool store = true;
    if (s.operation == Atomic::kCas) {
      const Wide& compare = w.reg<Wide>(s.compare[0])[l];
      store = old.low == compare.low && old.high == compare.high;
    }
    if (store) std::memcpy(pointers[l], &value, 16);
    if (s.returns) w.reg<Wide>(s.result[0])[l] = old;
  });
  return Step::kNext;
}

bool supported(const AtomicSpec& s) {
  const std::string name = s.type->name;
  bool is_float = name == "f32" || name == "f64";
  bool is_half = name == "f16" || name == "bf16" || name == "f16x2" || name == "bf16x2";
  switch (s.operation) {
    case Atomic::kAnd:
    case Atomic::kOr:
    case Atomic::kXor:
      return s.type->kind == 'b' && (s.type->bytes == 4 || s.type->bytes == 8);
    case Atomic::kExchange:
      return s.type->kind == 'b' && s.type->bytes >= 4;
    case Atomic::kCas:
      return s.type->kind == 'b' && s.type->bytes >= 2;
    case Atomic::kInc:
    case Atomic::kDec:
      return name == "u32";
    case Atomic::kAdd:
      return is_float || is_half || ((s.type->kind == 'u' || s.type->kind == 's') && s.type->bytes >= 4);
    default:
      return is_half || ((s.type->kind == 'u' || s.type->kind == 's') && s.type->bytes >= 4);
  }
}

void decode_atomic(Decoder& d, bool returns) {
  if (!returns && d.modifiers.take("async")) return decode_reduce_async(d);
  auto& s = d.attach<AtomicSpec>();
  s.returns = returns;
  const MemoryPlace place = take_memory_place(d);
  s.order = place.order;
  s.order.strong = true;
  s.space = place.space;
  uint8_t operation = 0;
  while (operation < 10 && !d.modifiers.take(kAtomicNames[operation])) ++operation;
  if (operation == 10) d.fail("unknown operation ." + d.modifiers.peek());
  s.operation = static_cast<Atomic>(operation);
  d.modifiers.take("noftz");
  take_cache_hints(d);
  std::string vector = d.modifiers.take_any({"v2", "v4", "v8"});
  s.count = vector.empty() ? 1 : static_cast<uint8_t>(vector[1] - '0');
  s.type = d.take_type();
  d.expect_no_more_modifiers();
  if (!supported(s)) d.fail("the operation does not have this type");
  if (s.count > 1 && s.type->bytes * s.count > 16) d.fail("the vector is too wide");
  size_t index = 0;
  const std::vector<Operand> results = returns ? d.elements(0) : std::vector<Operand>();
  if (returns) s.result = d.destination_vector(index++, s.type->bytes);
  s.address = d.address(index++);
  if (s.operation == Atomic::kCas) {
    s.compare.push_back(d.source(index++, s.type));
    s.value.push_back(d.source(index++, s.type));
  } else {
    for (const Operand& item : d.elements(index++)) s.value.push_back(d.source(item, s.type));
  }
  d.expect_operands(index, index + 1);
  if (s.value.size() != s.count || (returns && s.result.size() != s.count))
    d.fail("expected " + std::to_string(s.count) + " vector elements");
  s.discards = !returns || std::none_of(results.begin(), results.end(), [&](const Operand& item) {
    return item.kind == Operand::Kind::kRegister && !d.function().is_named_once(item.index);
  });
  const bool bitwise = s.operation == Atomic::kAnd || s.operation == Atomic::kOr || s.operation == Atomic::kXor;
  const bool parts = bitwise && s.discards && s.count == 1;
  d.out.run = s.type->bytes == 16 ? run_atomic_wide : parts ? run_bitwise : run_atomic;
}

}  // namespace

const std::vector<OpcodeRow>& atomic_opcodes() {
  static const std::vector<OpcodeRow> rows = {
      {"atom", [](Decoder& d) { decode_atomic(d, true); }, "atomic"},
      {"red", [](Decoder& d) { decode_atomic(d, false); }, "atomic"},
  };
  return rows;
}

}  // namespace simulator
}  // namespace tilelang
