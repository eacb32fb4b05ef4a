"""The statements of one thread that are no structure (definitions, stores, moves, the instructions of the hardware), and what
stands around a kernel: its head, its parameters, the memory that it declares.

A field that is a place or a pointer says what the instruction does there (:func:`reads`, :func:`writes`, :func:`updates`) and by
which agent; that is all that barriers and liveness need to know of an instruction.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Union

from tilelang.ir.access import READ, UPDATE, WRITE
from tilelang.target.cuda.ir.access import Access, Agent
from tilelang.target.cuda.ir.values import Array, Name, Value, value_accesses
from tilelang.target.cuda.ir.wgmma import Wgmma


def reads(agent: Agent = Agent.THREAD) -> Any:
    """A field for what an instruction reads."""
    return dataclasses.field(metadata={"kind": READ, "agent": agent})


def operand() -> Any:
    """A field for a value that an instruction computes with."""
    return dataclasses.field()


def writes(agent: Agent = Agent.THREAD) -> Any:
    """A field for what an instruction overwrites."""
    return dataclasses.field(metadata={"kind": WRITE, "agent": agent})


def updates(agent: Agent = Agent.THREAD) -> Any:
    """A field for what an instruction reads and writes."""
    return dataclasses.field(metadata={"kind": UPDATE, "agent": agent})


@dataclass(frozen=True)
class Instruction:
    """Base of the statements without statements inside.

    Attributes:
        span: of the program's statement that it was made for, where one is known; no part of what the instruction is.
    """

    __slots__ = ("span",)

    def operands(self) -> Iterator[tuple[Value, str | None, Agent | None]]:
        """Each value of the instruction; of a place or pointer also what is done there, and by whom."""
        for name, kind, agent in _fields(type(self)):
            found = getattr(self, name)
            for value in found if isinstance(found, tuple) else (found,):
                if isinstance(value, Value):
                    yield value, kind, agent

    def accesses(self) -> Iterator[Access]:
        """What the instruction touches of the memory that barriers guard."""
        for value, kind, agent in self.operands():
            yield from value_accesses(value, kind, agent)


@functools.cache
def _fields(record: type) -> tuple[tuple[str, str | None, Agent | None], ...]:
    return tuple((f.name, f.metadata.get("kind"), f.metadata.get("agent")) for f in dataclasses.fields(record))


# A thread's own variables and memory ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Define(Instruction):
    """A variable with its first value; it never changes where ``constant``."""

    name: Name
    dtype: str
    value: Value
    constant: bool = True


@dataclass(frozen=True, slots=True)
class Declare(Instruction):
    """A variable without a value."""

    name: Name
    dtype: str


@dataclass(frozen=True, slots=True)
class DefinePointer(Instruction):
    """A pointer; what it points to is constant where ``constant``."""

    array: Array
    value: Value
    constant: bool = False


@dataclass(frozen=True, slots=True)
class DeclareArray(Instruction):
    """An array of registers.

    Attributes:
        count: of C++ elements.
        alignment: in bytes; 0 for that of the element.
        values: the first ones; zeros where there are none and ``zero``.
    """

    array: Array
    count: int
    alignment: int = 0
    zero: bool = False
    values: tuple[Value, ...] = ()
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Assign(Instruction):
    """A variable or element gets a value.

    Attributes:
        shared_byte: whether other threads may store to the same byte at that time, where elements have four bits.
    """

    place: Value = writes()
    value: Value = operand()
    shared_byte: bool = False


@dataclass(frozen=True, slots=True)
class Evaluate(Instruction):
    """A value that is computed for its effect: the call of a device function, or of the program's own."""

    value: Value


@dataclass(frozen=True, slots=True)
class Move(Instruction):
    """The vector of so many bytes at a pointer goes to another; zeros where the condition ``exists`` is not met."""

    bytes: int
    target: Value = writes()
    source: Value = reads()
    exists: Value | None = None


@dataclass(frozen=True, slots=True)
class Return(Instruction):
    """The thread is done."""


# Asynchronous copies --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CopyAsync(Instruction):
    """``cp.async`` of so many bytes; zeros where the condition ``exists`` is not met."""

    bytes: int
    target: Value = writes(Agent.CP_ASYNC)
    source: Value = reads(Agent.CP_ASYNC)
    exists: Value | None = None


@dataclass(frozen=True, slots=True)
class CommitCopies(Instruction):
    """The asynchronous copies so far are one group."""


@dataclass(frozen=True, slots=True)
class FenceAsync(Instruction):
    """What this thread has written is there for asynchronous agents."""


@dataclass(frozen=True, slots=True)
class BulkLoad(Instruction):
    """The tensor memory accelerator fills a box.

    Attributes:
        map: the kernel's parameter that describes the tensor.
        barrier: on which the bytes arrive.
        coordinates: of the box, innermost first.
        multicast: mask of the blocks of the cluster that get the box.
        policy: of the cache: ``"evict_first"`` …
    """

    map: Value
    target: Value = writes(Agent.BULK)
    barrier: Value = operand()
    coordinates: tuple[Value, ...] = operand()
    multicast: int | None = None
    policy: str | None = None


