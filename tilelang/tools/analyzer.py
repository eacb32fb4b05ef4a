"""A lower bound of a program's cost: operations of its products, bytes of its copies, and their time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tilelang.carver.arch.cuda import peak_tflops
from tilelang.dtypes import canonical
from tilelang.errors import CompileError, RunTimeValueError
from tilelang.ir.memory import is_global


@dataclass(frozen=True)
class AnalysisResult:
    """The cost of a program.

    Attributes:
        total_flops: operations of matrix products.
        total_global_bytes: bytes that copies read from and write to global memory.
        estimated_time: seconds that the device needs for the slower of the two.
        expected_tflops: the device's peak; None where it is not known.
        expected_bandwidth_GBps: the speed of the device's memory.
    """

    total_flops: int
    total_global_bytes: int
    estimated_time: float
    expected_tflops: float | None
    expected_bandwidth_GBps: float


class Analyzer:
    """Counts products (``T.gemm``) and copies of a program, for every block and every iteration of the loops around them.

    Args:
        fn: a traced program.
        device: with ``compute_capability`` (``"80"``) and ``bandwidth`` (GB/s of device memory first), as
            :func:`tilelang.carver.arch.CUDA` gives.
    """

    def __init__(self, fn: Any, device: Any):
        self.fn = fn
        self.device = device
        self.block_counts = {f"blockIdx.{axis}": 1 for axis in "xyz"}
        self.total_flops = 0
        self.total_global_bytes = 0

    @classmethod
    def analysis(cls, fn: Any, device: Any) -> AnalysisResult:
        """The cost of ``fn`` on ``device``."""
        return cls(fn, device).ir_pass().calculate()

    def ir_pass(self) -> Analyzer:
        """Counts; returns the analyzer.

        Raises:
            CompileError: a loop or the grid has a size that is known at run time only; so has every ``while`` loop.
        """
        from tilelang.ir import nodes as ir

        functions = self.fn.functions.values() if hasattr(self.fn, "functions") else [self.fn]
        self.total_flops = self.total_global_bytes = 0
        for function in functions:
            _Count(self, ir.Analyzer()).stmt(function.body, 1)
        return self

    def calculate(self) -> AnalysisResult:
        """The cost of the counted operations and bytes."""
        tflops = getattr(self.device, "peak_tflops", None) or peak_tflops(str(self.device.compute_capability))
        bandwidth = float(self.device.bandwidth[0])
        times = [self.total_global_bytes / (bandwidth * 1e9)]
        if tflops is not None:
            times.append(self.total_flops / (tflops * 1e12))
        # At best copies and products overlap completely, so the longer of the two is a lower bound of the time.
        return AnalysisResult(self.total_flops, self.total_global_bytes, max(times), tflops, bandwidth)


class _Count:
    """One walk over a program."""

    def __init__(self, total: Analyzer, bounds: Any):
        self.total = total
        self.bounds = bounds
        self.known: set[Any] = set()

    def stmt(self, node: Any, times: int) -> None:
        """Counts ``node``, which runs ``times`` times."""
        from tilelang.ir import nodes as ir
        from tilelang.ir.visit import children
        from tilelang.tileop import decode, is_tile_op

        if isinstance(node, ir.Evaluate) and is_tile_op(node.value):
            self._operator(decode(node.value), times)
            return
        if isinstance(node, ir.While):
            raise _unknown("the number of iterations of a while loop")
        if isinstance(node, ir.For):
            extent = self._most(node.extent, "a loop")
            self._bind(node.loop_var, ir.Range.from_min_extent(node.min, node.extent))
            times *= extent
        elif isinstance(node, ir.AttrStmt) and node.attr_key == "thread_extent":
            tag = node.node.thread_tag
            if tag.startswith("blockIdx"):
                self.total.block_counts[tag] = extent = self._most(node.value, "the grid")
                self._bind(node.node.var, ir.Range.from_min_extent(ir.IntImm(node.node.var.ty, 0), node.value))
                times *= extent
        for child in children(node):
            self.stmt(child, times)

    def _bind(self, var: Any, values: Any) -> None:
        self.bounds.bind(var, values, allow_override=True)
        self.known.add(var)

    def _most(self, extent: Any, what: str) -> int:
        """The largest value of an extent; those that depend on outer indices are counted in full."""
        from tilelang.ir.visit import variables

        if any(var not in self.known for var in variables(extent)):
            raise _unknown(f"the size {extent} of {what}")
        return max(0, int(self.bounds.const_int_bound(extent).max_value))

    def _operator(self, record: Any, times: int) -> None:
        from tilelang.tileop.copy import Copy
        from tilelang.tileop.gemm import Gemm, GemmSparse

        if isinstance(record, (Gemm, GemmSparse)):
            self.total.total_flops += 2 * times * math.prod(self._most_of(size) for size in (record.m, record.n, record.k))
        elif isinstance(record, Copy):
            for region in (record.src, record.dst):
                if is_global(region):
                    bits = canonical(region.dtype).bits * math.prod(map(self._most_of, region.extents))
                    self.total.total_global_bytes += times * bits // 8

    def _most_of(self, extent: Any) -> int:
        return extent if isinstance(extent, int) else self._most(extent, "a tile")


def _unknown(what: str) -> CompileError:
    return RunTimeValueError(f"{what} is known at run time only", hint="analyze the program of fixed sizes")
