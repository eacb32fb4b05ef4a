// Shadow memory of the race checker: what is known of the accesses to each piece of memory.
//
// Memory is cut in pages of 64 bytes. A page is
// - empty,
// - open: a cell for every 16 bytes, or for every 4 or every one where narrower accesses have been,
// - part of a run: the lanes of one warp accessed several pages one after the other, or
// - summarised: what its cells have in common with others is an entry of a table, the same one for all pages that are alike.
// A page is summarised when the cluster that touched it last has ended, so that the shadow of a tensor takes an eighth of it.
#ifndef TILELANG_SIMULATOR_SHADOW_H_
#define TILELANG_SIMULATOR_SHADOW_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "async.h"
#include "mbarrier.h"

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
  bool write_ended = false;  // by a cluster that has ended: the stamp is that of the release that tells of it
  bool read_ended = false;

  /// All of it that matters when the clusters that made the accesses have ended: not which thread it was.
  auto common() const {
    return std::tuple(write_cluster, read_cluster, write.stamp, read.stamp, write_pc, read_pc, write_atomic, read_atomic);
  }
};

/// What cells of summarised pages have in common, each different one once; and the pages whose cells differ, likewise.
class ShadowSummaries {
 public:
  using Pattern = std::vector<uint32_t>;  // numbers of a page's cells, which share it equally

  uint32_t number(const ShadowCell& cell);
  ShadowCell cell(uint32_t number);
  uint32_t number(const Pattern& pattern);
  const Pattern& pattern(uint32_t number);

 private:
  std::mutex mutex_;
  std::map<decltype(ShadowCell().common()), uint32_t> numbers_;
  std::vector<ShadowCell> cells_;
  std::map<Pattern, uint32_t> pattern_numbers_;
  std::vector<const Pattern*> patterns_;  // keys of the map
};

/// What a cluster has told others so far. A later release of the cluster tells of all that an earlier one does, which may hide a
/// race of those who have seen the later one alone.
struct Release {
  uint32_t stamp = 0;  // in the clock of the cluster, 0: none
  std::shared_ptr<const VectorClock> clock;

  bool covers(Agent earlier) const { return earlier.stamp <= (*clock)[earlier.id]; }
};

/// An ended cluster that leaves what others need to know of its accesses.
class ShadowSummary {
 public:
  /// `releases`: in order.
  ShadowSummary(uint32_t cluster, const std::vector<Release>& releases) : cluster(cluster), releases_(releases) {}
  /// The cell with each stamp of this cluster replaced by that of the first release that tells of it, or by the last stamp of
  /// all: others cannot tell the difference.
  ShadowCell seen_by_others(const ShadowCell& cell) const;
  /// Its number among the summaries; those asked for last are remembered.
  uint32_t number(ShadowSummaries& summaries, const ShadowCell& cell);

  const uint32_t cluster;

 private:
  uint32_t release_of(Agent agent) const;
  struct Known {
    ShadowCell cell;
    uint32_t number = 0;
    bool used = false;
  };
  static constexpr size_t kKnown = 8;
  const std::vector<Release>& releases_;
  Known known_[kKnown];
  size_t next_ = 0;
};

/// What the lanes of a warp, one after the other, did to whole pages that follow each other: one cell for all of them.
struct ShadowRun {
  ShadowCell cell;  // of the first lane; the agents of the others have the numbers after its agents'
  uint32_t cluster = 0;
  uint32_t lane_shift = 0;  // log2 of the bytes of each lane
  uint64_t page = 0;        // the first
  uint64_t pages = 0;
  /// log2 of the bytes of the largest cells that do not mix lanes.
  uint32_t cell_shift() const { return lane_shift >= 4 ? 4 : lane_shift >= 2 ? 2 : 0; }
  /// What is known of the granule so many bytes behind the start.
  ShadowCell at(uint64_t offset) const {
    ShadowCell result = cell;
    result.write.id += static_cast<uint32_t>(offset >> lane_shift);
    result.read.id += static_cast<uint32_t>(offset >> lane_shift);
    return result;
  }
};

