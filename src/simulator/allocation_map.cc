// Look-ups among the ranges of host memory that a launch may touch, and how findings name places in them.
#include "allocation_map.h"

#include <algorithm>

namespace tilelang {
namespace simulator {

void AllocationMap::finish() {
  std::stable_sort(list_.begin(), list_.end(),
                   [](const Allocation& a, const Allocation& b) { return a.base < b.base; });
  std::vector<Allocation> merged;
  for (Allocation& item : list_) {
    if (item.bytes == 0) continue;
    if (!merged.empty() && item.base < merged.back().base + merged.back().bytes) {
      Allocation& last = merged.back();
      last.bytes = std::max(last.base + last.bytes, item.base + item.bytes) - last.base;
      last.read_only = last.read_only && item.read_only;
    } else {
      merged.push_back(std::move(item));
    }
  }
  list_ = std::move(merged);
}

int AllocationMap::search(uint64_t address, uint64_t bytes) const {
  auto after =
      std::upper_bound(list_.begin(), list_.end(), address, [](uint64_t a, const Allocation& b) { return a < b.base; });
  if (after == list_.begin()) return -1;
  auto item = after - 1;
  return contains(*item, address, bytes) ? static_cast<int>(item - list_.begin()) : -1;
}

std::string AllocationMap::describe(uint64_t address) const {
  const Allocation* best = nullptr;
  uint64_t distance = ~0ull;
  bool past = false;
  for (const Allocation& item : list_) {
    uint64_t end = item.base + item.bytes;
    uint64_t d = address < item.base ? item.base - address : address >= end ? address - end : 0;
    if (d >= distance) continue;
    best = &item;
    distance = d;
    past = address >= item.base;
  }
  if (!best || distance > (1ull << 32)) return "no argument points there";
  if (address >= best->base && address < best->base + best->bytes) {
    return std::to_string(best->base + best->bytes - address) + " bytes before the end of " + best->name + " (" +
           std::to_string(best->bytes) + " bytes)";
  }
  return std::to_string(distance) + (past ? " bytes past the end of " : " bytes before ") + best->name + " (" +
         std::to_string(best->bytes) + " bytes)";
}

std::string place_in(const AllocationMap& map, uint64_t address) {
  const int index = map.find(address, 1, 0);
  if (index < 0) return "an unknown place in global memory";
  const Allocation& item = map[static_cast<size_t>(index)];
  return "offset " + std::to_string(address - item.base) + " of " + item.name;
}

}  // namespace simulator
}  // namespace tilelang
