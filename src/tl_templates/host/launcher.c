/* The device of an exported library: its kernels on the CUDA driver, without any other library.
 *
 * Stands after the text of a generated host (tl_runtime, tl_launch, <name>_bind) and before the table of its kernels. The driver is
 * opened at the first launch. A module is loaded into each context in which one of its kernels is launched: the current one, or the
 * primary context of device 0 where there is none. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { TL_NO_BINARY = 209, TL_SHARED_BYTES = 8, TL_LARGE_CLUSTER = 14, TL_PORTABLE_CLUSTER = 8, TL_FREE_SHARED_BYTES = 49152 };
enum { TL_COOPERATIVE = 2, TL_CLUSTER = 4, TL_SERIALIZATION = 6 };

typedef struct {
  int32_t data_type, interleave, swizzle, l2_promotion, fill;
  uint32_t rank, box[5], steps[5];
} tl_map_row;

typedef struct {
  const char* symbol;
  const tl_map_row* maps;
} tl_kernel_row;

static const tl_kernel_row tl_kernels[TL_KERNEL_COUNT];
extern const unsigned char tl_cubin[] __attribute__((visibility("hidden")));
extern const unsigned char tl_ptx[] __attribute__((visibility("hidden")));

typedef struct { /* CUlaunchAttribute */
  uint32_t id, padding;
  union {
    char bytes[64];
    int32_t flag;
    uint32_t extent[3];
  } value;
} tl_attribute;

typedef struct { /* CUlaunchConfig */
  uint32_t grid[3], block[3], shared_bytes;
  void* stream;
  tl_attribute* attributes;
  uint32_t count;
} tl_request;

typedef struct {
  void* function;
  uint32_t shared_bytes; /* what it has been allowed so far; grows only */
  int large_cluster;
} tl_loaded_kernel;

typedef struct tl_loaded {
  struct tl_loaded* next;
  void* context;
  tl_loaded_kernel kernels[TL_KERNEL_COUNT];
} tl_loaded;

static struct {
  int opened;
  int (*cuInit)(unsigned);
  int (*cuGetErrorString)(int, const char**);
  int (*cuCtxGetCurrent)(void**);
  int (*cuCtxSetCurrent)(void*);
  int (*cuDevicePrimaryCtxRetain)(void**, int);
  int (*cuModuleLoadData)(void**, const void*);
  int (*cuModuleGetFunction)(void**, void*, const char*);
  int (*cuFuncSetAttribute)(void*, int, int);
  int (*cuLaunchKernelEx)(const tl_request*, void*, void**, void**);
  int (*cuTensorMapEncodeTiled)(void*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int,
                                int, int, int);
} tl_driver;

static pthread_mutex_t tl_lock = PTHREAD_MUTEX_INITIALIZER;
static tl_loaded* tl_modules;
static _Thread_local char tl_message[512];

static int tl_fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(tl_message, sizeof tl_message, format, arguments);
  va_end(arguments);
  return -1;
}

static int tl_check(int status, const char* what) {
  const char* text = 0;
  if (!status) return 0;
  tl_driver.cuGetErrorString(status, &text);
  return tl_fail("%s: %s (CUDA error %d)", what, text ? text : "unknown error", status);
}

static int tl_resolve(void* library, const char* name, void* function) {
  void* found = dlsym(library, name);
  memcpy(function, &found, sizeof found);
  return found ? 0 : tl_fail("the CUDA driver is too old: it has no %s", name);
}

#define TL_RESOLVE(name) tl_resolve(library, #name, &tl_driver.name)

static int tl_open_driver(void) {
  if (tl_driver.opened) return 0;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return tl_fail("no CUDA driver on this machine (libcuda.so.1 cannot be opened)");
  if (TL_RESOLVE(cuInit) || TL_RESOLVE(cuGetErrorString) || TL_RESOLVE(cuCtxGetCurrent) || TL_RESOLVE(cuCtxSetCurrent) ||
      TL_RESOLVE(cuDevicePrimaryCtxRetain) || TL_RESOLVE(cuModuleLoadData) || TL_RESOLVE(cuModuleGetFunction) ||
      TL_RESOLVE(cuFuncSetAttribute) || TL_RESOLVE(cuLaunchKernelEx)) {
    return -1;
  }
  if (tl_check(tl_driver.cuInit(0), "the CUDA driver cannot be initialised")) return -1;
  TL_RESOLVE(cuTensorMapEncodeTiled); /* absent from drivers older than 12.0 */
  tl_driver.opened = 1;
  return 0;
}

static int tl_current_context(void** context) {
  if (tl_check(tl_driver.cuCtxGetCurrent(context), "cannot ask for the CUDA context")) return -1;
  if (*context) return 0;
  return tl_check(tl_driver.cuDevicePrimaryCtxRetain(context, 0), "cannot open CUDA device 0") ||
         tl_check(tl_driver.cuCtxSetCurrent(*context), "cannot use CUDA device 0");
}

