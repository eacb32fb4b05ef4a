// The source of every free choice of the simulator (schedule, completion order): reproducible from a seed.
#ifndef TILELANG_SIMULATOR_RANDOM_H_
#define TILELANG_SIMULATOR_RANDOM_H_

#include <cstdint>

namespace tilelang {
namespace simulator {

/// SplitMix64.
class Random {
 public:
  explicit Random(uint64_t seed = 0) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, bound); bound > 0.
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>((next() >> 32) * bound >> 32); }
  bool chance(uint32_t one_in) { return below(one_in) == 0; }

 private:
  uint64_t state_;
};

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_RANDOM_H_
