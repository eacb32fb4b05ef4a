// Basic blocks and the order in which the fragments of a diverged warp run.
//
// Of several fragments the one that is earliest in this order runs first, so that the others wait where they will
// meet it. The order is a reverse post-order in which the farther successor is visited first: a loop's exit comes after
// its body, a join after both arms. Any order would be correct; this one makes warps reconverge early.
#include <algorithm>

#include "function_decoder.h"

namespace tilelang {
namespace simulator {
namespace {

void mark_leaders(std::vector<Instruction>& code, uint32_t first, uint32_t last) {
  code[first].leader = true;
  for (uint32_t pc = first; pc < last; ++pc) {
    Instruction& instruction = code[pc];
    if (instruction.flow == Flow::kSequential) continue;
    if (pc + 1 < last) code[pc + 1].leader = true;
    if (instruction.flow == Flow::kBranch) code[instruction.target].leader = true;
    if (instruction.flow == Flow::kIndirect) {
      for (uint32_t i = 0; i < instruction.list_size; ++i) code[instruction.list[i]].leader = true;
    }
  }
}

struct BasicBlock {
  uint32_t first = 0;
  std::vector<uint32_t> successors;  // farthest last
};

std::vector<BasicBlock> build_blocks(const std::vector<Instruction>& code, uint32_t first, uint32_t last) {
  std::vector<BasicBlock> blocks;
  std::vector<uint32_t> block_of(last - first);
  for (uint32_t pc = first; pc < last; ++pc) {
    if (code[pc].leader) {
      blocks.emplace_back();
      blocks.back().first = pc;
    }
    block_of[pc - first] = static_cast<uint32_t>(blocks.size() - 1);
  }
  for (size_t b = 0; b < blocks.size(); ++b) {
    uint32_t end = b + 1 < blocks.size() ? blocks[b + 1].first : last;
    const Instruction& exit = code[end - 1];
    auto& successors = blocks[b].successors;
    if (exit.flow == Flow::kBranch) successors.push_back(block_of[exit.target - first]);
    if (exit.flow == Flow::kIndirect) {
      for (uint32_t i = 0; i < exit.list_size; ++i) successors.push_back(block_of[exit.list[i] - first]);
    }
    bool leaves = exit.flow == Flow::kBranch || exit.flow == Flow::kIndirect || exit.flow == Flow::kLeave;
    if (end < last && (exit.guarded || !leaves)) successors.push_back(static_cast<uint32_t>(b + 1));
    std::sort(successors.begin(), successors.end());
  }
  return blocks;
}

std::vector<uint32_t> reverse_post_order(const std::vector<BasicBlock>& blocks) {
  std::vector<uint32_t> order(blocks.size(), 0);
  std::vector<uint8_t> visited(blocks.size(), 0);
  std::vector<std::pair<uint32_t, size_t>> stack;  // block, successors not yet visited
  uint32_t next = static_cast<uint32_t>(blocks.size());
  for (uint32_t root = 0; root < blocks.size(); ++root) {
    if (visited[root]) continue;
    visited[root] = 1;
    stack.emplace_back(root, blocks[root].successors.size());
    while (!stack.empty()) {
      auto& [block, remaining] = stack.back();
      if (remaining == 0) {
        order[block] = next--;
        stack.pop_back();
        continue;
      }
      uint32_t successor = blocks[block].successors[--remaining];
      if (visited[successor]) continue;
      visited[successor] = 1;
      stack.emplace_back(successor, blocks[successor].successors.size());
    }
  }
  return order;
}

}  // namespace

void analyse_flow(Program& program, const DecodedFunction& function) {
  mark_leaders(program.code, function.first, function.last);
  auto blocks = build_blocks(program.code, function.first, function.last);
  auto order = reverse_post_order(blocks);
  for (size_t b = 0; b < blocks.size(); ++b) {
    uint32_t end = b + 1 < blocks.size() ? blocks[b + 1].first : function.last;
    for (uint32_t pc = blocks[b].first; pc < end; ++pc) program.code[pc].order = order[b];
  }
}

}  // namespace simulator
}  // namespace tilelang
