#include "findings.h"

#include <algorithm>
#include <tuple>

namespace tilelang {
namespace simulator {

const char* finding_name(FindingKind kind) {
  static const char* const names[] = {"out-of-bounds", "misaligned", "uninitialised", "race", "barrier", "deadlock",
                                      "descriptor",    "mbarrier",   "async",         "trap", "usage"};
  return names[static_cast<size_t>(kind)];
}

void FindingLog::add(Finding finding) {
  std::lock_guard<std::mutex> guard(mutex_);
  auto key = std::make_pair(static_cast<uint8_t>(finding.kind), finding.pc);
  auto [place, added] = findings_.emplace(key, finding);
  if (added) return;
  Finding& known = place->second;
  finding.occurrences = known.occurrences + 1;
  // Keep the earliest thread of the earliest block, so that reports do not depend on the order in which workers ran.
  auto rank = [](const Finding& f) {
    return std::make_tuple(f.block[2], f.block[1], f.block[0], f.thread[2], f.thread[1], f.thread[0]);
  };
  if (rank(finding) < rank(known))
    known = std::move(finding);
  else
    known.occurrences = finding.occurrences;
}

std::vector<Finding> FindingLog::sorted() const {
  std::lock_guard<std::mutex> guard(mutex_);
  std::vector<Finding> list;
  for (const auto& item : findings_) list.push_back(item.second);
  std::stable_sort(list.begin(), list.end(),
                   [](const Finding& a, const Finding& b) { return a.ptx_line < b.ptx_line; });
  return list;
}

bool FindingLog::empty() const {
  std::lock_guard<std::mutex> guard(mutex_);
  return findings_.empty();
}

}  // namespace simulator
}  // namespace tilelang
