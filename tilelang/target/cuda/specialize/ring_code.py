"""What both roles of a warp-specialised kernel are made of: loads with their barriers and slots, places in a ring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from math import prod
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.memory import BARRIER, VARIABLE
from tilelang.ir.region import Region
from tilelang.records import Record
from tilelang.target.cuda.analysis.availability import Fill
from tilelang.target.cuda.arch import WARP
from tilelang.target.cuda.tile.build import block
from tilelang.tileop.thread import intrinsic_call

_SLOT_ALIGNMENT = 128
"""Bytes; the accelerator writes to such addresses only."""


class Load(Fill, eq=False):
    """A copy of a loop's body that a producer may make.

    Attributes:
        start: of a tile and a barrier, the operator that starts to fill the tile, and completes on the barrier.
    """

    start: Callable[[Region, Region], Any]

    @property
    def bytes(self) -> int:
        """Bytes that it brings."""
        return bytes_of(self.target)


def bytes_of(tile: Region) -> int:
    """The bytes of a tile, of which each element has whole ones."""
    return canonical(tile.dtype).bytes * prod(map(int, tile.extents))


def fits_slots(tile: Any) -> bool:
    """Whether each version of a tile can begin where the accelerator writes to: a row may be followed by empty places."""
    return bytes_of(Region.whole(tile)) % _SLOT_ALIGNMENT == 0 or prod(map(int, tile.shape[:-1])) == 1


def _with_slots(tile: Any, stages: int) -> Any:
    """The buffer with a version of a tile for each slot."""
    *outer, row = map(int, tile.shape)
    missing = -bytes_of(Region.whole(tile)) % _SLOT_ALIGNMENT // canonical(str(tile.dtype)).bytes
    return _shared((stages, *outer, row + missing), str(tile.dtype), tile.name, tile.scope(), 1)


class Feed(Record, eq=False):
    """Loads that arrive together: they are first used by the same statement of the loop's body, and last used by the same.

    Attributes:
        loads: in order.
        first_use, last_use: positions in the body.
        stages: slots of the ring.
    """

    loads: tuple[Load, ...]
    first_use: int
    last_use: int
    stages: int

    @cached_property
    def versions(self) -> dict[Any, Any]:
        """The tile of each load -> the buffer with a version of it for each slot."""
        return {tile: _with_slots(tile, self.stages) for tile in dict.fromkeys(load.target.buffer for load in self.loads)}

    @cached_property
    def full(self) -> Any:
        """For each slot, the barrier that says that its tiles are there."""
        return self._barrier("full")

    @cached_property
    def empty(self) -> Any:
        """For each slot, the barrier that says that nothing uses it any more."""
        return self._barrier("empty")

    def _barrier(self, role: str) -> Any:
        return _shared((self.stages,), "uint64", f"{self.loads[0].target.buffer.name}_{role}", BARRIER, 8)

    def allocations(self, threads: int, spans: Mapping[Any, Any]) -> list[Any]:
        """The allocations of its buffers, for so many consumers; ``spans`` are those of the program's own allocations, by
        tile."""
        # Full: the one thread that announces the bytes. Empty: one lane for each warp of the consumers.
        counts = ((self.full, 1), (self.empty, threads // WARP))
        barriers = [ir.AllocBuffer(b, {"tl.arrive_counts": [ir.IntImm("int32", count)] * self.stages}) for b, count in counts]
        return [*barriers, *(ir.AllocBuffer(new, span=spans.get(old)) for old, new in self.versions.items())]

    def await_full(self, place: Place) -> Any:
        """Waits for the tiles of an iteration."""
        return call("ring_wait", _one_of(self.full, place.slot), place.parity)

    def await_empty(self, place: Place) -> Any:
        """Waits until an iteration's slot is free."""
        # The phase before the one that this iteration completes. A fresh barrier counts as past the phase before its first,
        # so the first wait for each slot returns at once, and the producer needs no special case to begin.
        return call("ring_wait", _one_of(self.empty, place.slot), 1 - place.parity)

    def expect(self, place: Place) -> Any:
        """The tiles of an iteration will be there when all their bytes have come."""
        return call("ring_expect", _one_of(self.full, place.slot), sum(load.bytes for load in self.loads))

    def release(self, slot: Any) -> Any:
        """A warp is done with a slot."""
        return call("ring_release", _one_of(self.empty, slot))


def _shared(shape: tuple[Any, ...], dtype: str, name: str, scope: str, alignment: int) -> Any:
    return ir.decl_buffer(shape, dtype, name, scope=scope, layout=None, data_alignment=alignment)


class Place(Record):
    """Where in its ring an iteration is.

    Attributes:
        slot: the version of the buffers that is in use.
        parity: of the phase of ``full`` that this iteration completes.
    """

    slot: Any
    parity: Any
    stages: int

    def before(self) -> Any:
        """The slot of the iteration before."""
        last = ir.IntImm("int32", self.stages - 1)
        return ir.Select(self.slot > 0, self.slot - 1, last)


class Counter:
    """Where a role is in a ring: two variables that go on where the loop runs again.

    They are stepped instead of computed from the iteration's number: a division by three costs ten instructions an iteration.
    """

    def __init__(self, stages: int, name: str):
        self.stages = stages
        self.slot = ir.decl_buffer((1,), "int32", f"{name}_slot", scope=VARIABLE, layout=None)
        self.parity = ir.decl_buffer((1,), "int32", f"{name}_parity", scope=VARIABLE, layout=None)

    def bind(self) -> tuple[list[Any], Place]:
        """Statements that begin an iteration, and its place."""
        slot, parity = ir.Var("slot", "int32"), ir.Var("parity", "int32")
        return [ir.Bind(slot, value(self.slot)), ir.Bind(parity, value(self.parity))], Place(slot, parity, self.stages)

    def now(self) -> Place:
        """The place of the next iteration, outside of the loop."""
        return Place(value(self.slot), value(self.parity), self.stages)

    def start(self) -> list[Any]:
        """Statements at the beginning of the role."""
        zero = ir.IntImm("int32", 0)
        buffers = (self.slot, self.parity)
        return [*map(ir.AllocBuffer, buffers), *(ir.BufferStore(buffer, zero, [0]) for buffer in buffers)]

    def step(self) -> list[Any]:
        """Statements at the end of an iteration."""
        # The parity of a barrier's phase flips each time that the ring begins anew. mbarrier.try_wait.parity succeeds once the
        # phase with the given parity is complete (PTX manual, "mbarrier.test_wait").
        wrap = [
            ir.BufferStore(self.slot, ir.IntImm("int32", 0), [0]),
            ir.BufferStore(self.parity, 1 - value(self.parity), [0]),
        ]
        following = ir.BufferStore(self.slot, value(self.slot) + 1, [0])
        return [following, ir.IfThenElse(value(self.slot) >= self.stages, block(wrap), None)]


def value(variable: Any) -> Any:
    """What a ``local.var`` holds."""
    return ir.BufferLoad(variable, [0])


def loop_over(loop: Any, var: Any, body: list[Any], extent: Any = None) -> Any:
    """The loop with another variable, body and perhaps number of iterations; its annotations have been met."""
    return ir.For(var, loop.min, loop.extent if extent is None else extent, loop.kind, block(body), span=loop.span)


def _one_of(barriers: Any, slot: Any) -> Any:
    return ir.BufferLoad(barriers, [slot])


def call(intrinsic: str, *arguments: Any) -> Any:
    """An intrinsic as a statement."""
    return ir.Evaluate(intrinsic_call(intrinsic, *arguments))
