"""Products with 4-bit weights, one scale for 64 of a row, beside torch's own kernel for them where it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

import tilelang.language as T
from cpu_programs.case import Case, nbytes

GROUP = 64
SHAPES = ((1, 2048, 2048), (16, 2048, 2048))


def weights_of_4_bits(M: int, N: int, K: int, block_N: int, rows: int) -> Any:
    """``C = A W^T``, where ``W[n, k] = (4 bits - 8) * scales[n, k // 64]``.

    So many ``rows`` of weights are unpacked at a time.

    The 32 bytes of a group hold its first 32 weights in their lower halves, the others in their upper halves.
    """
    half = GROUP // 2

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((N, K // 2), "uint8"),
        scales: T.Tensor((N, K // GROUP), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(N // block_N, threads=128) as bx:
            A_shared = T.alloc_shared((M, K), "bfloat16")
            wide = T.alloc_shared((rows, K), "bfloat16")
            sums = T.alloc_fragment((M, rows), "float32")
            T.copy(A, A_shared)
            for step in T.serial(block_N // rows):
                first = bx * block_N + step * rows
                for i in T.serial(rows):
                    for group in T.serial(K // GROUP):
                        for j in T.Parallel(half):
                            both = T.cast(B[first + i, group * half + j], "int32")
                            scale = scales[first + i, group]
                            wide[i, group * GROUP + j] = T.cast((both & 15) - 8, "float32") * scale
                            wide[i, group * GROUP + half + j] = T.cast((both >> 4) - 8, "float32") * scale
                T.gemm(A_shared, wide, sums, transpose_B=True, clear_accum=True)
                T.copy(sums, C[0, first])

    return main


def _case(M: int, N: int, K: int) -> Case:
    a, codes = torch.randn(M, K).bfloat16(), torch.randint(0, 16, (N, K), dtype=torch.int32)
    scales = torch.rand(N, K // GROUP).bfloat16().float() * 0.125
    groups = codes.view(N, K // GROUP, 2, GROUP // 2).to(torch.uint8)
    packed = (groups[:, :, 0] | (groups[:, :, 1] << 4)).reshape(N, K // 2)
    tiled = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
    affine = torch.stack([scales.T, torch.zeros_like(scales.T)], dim=2).bfloat16().contiguous()
    theirs = partial(torch.ops.aten._weight_int4pack_mm_for_cpu, a, tiled, GROUP, affine)
    tensors = (a, packed, scales, torch.empty(M, N))
    thin = M < 16
    return Case(
        "GEMV 4-bit weights" if M == 1 else "GEMM 4-bit weights",
        f"{M}x{N}x{K}",
        weights_of_4_bits(M, N, K, 64, 4 if thin else 32),
        tensors,
        theirs,
        "read" if thin else "bfloat16",
        nbytes(*tensors) if thin else 2 * M * N * K,
        2e-2,
    )


def cases() -> Iterator[Callable[[], Case]]:
    """All rows."""
    for shape in SHAPES:
        yield partial(_case, *shape)
