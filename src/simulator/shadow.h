// Shadow memory of the race checker: what is known of the accesses to each piece of memory.
//
// Memory is cut in pages of 64 bytes. A page is empty, or open (a cell for every 4 bytes, or for every byte where narrow accesses
// have been), or summarised: all its cells are alike, and what they have in common is an entry of a table. A page is summarised
// when the cluster that touched it last has ended, so that the shadow of a tensor takes an eighth of it.
#ifndef TILELANG_SIMULATOR_SHADOW_H_
#define TILELANG_SIMULATOR_SHADOW_H_

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "async.h"

namespace tilelang {
namespace simulator {

/// What is known about the accesses of one granule.
struct ShadowCell {
  Agent write;
  Agent read;
  uint32_t write_cluster = 0;  // global memory only: cluster number + 1
  uint32_t read_cluster = 0;
  uint32_t readers = 0;  // index of further readers, 0: none
  uint32_t write_pc = 0;
  uint32_t read_pc = 0;
  bool write_atomic = false;
  bool read_atomic = false;

  /// All of it that matters to other clusters than those that made the accesses: not which thread it was.
  auto common() const {
    return std::tuple(write_cluster, read_cluster, write.stamp, read.stamp, write_pc, read_pc, write_atomic, read_atomic);
  }
};

/// What summarised pages have in common; each different cell once.
class ShadowSummaries {
 public:
  uint32_t number(const ShadowCell& cell);
  ShadowCell cell(uint32_t number);

 private:
  std::mutex mutex_;
  std::map<decltype(ShadowCell().common()), uint32_t> numbers_;
  std::vector<ShadowCell> cells_;
};

class ShadowMemory {
 public:
  static constexpr uint32_t kPageBytes = 64;
  ShadowMemory() = default;
  ShadowMemory(ShadowMemory&&) = default;
  ShadowMemory& operator=(ShadowMemory&&) = default;
  ~ShadowMemory();
  /// Without `summaries` no page is ever summarised.
  void resize(uint64_t bytes, ShadowSummaries* summaries = nullptr);
  /// Calls f(cell) for every granule of [offset, offset + bytes), and before that touched(page) for each of their pages that
  /// another cluster than this one touched last.
  template <class F, class Touched>
  void visit(uint64_t offset, uint32_t bytes, uint32_t cluster, F&& f, Touched&& touched);
  /// Summarises a page if no other cluster has to do with it.
  void summarise(uint64_t page, uint32_t cluster);

 private:
  static constexpr uint32_t kGranule = 4;
  static constexpr uint32_t kWide = kPageBytes / kGranule;
  struct Page {
    uint32_t cluster = 0;  // that touched it last
    uint32_t count = 0;    // of its cells
    ShadowCell* cells() { return reinterpret_cast<ShadowCell*>(this + 1); }
  };
  struct Unmap {
    size_t size = 0;
    void operator()(uint64_t* words) const { munmap(words, size); }
  };
  static bool is_summary(uint64_t word) { return (word & 1) != 0; }
  static Page* page_of(uint64_t word) { return reinterpret_cast<Page*>(word); }
  static Page* make(uint32_t count);
  /// The page, open and with a cell for every byte where `narrow`.
  Page* open(uint64_t page, bool narrow);
  uint64_t bytes_ = 0;
  uint64_t pages_ = 0;
  ShadowSummaries* summaries_ = nullptr;
  // Of each page: 0 while it is empty, its address, or the number of its summary times two plus one. Zero pages of the
  // operating system, which cost nothing until they are touched.
  std::unique_ptr<uint64_t[], Unmap> words_{nullptr, Unmap{}};
};

template <class F, class Touched>
void ShadowMemory::visit(uint64_t offset, uint32_t bytes, uint32_t cluster, F&& f, Touched&& touched) {
  const bool narrow = ((offset | bytes) & (kGranule - 1)) != 0;
  const uint64_t end = offset + bytes;
  while (offset < end) {
    const uint64_t number = offset / kPageBytes;
    if (number >= pages_) return;
    const uint64_t word = words_[number];
    const bool ready = word != 0 && !is_summary(word) && (!narrow || page_of(word)->count == kPageBytes);
    Page* page = ready ? page_of(word) : open(number, narrow);
    if (page->cluster != cluster) {
      page->cluster = cluster;
      touched(number);
    }
    const uint64_t stop = std::min(end, (number + 1) * kPageBytes);
    ShadowCell* cells = page->cells();
    if (page->count == kPageBytes) {
      for (; offset < stop; ++offset) f(cells[offset % kPageBytes]);
    } else {
      for (; offset < stop; offset += kGranule) f(cells[offset % kPageBytes / kGranule]);
    }
  }
}

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_SHADOW_H_
