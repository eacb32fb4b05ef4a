"""How well the model of time ranks the tiles of a GEMM, against an order that was published.

    python benchmark/simulator/ranking.py [--device a100]

NVIDIA's "Matrix Multiplication Background User's Guide" (2.3, Typical Tile Dimensions In cuBLAS And Performance) lists tiles from
the most efficient to the least: 256x128 and 128x256, 128x128, 256x64 and 64x256, 128x64 and 64x128, 64x64. The model's best time
of each tile is compared with that order, pair by pair of different rank. For attention no published table was found.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import tilelang  # noqa: E402
import tilelang.language as T  # noqa: E402
from tilelang.simulator.timing import modelled_seconds  # noqa: E402
from tilelang.simulator.virtual.models import device_model  # noqa: E402

PUBLISHED = {
    (256, 128): 0, (128, 256): 0, (128, 128): 1, (256, 64): 2, (64, 256): 2, (128, 64): 3, (64, 128): 3, (64, 64): 4,
}  # fmt: skip
STAGES = (2, 3, 4)
SIZE, DEPTH = 4096, 512


def gemm(arch: str, rows: int, columns: int, stages: int) -> Any:
    threads = 256 if rows * columns >= 128 * 256 else 128

    @T.prim_func
    def product(
        A: T.Tensor((SIZE, DEPTH), "float16"), B: T.Tensor((DEPTH, SIZE), "float16"), C: T.Tensor((SIZE, SIZE), "float16")
    ):  # fmt: skip
        with T.Kernel(SIZE // columns, SIZE // rows, threads=threads) as (bx, by):
            a = T.alloc_shared((rows, 32), "float16")
            b = T.alloc_shared((32, columns), "float16")
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for k in T.Pipelined(DEPTH // 32, num_stages=stages):
                T.copy(A[by * rows, k * 32], a)
                T.copy(B[k * 32, bx * columns], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * rows, bx * columns])

    kernel = tilelang.compile(product, target={"kind": "cuda", "arch": arch}, out_idx=[2])
    a, b = torch.zeros(SIZE, DEPTH, dtype=torch.float16), torch.zeros(DEPTH, SIZE, dtype=torch.float16)
    return lambda: kernel(a, b)


def seconds_of(device: str, tile: tuple[int, int], stages: int) -> float:
    """The model's time; infinite for a tile that the device does not hold."""
    try:
        return modelled_seconds(gemm(device_model(device).arch, *tile, stages), device)
    except tilelang.errors.TileLangError:
        return float("inf")


def rank(device: str) -> None:
    """Prints all times, the shortest first, and how many pairs of tiles are in the published order."""
    times = {(tile, stages): seconds_of(device, tile, stages) for tile in PUBLISHED for stages in STAGES}
    for ((rows, columns), stages), seconds in sorted(times.items(), key=lambda item: item[1]):
        speed = 2e-12 * SIZE * SIZE * DEPTH / seconds
        print(f"  {rows:3}x{columns:<3} stages {stages}  {speed:6.1f} TFLOP/s  {seconds * 1e6:8.1f} us")
    best = {tile: min(times[tile, stages] for stages in STAGES) for tile in PUBLISHED}
    pairs = [(a, b) for a, b in itertools.combinations(PUBLISHED, 2) if PUBLISHED[a] != PUBLISHED[b]]
    right = sum((best[a] < best[b]) == (PUBLISHED[a] < PUBLISHED[b]) for a, b in pairs)
    print(f"  pairs of tiles in the published order: {right} of {len(pairs)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="a100")
    device = parser.parse_args().device
    print(f"GEMM {SIZE}x{SIZE}x{DEPTH}, float16, by the model of {device_model(device).name}")
    rank(device)


if __name__ == "__main__":
    main()
