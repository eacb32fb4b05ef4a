"""What one core reaches in float32: independent fused multiply-adds on registers, nothing else, beside ``torch.matmul``.

    python benchmark/fma_peak.py [--seconds 1.0]

The product of two matrices cannot be faster than that. The loop is C, built with the system's compiler for this machine; it
keeps as many sums as hide the latency of the instruction.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
import time
from pathlib import Path

import torch

from tilelang.target.toolchain import c_compiler

SUMS = 12
SOURCE = f"""
#define LANES ({{bytes}} / 4)
typedef float vector __attribute__((vector_size({{bytes}})));
float peak(long steps, float start) {{{{
  vector sums[{SUMS}], a = {{{{0}}}}, b = {{{{0}}}};
  for (int lane = 0; lane < LANES; ++lane) a[lane] = start, b[lane] = start;
  for (int i = 0; i < {SUMS}; ++i) sums[i] = a * (float)i;
  for (long step = 0; step < steps; ++step) {{{{
    #pragma GCC unroll {SUMS}
    for (int i = 0; i < {SUMS}; ++i) sums[i] = sums[i] * a + b;
    __asm__ volatile("");
  }}}}
  float total = 0;
  for (int i = 0; i < {SUMS}; ++i) total += sums[i][0];
  return total;
}}}}
"""
STEPS = 1_000_000


def measured(width: int, seconds: float) -> float:
    """GF/s of the best of many runs with vectors of ``width`` bits."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "peak.c", Path(folder) / "peak.so"
        source.write_text(SOURCE.format(bytes=width // 8))
        flags = ["-O3", "-march=native", "-ffp-contract=fast", f"-mprefer-vector-width={width}", "-shared", "-fPIC"]
        subprocess.run([c_compiler(), *flags, str(source), "-o", str(library)], check=True)
        peak = ctypes.CDLL(str(library)).peak
    peak.argtypes, peak.restype = (ctypes.c_long, ctypes.c_float), ctypes.c_float
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        peak(STEPS, 0.5)
        best = min(best, time.perf_counter() - start)
    return 2 * STEPS * SUMS * (width // 32) / best / 1e9


def product(size: int, seconds: float) -> float:
    """GF/s of ``torch.matmul`` on one thread."""
    torch.set_num_threads(1)
    a, b = torch.randn(size, size), torch.randn(size, size)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        torch.matmul(a, b)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best / 1e9


def main() -> None:
    """Prints the limit, torch's share of it, and what that leaves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each measurement")
    seconds = parser.parse_args().seconds
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    widths = [width for width, flag in ((128, ""), (256, "avx2"), (512, "avx512f")) if flag in flags]
    limits = {width: measured(width, seconds) for width in widths}
    for width, value in limits.items():
        print(f"fused multiply-adds, {width} bits   {value:6.0f} GF/s")
    limit = max(limits.values())
    for size in (256, 1024):
        value = product(size, seconds)
        share = f"{value / limit:.0%} of the limit; at most {limit / value:.2f}x as fast is possible"
        print(f"torch.matmul float32 {size}^3  {value:6.0f} GF/s, {share}")


if __name__ == "__main__":
    main()
