"""Looking into a kernel: prints, the interpreter, generated code, layouts as pictures, the simulator's page, and a tuned tile.

    python examples/inspection/inspection.py [FOLDER]       # writes pictures and the page to FOLDER, default ./inspection

What to learn: one call for each question. What is in a tile (``T.print``, ``run.watch``)? What did the compiler generate
(``get_kernel_source``)? Where do the elements of a tile lie (``plot_layout``)? What does the kernel do on a GPU (the simulator's
report)? Which configuration is best (``tilelang.autotune``)?

Why so: all of it works without a GPU. The simulator executes the kernel's PTX, and ``backend="model"`` ranks configurations by
its model of time, which measures nothing.

Next: put your own kernel in the place of ``matmul``; open ``report.html`` and click a line of the program.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import tilelang
import tilelang.language as T
from tilelang.execution.simulated import last_reports
from tilelang.layout import make_gemm_fragment_8x8, swizzled
from tilelang.tools import plot_layout

A100 = {"kind": "cuda", "arch": "sm_80"}


@tilelang.jit(out_idx=[-1])
def row_maxima(M, N):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((M, N), "float32")
            top = T.alloc_fragment((M,), "float32")
            T.copy(A, tile)
            T.reduce_max(tile, top, dim=1)
            T.print(top, "maxima")
            T.copy(top, B)

    return main


@tilelang.jit(out_idx=[-1], target=A100)
def matmul(M, N, K, block_M=64, block_N=64, block_K=32, num_stages=2):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_K, block_N), "float16")
            total = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, total)
            T.copy(total, C[by * block_M, bx * block_N])

    return main


def tiles() -> None:
    """What is in a tile: printed by the kernel, and by the interpreter before each statement that mentions it."""
    a = torch.arange(24.0).reshape(3, 8)
    torch.testing.assert_close(row_maxima(3, 8)(a), a.amax(1))
    with tilelang.interpret() as run:
        run.watch("top", lambda at: print(f"line {at.line}: top = {at['top'].tolist()}"))
        row_maxima(3, 8)(a)


def layouts(folder: Path) -> None:
    """Where elements lie: the 16-byte chunks of a swizzled shared tile, and a fragment of the tensor cores."""
    plot_layout(swizzled((8, 32), 16), str(folder), "swizzled")
    plot_layout(make_gemm_fragment_8x8(), str(folder), "fragment")


def report(folder: Path, M: int, N: int, K: int) -> None:
    """What the kernel does on a GPU: counters, and a page with the program's lines, occupancy, roofline and shared memory."""
    a, b = torch.randn(M, K).half(), torch.randn(K, N).half()
    kernel = matmul(M, N, K)
    print(next(line for line in kernel.get_kernel_source().splitlines() if "__global__" in line))
    with tilelang.simulator(counters=True):
        torch.testing.assert_close(kernel(a, b), a.float() @ b.float(), rtol=1e-2, atol=1e-2)
    found = last_reports()[0]
    print("findings:", len(found.findings), " bank conflicts:", found.counters.total.get("bank_conflicts", 0))
    (folder / "report.html").write_text(found.html("a100"))


def tuned(folder: Path, M: int, N: int, K: int) -> None:
    """The best configuration, by the simulator's model of time, and a bar for each candidate."""
    configs = [{"block_M": m, "block_N": n} for m in (32, 64) for n in (32, 64)]
    result = tilelang.autotune(configs=configs, backend="model")(matmul).tune(M, N, K)
    print("best:", dict(result.config))
    bars = [(" x ".join(map(str, trial.config.values())), trial.milliseconds * 1000) for trial in result.trials]
    (folder / "tuning.svg").write_text(plot(bars, "modelled µs on an A100"))


def plot(bars: Sequence[tuple[str, Any]], unit: str) -> str:
    """A bar chart as SVG, the shortest bar first."""
    most = max(value for _, value in bars)
    size = f'width="480" height="{28 * len(bars) + 30}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">']
    for row, (name, value) in enumerate(sorted(bars, key=lambda bar: bar[1])):
        y, length = 28 * row + 8, round(300 * value / most)
        colour = "#9fa8da" if row else "#3f51b5"
        lines.append(f'<rect x="80" y="{y}" width="{length}" height="20" fill="{colour}"/>')
        lines.append(f'<text x="4" y="{y + 15}">{name}</text><text x="{86 + length}" y="{y + 15}">{value:.1f}</text>')
    lines.append(f'<text x="80" y="{28 * len(bars) + 24}" fill="#555">{unit}</text>')
    return "\n".join([*lines, "</svg>\n"])


def main(folder: Path = Path("inspection"), M: int = 256, N: int = 256, K: int = 128) -> None:
    """Answers each question, and writes pictures and the page to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tiles()
    layouts(folder)
    report(folder, M, N, K)
    tuned(folder, M, N, K)
    print("written:", *sorted(path.name for path in folder.iterdir()))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
