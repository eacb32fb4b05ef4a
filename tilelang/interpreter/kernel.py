"""A kernel of a program: its grid of blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tilelang.interpreter.asynchronous import Queue
from tilelang.interpreter.blocks import Order, forget_tensors, watch_tensors
from tilelang.interpreter.compiler import Compiler, Step
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.memory import View
from tilelang.interpreter.schedule import run_blocks
from tilelang.interpreter.state import Lanes
from tilelang.interpreter.survey import evaluated, written_buffers
from tilelang.interpreter.waits import BlockBarrier, ThreadBarrier
from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_global
from tilelang.ir.visit import walk_expr
from tilelang.tileop.thread import intrinsic_name


class Block:
    """One block while it runs.

    Attributes:
        indices: its place in the grid, one number an axis that the program named.
        number: its place in the order of blocks, x fastest.
        grid, cluster: the barriers of its grid and cluster; ``rank`` is its number in the cluster.
        state: in which it runs.
        order: happens-before between the blocks.
        divided: fragments of which some threads hold copies of their own.
        exited: the threads that returned.
        generator: of random numbers.
        barriers: its mbarriers, by the slot of their buffer.
        copies, stores, products: asynchronous work in flight, by unit.
        phases: for each barrier between blocks, the phase in which it arrived.
        waiting: what it waits for, and the span of the statement; None until it waits.
        may_go_on: whether it polls memory in a loop that may end by itself after some number of turns.
        is_written_by_others: whether blocks of its cluster may store to its shared tiles.
    """

    def __init__(self, indices: tuple[int, ...], number: int, threads: int, grid: BlockBarrier, cluster: BlockBarrier, rank: int):
        self.indices = indices
        self.number = number
        self.grid, self.cluster, self.rank = grid, cluster, rank
        self.state: Any = None
        self.order: Any = None
        self.divided: list[Any] = []
        self.exited = np.zeros(threads, bool)
        self.generator: Any = None
        self.barriers: dict[int, Any] = {}
        self.copies, self.stores, self.products = Queue(), Queue(), Queue()
        self.phases: dict[str, int] = {}
        self.waiting: Any = None
        self.may_go_on = False
        self.is_written_by_others = False
        self._thread_barriers: dict[int, ThreadBarrier] = {}

    def thread_barrier(self, number: int) -> ThreadBarrier:
        """The block's barrier of a number; 0 is that of ``T.sync_threads()``."""
        if number not in self._thread_barriers:
            self._thread_barriers[number] = ThreadBarrier(self.exited.size)
        return self._thread_barriers[number]


def launch(c: Compiler, stmt: Any) -> Step:
    """The step of a kernel."""
    axes: dict[str, tuple[int, Any]] = {}
    body = stmt
    while isinstance(body, ir.AttrStmt) and body.attr_key == "thread_extent":
        axes[str(body.node.thread_tag)] = c.slot(body.node.var), compiled(c, body.value)
        body = body.body
    inner = c.step(body)
    tensors = [c.view(buffer) for buffer in sorted(written_buffers(body), key=str) if is_global(buffer)]
    stores_to_others = any(intrinsic_name(part) == "store_cluster" for expr in evaluated(body) for part in walk_expr(expr))

    def run(x: Lanes) -> bool:
        sizes = {tag: int(extent(x)) for tag, (_, extent) in axes.items()}
        written = {slot: x.views[slot] for slot in tensors if x.views[slot] is not None}
        grid = Grid(x, sizes, {tag: slot for tag, (slot, _) in axes.items()}, written, stores_to_others)
        run_blocks(x.run, grid.begin, grid.size, inner)
        forget_tensors(written)
        return False

    return Step(run)


class Grid:
    """The blocks of one launch.

    Attributes:
        size: how many.
    """

    def __init__(
        self, x: Lanes, extents: dict[str, int], slots: dict[str, int], written: dict[int, View], stores_to_others: bool
    ):
        self._x = x
        self._stores_to_others = stores_to_others
        self._extents = extents
        self._slots = slots
        self._blocks, self._cluster, self._threads = (self._of(kind) for kind in ("blockIdx", "clusterCtaIdx", "threadIdx"))
        self.size = int(np.prod(self._blocks, dtype="int64"))
        self._order = Order(self.size)
        self._all = BlockBarrier(self.size, self._order)
        watch_tensors(written, self._order)
        self._clusters: dict[tuple[int, ...], BlockBarrier] = {}
        self._ended = x.run.strands

    def _of(self, kind: str) -> list[int]:
        return [self._extents.get(f"{kind}.{axis}", 1) for axis in "xyz"]

    def begin(self, number: int) -> Lanes:
        """The state in which a block begins."""
        x, lanes = self._x, int(np.prod(self._threads))
        place = list(_coordinates(number, self._blocks))
        own = [index % size for index, size in zip(place, self._cluster)]
        # The order of %cluster_ctarank: x fastest (PTX manual, "Special Registers").
        rank = own[0] + self._cluster[0] * (own[1] + self._cluster[1] * own[2])
        group = tuple(index // size for index, size in zip(place, self._cluster))
        cluster = self._clusters.setdefault(group, BlockBarrier(int(np.prod(self._cluster)), self._order))
        named = tuple(index for axis, index in zip("xyz", place) if f"blockIdx.{axis}" in self._extents)
        block = Block(named, number, lanes, self._all, cluster, rank)
        block.order, block.is_written_by_others = self._order, self._stores_to_others
        cluster.blocks[rank] = block
        block.state = y = Lanes(x.run, block, lanes, list(x.values), list(x.views))
        y.span, y.strand.ended = x.span, self._ended
        if x.run.manual:
            y.since = 0
            y.cross_barrier()
        self._set(y, "blockIdx", place)
        self._set(y, "clusterCtaIdx", own)
        threads = zip(_coordinates(y.lane_ids, self._threads), self._threads)
        self._set(y, "threadIdx", [index.astype(np.int32) if size > 1 else 0 for index, size in threads])
        return y

    def _set(self, y: Lanes, kind: str, indices: list[Any]) -> None:
        for axis, index in zip("xyz", indices):
            slot = self._slots.get(f"{kind}.{axis}")
            if slot is not None:
                y.values[slot] = index if np.ndim(index) else np.int32(index)


def _coordinates(number: Any, sizes: list[int]) -> Iterator[Any]:
    """The index along x, y and z; x runs fastest."""
    for size in sizes:
        yield number % size
        number = number // size