/// What is known of pages that are alike: nothing, a summary, or a run that covers exactly them.
struct ShadowSpan {
  bool alike = false;
  ShadowRun* run = nullptr;  // null: `cell` holds for each granule
  ShadowCell cell;
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
  /// Calls f(cell) for every granule of [offset, offset + bytes). Before that it calls events.touched(page) for each of their pages
  /// that another cluster than this one touched last, and events.copied(cell) for each cell that is a copy of a coarser one.
  template <class F, class Events>
  void visit(uint64_t offset, uint32_t bytes, uint32_t cluster, F&& f, const Events& events);
  /// What is known of these pages, if they are alike.
  ShadowSpan span(uint64_t page, uint64_t pages) const;
  /// What is known of its pages is this from now on. The run must stay until it has been dissolved.
  void place(const ShadowRun& run);
  /// Summarises a page unless the last access to one of its cells was another cluster's.
  void summarise(uint64_t page, ShadowSummary& summary);
  /// Summarises the pages that are still of this run, or makes them pages of cells.
  void dissolve(const ShadowRun& run, ShadowSummary& summary);

 private:
  struct Page {
    uint32_t cluster = 0;  // that touched it last
    uint32_t shift = 0;    // log2 of the bytes of a cell
    uint32_t count() const { return kPageBytes >> shift; }
    ShadowCell* cells() { return reinterpret_cast<ShadowCell*>(this + 1); }
  };
  struct Free {
    void operator()(uint64_t* words) const { std::free(words); }
  };
  static bool is_pattern(uint64_t word) { return (word & 3) == 3; }
  static bool is_run(uint64_t word) { return (word & 3) == 2; }
  static bool is_page(uint64_t word) { return word != 0 && (word & 3) == 0; }
  static Page* page_of(uint64_t word) { return reinterpret_cast<Page*>(word); }
  static uint64_t word_of(const ShadowRun& run) { return reinterpret_cast<uint64_t>(&run) | 2; }
  static const ShadowRun& run_of(uint64_t word) { return *reinterpret_cast<const ShadowRun*>(word & ~uint64_t{3}); }
  static uint64_t word_of_cell(uint32_t number) { return uint64_t{number} << 2 | 1; }
  static uint64_t word_of_pattern(uint32_t number) { return uint64_t{number} << 2 | 3; }
  static uint32_t number_of(uint64_t word) { return static_cast<uint32_t>(word >> 2); }
  static Page* make(uint32_t shift);
  static void discard(Page* page);
  /// log2 of the bytes of the largest cells whose borders an access keeps to.
  static uint32_t shift_of(uint64_t offset, uint32_t bytes) {
    const uint64_t bits = offset | bytes;
    return (bits & 15) == 0 ? 4 : (bits & 3) == 0 ? 2 : 0;
  }
  /// The page, open and with cells of at most that size.
  template <class Events>
  Page* open(uint64_t page, uint32_t shift, const Events& events);
  Page* fill(uint64_t page, uint32_t shift);
  uint32_t shift_within(uint64_t word, uint32_t shift) const;
  uint64_t bytes_ = 0;
  uint64_t pages_ = 0;
  ShadowSummaries* summaries_ = nullptr;
  // Of each page: 0 while it is empty, its address, or that of its run plus two; when it is summarised, four times the number
  // of the cell that all of its are like plus one, or four times that of their pattern plus three. Zero pages of the operating
  // system where they are many, which cost nothing until they are touched.
  std::unique_ptr<uint64_t[], Free> words_;
};

template <class Events>
ShadowMemory::Page* ShadowMemory::open(uint64_t number, uint32_t shift, const Events& events) {
  const uint64_t word = words_[number];
  if (!is_page(word)) return fill(number, shift);
  Page* coarse = page_of(word);
  Page* page = make(shift);
  page->cluster = coarse->cluster;
  const uint32_t copies = coarse->shift - shift;
  for (uint32_t i = 0; i < page->count(); ++i) {
    page->cells()[i] = coarse->cells()[i >> copies];
    if (i & ((1u << copies) - 1)) events.copied(page->cells()[i]);
  }
  discard(coarse);
  words_[number] = reinterpret_cast<uint64_t>(page);
  return page;
}

template <class F, class Events>
void ShadowMemory::visit(uint64_t offset, uint32_t bytes, uint32_t cluster, F&& f, const Events& events) {
  const uint32_t shift = shift_of(offset, bytes);
  const uint64_t end = offset + bytes;
  while (offset < end) {
    const uint64_t number = offset / kPageBytes;
    if (number >= pages_) return;
    const uint64_t word = words_[number];
    const bool ready = is_page(word) && page_of(word)->shift <= shift;
    Page* page = ready ? page_of(word) : open(number, shift, events);
    if (page->cluster != cluster) {
      page->cluster = cluster;
      events.touched(number);
    }
    const uint64_t stop = std::min(end, (number + 1) * kPageBytes);
    ShadowCell* cell = page->cells() + (offset % kPageBytes >> page->shift);
    for (; offset < stop; offset += 1u << page->shift) f(*cell++);
  }
}

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_SHADOW_H_
