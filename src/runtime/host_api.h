// How the generated host of a CUDA kernel reaches its device: a table of functions that the loader hands to it.
//
// The host is plain C and stands alone: it has these declarations in its own text (tilelang/target/hosts/c.py), and
// exports `<name>_bind(const tl_runtime*, void* module)`.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TL_COOPERATIVE = 1, TL_DEPENDENT_LAUNCH = 2 };

typedef struct {
  uint32_t grid[3], block[3], cluster[3];
  uint32_t shared_bytes;
  uint32_t flags;
  void* stream;
} tl_launch;

typedef struct {
  int32_t device_type;  // DLPack device type of the tensors that kernels take: 2 for a GPU, 1 on the simulator
  // Launches kernel number `kernel`; `args` are the addresses of the argument values. 0 on success.
  int32_t (*launch)(void* module, int32_t kernel, const tl_launch* config, void** args);
  // Encodes tensor map number `map` of a kernel: sizes innermost first, strides in bytes without the innermost one;
  // `out` is 64-byte aligned and takes 128 bytes. 0 on success.
  int32_t (*encode_tensor_map)(void* module, int32_t kernel, int32_t map, void* base, const uint64_t* shape,
                               const uint64_t* strides, void* out);
  // The stream that the caller's framework launches on.
  void* (*current_stream)(int32_t device_type, int32_t device_id);
  // Why the last call in this thread failed.
  const char* (*last_error)(void);
} tl_runtime;

#ifdef __cplusplus
}
#endif
