"""What one core of this machine can do: fused multiply-adds, dot products, exponentials, moving the bytes of a row.

The loops are C, built with the system's compiler for this machine. A loop of operations keeps as many sums as hide an
instruction's latency and touches registers alone. A loop over memory moves the bytes of a row's own tensors, in the kernel's
place: it is one of the functions that take turns, and finds in the caches what a kernel would find there.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import torch

from tilelang.target.toolchain import c_compiler

SOURCE = """
#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#if defined(__AVX512F__)
#define BYTES 64
#define SUMS 24
#define EACH EACH_24
#define REGISTER "+v"
#elif defined(__AVX__)
#define BYTES 32
#define SUMS 12
#define EACH EACH_12
#define REGISTER "+x"
#else
#define BYTES 16
#define SUMS 12
#define EACH EACH_12
#define REGISTER "+w"
#endif
typedef float vector __attribute__((vector_size(BYTES), aligned(4)));
typedef int32_t words __attribute__((vector_size(BYTES)));

#define EACH_12(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define EACH_24(DO) EACH_12(DO) DO(12) DO(13) DO(14) DO(15) DO(16) DO(17) DO(18) DO(19) DO(20) DO(21) DO(22) DO(23)
#define ZERO(I) register_type s##I = {0};
#define NEXT(I) s##I = STEP(s##I, a, b); __asm__ volatile("" : REGISTER(s##I));
#define TOTAL(I) + (float)s##I[0]
#define OPERATIONS(NAME, TYPE) \\
  float NAME(long steps, void* unused, float start) { \\
    typedef TYPE register_type; \\
    TYPE a, b; \\
    for (unsigned i = 0; i < sizeof a / 4; ++i) ((float*)&a)[i] = ((float*)&b)[i] = start; \\
    EACH(ZERO) \\
    for (long step = 0; step < steps; ++step) { EACH(NEXT) } \\
    return 0 EACH(TOTAL); \\
  }

#define STEP(S, A, B) (S) + (A) * (B)
OPERATIONS(peak_float32, vector)
#undef STEP
#ifdef __AVX512BF16__
#define STEP(S, A, B) _mm512_dpbf16_ps(S, (__m512bh)A, (__m512bh)B)
OPERATIONS(peak_bfloat16, __m512)
#undef STEP
#endif
#ifdef __AVX512VNNI__
#define STEP(S, A, B) _mm512_dpbusd_epi32(S, A, B)
OPERATIONS(peak_int8, __m512i)
#undef STEP
#endif

#ifdef __AMX_TILE__
extern long syscall(long, ...);
#define TILES(NAME, STEP) \\
  float NAME(long steps, void* unused, float start) { \\
    unsigned char shapes[64] __attribute__((aligned(64))) = {1}; \\
    for (int i = 0; i < 8; ++i) { shapes[16 + 2 * i] = 64; shapes[48 + i] = 16; } \\
    syscall(158L, 0x1023L, 18L); /* arch_prctl: the registers of tiles have to be asked for */ \\
    __asm__ volatile("ldtilecfg %0" : : "m"(shapes)); \\
    for (long step = 0; step < steps; ++step) { STEP(0, 4, 6); STEP(1, 4, 7); STEP(2, 5, 6); STEP(3, 5, 7); } \\
    _tile_release(); \\
    return 0; \\
  }
#ifdef __AMX_BF16__
TILES(peak_bfloat16_tiles, _tile_dpbf16ps)
#endif
#ifdef __AMX_INT8__
TILES(peak_int8_tiles, _tile_dpbssd)
#endif
#endif

#ifdef __AVX512F__
static inline __m512 power_of_two(__m512 x) {
  const float terms[] = {1.3399003e-3f, 9.6184388e-3f, 5.5503320e-2f, 2.4022648e-1f, 6.9314718e-1f, 1.0f};
  __m512 n = _mm512_roundscale_ps(x, 8), r = _mm512_sub_ps(x, n), p = _mm512_set1_ps(1.5353259e-4f);
  for (int i = 0; i < 6; ++i) p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(terms[i]));
  return _mm512_scalef_ps(p, n);
}
#define STEP(S, A, B) power_of_two(S)
OPERATIONS(peak_exponential, __m512)
#undef STEP
#endif

float pass_read(long count, vector* data, vector* unused) {
  vector sums[8] = {0};
  for (long i = 0; i + 8 <= count; i += 8) {
    __builtin_prefetch((char*)(data + i) + 2048);
    _Pragma("GCC unroll 8")
    for (int j = 0; j < 8; ++j) sums[j] += data[i + j];
  }
  float total = 0;
  for (int j = 0; j < 8; ++j) total += sums[j][0];
  return total;
}

float pass_copy(long count, vector* data, vector* target) {
  for (long i = 0; i + 4 <= count; i += 4) {
    __builtin_prefetch((char*)(data + i) + 2048);
    for (int j = 0; j < 4; ++j) target[i + j] = data[i + j];
  }
  return 0;
}