@dataclass(frozen=True, slots=True)
class BulkStore(Instruction):
    """The tensor memory accelerator stores a box, or combines it with what is there by ``reduction``."""

    map: Value
    source: Value = reads(Agent.BULK)
    coordinates: tuple[Value, ...] = operand()
    reduction: str | None = None


@dataclass(frozen=True, slots=True)
class CommitBulk(Instruction):
    """The bulk stores so far are one group."""


@dataclass(frozen=True, slots=True)
class WaitBulk(Instruction):
    """Bulk stores, except the newest ``pending`` groups, have read their source; with ``complete`` also written their target."""

    pending: int = 0
    complete: bool = False


@dataclass(frozen=True, slots=True)
class ExpectBytes(Instruction):
    """A barrier waits for so many bytes more."""

    barrier: Value
    bytes: int


# Matrices -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoadMatrix(Instruction):
    """``ldmatrix`` in the form ``"x4"``, ``"x2_trans"``, ``"bytes_rows"`` …"""

    form: str
    registers: Value = writes()
    source: Value = reads()


@dataclass(frozen=True, slots=True)
class StoreMatrix(Instruction):
    """``stmatrix`` in the form ``"x4"`` …"""

    form: str
    target: Value = writes()
    registers: Value = reads()


@dataclass(frozen=True, slots=True)
class Multiply(Instruction):
    """``mma.sync`` by its device function; sparse ones have a register of metadata."""

    function: str
    accumulator: Value = updates()
    left: Value = reads()
    right: Value = reads()
    metadata: Value | None = None


@dataclass(frozen=True, slots=True)
class WarpGroupMultiply(Instruction):
    """``wgmma``: the product is added to the accumulator where ``scale`` is not zero, and replaces it otherwise.

    Attributes:
        instruction: its shape and types (:class:`~tilelang.target.cuda.ir.wgmma.Wgmma`).
        left, right: descriptors of tiles, or the registers of the left one.
    """

    instruction: Wgmma
    accumulator: Value = updates(Agent.TENSOR_CORE)
    left: Value = operand()
    right: Value = operand()
    scale: Value = operand()


@dataclass(frozen=True, slots=True)
class FenceProducts(Instruction):
    """Registers and shared memory are as written when the next products start."""


@dataclass(frozen=True, slots=True)
class CommitProducts(Instruction):
    """The products so far are one group."""


@dataclass(frozen=True, slots=True)
class WaitProducts(Instruction):
    """Products are complete, except the newest ``pending`` groups."""

    pending: int


@dataclass(frozen=True, slots=True)
class PinRegisters(Instruction):
    """No instruction: keeps the compiler from moving accesses of registers across this place."""

    count: int
    registers: Value = updates()


@dataclass(frozen=True, slots=True)
class SetRegisters(Instruction):
    """The warp group gives back registers (``"dec"``) or takes more (``"inc"``) until it has ``count`` each thread."""

    change: str
    count: int


# Barriers of some threads ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamedBarrier(Instruction):
    """So many threads wait for each other at one of the block's hardware barriers."""

    number: int
    threads: int


@dataclass(frozen=True, slots=True)
class WarpBarrier(Instruction):
    """The lanes of a mask wait for each other."""

    mask: int


# What stands around a kernel's code -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ValueParameter:
    """A number that the kernel gets."""

    name: str
    dtype: str


@dataclass(frozen=True, slots=True)
class PointerParameter:
    """A tensor, or another address.

    Attributes:
        dtype: of what it points to.
        constant: whether the kernel only reads there.
        restrict: whether nothing else that the kernel gets points there.
    """

    name: str
    dtype: str
    constant: bool = False
    restrict: bool = False


@dataclass(frozen=True, slots=True)
class TensorMapParameter:
    """A descriptor for the tensor memory accelerator."""

    name: str


Parameter = Union[ValueParameter, PointerParameter, TensorMapParameter]


@dataclass(frozen=True, slots=True)
class Signature:
    """The head of a kernel.

    Attributes:
        threads: of a block, at most.
        blocks: that a multiprocessor must have room for; None leaves that to the device compiler.
    """

    name: str
    parameters: tuple[Parameter, ...]
    threads: int
    blocks: int | None = None


@dataclass(frozen=True, slots=True)
class DeclarePool(Instruction):
    """The shared memory of a block, as bytes."""

    pool: Array
    alignment: int


@dataclass(frozen=True, slots=True)
class DefineSharedArray(Instruction):
    """A name for a part of it, for the whole kernel."""

    array: Array
    start: Value


@dataclass(frozen=True, slots=True)
class DeclareGlobal(Instruction):
    """A variable in global memory, outside of all kernels; it is zero when the module is loaded."""

    name: Name
    dtype: str
