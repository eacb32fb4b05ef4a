"""Statements that both roles of a warp-specialised kernel are made of: slots of a ring, places in it, calls on barriers."""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.memory import VARIABLE
from tilelang.records import Record
from tilelang.target.cuda.specialize.ring import Ring
from tilelang.target.cuda.tile.build import block
from tilelang.tileop.thread import intrinsic_call


class Slots(Record, eq=False):
    """The shared objects of one feed: its barriers and the versioned buffer of each copy."""

    full: Any
    empty: Any
    versions: dict[Any, Any]

    def await_full(self, place: Place) -> Any:
        """Waits for the tiles of an iteration."""
        return call("ring_wait", _one_of(self.full, place.slot), place.parity)

    def await_empty(self, place: Place) -> Any:
        """Waits until an iteration's slot is free."""
        # The phase before the one that this iteration completes. A fresh barrier counts as past the phase before its first,
        # so the first wait for each slot returns at once, and the producer needs no special case to begin.
        return call("ring_wait", _one_of(self.empty, place.slot), 1 - place.parity)

    def expect(self, place: Place, size: int) -> Any:
        """The tiles of an iteration will be there when so many bytes have come."""
        return call("ring_expect", _one_of(self.full, place.slot), size)

    def release(self, slot: Any) -> Any:
        """A warp is done with a slot."""
        return call("ring_release", _one_of(self.empty, slot))


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

    def __init__(self, ring: Ring, role: str):
        self.ring = ring
        name = ring.loop.loop_var.name
        self.slot = ir.decl_buffer((1,), "int32", f"{role}_{name}_slot", scope=VARIABLE, layout=None)
        self.parity = ir.decl_buffer((1,), "int32", f"{role}_{name}_parity", scope=VARIABLE, layout=None)

    def bind(self) -> tuple[list[Any], Place]:
        """Statements that begin an iteration, and its place."""
        slot, parity = ir.Var("slot", "int32"), ir.Var("parity", "int32")
        return [ir.Bind(slot, value(self.slot)), ir.Bind(parity, value(self.parity))], Place(slot, parity, self.ring.stages)

    def now(self) -> Place:
        """The place of the next iteration, outside of the loop."""
        return Place(value(self.slot), value(self.parity), self.ring.stages)

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
        return [following, ir.IfThenElse(value(self.slot) >= self.ring.stages, block(wrap), None)]


def value(variable: Any) -> Any:
    """What a ``local.var`` holds."""
    return ir.BufferLoad(variable, [0])


def loop_over(loop: Any, var: Any, body: list[Any], extent: Any = None) -> Any:
    """The loop with another variable, body and number of iterations; its annotations have been met.

    Args:
        extent: the new number of iterations; None for the same.
    """
    return ir.For(var, loop.min, loop.extent if extent is None else extent, loop.kind, block(body), span=loop.span)


def _one_of(barriers: Any, slot: Any) -> Any:
    return ir.BufferLoad(barriers, [slot])


def call(intrinsic: str, *arguments: Any) -> Any:
    """An intrinsic as a statement."""
    return ir.Evaluate(intrinsic_call(intrinsic, *arguments))
