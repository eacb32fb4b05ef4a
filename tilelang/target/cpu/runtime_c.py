"""The small run-time that a C kernel carries, as C text; what :mod:`~tilelang.target.cpu.runtime_ll` is for LLVM."""

from __future__ import annotations

from tilelang.target.cpu.runtime_ll import TASKS_PER_THREAD, WORKSPACES

PRELUDE = f"""#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local const char* tl_error;
const char* tilelang_last_error(void) {{ return tl_error; }}

/* Blocks run on the OpenMP pool of the process (torch's), or on this thread where there is none. */
extern void GOMP_parallel(void (*)(void*), void*, unsigned, unsigned) __attribute__((weak));
extern int omp_get_max_threads(void) __attribute__((weak));
extern int omp_in_parallel(void) __attribute__((weak));

typedef struct {{
  void (*body)(const void*, int64_t, int64_t);
  const void* closure;
  int64_t extent, chunk, next;
}} tl_launch;

static void tl_worker(void* data) {{
  tl_launch* launch = (tl_launch*)data;
  for (;;) {{
    int64_t first = __atomic_fetch_add(&launch->next, launch->chunk, __ATOMIC_RELAXED);
    if (first >= launch->extent) return;
    int64_t last = first + launch->chunk;
    launch->body(launch->closure, first, last < launch->extent ? last : launch->extent);
  }}
}}

static void tl_parallel(void (*body)(const void*, int64_t, int64_t), const void* closure, int64_t extent) {{
  int threads = GOMP_parallel && !omp_in_parallel() ? omp_get_max_threads() : 1;
  if (threads <= 1 || extent <= 1) {{
    body(closure, 0, extent);
    return;
  }}
  int64_t tasks = (int64_t)threads * {TASKS_PER_THREAD};
  tl_launch launch = {{body, closure, extent, (extent + tasks - 1) / tasks, 0}};
  GOMP_parallel(tl_worker, &launch, (unsigned)threads, 0);
}}
"""

WORKSPACE = f"""
static void* tl_workspace(int64_t size, int64_t offset, int32_t level) {{
  static _Thread_local char* bases[{WORKSPACES}];
  static _Thread_local int64_t sizes[{WORKSPACES}];
  if (sizes[level] < size) {{
    free(bases[level]);
    bases[level] = (char*)aligned_alloc(64, (size_t)size);
    sizes[level] = size;
  }}
  return bases[level] + offset;
}}
"""