static int tl_load(tl_loaded* loaded) {
  void* library = 0;
  int status = tl_driver.cuModuleLoadData(&library, tl_cubin);
  /* Machine code for another architecture; the driver can translate PTX for a newer one. */
  if (status == TL_NO_BINARY) status = tl_driver.cuModuleLoadData(&library, tl_ptx);
  if (tl_check(status, "cannot load the kernels on this GPU")) return -1;
  for (int i = 0; i < TL_KERNEL_COUNT; ++i) {
    loaded->kernels[i].shared_bytes = TL_FREE_SHARED_BYTES;
    if (tl_check(tl_driver.cuModuleGetFunction(&loaded->kernels[i].function, library, tl_kernels[i].symbol), tl_kernels[i].symbol)) {
      return -1;
    }
  }
  return 0;
}

/* The kernels in the current context; with the lock held. */
static tl_loaded* tl_in_context(void) {
  void* context = 0;
  if (tl_open_driver() || tl_current_context(&context)) return 0;
  for (tl_loaded* loaded = tl_modules; loaded; loaded = loaded->next) {
    if (loaded->context == context) return loaded;
  }
  tl_loaded* fresh = calloc(1, sizeof *fresh);
  if (!fresh || tl_load(fresh)) {
    free(fresh);
    return 0;
  }
  fresh->context = context;
  fresh->next = tl_modules;
  return tl_modules = fresh;
}

/* Raises the kernel's limits to what this launch needs. */
static int tl_allow(tl_loaded_kernel* kernel, const tl_launch* config) {
  if (config->shared_bytes > kernel->shared_bytes) {
    if (tl_check(tl_driver.cuFuncSetAttribute(kernel->function, TL_SHARED_BYTES, (int)config->shared_bytes),
                 "the GPU does not have this much shared memory a block")) {
      return -1;
    }
    kernel->shared_bytes = config->shared_bytes;
  }
  if (config->cluster[0] * config->cluster[1] * config->cluster[2] > TL_PORTABLE_CLUSTER && !kernel->large_cluster) {
    if (tl_check(tl_driver.cuFuncSetAttribute(kernel->function, TL_LARGE_CLUSTER, 1), "the GPU refuses clusters of this size")) {
      return -1;
    }
    kernel->large_cluster = 1;
  }
  return 0;
}

static void* tl_function(int32_t index, const tl_launch* config) {
  pthread_mutex_lock(&tl_lock);
  tl_loaded* loaded = tl_in_context();
  void* function = loaded && !tl_allow(&loaded->kernels[index], config) ? loaded->kernels[index].function : 0;
  pthread_mutex_unlock(&tl_lock);
  return function;
}

static tl_attribute* tl_add(tl_request* request, uint32_t id) {
  tl_attribute* attribute = request->attributes + request->count++;
  attribute->id = id;
  return attribute;
}

static int32_t tl_launch_kernel(void* unused, int32_t index, const tl_launch* config, void** args) {
  (void)unused;
  if (!config->grid[0] || !config->grid[1] || !config->grid[2]) return 0; /* nothing to do */
  void* function = tl_function(index, config);
  if (!function) return -1;
  tl_attribute attributes[3];
  memset(attributes, 0, sizeof attributes);
  tl_request request = {{config->grid[0], config->grid[1], config->grid[2]},
                        {config->block[0], config->block[1], config->block[2]},
                        config->shared_bytes,
                        config->stream,
                        attributes,
                        0};
  if (config->cluster[0] * config->cluster[1] * config->cluster[2] > 1) {
    memcpy(tl_add(&request, TL_CLUSTER)->value.extent, config->cluster, sizeof config->cluster);
  }
  if (config->flags & 1) tl_add(&request, TL_COOPERATIVE)->value.flag = 1;
  if (config->flags & 2) tl_add(&request, TL_SERIALIZATION)->value.flag = 1;
  return tl_check(tl_driver.cuLaunchKernelEx(&request, function, args, 0), "cannot launch the kernel");
}

static int32_t tl_encode(void* unused, int32_t kernel, int32_t map, void* base, const uint64_t* shape, const uint64_t* strides,
                         void* out) {
  (void)unused;
  pthread_mutex_lock(&tl_lock);
  int failed = tl_open_driver();
  pthread_mutex_unlock(&tl_lock);
  if (failed) return -1;
  if (!tl_driver.cuTensorMapEncodeTiled) return tl_fail("the CUDA driver is too old for tensor maps (12.0 is needed)");
  const tl_map_row* row = tl_kernels[kernel].maps + map;
  return tl_check(tl_driver.cuTensorMapEncodeTiled(out, row->data_type, row->rank, base, shape, strides, row->box, row->steps,
                                                   row->interleave, row->swizzle, row->l2_promotion, row->fill),
                  "cannot encode a tensor map (base address, sizes or strides do not suit it)");
}

/* tvm-ffi's, where the process has it. */
#pragma weak TVMFFIEnvGetStream
#pragma weak TVMFFIErrorCreate
#pragma weak TVMFFIErrorSetRaised
#pragma weak TVMFFIObjectDecRef
extern void* TVMFFIEnvGetStream(int32_t device_type, int32_t device_id);

static void* tl_stream(int32_t device_type, int32_t device_id) {
  return TVMFFIEnvGetStream ? TVMFFIEnvGetStream(device_type, device_id) : 0;
}

static const char* tl_last_error(void) { return tl_message; }

static const tl_runtime tl_on_driver = {2, tl_launch_kernel, tl_encode, tl_stream, tl_last_error};
