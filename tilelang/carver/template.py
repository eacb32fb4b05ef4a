"""Problems of common shape: which tiles suit a device, ranked by a model of it."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tilelang.carver.arch.cuda import CUDA, TileDevice
from tilelang.carver.roller.hint import Hint
from tilelang.carver.roller.rasterization import NoRasterization, Rasterization2DColumn
from tilelang.dtypes import canonical
from tilelang.errors import TuningError
from tilelang.math import cdiv

_LAUNCH = 2e-6
"""Overhead of a launch, in seconds."""


@dataclass(frozen=True)
class Template:
    """A problem; subclasses say which tiles there are.

    Attributes:
        arch: the device; by default that of the default CUDA target.
    """

    arch: TileDevice | None = None

    def with_arch(self, arch: TileDevice) -> Any:
        """The same problem on a device."""
        return replace(self, arch=arch)

    @property
    def device(self) -> TileDevice:
        """The device."""
        return self.arch or CUDA("cuda")

    def recommend_hints(self, topk: int = 10) -> list[Hint]:
        """The ``topk`` configurations that the model expects to be fastest, best first.

        Raises:
            TuningError: no tile fits the device.
        """
        best: dict[tuple, Hint] = {}
        for hint in self.hints():
            # One of each tile: a search learns more from another tile than from another way to run the same.
            tile = (*hint.block, *hint.rstep)
            best[tile] = min(best.get(tile, hint), hint, key=_rank)
        if not best:
            raise TuningError(f"no tile of {type(self).__name__} fits {self.device.name}")
        return heapq.nsmallest(topk, best.values(), key=_rank)

    def hints(self) -> Iterator[Hint]:
        """Every configuration that fits the device."""
        raise NotImplementedError

    def equivalent_function(self) -> Any:
        """A plain program of the problem."""
        raise NotImplementedError


def _rank(hint: Hint) -> tuple[float, int]:
    return hint.time, hint.shared_bytes


@dataclass(frozen=True)
class MatmulTemplate(Template):
    """``C[M, N] = A @ B``: A is (M, K), or (K, M) with ``trans_A``; B is (K, N), or (N, K) with ``trans_B``.

    With ``with_bias`` the program adds ``Bias[N]``, of ``out_dtype`` and its third argument, to each row; this counts as free.
    """

    M: int = 0
    N: int = 0
    K: int = 0
    in_dtype: Any = "float16"
    out_dtype: Any = "float16"
    accum_dtype: Any = "float16"
    trans_A: bool = False
    trans_B: bool = True
    with_bias: bool = False

    _TILES: ClassVar[tuple[int, ...]] = (16, 32, 64, 128, 256)
    _WARPS: ClassVar[tuple[int, ...]] = (1, 2, 4, 8)
    _STAGES: ClassVar[tuple[int, ...]] = (1, 2, 3, 4)

    def hints(self) -> Iterator[Hint]:
        width = max(1, canonical(self.in_dtype).bits // 8)
        for m, n, k, stages in itertools.product(self._TILES, self._TILES, (16, 32, 64, 128), self._STAGES):
            if m >= 2 * max(16, self.M) or n >= 2 * max(16, self.N) or k * width < 32 or k >= 2 * max(32, self.K):
                continue
            shared = (m + n) * k * width * stages
            if shared > self.device.smem_cap:
                continue
            for rows, columns in itertools.product(self._WARPS, self._WARPS):
                if 1 <= rows * columns <= 8 and m // rows >= 16 and n // columns >= 16:
                    yield self._hint((m, n, k), (m // rows, n // columns), stages, shared)

    def _hint(self, tile: tuple[int, int, int], warp: tuple[int, int], stages: int, shared: int) -> Hint:
        m, n, k = tile
        threads = (m // warp[0]) * (n // warp[1]) * self.device.warp_size
        blocks = cdiv(self.M, m) * cdiv(self.N, n)
        panel = Rasterization2DColumn(8) if blocks > 4 * self.device.compute_max_core else NoRasterization()
        time = self._time(tile, warp, stages, shared, threads)
        return Hint(
            [m, n], list(warp), rstep=[k], threads=threads, pipeline_stage=stages, use_async=stages > 1, use_tc=True,
            rasterization_plan=panel, shared_bytes=shared, time=time,
        )  # fmt: skip

    def _time(self, tile: tuple[int, int, int], warp: tuple[int, int], stages: int, shared: int, threads: int) -> float:
        """Waves of blocks, each bound by the tensor cores, by the L2 cache, or by what is not overlapped."""
        (m, n, k), device = tile, self.device
        width = canonical(self.in_dtype).bits / 8
        registers = m * n // threads * (canonical(self.accum_dtype).bits / 32) + 64
        # Above that the accumulators spill, and nothing else of the model holds.
        if registers > 255:
            return math.inf
        blocks = cdiv(self.M, m) * cdiv(self.N, n)
        fitting = min(device.smem_cap // shared, int(device.reg_cap // (registers * threads)), 2048 // threads)
        resident = max(1, min(fitting, cdiv(blocks, device.compute_max_core)))
        # Operands of a warp come from shared memory: small warp tiles load more than they multiply.
        fed = min(1.0, warp[0] * warp[1] / (warp[0] + warp[1]) / 32)
        busy = min(1.0, resident * threads / (2 * device.sm_partition * device.warp_size))
        flops = device.peak_tflops * 1e12 / device.compute_max_core * (2 / width) * fed * busy
        steps = cdiv(self.K, k)
        compute = 2 * m * n * k * steps / flops
        loads = (m + n) * k * steps * width / (device.bandwidth[1] * 1e9 / device.compute_max_core)
        overlap = max(compute, loads) if stages > 1 or resident > 1 else compute + loads
        waves = cdiv(blocks, device.compute_max_core)
        fill = stages * (m + n) * k * width / (device.bandwidth[0] * 1e9 / device.compute_max_core)
        store = m * n * canonical(self.out_dtype).bits / 8 / (device.bandwidth[0] * 1e9 / device.compute_max_core)
        return _LAUNCH + waves * (overlap + store) + fill + steps * waves * 1e-7 / stages

    def equivalent_function(self) -> Any:
        import tilelang.language as T

        M, N, K, kind = self.M, self.N, self.K, self.accum_dtype
        shape_a, shape_b = (K, M) if self.trans_A else (M, K), (N, K) if self.trans_B else (K, N)

        @T.macro
        def product(A, B, i, j):
            total = T.alloc_var(kind, init=0)
            for k in T.serial(K):
                a = A[k, i] if self.trans_A else A[i, k]
                b = B[j, k] if self.trans_B else B[k, j]
                total += T.cast(a, kind) * T.cast(b, kind)
            return total

        @T.prim_func
        def matmul(A: T.Tensor(shape_a, self.in_dtype), B: T.Tensor(shape_b, self.in_dtype), C: T.Tensor((M, N), self.out_dtype)):
            with T.Kernel(N, M, threads=32) as (j, i):
                C[i, j] = product(A, B, i, j)

        @T.prim_func
        def matmul_bias(
            A: T.Tensor(shape_a, self.in_dtype),
            B: T.Tensor(shape_b, self.in_dtype),
            Bias: T.Tensor((N,), self.out_dtype),
            C: T.Tensor((M, N), self.out_dtype),
        ):
            with T.Kernel(N, M, threads=32) as (j, i):
                C[i, j] = product(A, B, i, j) + Bias[j]

        return matmul_bias if self.with_bias else matmul


@dataclass(frozen=True)
class _Streaming(Template):
    """Problems that read each element once: the memory's speed decides, tiles need to be wide enough for whole lines."""

    def _streamed(self, shape: Sequence[int], reduced: Sequence[int], dtype: Any) -> Iterator[Hint]:
        width, device = canonical(dtype).bits / 8, self.device
        lanes = max(1, int(16 / width))
        for threads, rows, step in itertools.product((32, 64, 128, 256), (1, 2, 4, 8), (1, 2, 4)):
            across = threads * lanes * step
            if reduced:
                block, rstep = [1] * (len(shape) - 1) + [rows], [1] * (len(reduced) - 1) + [min(across, reduced[-1])]
            else:
                block, rstep = [1] * (len(shape) - 1) + [min(across, shape[-1])], []
                if len(shape) > 1:
                    block[-2] = min(rows, shape[-2])
                elif rows > 1:
                    continue
            blocks = math.prod(cdiv(size, part) for size, part in zip(shape, block))
            work = math.prod([*block, *(reduced or [1])]) * width
            waves = cdiv(blocks * threads, device.compute_max_core * 2048)
            moved = blocks * work / (device.bandwidth[0] * 1e9)
            filled = min(1.0, blocks * threads / (device.compute_max_core * 1024))
            reduce_thread = [1] * (len(reduced) - 1) + [threads] if reduced else []
            yield Hint(
                block, rstep=rstep, thread=[] if reduced else [1] * (len(shape) - 1) + [lanes * step], threads=threads,
                reduce_thread=reduce_thread, time=_LAUNCH + moved / filled + waves * 1e-6,
            )  # fmt: skip


