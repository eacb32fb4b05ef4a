// Registers to frame slots. PTX is in single-assignment style with thousands of registers; sharing slots keeps the
// frame of a warp in the first-level cache.
//
// Live ranges are intervals of statement numbers, widened conservatively: a register that is not plainly local to one
// basic block is live throughout every loop (region of a backward branch) its interval touches, and from the start of
// every divergence in which it begins: lanes that jump ahead may define it before others run the statements between.
#include <algorithm>

#include "decoder.h"
#include "function_decoder.h"

namespace tilelang {
namespace simulator {
namespace {

constexpr uint32_t kNever = 0xffffffffu;

struct Interval {
  uint32_t first = kNever;
  uint32_t last = 0;
  bool local = true;    // all uses in one basic block, after an unconditional definition
  bool pinned = false;  // an asynchronous operation may use the register later than the text says
};

struct Region {
  uint32_t first, last;
};

bool ends_block(const std::string& opcode) {
  return opcode == "bra" || opcode == "brx" || opcode == "ret" || opcode == "exit" || opcode == "trap";
}

class Allocator {
 public:
  explicit Allocator(const Function& function) : function_(function), intervals_(function.registers.size()) {}
  std::vector<uint32_t> run(uint32_t first_offset, uint32_t* end_offset);

 private:
  void find_blocks_and_loops();
  void scan();
  void touch(uint32_t reg, uint32_t at, bool defines, bool pin);
  void touch_operand(const Operand& operand, uint32_t at, bool defines, bool pin);
  void widen();
  void find_divergences();
  bool returns(uint32_t at) const;
  const Function& function_;
  std::vector<Interval> intervals_;
  std::vector<uint32_t> block_of_;
  std::vector<Region> loops_;
  std::vector<Region> jumps_;        // forward branches: from, to
  std::vector<Region> divergences_;  // a forward branch, and where the lanes that it parts are together again at the latest
};

void Allocator::find_blocks_and_loops() {
  size_t count = function_.statements.size();
  std::vector<bool> leader(count + 1, false);
  auto jump = [&](const std::string& label, uint32_t at) {
    auto found = function_.labels.find(label);
    if (found == function_.labels.end()) return;
    if (found->second <= at) {
      loops_.push_back({found->second, at});
    } else if (!returns(found->second)) {
      jumps_.push_back({at, found->second});
    }
  };
  for (const auto& label : function_.labels) leader[label.second] = true;
  for (uint32_t i = 0; i < count; ++i) {
    const Statement& statement = function_.statements[i];
    if (!ends_block(statement.opcode)) continue;
    leader[i + 1] = true;
    for (const Operand& operand : statement.operands) {
      if (operand.kind != Operand::Kind::kSymbol) continue;
      jump(operand.name, i);
      auto list = function_.branch_targets.find(operand.name);
      if (list == function_.branch_targets.end()) continue;
      for (const std::string& label : list->second) jump(label, i);
    }
  }
  block_of_.resize(count);
  uint32_t block = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (leader[i]) ++block;
    block_of_[i] = block;
  }
}

/// Whether the lanes that jump to a statement leave the function, so that nothing of theirs is live.
bool Allocator::returns(uint32_t at) const {
  return at >= function_.statements.size() || function_.statements[at].opcode == "ret" ||
         function_.statements[at].opcode == "exit";
}

void Allocator::find_divergences() {
  for (size_t k = 0; k < jumps_.size(); ++k) {
    Region region = jumps_[k];
    // Jumps are in textual order, so one pass over those inside the region finds how far it reaches.
    for (size_t inner = k; inner < jumps_.size() && jumps_[inner].first <= region.last; ++inner)
      region.last = std::max(region.last, jumps_[inner].last);
    if (divergences_.empty() || divergences_.back().last < region.first) {
      divergences_.push_back(region);
    } else {
      divergences_.back().last = std::max(divergences_.back().last, region.last);
    }
  }
}

void Allocator::touch(uint32_t reg, uint32_t at, bool defines, bool pin) {
  Interval& interval = intervals_[reg];
  if (interval.first == kNever) {
    interval.first = interval.last = at;
    interval.local = defines;
  } else {
    if (block_of_[interval.first] != block_of_[at]) interval.local = false;
    // Read by the statement that is said to define it first.
    if (interval.first == at && !defines) interval.local = false;
    interval.last = at;
  }
  interval.pinned |= pin;
}

void Allocator::touch_operand(const Operand& operand, uint32_t at, bool defines, bool pin) {
  if (operand.kind == Operand::Kind::kRegister) touch(operand.index, at, defines, pin);
  bool inner = defines && operand.kind != Operand::Kind::kAddress;
  for (const Operand& child : operand.children) touch_operand(child, at, inner, pin);
}

void Allocator::scan() {
  for (uint32_t i = 0; i < function_.statements.size(); ++i) {
    const Statement& statement = function_.statements[i];
    bool defines = statement.guard < 0 && effect_of(statement.opcode) != Effect::kOther;
    bool pin = statement.opcode == "wgmma";
    if (statement.guard >= 0) touch(static_cast<uint32_t>(statement.guard), i, false, pin);
    // Sources last: a register that is both makes its interval non-local.
    for (size_t k = 0; k < statement.operands.size(); ++k)
      touch_operand(statement.operands[k], i, defines && k == 0, pin);
  }
}

void Allocator::widen() {
  bool changed = true;
  while (changed) {
    changed = false;
    for (Interval& interval : intervals_) {
      if (interval.local || interval.first == kNever) continue;
      for (const Region& region : divergences_) {
        if (interval.first > region.first && interval.first < region.last && interval.last >= region.first)
          interval.first = region.first, changed = true;
      }
      for (const Region& loop : loops_) {
        if (interval.last < loop.first || interval.first > loop.last) continue;
        if (interval.first > loop.first) interval.first = loop.first, changed = true;
        if (interval.last < loop.last) interval.last = loop.last, changed = true;
      }
    }
  }
}

std::vector<uint32_t> Allocator::run(uint32_t first_offset, uint32_t* end_offset) {
  find_blocks_and_loops();
  find_divergences();
  scan();
  widen();
  std::vector<uint32_t> by_start;
  for (uint32_t reg = 0; reg < intervals_.size(); ++reg) {
    if (intervals_[reg].first != kNever) by_start.push_back(reg);
  }
  std::stable_sort(by_start.begin(), by_start.end(),
                   [&](uint32_t a, uint32_t b) { return intervals_[a].first < intervals_[b].first; });
  std::vector<uint32_t> slots(intervals_.size(), 0);
  // Bytes of a lane -> offsets. Registers of one type only share a slot: what a lane writes into it is its own part then,
  // while lanes that are elsewhere may still need theirs. (A predicate has a bit of each lane in its first bytes.)
  std::map<uint32_t, std::vector<uint32_t>> free;
  std::vector<std::pair<uint32_t, uint32_t>> active;  // min-heap of (last, register)
  auto later = [](const std::pair<uint32_t, uint32_t>& a, const std::pair<uint32_t, uint32_t>& b) { return a > b; };
  auto lane_bytes = [&](uint32_t reg) { return function_.registers[reg].type->bytes; };
  uint64_t end = first_offset;
  for (uint32_t reg : by_start) {
    while (!active.empty() && active.front().first < intervals_[reg].first) {
      uint32_t done = active.front().second;
      std::pop_heap(active.begin(), active.end(), later);
      active.pop_back();
      free[lane_bytes(done)].push_back(slots[done]);
    }
    auto& pool = free[lane_bytes(reg)];
    if (!pool.empty()) {
      slots[reg] = pool.back();
      pool.pop_back();
    } else {
      slots[reg] = static_cast<uint32_t>(end);
      end += std::max<uint32_t>(lane_bytes(reg) * kLanes, 64);
      if (end > (1u << 30)) throw ProgramError(function_.line, function_.name + " needs too many registers");
    }
    if (intervals_[reg].pinned) continue;
    active.emplace_back(intervals_[reg].last, reg);
    std::push_heap(active.begin(), active.end(), later);
  }
  *end_offset = static_cast<uint32_t>(end);
  return slots;
}

}  // namespace

std::vector<uint32_t> allocate_registers(const Function& function, uint32_t first_offset, uint32_t* end_offset) {
  return Allocator(function).run(first_offset, end_offset);
}

}  // namespace simulator
}  // namespace tilelang
