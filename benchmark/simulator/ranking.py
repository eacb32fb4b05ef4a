"""How well the model of time ranks tile configurations of a GEMM and of attention, against what was published.

    python benchmark/simulator/ranking.py [--only attention] [--times]

Measured times of others are in ``published.py``. For each table the kernel of that problem is compiled with the table's tiles,
stages and warps, and the model's times are compared with the measured ones: the rank correlation, and how much slower than
the best one the model's choice was when it was measured. Those kernels were Triton's: the same tile is other code here.

The guide of NVIDIA on matrix multiplication (2.3, Typical Tile Dimensions In cuBLAS And Performance) has no times, but lists
tiles from the most efficient to the least; the model's best time of each tile is compared with that order, pair by pair.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

from published import TABLES, Table  # noqa: E402

import tilelang  # noqa: E402
import tilelang.language as T  # noqa: E402
from tilelang.simulator.timing import modelled_seconds  # noqa: E402
from tilelang.simulator.virtual.models import device_model  # noqa: E402

GUIDE = {
    (256, 128): 0, (128, 256): 0, (128, 128): 1, (256, 64): 2, (64, 256): 2, (128, 64): 3, (64, 128): 3, (64, 64): 4,
}  # fmt: skip


def gemm(M: int, N: int, K: int, rows: int, columns: int, depth: int, stages: int, warps: int) -> Any:
    """float16 rows times the transpose of a weight, and the shapes of its tensors."""

    @T.prim_func
    def product(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(N // columns, M // rows, threads=32 * warps) as (bx, by):
            a = T.alloc_shared((rows, depth), "float16")
            b = T.alloc_shared((columns, depth), "float16")
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for k in T.Pipelined(K // depth, num_stages=stages):
                T.copy(A[by * rows, k * depth], a)
                T.copy(B[bx * columns, k * depth], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * rows, bx * columns])

    return product, ((M, K), (N, K), (M, N))


def attention(heads: int, sequence: int, width: int, queries: int, keys: int, warps: int, stages: int) -> Any:
    """Causal attention, all heads in one axis, and the shapes of its tensors.

    Blocks of the same queries are neighbours, so that the one in the middle of the grid has an average number of keys.
    """
    shape = (heads, sequence, width)
    policy = T.GemmWarpPolicy.FullRow if queries >= 16 * warps else T.GemmWarpPolicy.Square
    scale = width**-0.5 * 1.44269504

    @T.prim_func
    def forward(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        Out: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(heads, sequence // queries, threads=32 * warps) as (head, block):
            q = T.alloc_shared((queries, width), "float16")
            k = T.alloc_shared((keys, width), "float16")
            v = T.alloc_shared((keys, width), "float16")
            scores = T.alloc_fragment((queries, keys), "float32")
            weights = T.alloc_fragment((queries, keys), "float16")
            out = T.alloc_fragment((queries, width), "float32")
            top, before = T.alloc_fragment((queries,), "float32"), T.alloc_fragment((queries,), "float32")
            sums, total = T.alloc_fragment((queries,), "float32"), T.alloc_fragment((queries,), "float32")
            T.copy(Q[head, block * queries, 0], q)
            T.clear(out)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            for step in T.Pipelined(T.ceildiv((block + 1) * queries, keys), num_stages=stages):
                T.copy(K[head, step * keys, 0], k)
                T.clear(scores)
                T.gemm(q, k, scores, transpose_B=True, policy=policy)
                for i, j in T.Parallel(queries, keys):
                    inside = block * queries + i >= step * keys + j
                    scores[i, j] = T.if_then_else(inside, scores[i, j] * scale, -T.infinity("float32"))
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i, j in T.Parallel(queries, keys):
                    scores[i, j] = T.exp2(scores[i, j] - top[i])
                T.reduce_sum(scores, sums, dim=1)
                for i in T.Parallel(queries):
                    before[i] = T.exp2(before[i] - top[i])
                    total[i] = total[i] * before[i] + sums[i]
                for i, j in T.Parallel(queries, width):
                    out[i, j] *= before[i]
                T.copy(scores, weights)
                T.copy(V[head, step * keys, 0], v)
                T.gemm(weights, v, out, policy=policy)
            for i, j in T.Parallel(queries, width):
                out[i, j] /= total[i]
            T.copy(out, Out[head, block * queries, 0])

    return forward, (shape,) * 4


KERNELS: dict[str, Callable[..., Any]] = {"gemm": gemm, "attention": attention}


def modelled(made: tuple[Any, Sequence[tuple[int, ...]]], device: str) -> float:
    """The model's microseconds; infinite for a tile that the device does not hold."""
    program, shapes = made
    arch = device_model(device).arch
    try:
        kernel = tilelang.compile(program, target={"kind": "cuda", "arch": "sm_90a" if arch == "sm_90" else arch})
        tensors = [torch.zeros(shape, dtype=torch.float16) for shape in shapes]
        return 1e6 * modelled_seconds(lambda: kernel(*tensors), device)
    except tilelang.errors.TileLangError:
        return float("inf")


def kendall(pairs: Sequence[tuple[float, float]]) -> float:
    """Kendall's rank correlation (tau-b) of pairs: 1 for the same order, -1 for the opposite, ties left out of the numerator."""
    signs = [(_sign(a[0], b[0]), _sign(a[1], b[1])) for a, b in itertools.combinations(pairs, 2)]
    ordered = [sum(1 for pair in signs if pair[side]) for side in (0, 1)]
    return sum(x * y for x, y in signs) / max(1.0, (ordered[0] * ordered[1]) ** 0.5)


def _sign(a: float, b: float) -> int:
    return (a > b) - (a < b)


def compare(table: Table, show: bool) -> None:
    """Prints how the model's order agrees with the measured one."""
    times = {tile: modelled(KERNELS[table.kind](*table.shape, *tile), table.device) for tile in table.rows}
    if show:
        for tile in sorted(times, key=lambda tile: times[tile]):
            print(f"    {' '.join(f'{n:4}' for n in tile)}  modelled {times[tile]:8.1f} us  measured {table.rows[tile]:8.1f} us")
    chosen = table.rows[min(times, key=lambda tile: times[tile])]
    tau = kendall([(times[tile], measured) for tile, measured in table.rows.items()])
    print(f"{table.title:32} {table.device:5} {len(times):3} configurations  tau {tau:5.2f}  "
          f"choice measured {chosen / min(table.rows.values()):.2f} times the best")  # fmt: skip


def guide(device: str, depth: int = 512, size: int = 4096) -> None:
    """Prints how many pairs of tiles of the guide are in its order."""
    best = {}
    for tile in GUIDE:
        warps = 8 if tile[0] * tile[1] >= 128 * 256 else 4
        best[tile] = min(modelled(gemm(size, size, depth, *tile, 32, stages, warps), device) for stages in (2, 3, 4))
    pairs = [(a, b) for a, b in itertools.combinations(GUIDE, 2) if GUIDE[a] != GUIDE[b]]
    right = sum((best[a] < best[b]) == (GUIDE[a] < GUIDE[b]) for a, b in pairs)
    print(f"{'the guide on cuBLAS':32} {device:5} {len(GUIDE):3} tiles           {right} of {len(pairs)} pairs in its order")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=["gemm", "attention", "guide"])
    parser.add_argument("--times", action="store_true", help="print the times of every configuration")
    options = parser.parse_args()
    for table in TABLES:
        if options.only in (None, table.kind):
            compare(table, options.times)
    if options.only in (None, "guide"):
        guide("a100")


if __name__ == "__main__":
    main()