@dataclass(frozen=True)
class GEMVTemplate(_Streaming):
    """``C[N] = B @ A``: B is (N, K), or (K, N) without ``trans_B``; A is (K,)."""

    N: int = 0
    K: int = 0
    in_dtype: Any = "float16"
    out_dtype: Any = "float16"
    accum_dtype: Any = "float16"
    trans_B: bool = True

    def hints(self) -> Iterator[Hint]:
        return self._streamed([self.N], [self.K], self.in_dtype)

    def equivalent_function(self) -> Any:
        return MatmulTemplate(
            None, 1, self.N, self.K, self.in_dtype, self.out_dtype, self.accum_dtype, trans_B=self.trans_B
        ).equivalent_function()


@dataclass(frozen=True)
class ElementwiseTemplate(_Streaming):
    """``B[...] = A[...] + 1`` of any shape."""

    shape: Sequence[int] = ()
    dtype: Any = "float16"

    def hints(self) -> Iterator[Hint]:
        return self._streamed(list(self.shape), [], self.dtype)

    def equivalent_function(self) -> Any:
        import tilelang.language as T

        size = math.prod(self.shape)

        @T.prim_func
        def elementwise(A: T.Tensor((size,), self.dtype), B: T.Tensor((size,), self.dtype)):
            with T.Kernel(size, threads=32) as i:
                B[i] = A[i] + 1

        return elementwise


