// The part of the CUDA driver API that the runtime uses, by its documented ABI; libcuda is opened at run time, so there is
// no dependency on CUDA when this is built, nor on a driver where none is needed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilelang::runtime::driver {

using Status = int;  // CUresult; 0 is success
using Context = struct ContextOpaque*;
using Module = struct ModuleOpaque*;
using Function = struct FunctionOpaque*;
using Device = int;

enum : Status { kNoBinaryForGpu = 209 };
enum FunctionAttribute { kMaxDynamicSharedBytes = 8, kNonPortableClusterSize = 14 };
enum LaunchAttributeId : uint32_t { kCooperative = 2, kClusterDimension = 4, kProgrammaticStreamSerialization = 6 };

struct LaunchAttribute {  // CUlaunchAttribute: an id, padding to 8 bytes, a union of 64 bytes
  uint32_t id;
  uint32_t padding;
  union {
    char bytes[64];
    int32_t flag;
    uint32_t extent[3];
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

struct LaunchConfig {  // CUlaunchConfig
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  uint32_t attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56);

// The functions, resolved.
struct Api {
  Status (*initialise)(unsigned flags);
  Status (*error_string)(Status, const char**);
  Status (*current_context)(Context*);
  Status (*set_current_context)(Context);
  Status (*retain_primary_context)(Context*, Device);
  Status (*load_module)(Module*, const void* image);
  Status (*get_function)(Function*, Module, const char* name);
  Status (*set_attribute)(Function, FunctionAttribute, int);
  Status (*launch)(const LaunchConfig*, Function, void** args, void** extra);
  // Absent from drivers older than 12.4.
  Status (*parameter_info)(Function, size_t index, size_t* offset, size_t* bytes);
  // Absent from drivers older than 12.0.
  Status (*encode_tiled)(void* map, int data_type, uint32_t rank, void* base, const uint64_t* shape, const uint64_t* strides,
                         const uint32_t* box, const uint32_t* element_strides, int interleave, int swizzle, int l2_promotion,
                         int fill);
};

// The driver of this machine, initialised. Throws DeviceError where there is none.
const Api& api();

// Throws DeviceError with the driver's own words unless `status` is 0.
void check(Status status, const char* what);

}  // namespace tilelang::runtime::driver
