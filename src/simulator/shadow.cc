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

uint32_t ShadowSummaries::number(const Pattern& pattern) {
  std::lock_guard<std::mutex> guard(mutex_);
  auto [found, is_new] = pattern_numbers_.try_emplace(pattern, static_cast<uint32_t>(patterns_.size()));
  if (is_new) patterns_.push_back(&found->first);
  return found->second;
}

const ShadowSummaries::Pattern& ShadowSummaries::pattern(uint32_t number) {
  std::lock_guard<std::mutex> guard(mutex_);
  return *patterns_[number];
}

uint32_t ShadowSummary::release_of(Agent agent) const {
  if (agent.stamp == 0) return 0;
  const auto tells_not = [&](const Release& release) { return !release.covers(agent); };
  const auto release = std::partition_point(releases_.begin(), releases_.end(), tells_not);
  return release == releases_.end() ? ~0u : release->stamp;
}

ShadowCell ShadowSummary::seen_by_others(const ShadowCell& cell) const {
  ShadowCell result = cell;
  if (cell.write_cluster == cluster) {
    result.write.stamp = release_of(cell.write);
    result.write_ended = true;
  }
  if (cell.read_cluster == cluster) {
    result.read.stamp = release_of(cell.read);
    result.read_ended = true;
  }
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
    if (is_page(words_[page])) discard(page_of(words_[page]));
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

/// log2 of the bytes of the largest cells, at most of 2^shift, that do not mix what is known.
uint32_t ShadowMemory::shift_within(uint64_t word, uint32_t shift) const {
  if (is_run(word)) return std::min(shift, run_of(word).cell_shift());
  if (!is_pattern(word)) return shift;
  const size_t count = summaries_->pattern(number_of(word)).size();
  return std::min(shift, static_cast<uint32_t>(__builtin_ctz(kPageBytes / static_cast<uint32_t>(count))));
}

ShadowMemory::Page* ShadowMemory::fill(uint64_t number, uint32_t shift) {
  const uint64_t word = words_[number];
  Page* page = make(shift_within(word, shift));
  if (is_run(word)) {
    const ShadowRun& run = run_of(word);
    const uint64_t start = (number - run.page) * kPageBytes;
    for (uint32_t i = 0; i < page->count(); ++i) page->cells()[i] = run.at(start + (i << page->shift));
  } else if (is_pattern(word)) {
    const ShadowSummaries::Pattern& pattern = summaries_->pattern(number_of(word));
    for (uint32_t i = 0; i < page->count(); ++i)
      page->cells()[i] = summaries_->cell(pattern[i * pattern.size() / page->count()]);
  } else if (word != 0) {
    std::fill_n(page->cells(), page->count(), summaries_->cell(number_of(word)));
  }
  words_[number] = reinterpret_cast<uint64_t>(page);
  return page;
}

void ShadowMemory::summarise(uint64_t number, ShadowSummary& summary) {
  const uint64_t word = words_[number];
  if (summaries_ == nullptr || !is_page(word)) return;
  Page* page = page_of(word);
  const ShadowCell* cells = page->cells();
  const uint64_t bytes = std::min<uint64_t>(kPageBytes, bytes_ - number * kPageBytes);
  const uint64_t count = (bytes + (1u << page->shift) - 1) >> page->shift;
  const auto is_own = [&](uint32_t other) { return other == 0 || other == summary.cluster; };
  for (uint64_t i = 0; i < count; ++i) {
    if (!is_own(cells[i].write_cluster) || !is_own(cells[i].read_cluster)) return;
  }
  ShadowSummaries::Pattern pattern(page->count());
  ShadowCell last;
  for (uint64_t i = 0; i < page->count(); ++i) {
    const ShadowCell seen = i < count ? summary.seen_by_others(cells[i]) : last;  // behind the end: like the last one
    pattern[i] = i > 0 && seen.common() == last.common() ? pattern[i - 1] : summary.number(*summaries_, seen);
    last = seen;
  }
  const bool alike = std::all_of(pattern.begin(), pattern.end(), [&](uint32_t cell) { return cell == pattern[0]; });
  words_[number] = alike ? word_of_cell(pattern[0]) : word_of_pattern(summaries_->number(pattern));
  discard(page);
}

ShadowSpan ShadowMemory::span(uint64_t first, uint64_t pages) const {
  ShadowSpan result;
  const uint64_t word = words_[first];
  for (uint64_t i = 1; i < pages; ++i) {
    if (words_[first + i] != word) return result;
  }
  if (is_run(word)) {
    const ShadowRun& run = run_of(word);
    result.alike = run.page == first && run.pages == pages;
    result.run = const_cast<ShadowRun*>(&run);
  } else if (!is_page(word) && !is_pattern(word)) {
    result.alike = true;
    if (word != 0) result.cell = summaries_->cell(number_of(word));
  }
  return result;
}

void ShadowMemory::place(const ShadowRun& run) {
  std::fill_n(words_.get() + run.page, run.pages, word_of(run));
}

void ShadowMemory::dissolve(const ShadowRun& run, ShadowSummary& summary) {
  const auto is_own = [&](uint32_t other) { return other == 0 || other == summary.cluster; };
  const bool own = is_own(run.cell.write_cluster) && is_own(run.cell.read_cluster);
  const ShadowCell first = summary.seen_by_others(run.cell);
  bool alike = own;  // unless a release tells of some lanes alone
  for (uint64_t offset = 0; alike && offset < run.pages * kPageBytes; offset += uint64_t{1} << run.lane_shift)
    alike = summary.seen_by_others(run.at(offset)).common() == first.common();
  const uint64_t word = alike ? word_of_cell(summary.number(*summaries_, first)) : 0;
  for (uint64_t page = run.page; page < run.page + run.pages; ++page) {
    if (words_[page] != word_of(run)) continue;
    if (alike) {
      words_[page] = word;
    } else {
      fill(page, run.cell_shift());
      if (own) summarise(page, summary);
    }
  }
}

}  // namespace simulator
}  // namespace tilelang