float pass_stream(long count, vector* data, vector* target) {
#ifdef __AVX512F__
  for (long i = 0; i + 4 <= count; i += 4) {
    __builtin_prefetch((char*)(data + i) + 2048);
    for (int j = 0; j < 4; ++j) _mm512_stream_ps((float*)(target + i + j), (__m512)data[i + j]);
  }
  _mm_sfence();
#else
  memcpy(target, data, count * sizeof(vector));
#endif
  return 0;
}

float pass_sum(long count, vector* data, vector* target, vector* other) {
  for (long i = 0; i + 4 <= count; i += 4) {
    __builtin_prefetch((char*)(data + i) + 2048);
    __builtin_prefetch((char*)(other + i) + 2048);
    for (int j = 0; j < 4; ++j) target[i + j] = data[i + j] + other[i + j];
  }
  return 0;
}

float pass_stream_sum(long count, vector* data, vector* target, vector* other) {
#ifdef __AVX512F__
  for (long i = 0; i + 4 <= count; i += 4) {
    __builtin_prefetch((char*)(data + i) + 2048);
    __builtin_prefetch((char*)(other + i) + 2048);
    for (int j = 0; j < 4; ++j) _mm512_stream_ps((float*)(target + i + j), (__m512)(data[i + j] + other[i + j]));
  }
  _mm_sfence();
#else
  pass_sum(count, data, target, other);
#endif
  return 0;
}

int vector_bytes(void) { return BYTES; }
int sums(void) { return SUMS; }
"""
_STEPS = 200_000
_PER_WORD = {"float32": 2, "bfloat16": 4, "int8": 8, "exponential": 1}
"""Operations of one step on 32 bits of a register."""
_PER_STEP = {"bfloat16_tiles": 4 * 2 * 16 * 16 * 32, "int8_tiles": 4 * 2 * 16 * 16 * 64}
"""Operations of one step on tiles: four products of two tiles."""
_PASSES = {"read": ("pass_read",), "copy": ("pass_copy", "pass_stream"), "sum": ("pass_sum", "pass_stream_sum")}
_REPETITIONS = 40


@cache
def _library() -> tuple[ctypes.CDLL, int, int]:
    """The loops, the bytes of the registers that they use, and of how many."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "limits.c", Path(folder) / "limits.so"
        source.write_text(SOURCE)
        flags = ["-O3", "-march=native", "-ffp-contract=fast", "-w", "-flax-vector-conversions", "-shared", "-fPIC"]
        subprocess.run([c_compiler(), *flags, str(source), "-o", str(library)], check=True)
        loaded = ctypes.CDLL(str(library))
    return loaded, loaded.vector_bytes(), loaded.sums()


_ALSO = {"bfloat16": ("float32", "bfloat16_tiles"), "int8": ("int8_tiles",)}
"""Kind of operation -> others that compute the same."""


@cache
def operations(kind: str) -> float | None:
    """Operations a second on registers, the best of many runs by processor time; None where there is no such instruction.

    Products of bfloat16 may be formed in float32, too, which is faster on some processors, and by tiles where there are some.
    """
    rates = [rate for rate in map(_rate, (kind, *_ALSO.get(kind, ()))) if rate is not None]
    return max(rates) if rates else None


def _rate(kind: str) -> float | None:
    """Operations a second of one loop."""
    library, width, sums = _library()
    function = getattr(library, f"peak_{kind}", None)
    if function is None:
        return None
    function.argtypes, function.restype = (ctypes.c_long, ctypes.c_void_p, ctypes.c_float), ctypes.c_float
    best = float("inf")
    for _ in range(_REPETITIONS):
        start = time.thread_time()
        function(_STEPS, 0, 0.5)
        best = min(best, time.thread_time() - start)
    of_step = _PER_STEP[kind] if kind in _PER_STEP else _PER_WORD[kind] * (width // 4) * sums
    return of_step * _STEPS / best


def passes(resource: str, tensors: Sequence[torch.Tensor]) -> list[Callable[[], None]]:
    """What moves the bytes of a row: one function for each way of storing; none for a row of operations.

    Args:
        resource: ``read``: all tensors are read; ``copy``: the last one is stored, from the largest of the others; ``sum``: of
            two of its size.
        tensors: those of the row, the result last.
    """
    return [_moving(name, resource, tensors) for name in _PASSES.get(resource, ())]


def _moving(name: str, resource: str, tensors: Sequence[torch.Tensor]) -> Callable[[], None]:
    library, width, _ = _library()
    *sources, result = sorted(tensors[:-1], key=lambda tensor: -tensor.nbytes) + [tensors[-1]]
    stored = {"read": 0, "copy": 1, "sum": 2}[resource]
    calls = [(library.pass_read, (tensor,)) for tensor in (sources[stored:] if stored else tensors)]
    if stored:
        calls.append((getattr(library, name), (sources[0], result, *sources[1:stored])))
    ready = [
        (function, ctypes.c_long(min(t.nbytes for t in touched) // width), *(ctypes.c_void_p(t.data_ptr()) for t in touched))
        for function, touched in calls
    ]

    def move() -> None:
        for function, *arguments in ready:
            function(*arguments)

    return move
