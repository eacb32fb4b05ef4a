// Stores to global memory are recorded for the race checker before their data is in place. In between, another worker that stores
// the same value there finds the record but not the value, and would report a race of stores that agree.
#ifndef TILELANG_SIMULATOR_STORES_UNDER_WAY_H_
#define TILELANG_SIMULATOR_STORES_UNDER_WAY_H_

#include <atomic>
#include <cstdint>
#include <thread>

namespace tilelang {
namespace simulator {

/// How many stores each worker has recorded whose data is not in place.
class StoresUnderWay {
 public:
  /// The lock of the record, which follows, publishes the count with it.
  void begin() { own().fetch_add(1, std::memory_order_relaxed); }
  void end() { own().fetch_sub(1, std::memory_order_release); }
  /// Waits until the data of what other workers have recorded is in place. The caller has no store under way: two would wait
  /// for each other.
  void await_others() {
    for (Slot& slot : slots_) {
      if (&slot.count == &own()) continue;
      while (slot.count.load(std::memory_order_acquire)) std::this_thread::yield();
    }
  }

 private:
  static constexpr uint32_t kSlots = 64;  // workers beyond these share them
  struct Slot {
    alignas(64) std::atomic<uint32_t> count{0};
  };

  std::atomic<uint32_t>& own() {
    static std::atomic<uint32_t> threads{0};
    static thread_local const uint32_t index = threads.fetch_add(1, std::memory_order_relaxed) % kSlots;
    return slots_[index].count;
  }

  Slot slots_[kSlots];
};

/// One store, or several, from before its record until its data is in place; of nothing where races are not checked.
class StoreUnderWay {
 public:
  explicit StoreUnderWay(StoresUnderWay* all) : all_(all) {
    if (all_) all_->begin();
  }
  ~StoreUnderWay() {
    if (all_) all_->end();
  }
  StoreUnderWay(const StoreUnderWay&) = delete;
  StoreUnderWay& operator=(const StoreUnderWay&) = delete;

  /// Before a record of the store's own is made: what others have recorded is in place afterwards.
  void await_others() {
    if (!all_) return;
    all_->end();
    all_->await_others();
    all_->begin();
  }

 private:
  StoresUnderWay* all_;
};

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_STORES_UNDER_WAY_H_
