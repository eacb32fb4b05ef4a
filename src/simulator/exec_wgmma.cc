// wgmma.fence, mma_async, commit_group and wait_group.
//
// An mma_async poisons its accumulator registers when it is issued; the sums are computed, from
// shared memory as it is then, when a warp of the warpgroup waits for the group. Accumulators of mma_asyncs
// in flight live in a tile beside the registers, so that instructions on the same registers chain.
#include "exec_wgmma.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "interpreter.h"
#include "memory.h"
#include "operands.h"
#include "race.h"
#include "warp_async.h"
#include "wgmma.h"

namespace tilelang {
namespace simulator {

namespace {

constexpr uint32_t kChunkBytes = 16;
constexpr int kMostRegisters = 128;  // accumulators of n = 256

struct WgmmaInstruction {
  Wgmma wgmma;
  std::vector<uint32_t> d, a;  // slots; `a` is empty when A is in shared memory
  uint32_t a_descriptor = 0, b_descriptor = 0;
  uint32_t metadata = 0;
  uint32_t scale_d = 0;  // predicate slot
  bool scale_d_negated = false;
};

using RegisterList = std::vector<uint32_t>;  // byte offsets in the warp's register storage

// Accumulators between the first mma_async in flight on them and the last one that lands.
struct Accumulator {
  Wgmma wgmma;
  RegisterList registers;
  AccumulatorTile tile;
  int in_flight = 0;
  bool refused = false;  // an operand was out of bounds: the result is poison
};

// Where an operand lies in shared memory.
struct OperandMemory {
  uint64_t descriptor;
  OperandShape shape;
  int first;  // row
  std::vector<uint32_t> offsets;       // of its chunks
  std::vector<const uint8_t*> chunks;  // their host addresses; empty when some are not in the block's memory
  std::vector<ChunkRange> ranges;      // what the chunks cover, likewise

  bool is_of(uint64_t bits, const OperandShape& other, int row) const {
    return bits == descriptor && row == first && other == shape;
  }
};

using OperandMemoryRef = std::shared_ptr<const OperandMemory>;

class WgmmaOperation;

}  // namespace

struct WgmmaState {
  bool fenced = false;
  std::map<RegisterList, std::shared_ptr<Accumulator>> accumulators;  // in flight
  std::vector<WgmmaOperation*> order;                                 // issued and not computed, oldest first
  /// Of the latest descriptors: loops come back to them.
  static constexpr size_t kOperands = 64;
  std::vector<OperandMemoryRef> operands;
  size_t next_operand = 0;
  Agent issued;               // the latest mma_async
  std::vector<Agent> groups;  // the latest mma_async when each group was committed, for the race checker
  /// What the operand registers held at the last wgmma.fence, or when results landed in them.
  std::map<RegisterList, std::vector<uint32_t>> fenced_values;
};

namespace {

WgmmaState& state_of(Warp& warp) {
  WarpAsync& record = warp_async(warp);
  if (!record.wgmma) record.wgmma = std::make_shared<WgmmaState>();
  return *record.wgmma;
}

RegisterList absolute(const Warp& warp, const std::vector<uint32_t>& slots) {
  RegisterList list(slots);
  for (uint32_t& offset : list) offset += static_cast<uint32_t>(warp.frame - warp.registers);
  return list;
}

void locate(const Warp& warp, const RegisterList& list, uint32_t** registers) {
  for (size_t i = 0; i < list.size(); ++i) registers[i] = reinterpret_cast<uint32_t*>(warp.registers + list[i]);
}

std::vector<uint32_t> register_values(const Warp& warp, const RegisterList& list) {
  std::vector<uint32_t> values(list.size() * kLanes);
  for (size_t i = 0; i < list.size(); ++i) {
    std::memcpy(&values[i * kLanes], warp.registers + list[i], kLanes * sizeof(uint32_t));
  }
  return values;
}

// ---------------------------------------------------------------------------------------------
// In flight

class WgmmaOperation : public AsyncOperation {
 public:
  WgmmaOperation(Warp& warp, const Instruction& instruction, std::shared_ptr<Accumulator> accumulator)
      : warp_(warp), instruction_(instruction), state_(warp_async(warp).wgmma), accumulator_(std::move(accumulator)),
        decoded_(*static_cast<const WgmmaInstruction*>(instruction.extra)) {}

