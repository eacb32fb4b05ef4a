#include "shadow.h"

#include <new>

namespace tilelang {
namespace simulator {
namespace {

/// Memory of discarded pages, by size, that the thread's next ones take.
class PageStore {
 public:
  static void* take(uint32_t kind, size_t bytes) {
    std::vector<void*>& list = lists().of[kind];
    if (list.empty()) return ::operator new(bytes);
    void* page = list.back();
    list.pop_back();
    return page;
  }

  static void give(uint32_t kind, void* page) {
    std::vector<void*>& list = lists().of[kind];
    if (list.size() == kMost) return ::operator delete(page);
    list.push_back(page);
  }

 private:
  static constexpr size_t kMost = 1024;
  static constexpr size_t kKinds = 5;
  struct Lists {
    std::vector<void*> of[kKinds];
    ~Lists() {
      for (std::vector<void*>& list : of) {
        for (void* page : list) ::operator delete(page);
      }
    }
  };
  static Lists& lists() {
    thread_local Lists lists;
    return lists;
  }
};

}  // namespace

uint32_t ShadowSummaries::number(const ShadowCell& cell) {
  std::lock_guard<std::mutex> guard(mutex_);
  auto [found, is_new] = numbers_.try_emplace(cell.common(), static_cast<uint32_t>(cells_.size()));
  if (is_new) {
    cells_.push_back(cell);
    cells_.back().readers = 0;
  }
  return found->second;
}

ShadowCell ShadowSummaries::cell(uint32_t number) {
  std::lock_guard<std::mutex> guard(mutex_);
  return cells_[number];
}

uint32_t ShadowSummary::release_of(uint32_t stamp) const {
  if (stamp == 0) return 0;
  const auto release = std::lower_bound(releases_.begin(), releases_.end(), stamp);
  return release == releases_.end() ? ~0u : *release;
}

ShadowCell ShadowSummary::seen_by_others(const ShadowCell& cell) const {
  ShadowCell result = cell;
  if (cell.write_cluster == cluster) result.write.stamp = release_of(cell.write.stamp);
  if (cell.read_cluster == cluster) result.read.stamp = release_of(cell.read.stamp);
  return result;
}

uint32_t ShadowSummary::number(ShadowSummaries& summaries, const ShadowCell& cell) {
  for (const Known& known : known_) {
    if (known.used && known.cell.common() == cell.common()) return known.number;
  }
  Known& known = known_[next_++ % kKnown];
  known = {cell, summaries.number(cell), true};
  return known.number;
}

ShadowMemory::~ShadowMemory() {
  if (!words_) return;
  for (uint64_t page = 0; page < pages_; ++page) {
    if (words_[page] != 0 && !is_summary(words_[page])) discard(page_of(words_[page]));
  }
}

void ShadowMemory::resize(uint64_t bytes, ShadowSummaries* summaries) {
  bytes_ = bytes;
  pages_ = (bytes + kPageBytes - 1) / kPageBytes;
  summaries_ = summaries;
  if (pages_ == 0) return;
  words_.reset(static_cast<uint64_t*>(std::calloc(pages_, sizeof(uint64_t))));
  if (!words_) throw std::bad_alloc();
}

ShadowMemory::Page* ShadowMemory::make(uint32_t shift) {
  const uint32_t count = kPageBytes >> shift;
  Page* page = new (PageStore::take(shift, sizeof(Page) + count * sizeof(ShadowCell))) Page;
  page->shift = shift;
  std::uninitialized_default_construct_n(page->cells(), count);
  return page;
}

void ShadowMemory::discard(Page* page) { PageStore::give(page->shift, page); }

ShadowMemory::Page* ShadowMemory::fill(uint64_t number, uint32_t shift) {
  Page* page = make(shift);
  const uint64_t word = words_[number];
  if (word != 0) std::fill_n(page->cells(), page->count(), summaries_->cell(static_cast<uint32_t>(word >> 1)));
  words_[number] = reinterpret_cast<uint64_t>(page);
  return page;
}

void ShadowMemory::summarise(uint64_t number, ShadowSummary& summary) {
  const uint64_t word = words_[number];
  if (summaries_ == nullptr || word == 0 || is_summary(word)) return;
  Page* page = page_of(word);
  const ShadowCell* cells = page->cells();
  const uint64_t bytes = std::min<uint64_t>(kPageBytes, bytes_ - number * kPageBytes);
  const uint64_t count = (bytes + (1u << page->shift) - 1) >> page->shift;
  const auto is_own = [&](uint32_t other) { return other == 0 || other == summary.cluster; };
  const ShadowCell first = summary.seen_by_others(cells[0]);
  for (uint64_t i = 0; i < count; ++i) {
    if (!is_own(cells[i].write_cluster) || !is_own(cells[i].read_cluster)) return;
    if (i > 0 && summary.seen_by_others(cells[i]).common() != first.common()) return;
  }
  words_[number] = uint64_t{summary.number(*summaries_, first)} << 1 | 1;
  discard(page);
}

}  // namespace simulator
}  // namespace tilelang
