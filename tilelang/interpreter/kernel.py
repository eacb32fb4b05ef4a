"""A kernel of a program: its grid of blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tilelang.interpreter.compiler import Compiler, Step
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.schedule import run_blocks
from tilelang.interpreter.state import Lanes
from tilelang.ir import nodes as ir

_WARP = 32


class Block:
    """One block while it runs.

    Attributes:
        indices: its place in the grid, one number an axis that the program named.
        number: its place in the order of blocks, x fastest.
        generator: of random numbers.
    """

    def __init__(self, indices: tuple[int, ...], number: int, threads: int):
        self.indices = indices
        self.number = number
        self.threads = threads
        self.generator: Any = None


def launch(c: Compiler, stmt: Any) -> Step:
    """The step of a kernel."""
    axes: dict[str, tuple[int, Any]] = {}
    body = stmt
    while isinstance(body, ir.AttrStmt) and body.attr_key == "thread_extent":
        axes[str(body.node.thread_tag)] = c.slot(body.node.var), compiled(c, body.value)
        body = body.body
    inner = c.step(body)

    def run(x: Lanes) -> bool:
        extents = {tag: int(extent(x)) for tag, (_, extent) in axes.items()}
        slots = {tag: slot for tag, (slot, _) in axes.items()}
        run_blocks(x.run, lambda number: _block_state(x, c, extents, slots, number), _count(extents), inner)
        return False

    return Step(run)


def _of(extents: dict[str, int], kind: str) -> list[int]:
    return [extents.get(f"{kind}.{axis}", 1) for axis in "xyz"]


def _count(extents: dict[str, int]) -> int:
    return int(np.prod(_of(extents, "blockIdx"), dtype="int64"))


def _coordinates(number: Any, sizes: list[int]) -> Iterator[Any]:
    """The index along x, y and z; x runs fastest."""
    for size in sizes:
        yield number % size
        number = number // size


def _block_state(x: Lanes, c: Compiler, extents: dict[str, int], slots: dict[str, int], number: int) -> Lanes:
    """The state in which a block begins."""
    threads = _of(extents, "threadIdx")
    lanes = int(np.prod(threads))
    place = list(_coordinates(number, _of(extents, "blockIdx")))
    named = [axis for axis in "xyz" if f"blockIdx.{axis}" in extents]
    block = Block(tuple(place["xyz".index(axis)] for axis in named), number, lanes)
    y = Lanes(x.run, block, lanes, list(x.values), list(x.views))
    y.span = x.span
    for axis, index in zip("xyz", place):
        if f"blockIdx.{axis}" in slots:
            y.values[slots[f"blockIdx.{axis}"]] = np.int32(index)
    for axis, index, size in zip("xyz", _coordinates(y.lane_ids, threads), threads):
        if f"threadIdx.{axis}" in slots:
            y.values[slots[f"threadIdx.{axis}"]] = index.astype(np.int32) if size > 1 else np.int32(0)
    return y
