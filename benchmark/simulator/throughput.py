"""Speed of the PTX simulator: warp instructions a second on one core, and a 512^3 fp16 GEMM with and without checkers.

    python benchmark/simulator/throughput.py [--workers 1] [--repeat 3]

Prints the best of the repeats of each case; the floors are those the project promises.
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from testing.python.simulator.models import cuda, tiles  # noqa: E402

ALU = """
extern "C" __global__ void alu(float* out, const float* in, int n) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  float a = in[t & 255], b = 1.0f;
  unsigned h = t;
#pragma unroll 8
  for (int i = 0; i < n; ++i) {
    a = fmaf(a, b, 0.5f);
    h = h * 1664525u + 1013904223u;
    b = b + a * 0.25f;
    h ^= h >> 13;
    a = a > 100.0f ? a * 0.01f : a;
  }
  out[t] = a + b + h;
}
extern "C" __global__ void diverge(float* out, const float* in, int n) {
  int t = threadIdx.x;
  float a = in[t];
  for (int i = 0; i < n; ++i) { if ((t ^ i) & 1) a = a * 1.01f + 1.0f; else a = a * 0.99f - 1.0f; }
  out[blockIdx.x * 256 + t] = a;
}
extern "C" __global__ void copy(float* out, const float* in, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = in[i] * 2.0f + 1.0f;
}
extern "C" __global__ void shared(float* out, const float* in, int n) {
  __shared__ float s[256];
  int t = threadIdx.x;
  s[t] = in[t];
  __syncthreads();
  float a = 0;
  for (int i = 0; i < n; ++i) a += s[(t + i) & 255];
  out[blockIdx.x * 256 + t] = a;
}
"""
CASES = [("alu", 2000), ("diverge", 2000), ("copy", 1 << 20), ("shared", 4000)]
MODES = [("no checks", "none", False), ("counters", "none", True), ("all checks", "all", True)]


def best(launch, repeat: int):
    """The report of the fastest of `repeat` launches."""
    return min((launch() for _ in range(repeat)), key=lambda report: report.seconds)


def measure_scalar(workers: int, repeat: int) -> None:
    """Millions of warp instructions a second for kernels without tensor cores."""
    out, source = torch.zeros(1 << 20), torch.rand(1 << 20)
    print(f"{'kernel':10}" + "".join(f"{title:>14}" for title, _, _ in MODES) + "   (million warp instructions / s)")
    for name, n in CASES:
        function = cuda.function(ALU, name, "sm_80")
        cells = []
        for _, checks, counters in MODES:
            report = best(
                lambda f=function, n=n, c=checks, k=counters: f.launch(
                    8, 256, [out, source, n], checks=c, counters=k, workers=workers), repeat)  # fmt: skip
            cells.append(f"{report.warp_instructions / report.seconds / 1e6:14.1f}")
        print(f"{name:10}" + "".join(cells))
    print("floor: 20 without checks")


def measure_gemm(workers: int, repeat: int) -> None:
    """Seconds of a 512 x 512 x 512 fp16 GEMM with mma.sync."""
    n = 512
    a, b, c = torch.randn(n, n).half(), torch.randn(n, n).half(), torch.zeros(n, n)
    function = cuda.function(tiles.GEMM_MMA, "k", "sm_80")

    def launch(checks: str, counters: bool):
        arguments = [a, b, c, n, n, n]
        return function.launch((4, 4), 128, arguments, shared_bytes=49152, checks=checks, counters=counters, workers=workers)

    seconds = {title: best(functools.partial(launch, checks, counters), repeat).seconds for title, checks, counters in MODES}
    assert torch.allclose(c, a.float() @ b.float().T, atol=1e-2, rtol=1e-2)
    print(f"gemm 512^3: {seconds['no checks']:.3f} s without checks (floor 3), {seconds['all checks']:.3f} s with all of them: "
          f"{seconds['all checks'] / seconds['no checks']:.1f}x (floor 10x)")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=1, help="OS threads")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    measure_scalar(options.workers, options.repeat)
    measure_gemm(options.workers, options.repeat)


if __name__ == "__main__":
    main()
