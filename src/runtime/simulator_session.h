// Under which conditions launches of this thread run on the simulator.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/string.h>

namespace tilelang::runtime {

struct SimulatorSession {
  tvm::ffi::Array<int64_t> allocations;     // (address, bytes, read-only) of each piece of memory that kernels may touch
  tvm::ffi::Array<tvm::ffi::String> names;  // of each
  int64_t checks = 0;                       // bits of the checks that are on
  bool count = false;
  int64_t seed = 0;
  int64_t workers = 0;
  tvm::ffi::Optional<tvm::ffi::Function> on_report;  // takes each launch's report, as JSON; may raise
  tvm::ffi::Optional<tvm::ffi::Function> should_stop;  // asked while a launch runs; true ends it
  // Where launches have streams: whether the next one is held back, and who takes one that is, or whose blocks wait for others.
  tvm::ffi::Optional<tvm::ffi::Function> before_launch, on_resident;
};

void set_session(SimulatorSession session);

// Says of this thread's session that its launches have streams.
void set_streams(tvm::ffi::Function before_launch, tvm::ffi::Function on_resident);

}  // namespace tilelang::runtime
