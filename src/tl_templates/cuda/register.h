// Register reallocation between the warp groups of a block (sm_90a): counts are multiples of 8 from 24 to 256.
#pragma once
#include "common.h"

namespace tl {

template <int Count>
TL_DEVICE void set_max_nreg_inc() {
  static_assert(Count >= 24 && Count <= 256 && Count % 8 == 0, "a register count is a multiple of 8 from 24 to 256");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

template <int Count>
TL_DEVICE void set_max_nreg_dec() {
  static_assert(Count >= 24 && Count <= 256 && Count % 8 == 0, "a register count is a multiple of 8 from 24 to 256");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}

}  // namespace tl
