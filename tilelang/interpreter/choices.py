"""Conditions on a thread's number, evaluated for all threads of a block before a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilelang.interpreter.arithmetic import BINARY
from tilelang.interpreter.numbers import Element, constant, convert, element
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.tileop.thread import intrinsic_name

WARP = 32

NUMBERS: dict[str, tuple[Callable[[np.ndarray, list[int]], np.ndarray], tuple[int, ...]]] = {
    "lane_idx": (lambda thread, sizes: thread % sizes[0], (WARP,)),
    "warp_idx": (lambda thread, sizes: thread // sizes[0], (WARP,)),
    "warp_idx_sync": (lambda thread, sizes: thread // sizes[0], (WARP,)),
    "warp_group_idx": (lambda thread, sizes: thread // (sizes[0] * sizes[1]), (WARP, 4)),
    "shuffle_elect": (lambda thread, sizes: thread % sizes[0] == 0 if sizes[0] else thread == 0, ()),
}
"""Intrinsic -> what it gives each thread, of the threads' numbers and its arguments; and the arguments that may be left out."""


def arguments_of(call: Any, defaults: tuple[int, ...]) -> list[int]:
    """The arguments of a call, which are constants, with defaults for those that it leaves out."""
    given = [int(arg.value) for arg in call.args]
    return [*given, *defaults[len(given) :]]


@dataclass(frozen=True)
class ActiveThreads:
    """The threads that may come to a statement.

    Attributes:
        threads: neighbours, as far as conditions on their numbers say.
        are_named: whether there is such a condition, even one that all threads of the block meet.
        diverged: whether other conditions that differ keep some of them away.
    """

    threads: range = range(1)
    are_named: bool = False
    diverged: bool = False

    @property
    def are_some(self) -> bool:
        """Whether each of them comes by itself, and not the block."""
        return self.diverged or self.are_named

    def diverging(self, differs: bool = True) -> ActiveThreads:
        """Those that come to a statement below a condition that differs, if ``differs``."""
        return replace(self, diverged=self.diverged or differs)

    def of(self, chosen: np.ndarray | None) -> ActiveThreads:
        """Those that are chosen, of all threads of the block; where they are no neighbours, any of them."""
        if chosen is None:
            return self.diverging()
        numbers = [thread for thread in self.threads if chosen[thread]]
        if not numbers or len(numbers) < numbers[-1] - numbers[0] + 1:
            return self.diverging()
        return replace(self, threads=range(numbers[0], numbers[-1] + 1), are_named=True)

    def use_beyond(self, other: ActiveThreads) -> bool:
        """Whether threads that come here may find what others have left there, and others not."""
        here, there = self.threads, other.threads
        contained = there.start <= here.start and here.stop <= there.stop and (self.are_named or not other.are_named)
        return here.start < there.stop and there.start < here.stop and not contained


class ThreadNumbers:
    """Values that are computed from a thread's number.

    Attributes:
        bound: what the program binds names to.
    """

    def __init__(self) -> None:
        self.bound: dict[Any, Any] = {}
        self._axes: dict[str, tuple[Any, int]] = {}

    def enter(self, node: Any, extent: Any) -> int:
        """Notes an axis of the block's threads; gives how many there are now."""
        size = as_int(extent)
        self._axes[str(node.thread_tag)] = node.var, size if isinstance(size, int) else 1
        return self.count

    @property
    def count(self) -> int:
        """Threads of the block."""
        return int(np.prod([size for _, size in self._axes.values()], dtype=np.int64))

    def chosen(self, conditions: Iterable[Any]) -> np.ndarray | None:
        """Which threads meet all of some conditions; None where these are not computed from a thread's number alone."""
        found = [self.value(condition) for condition in conditions]
        if any(value is None for value in found):
            return None
        return np.logical_and.reduce([np.broadcast_to(value, self.count) for value in found])

    def value(self, expr: Any) -> Any:
        """What an expression is in each thread, a number where it is the same; None where it is not known."""
        if isinstance(expr, ir.IntImm):
            return constant(expr.value, _type_of(expr))
        if isinstance(expr, ir.Var):
            return self.value(self.bound[expr]) if expr in self.bound else self._index(expr)
        name = intrinsic_name(expr)
        if name in NUMBERS:
            compute, defaults = NUMBERS[name]
            return compute(np.arange(self.count, dtype=np.int32), arguments_of(expr, defaults))
        if type(expr) in BINARY:
            a, b = self.value(expr.a), self.value(expr.b)
            return None if a is None or b is None else BINARY[type(expr)](_type_of(expr.a), a, b)
        inner = self.value(expr.a if isinstance(expr, ir.Not) else expr.value) if isinstance(expr, (ir.Not, ir.Cast)) else None
        if inner is None:
            return None
        return np.logical_not(inner) if isinstance(expr, ir.Not) else convert(inner, _type_of(expr.value), _type_of(expr))

    def _index(self, var: Any) -> np.ndarray | None:
        """The index along an axis of the block, x fastest."""
        below = 1
        for axis in "xyz":
            name, size = self._axes.get(f"threadIdx.{axis}", (None, 1))
            if name is not None and name.same_as(var):
                return (np.arange(self.count, dtype=np.int32) // below) % size
            below *= size
        return None


def _type_of(expr: Any) -> Element:
    return element(str(expr.ty))
