"""Operations along rows: softmax, norms, cross entropy, running sums, the largest elements. One block takes one row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

import tilelang.language as T
from cpu_programs.case import Case, nbytes

LOG2_E = 1.4426950408889634
SHAPES = ((512, 1000), (512, 1024), (2048, 2048))
EPSILON = 1e-5


def softmax(M: int, N: int) -> Any:
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=128) as row:
            x = T.alloc_fragment((1, N), "float32")
            most = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] = T.exp2((x[i, j] - most[i]) * LOG2_E)
            T.reduce_sum(x, total, dim=1)
            for i in T.Parallel(1):
                total[i] = 1.0 / total[i]
            for i, j in T.Parallel(1, N):
                Y[row, j] = x[i, j] * total[i]

    return main


def rms_norm(M: int, N: int) -> Any:
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), W: T.Tensor((N,), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=128) as row:
            x = T.alloc_fragment((1, N), "float32")
            squares = T.alloc_fragment((1, N), "float32")
            scale = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            for i, j in T.Parallel(1, N):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, scale, dim=1)
            for i in T.Parallel(1):
                scale[i] = T.rsqrt(scale[i] / N + EPSILON)
            for i, j in T.Parallel(1, N):
                Y[row, j] = x[i, j] * scale[i] * W[j]

    return main


def layer_norm(M: int, N: int) -> Any:
    @T.prim_func
    def main(
        X: T.Tensor((M, N), "float32"),
        W: T.Tensor((N,), "float32"),
        B: T.Tensor((N,), "float32"),
        Y: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(M, threads=128) as row:
            x = T.alloc_fragment((1, N), "float32")
            squares = T.alloc_fragment((1, N), "float32")
            mean = T.alloc_fragment((1,), "float32")
            scale = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(1):
                mean[i] = mean[i] / N
            for i, j in T.Parallel(1, N):
                squares[i, j] = (x[i, j] - mean[i]) * (x[i, j] - mean[i])
            T.reduce_sum(squares, scale, dim=1)
            for i in T.Parallel(1):
                scale[i] = T.rsqrt(scale[i] / N + EPSILON)
            for i, j in T.Parallel(1, N):
                Y[row, j] = (x[i, j] - mean[i]) * scale[i] * W[j] + B[j]

    return main


def cross_entropy(M: int, N: int) -> Any:
    """``loss[i] = log(sum(exp(X[i]))) - X[i, labels[i]]``."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), labels: T.Tensor((M,), "int64"), loss: T.Tensor((M,), "float32")):
        with T.Kernel(M, threads=128) as row:
            x = T.alloc_fragment((1, N), "float32")
            most = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] = T.exp2((x[i, j] - most[i]) * LOG2_E)
            T.reduce_sum(x, total, dim=1)
            for i in T.Parallel(1):
                loss[row] = T.log(total[i]) + most[i] - X[row, labels[row]]

    return main


def running_sum(M: int, N: int) -> Any:
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=128) as row:
            x = T.alloc_shared((1, N), "float32")
            T.copy(X[row, 0], x)
            T.cumsum(x, dim=1)
            T.copy(x, Y[row, 0])

    return main