  ~WgmmaOperation() override {
    std::vector<WgmmaOperation*>& order = state_->order;
    order.erase(std::remove(order.begin(), order.end(), this), order.end());
  }

  void read(LaneMask) override {
    // The tensor core works in order: whatever was issued before is computed before.
    std::vector<WgmmaOperation*>& order = state_->order;
    while (!computed_) {
      order.front()->compute();
      order.erase(order.begin());
    }
  }

  void land(LaneMask lanes) override {
    read(lanes);
    if (--accumulator_->in_flight == 0) write_back();
    if (RaceChecker* race = warp_.cluster().race.get()) race->group_done(warp_, lanes, agent);
  }

  OperandMemoryRef a, b;  // in shared memory
  std::vector<uint32_t> a_values;  // RS: the registers at issue
  std::vector<uint32_t> metadata;
  bool accumulate = true;
  Agent agent;

 private:
  void compute() {
    computed_ = true;
    if (accumulator_->refused) return;
    const uint32_t* a_registers[kMostRegisters];
    for (size_t i = 0; i < decoded_.a.size(); ++i) a_registers[i] = &a_values[i * kLanes];
    WgmmaOperands operands;
    operands.a_registers = decoded_.a.empty() ? nullptr : a_registers;
    operands.a_chunks = a ? a->chunks.data() : nullptr;
    operands.b_chunks = b->chunks.data();
    operands.metadata = metadata.data();
    operands.accumulate = accumulate;
    if (!run_wgmma(decoded_.wgmma, operands, &accumulator_->tile) && warp_.checking(kCheckDescriptor)) {
      warp_.report(FindingKind::kDescriptor, instruction_, -1,
                   "the sparsity metadata has a group whose indices do not ascend");
    }
  }

  void write_back() {
    if (!accumulator_->refused) {
      uint32_t* registers[kMostRegisters];
      locate(warp_, accumulator_->registers, registers);
      store_accumulator_tile(accumulator_->wgmma, accumulator_->tile, registers);
    }
    if (warp_.checking(kCheckAsync)) {
      state_->fenced_values[accumulator_->registers] = register_values(warp_, accumulator_->registers);
    }
    state_->accumulators.erase(accumulator_->registers);
  }

