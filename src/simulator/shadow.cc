#include "shadow.h"

#include <new>

namespace tilelang {
namespace simulator {

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

ShadowMemory::~ShadowMemory() {
  if (!words_) return;
  for (uint64_t page = 0; page < pages_; ++page) {
    if (words_[page] != 0 && !is_summary(words_[page])) ::operator delete(page_of(words_[page]));
  }
}

void ShadowMemory::resize(uint64_t bytes, ShadowSummaries* summaries) {
  bytes_ = bytes;
  pages_ = (bytes + kPageBytes - 1) / kPageBytes;
  summaries_ = summaries;
  const size_t size = std::max<size_t>(pages_ * sizeof(uint64_t), 1);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  words_ = {static_cast<uint64_t*>(memory), Unmap{size}};
}

ShadowMemory::Page* ShadowMemory::make(uint32_t count) {
  Page* page = new (::operator new(sizeof(Page) + count * sizeof(ShadowCell))) Page;
  page->count = count;
  std::uninitialized_default_construct_n(page->cells(), count);
  return page;
}

ShadowMemory::Page* ShadowMemory::open(uint64_t number, bool narrow) {
  const uint64_t word = words_[number];
  Page* old = word != 0 && !is_summary(word) ? page_of(word) : nullptr;
  Page* page = make(narrow ? kPageBytes : kWide);
  if (old != nullptr) {
    page->cluster = old->cluster;
    for (uint32_t i = 0; i < kPageBytes; ++i) page->cells()[i] = old->cells()[i / kGranule];
    ::operator delete(old);
  } else if (word != 0) {
    std::fill_n(page->cells(), page->count, summaries_->cell(static_cast<uint32_t>(word >> 1)));
  }
  words_[number] = reinterpret_cast<uint64_t>(page);
  return page;
}

void ShadowMemory::summarise(uint64_t number, uint32_t cluster) {
  const uint64_t word = words_[number];
  if (summaries_ == nullptr || word == 0 || is_summary(word)) return;
  Page* page = page_of(word);
  const ShadowCell* cells = page->cells();
  const uint64_t bytes = std::min<uint64_t>(kPageBytes, bytes_ - number * kPageBytes);
  const uint32_t count = page->count == kPageBytes ? static_cast<uint32_t>(bytes) : static_cast<uint32_t>((bytes + kGranule - 1) / kGranule);
  auto is_own = [&](uint32_t other) { return other == 0 || other == cluster; };
  for (uint32_t i = 0; i < count; ++i) {
    if (!is_own(cells[i].write_cluster) || !is_own(cells[i].read_cluster) || cells[i].common() != cells[0].common()) return;
  }
  words_[number] = uint64_t{summaries_->number(cells[0])} << 1 | 1;
  ::operator delete(page);
}

}  // namespace simulator
}  // namespace tilelang
