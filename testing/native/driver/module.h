// Loaded device code.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "program.h"
#include "state.h"

namespace test_driver {

struct Kernel {
  LoadedModule* module = nullptr;
  const tilelang::simulator::DecodedFunction* code = nullptr;
  int dynamic_shared_bytes = 0;  // what a launch may ask for
  bool large_clusters = false;
};

struct LoadedModule {
  Context* context = nullptr;
  std::unique_ptr<tilelang::simulator::Program> program;
  std::vector<std::unique_ptr<Kernel>> kernels;  // those that were asked for
};

// The kernel of a handle; null where it is none of the context's.
Kernel* find_kernel(Context& context, void* handle);

}  // namespace test_driver
