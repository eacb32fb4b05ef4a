// Programmatic dependent launch (sm_90): overlap with the kernel before and the kernel after.
#pragma once
#include "common.h"

namespace tl {

// Waits until the kernels that this one depends on are complete and their writes are visible.
TL_DEVICE void pdl_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Lets the kernels that depend on this one be scheduled.
TL_DEVICE void pdl_trigger() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

}  // namespace tl