@dataclass(frozen=True)
class GeneralReductionTemplate(_Streaming):
    """Sums over the axes marked ``R`` of ``structure``, for each index of those marked ``S``."""

    structure: str = "SR"
    shape: Sequence[int] = ()
    dtype: Any = "float16"

    def _sizes(self, mark: str) -> list[int]:
        return [size for each, size in zip(self.structure, self.shape) if each == mark]

    def hints(self) -> Iterator[Hint]:
        return self._streamed(self._sizes("S"), self._sizes("R"), self.dtype)

    def equivalent_function(self) -> Any:
        import tilelang.language as T

        shape, structure, dtype = tuple(self.shape), self.structure, self.dtype
        kept, lost = self._sizes("S"), self._sizes("R")

        @T.prim_func
        def reduction(A: T.Tensor(shape, dtype), B: T.Tensor(tuple(kept), dtype)):
            with T.Kernel(math.prod(kept), threads=32) as block:
                total = T.alloc_var("float32", init=0)
                outer = T.index_to_coordinates(block, kept)
                for step in T.serial(math.prod(lost)):
                    places = {"S": iter(outer), "R": iter(T.index_to_coordinates(step, lost) if lost else ())}
                    total += A[tuple(next(places[mark]) for mark in structure)]
                B[tuple(outer)] = total

        return reduction