  Warp& warp_;
  const Instruction& instruction_;
  std::shared_ptr<WgmmaState> state_;
  std::shared_ptr<Accumulator> accumulator_;
  const WgmmaInstruction& decoded_;
  bool computed_ = false;
};

// ---------------------------------------------------------------------------------------------
// Issue

void check_fence(Warp& warp, const Instruction& instruction, const RegisterList& list, const char* what) {
  if (!warp.checking(kCheckAsync)) return;
  WgmmaState& state = state_of(warp);
  if (!state.fenced) {
    warp.report(FindingKind::kAsync, instruction, -1, "no wgmma.fence before the first wgmma.mma_async");
    state.fenced = true;
  }
  std::vector<uint32_t> values = register_values(warp, list);
  const auto known = state.fenced_values.find(list);
  if (known != state.fenced_values.end() && known->second != values) {
    warp.report(FindingKind::kAsync, instruction, -1,
                std::string(what) + " registers were written after the last wgmma.fence");
  }
  state.fenced_values[list] = std::move(values);
}

bool overlaps(const RegisterList& a, const RegisterList& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](uint32_t offset) { return std::find(b.begin(), b.end(), offset) != b.end(); });
}

bool same_tile(const Wgmma& a, const Wgmma& b) { return a.n == b.n && a.d == b.d; }

// The tile that an mma_async adds to: one in flight on the same registers, or the registers' values.
std::shared_ptr<Accumulator> open_accumulator(Warp& warp, const Instruction& instruction,
                                              const WgmmaInstruction& decoded) {
  WgmmaState& state = state_of(warp);
  const RegisterList list = absolute(warp, decoded.d);
  const auto found = state.accumulators.find(list);
  if (found != state.accumulators.end() && same_tile(found->second->wgmma, decoded.wgmma)) return found->second;
  for (const auto& [other, accumulator] : state.accumulators) {
    if (!overlaps(list, other)) continue;
    warp.report(FindingKind::kAsync, instruction, -1,
                "the accumulators overlap those of a wgmma.mma_async of another shape that is in flight");
  }
  check_fence(warp, instruction, list, "accumulator");
  auto accumulator = std::make_shared<Accumulator>();
  accumulator->wgmma = decoded.wgmma;
  accumulator->registers = list;
  uint32_t* registers[kMostRegisters];
  locate(warp, list, registers);
  accumulator->tile = load_accumulator_tile(decoded.wgmma, registers);
  for (size_t i = 0; i < list.size(); ++i) std::memset(registers[i], kPoison, kLanes * sizeof(uint32_t));
  state.accumulators[list] = accumulator;
  return accumulator;
}

void capture_a_registers(Warp& warp, const Instruction& instruction, const WgmmaInstruction& decoded,
                         WgmmaOperation& operation) {
  const RegisterList list = absolute(warp, decoded.a);
  check_fence(warp, instruction, list, "operand A's");
  operation.a_values = register_values(warp, list);
}

// Ranges of memory that the chunks cover; neighbours are one.
std::vector<ChunkRange> covered_ranges(std::vector<uint32_t> offsets) {
  std::sort(offsets.begin(), offsets.end());
  std::vector<ChunkRange> ranges;
  for (uint32_t offset : offsets) {
    if (!ranges.empty() && offset <= ranges.back().offset + ranges.back().bytes) {
      ranges.back().bytes = offset + kChunkBytes - ranges.back().offset;
    } else {
      ranges.push_back({offset, kChunkBytes});
    }
  }
  return ranges;
}

// Host addresses, if all chunks lie in the block's memory.
void point_at_chunks(const Block& block, OperandMemory& memory) {
  uint32_t low = ~0u, high = 0, bits = 0;
  for (uint32_t offset : memory.offsets) {
    low = std::min(low, offset);
    high = std::max(high, offset);
    bits |= offset;
  }
  if (low < kSharedBase || high - kSharedBase + kChunkBytes > block.shared_bytes || bits % kChunkBytes) return;
  for (uint32_t offset : memory.offsets) memory.chunks.push_back(block.shared + (offset - kSharedBase));
  memory.ranges = covered_ranges(memory.offsets);
}

OperandMemoryRef find_operand(Warp& warp, uint64_t bits, const MatrixDescriptor& descriptor, const OperandShape& shape,
                              int first) {
  WgmmaState& state = state_of(warp);
  for (const OperandMemoryRef& known : state.operands) {
    if (known->is_of(bits, shape, first)) return known;
  }
  auto memory = std::make_shared<OperandMemory>();
  memory->descriptor = bits;
  memory->shape = shape;
  memory->first = first;
  memory->offsets = chunk_offsets(descriptor, shape, first);
  point_at_chunks(*warp.block, *memory);
  if (state.operands.size() < WgmmaState::kOperands) state.operands.emplace_back();
  state.operands[state.next_operand++ % WgmmaState::kOperands] = memory;
  return memory;
}

// Checks the operand's memory, 16 or 32 bytes at a time.
bool check_chunks(Warp& warp, const Instruction& instruction, Agent agent, const std::vector<uint32_t>& offsets) {
  const uint32_t window = own_shared_window(warp);
  for (size_t i = 0; i < offsets.size();) {
    // Neighbouring chunks often fill one aligned pair, in either order.
    const bool pair = i + 1 < offsets.size() && (offsets[i] ^ offsets[i + 1]) == kChunkBytes;
    const uint32_t first = pair ? std::min(offsets[i], offsets[i + 1]) : offsets[i];
    if (!access_async(warp, instruction, 0, agent, Space::kShared, window + first, pair ? 2 * kChunkBytes : kChunkBytes,
                      kChunkBytes, AccessKind::kRead)) {
      return false;
    }
    i += pair ? 2 : 1;
  }
  return true;
}

// Null when the operand is refused.
OperandMemoryRef locate_operand(Warp& warp, const Instruction& instruction, Agent agent, uint64_t bits,
                                OperandShape shape, int first, int majors, const char* name) {
  MatrixDescriptor descriptor;
  const bool clean = decode_descriptor(bits, &descriptor);
  if (warp.checking(kCheckDescriptor)) {
    const char* problem = clean ? check_descriptor(descriptor, shape) : "reserved bits are set";
    if (problem) {
      warp.report(FindingKind::kDescriptor, instruction, 0, std::string("the descriptor of ") + name + ": " + problem);
    }
  }
  shape.majors = majors;
  const OperandMemoryRef memory = find_operand(warp, bits, descriptor, shape, first);
  if (!memory->chunks.empty() && reads_clean_ranges(warp, instruction, agent, memory->ranges)) return memory;
  return check_chunks(warp, instruction, agent, memory->offsets) ? memory : nullptr;
}

bool locate_operands(Warp& warp, const Instruction& instruction, const WgmmaInstruction& decoded,
                     WgmmaOperation& operation) {
  const Wgmma& wgmma = decoded.wgmma;
  const int first_row = static_cast<int>(warp.index) % kWarpgroupWarps * kWarpRows;
  operation.b = locate_operand(warp, instruction, operation.agent, warp.reg<uint64_t>(decoded.b_descriptor)[0],
                               wgmma.b_shape(), 0, wgmma.n, "B");
  if (!decoded.a.empty()) return operation.b != nullptr;
  operation.a = locate_operand(warp, instruction, operation.agent, warp.reg<uint64_t>(decoded.a_descriptor)[0],
                               wgmma.a_shape(), first_row, kWarpRows, "A");
  return operation.a && operation.b;
}

bool in_warpgroup(Warp& warp, const Instruction& instruction) {
  const size_t last = warp.index / kWarpgroupWarps * kWarpgroupWarps + kWarpgroupWarps - 1;
  const bool complete = last < warp.block->warps.size() && warp.block->warps[last]->existing == kAllLanes;
  if (!complete) warp.report(FindingKind::kUsage, instruction, -1, "wgmma needs a warpgroup of four complete warps");
  return complete;
}

Step execute_mma_async(Warp& warp, const Instruction& instruction, LaneMask exec) {
  const auto& decoded = *static_cast<const WgmmaInstruction*>(instruction.extra);
  if (!in_warpgroup(warp, instruction)) return Step::kNext;
  const std::shared_ptr<Accumulator> accumulator = open_accumulator(warp, instruction, decoded);
  auto operation = std::make_unique<WgmmaOperation>(warp, instruction, accumulator);
  operation->agent = state_of(warp).issued = async_agent(warp, 0, AsyncDomain::kWgmma);
  if (!decoded.a.empty()) capture_a_registers(warp, instruction, decoded, *operation);
  if (decoded.wgmma.sparse) {
    const uint32_t* metadata = warp.reg<uint32_t>(decoded.metadata);
    operation->metadata.assign(metadata, metadata + kLanes);
  }
  operation->accumulate = ((warp.predicate(decoded.scale_d) & 1) != 0) != decoded.scale_d_negated;
  if (!locate_operands(warp, instruction, decoded, *operation)) accumulator->refused = true;
  ++accumulator->in_flight;
  state_of(warp).order.push_back(operation.get());
  const uint64_t depth = static_cast<uint64_t>(decoded.wgmma.k) * (decoded.wgmma.bits ? 8 : 1);
  count_tensor(warp, instruction, kWarpRows * decoded.wgmma.n * depth);
  warp.wgmma_groups.add(std::move(operation), exec);
  return Step::kNext;
}

Step execute_fence(Warp& warp, const Instruction&, LaneMask exec) {
  WgmmaState& state = state_of(warp);
  state.fenced = true;
  for (auto& [list, values] : state.fenced_values) {
    if (!state.accumulators.count(list)) values = register_values(warp, list);
  }
  warp_sync(warp, exec);
  return Step::kNext;
}

uint32_t first_of_warpgroup(const Warp& warp) { return warp.index / kWarpgroupWarps * kWarpgroupWarps; }

uint32_t committed_groups(const Warp& warp) { return warp.live ? warp.wgmma_groups.committed(__builtin_ctz(warp.live)) : 0; }

// The other warps of the warpgroup that have not exited.
std::vector<Warp*> rest_of_warpgroup(const Warp& warp) {
  std::vector<Warp*> rest;
  for (uint32_t i = first_of_warpgroup(warp); i < first_of_warpgroup(warp) + kWarpgroupWarps; ++i) {
    if (i >= warp.block->warps.size()) break;
    Warp* other = warp.block->warps[i].get();
    if (other != &warp && other->live) rest.push_back(other);
  }
  return rest;
}

Step execute_commit(Warp& warp, const Instruction&, LaneMask exec) {
  warp.wgmma_groups.commit(exec);
  if (warp.cluster().race) {
    WgmmaState& state = state_of(warp);
    state.groups.push_back(state.issued);
  }
  wake_warpgroup(*warp.block, first_of_warpgroup(warp));
  return Step::kNext;
}

// A wgmma-group is the warpgroup's (PTX ISA, wgmma.commit_group): where one warp has waited for it, the operands of all
// four have been read, so that one thread may hand a buffer back for the whole warpgroup. The results of the other
// warps stay poison until those wait themselves.
Step execute_wait(Warp& warp, const Instruction& instruction, LaneMask exec) {
  const auto allowed = static_cast<uint32_t>(instruction.immediate);
  const uint32_t committed = committed_groups(warp), due = committed - std::min(committed, allowed);
  const std::vector<Warp*> others = rest_of_warpgroup(warp);
  for (const Warp* other : others) {
    if (committed_groups(*other) < due) return warp.block_on(WaitKind::kWarpgroup, first_of_warpgroup(warp));
  }
  for (Warp* other : others) {
    other->wgmma_groups.wait_read(other->live, committed_groups(*other) - due, warp.random());
    RaceChecker* race = warp.cluster().race.get();
    if (race && due) race->group_done(warp, exec, state_of(*other).groups[due - 1]);
  }
  warp.wgmma_groups.wait(exec, allowed, warp.random());
  return Step::kNext;
}

// ---------------------------------------------------------------------------------------------
// Decoding

void take_shape(Decoder& d, Wgmma& wgmma) {
  const std::string shape = d.modifiers.next();
  int m = 0, end = 0;
  const bool read = std::sscanf(shape.c_str(), "m%dn%dk%d%n", &m, &wgmma.n, &wgmma.k, &end) == 3;
  if (!read || m != 64 || end != static_cast<int>(shape.size())) {
    d.fail("expected a shape such as .m64n128k16, got ." + shape);
  }
}

// True when operand `index` is a vector of registers rather than a descriptor.
bool is_fragment(Decoder& d, size_t index) { return d.operand(index).kind == Operand::Kind::kVector; }

std::vector<uint32_t> take_registers(Decoder& d, size_t index, bool destination, int count) {
  std::vector<uint32_t> slots = destination ? d.destination_vector(index, 4) : d.source_vector(index, 4);
  if (static_cast<int>(slots.size()) != count) {
    d.fail("operand " + std::to_string(index + 1) + " needs " + std::to_string(count) + " registers, got " +
           std::to_string(slots.size()));
  }
  return slots;
}

int take_sign(Decoder& d, size_t index) {
  const int64_t value = constant_between(d, index, -1, 1);
  if (value == 0) d.fail("an operand scale is 1 or -1");
  return static_cast<int>(value);
}

// scale-d, then for floats the signs of A and B, then for 16-bit types their transpositions.
void decode_scales(Decoder& d, WgmmaInstruction& decoded, size_t next) {
  Wgmma& wgmma = decoded.wgmma;
  decoded.scale_d = d.predicate(next++, &decoded.scale_d_negated);
  if (!wgmma.integer()) {
    wgmma.scale = take_sign(d, next) * take_sign(d, next + 1);
    next += 2;
  }
  if (storage_bits(wgmma.a) == 16) {
    if (decoded.a.empty()) wgmma.a_transposed = constant_between(d, next++, 0, 1) != 0;
    wgmma.b_transposed = constant_between(d, next++, 0, 1) != 0;
  }
  d.expect_operands(next, next);
}

// .b1.b1.and.popc reads 256 bits of depth, which are 32 bytes.
void take_operand_types(Decoder& d, Wgmma& wgmma) {
  wgmma.bits = d.modifiers.take("b1");
  if (!wgmma.bits) {
    wgmma.a = take_format(d);
    wgmma.b = take_format(d);
    return;
  }
  take_all(d, {"b1", "and", "popc"});
  if (wgmma.sparse || wgmma.saturate || wgmma.k != 256) d.fail("no such form of .b1");
  wgmma.a = wgmma.b = Format::kU8;
  wgmma.k /= 8;
}

void decode_mma_async(Decoder& d) {
  auto& decoded = d.attach<WgmmaInstruction>();
  Wgmma& wgmma = decoded.wgmma;
  wgmma.sparse = d.modifiers.take("sp");
  take_all(d, {"sync", "aligned"});
  take_shape(d, wgmma);
  wgmma.saturate = d.modifiers.take("satfinite");
  wgmma.d = take_format(d);
  take_operand_types(d, wgmma);
  d.expect_no_more_modifiers();
  if (const char* problem = check_wgmma(wgmma)) d.fail(problem);
  decoded.d = take_registers(d, 0, true, wgmma.d_registers());
  if (is_fragment(d, 1)) {
    decoded.a = take_registers(d, 1, false, wgmma.a_registers());
  } else {
    decoded.a_descriptor = d.source_bits(1, 8);
  }
  decoded.b_descriptor = d.source_bits(2, 8);
  size_t next = 3;
  if (wgmma.sparse) {
    decoded.metadata = d.source_bits(next++, 4);
    wgmma.selector = static_cast<int>(constant_between(d, next++, 0, 3));
  }
  decode_scales(d, decoded, next);
  if (const char* problem = check_wgmma(wgmma)) d.fail(problem);
  d.out.run = execute_mma_async;
}

void decode_simple(Decoder& d, Handler handler) {
  take_all(d, {"sync", "aligned"});
  d.expect_no_more_modifiers();
  d.expect_operands(0, 0);
  d.out.run = handler;
}

void decode_wait(Decoder& d) {
  take_all(d, {"sync", "aligned"});
  d.expect_no_more_modifiers();
  d.expect_operands(1, 1);
  d.out.immediate = constant_between(d, 0, 0, 7);
  d.out.run = execute_wait;
}

}  // namespace

void decode_wgmma(Decoder& d) {
  d.out.convergence = Convergence::kAligned;
  if (d.modifiers.take("fence")) return decode_simple(d, execute_fence);
  if (d.modifiers.take("commit_group")) return decode_simple(d, execute_commit);
  if (d.modifiers.take("wait_group")) return decode_wait(d);
  if (d.modifiers.take("mma_async")) return decode_mma_async(d);
  d.fail("unknown form of wgmma");
}

}  // namespace simulator
}  // namespace tilelang
