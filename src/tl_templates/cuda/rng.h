// Philox-4x32-10, a counter-based random generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
//
// The stream of (seed, sequence, offset) is that of cuRAND's Philox generator: key = seed, counter = (offset / 4, sequence), four
// words a counter value.
#pragma once
#include "common.h"

namespace tl {

struct Philox {
  uint4 counter;
  uint2 key;
  uint4 words;
  int position;
};

TL_DEVICE uint4 philox_block(uint4 counter, uint2 key) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint high0 = __umulhi(0xD2511F53u, counter.x), low0 = 0xD2511F53u * counter.x;
    const uint high1 = __umulhi(0xCD9E8D57u, counter.z), low1 = 0xCD9E8D57u * counter.z;
    counter = make_uint4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
    key.x += 0x9E3779B9u;
    key.y += 0xBB67AE85u;
  }
  return counter;
}

TL_DEVICE Philox philox_init(uint64_t seed, uint64_t sequence, uint64_t offset) {
  Philox state;
  const uint64_t block = offset / 4;
  state.key = make_uint2(static_cast<uint>(seed), static_cast<uint>(seed >> 32));
  state.counter = make_uint4(static_cast<uint>(block), static_cast<uint>(block >> 32), static_cast<uint>(sequence),
                             static_cast<uint>(sequence >> 32));
  state.position = static_cast<int>(offset & 3);
  state.words = philox_block(state.counter, state.key);
  return state;
}

// The next 32 random bits.
TL_DEVICE uint philox_next(Philox& state) {
  if (state.position == 4) {
    if (++state.counter.x == 0 && ++state.counter.y == 0 && ++state.counter.z == 0) ++state.counter.w;
    state.words = philox_block(state.counter, state.key);
    state.position = 0;
  }
  const int p = state.position++;
  return p == 0 ? state.words.x : p == 1 ? state.words.y : p == 2 ? state.words.z : state.words.w;
}

// Uniform in (0, 1].
TL_DEVICE float philox_uniform(Philox& state) {
  return static_cast<float>(philox_next(state)) * 2.3283064365386963e-10f + 1.1641532182693481e-10f;
}

// Uniform in (0, 1] with 53 random bits.
TL_DEVICE double philox_uniform_double(Philox& state) {
  const uint64_t high = static_cast<uint64_t>(philox_next(state)) << 21;
  return static_cast<double>(high ^ philox_next(state)) * 1.1102230246251565e-16 + 5.551115123125783e-17;
}

// Standard normal, by Box and Muller; one of the two values that a pair of draws gives.
TL_DEVICE float philox_normal(Philox& state) {
  const float radius = sqrtf(-2.0f * logf(philox_uniform(state)));
  return radius * cospif(2.0f * philox_uniform(state));
}
TL_DEVICE double philox_normal_double(Philox& state) {
  const double radius = sqrt(-2.0 * log(philox_uniform_double(state)));
  return radius * cospi(2.0 * philox_uniform_double(state));
}

}  // namespace tl