def largest(M: int, N: int, k: int = 8) -> Any:
    """The ``k`` largest elements of each row, by ``k`` rounds of maximum and removal."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), values: T.Tensor((M, k), "float32")):
        with T.Kernel(M, threads=128) as row:
            x = T.alloc_fragment((1, N), "float32")
            places = T.alloc_fragment((1, N), "int32")
            most = T.alloc_fragment((1,), "float32")
            place = T.alloc_fragment((1,), "int32")
            T.copy(X[row, 0], x)
            for turn in T.serial(k):
                T.reduce_max(x, most, dim=1)
                for i, j in T.Parallel(1, N):
                    places[i, j] = T.if_then_else(x[i, j] == most[i], j, N)
                T.reduce_min(places, place, dim=1)
                for i, j in T.Parallel(1, N):
                    x[i, j] = T.if_then_else(place[i] == j, -T.infinity("float32"), x[i, j])
                for i in T.Parallel(1):
                    values[row, turn] = most[i]

    return main


def scaled(M: int, N: int, by_columns: bool = False) -> Any:
    """``2 x + 1`` in tiles, with the loop along rows innermost, or that along columns."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, 64), T.ceildiv(N, 64), threads=128) as (bx, by):
            if by_columns:
                for j, i in T.Parallel(64, 64):
                    Y[bx * 64 + i, by * 64 + j] = X[bx * 64 + i, by * 64 + j] * 2 + 1
            else:
                for i, j in T.Parallel(64, 64):
                    Y[bx * 64 + i, by * 64 + j] = X[bx * 64 + i, by * 64 + j] * 2 + 1

    return main


def _scaled(x: torch.Tensor, by_columns: bool = False) -> tuple[Any, ...]:
    y, one = torch.empty_like(x), torch.ones(())
    return partial(scaled, by_columns=by_columns), (x, y), partial(torch.add, one, x, alpha=2, out=torch.empty_like(x))


def _softmax(x: torch.Tensor) -> tuple[Any, ...]:
    y = torch.empty_like(x)
    return softmax, (x, y), partial(torch.softmax, x, 1, out=torch.empty_like(x))


def _rms_norm(x: torch.Tensor) -> tuple[Any, ...]:
    weight = torch.randn(x.shape[1])
    theirs = partial(torch.nn.functional.rms_norm, x, weight.shape, weight, EPSILON)
    return rms_norm, (x, weight, torch.empty_like(x)), theirs


def _layer_norm(x: torch.Tensor) -> tuple[Any, ...]:
    weight, bias = torch.randn(x.shape[1]), torch.randn(x.shape[1])
    theirs = partial(torch.nn.functional.layer_norm, x, weight.shape, weight, bias, EPSILON)
    return layer_norm, (x, weight, bias, torch.empty_like(x)), theirs


def _cross_entropy(x: torch.Tensor) -> tuple[Any, ...]:
    labels = torch.randint(0, x.shape[1], (len(x),))
    return (
        cross_entropy,
        (x, labels, torch.empty(len(x))),
        partial(torch.nn.functional.cross_entropy, x, labels, reduction="none"),
    )


def _running_sum(x: torch.Tensor) -> tuple[Any, ...]:
    return running_sum, (x, torch.empty_like(x)), partial(torch.cumsum, x, 1, out=torch.empty_like(x))


def _largest(x: torch.Tensor) -> tuple[Any, ...]:
    return largest, (x, torch.empty(len(x), 8)), lambda: x.topk(8, dim=1).values


_OPERATIONS = {
    "softmax": _softmax,
    "RMS norm": _rms_norm,
    "layer norm": _layer_norm,
    "cross entropy": _cross_entropy,
    "cumulative sum": _running_sum,
    "8 largest": _largest,
    "2 x + 1": _scaled,
    "2 x + 1, loops by columns": partial(_scaled, by_columns=True),
}
"""Name -> the program, its tensors, and torch's function, for an input."""


def row_case(name: str, M: int, N: int) -> Case:
    """One operation on ``M`` rows of ``N`` elements."""
    program, tensors, theirs = _OPERATIONS[name](torch.randn(M, N))
    resource = "copy" if tensors[-1].shape == (M, N) else "read"
    exponentials = M * N if name in ("softmax", "cross entropy") else 0
    return Case(name, f"{M}x{N}", program(M, N), tensors, theirs, resource, nbytes(*tensors), exponentials=exponentials)


def cases() -> Iterator[Callable[[], Case]]:
    """All rows."""
    for name in _OPERATIONS:
        for M, N in SHAPES:
            yield partial(row_case, name, M, N)
