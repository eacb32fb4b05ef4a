"""The instructions of one thread (definitions, stores, moves, hardware instructions), and the declarations around a kernel's
code: its head, its parameters, its shared memory.

A field that is a place or a pointer declares what the instruction does there (:func:`reads`, :func:`writes`, :func:`updates`) and
by which agent. The analyses of dependences and liveness use nothing else of an instruction.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, Union

from tilelang.ir.access import READ, UPDATE, WRITE
from tilelang.records import Record
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


class Instruction(Record):
    """Base of the statements without statements inside.

    Attributes:
        span: of the program's statement that it was made for, if known; comparisons ignore it.
    """

    def operands(self) -> Iterator[tuple[Value, str | None, Agent | None]]:
        """Each value of the instruction, with the kind and the agent of the access if it is a place or a pointer."""
        for name, kind, agent in _fields(type(self)):
            found = getattr(self, name)
            for value in found if isinstance(found, tuple) else (found,):
                if isinstance(value, Value):
                    yield value, kind, agent

    def accesses(self) -> Iterator[Access]:
        """The accesses of memory that barriers order."""
        for value, kind, agent in self.operands():
            yield from value_accesses(value, kind, agent)


@functools.cache
def _fields(record: type) -> tuple[tuple[str, str | None, Agent | None], ...]:
    return tuple((f.name, f.metadata.get("kind"), f.metadata.get("agent")) for f in dataclasses.fields(record))


# A thread's own variables and memory ----------------------------------------------------------------------------------


class Define(Instruction):
    """A variable with its first value; a ``constant`` one never changes."""

    name: Name
    dtype: str
    value: Value
    constant: bool = True


class Declare(Instruction):
    """A variable without a value."""

    name: Name
    dtype: str


class DefinePointer(Instruction):
    """A pointer; to constants if ``constant``."""

    array: Array
    value: Value
    constant: bool = False


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


class Assign(Instruction):
    """A variable or element gets a value.

    Attributes:
        shared_byte: whether other threads may store to the same byte at that time, where elements have four bits.
    """

    place: Value = writes()
    value: Value = operand()
    shared_byte: bool = False


class Evaluate(Instruction):
    """A value that is computed for its effect: the call of a device function, or of the program's own."""

    value: Value


class Move(Instruction):
    """Copies a vector of ``bytes`` bytes from one pointer to another; zeros where the condition ``exists`` does not hold.

    ``dtype`` is the C++ type that moves it, where that is not one of unsigned integers.
    """

    bytes: int
    target: Value = writes()
    source: Value = reads()
    exists: Value | None = None
    dtype: str = ""


class Return(Instruction):
    """Ends the thread."""


# Asynchronous copies --------------------------------------------------------------------------------------------------


class CopyAsync(Instruction):
    """``cp.async`` of 4, 8 or 16 bytes; zeros where the condition ``exists`` does not hold."""

    bytes: int
    target: Value = writes(Agent.CP_ASYNC)
    source: Value = reads(Agent.CP_ASYNC)
    exists: Value | None = None


class CommitCopies(Instruction):
    """``cp.async.commit_group``: the thread's asynchronous copies since the last one are a group."""


class FenceAsync(Instruction):
    """``fence.proxy.async``: orders the thread's writes of shared memory, with ``of_tensors`` of tensors, too, before accesses of
    asynchronous agents."""

    of_tensors: bool = False


class BulkLoad(Instruction):
    """``cp.async.bulk.tensor``: the tensor memory accelerator copies a box of a tensor into shared memory.

    Attributes:
        map: the kernel's parameter that describes the tensor.
        barrier: the mbarrier that counts the bytes.
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


class BulkStore(Instruction):
    """``cp.async.bulk.tensor`` from shared memory: stores a box, or combines it with the tensor by ``reduction``."""

    map: Value
    source: Value = reads(Agent.BULK)
    coordinates: tuple[Value, ...] = operand()
    reduction: str | None = None


class BulkLoadBytes(Instruction):
    """``cp.async.bulk``: consecutive bytes of global memory, copied into shared memory; ``barrier`` counts them."""

    target: Value = writes(Agent.BULK)
    source: Value = operand()
    bytes: int = operand()
    barrier: Value = operand()


class BulkStoreBytes(Instruction):
    """``cp.async.bulk`` from shared memory to consecutive bytes of global memory."""

    target: Value = operand()
    source: Value = reads(Agent.BULK)
    bytes: int = operand()


class CommitBulk(Instruction):
    """``cp.async.bulk.commit_group``: the thread's bulk stores since the last one are a group."""


class WaitBulk(Instruction):
    """``cp.async.bulk.wait_group.read``: waits until bulk stores, except the newest ``pending`` groups, have read their source.

    With ``complete`` until they have written their target, too (without ``.read``).
    """

    pending: int = 0
    complete: bool = False


class ExpectBytes(Instruction):
    """``mbarrier.expect_tx``: the barrier's phase waits for ``bytes`` more bytes."""

    barrier: Value
    bytes: int


# Matrices -------------------------------------------------------------------------------------------------------------


class LoadMatrix(Instruction):
    """``ldmatrix`` in the form ``"x4"``, ``"x2_trans"``, ``"bytes_rows"`` …"""

    form: str
    registers: Value = writes()
    source: Value = reads()


class StoreMatrix(Instruction):
    """``stmatrix`` in the form ``"x4"`` …"""

    form: str
    target: Value = writes()
    registers: Value = reads()


class Multiply(Instruction):
    """``mma.sync`` by its device function; sparse ones have a register of metadata."""

    function: str
    accumulator: Value = updates()
    left: Value = reads()
    right: Value = reads()
    metadata: Value | None = None


class WarpGroupMultiply(Instruction):
    """``wgmma.mma_async``: the product is added to the accumulator if ``scale`` is not zero, and replaces it otherwise.

    Attributes:
        instruction: its shape and types (:class:`~tilelang.target.cuda.ir.wgmma.Wgmma`).
        left, right: descriptors of tiles in shared memory; the left one may be registers instead.
    """

    instruction: Wgmma
    accumulator: Value = updates(Agent.TENSOR_CORE)
    left: Value = operand()
    right: Value = operand()
    scale: Value = operand()


class FenceProducts(Instruction):
    """``wgmma.fence``: orders the threads' accesses of registers before those of the next products."""


class CommitProducts(Instruction):
    """``wgmma.commit_group``: the products since the last one are a group."""


class WaitProducts(Instruction):
    """``wgmma.wait_group``: waits until products, except the newest ``pending`` groups, are complete."""

    pending: int


class PinRegisters(Instruction):
    """No machine instruction: keeps the device compiler from moving accesses of these registers across this place.

    Products in flight read and write registers without the compiler's knowledge.
    """

    count: int
    registers: Value = updates()


class SetRegisters(Instruction):
    """``setmaxnreg``: the warp group releases (``"dec"``) or requests (``"inc"``) registers, to ``count`` for each thread."""

    change: str
    count: int


# Barriers of some threads ---------------------------------------------------------------------------------------------


class NamedBarrier(Instruction):
    """``barrier.sync``: ``threads`` threads wait for each other at one of the block's 16 hardware barriers."""

    number: int
    threads: int


class WarpBarrier(Instruction):
    """``bar.warp.sync``: the lanes of a mask wait for each other."""

    mask: int


# Declarations around a kernel's code ------------------------------------------------------------------------------------


class ValueParameter(Record):
    """A scalar parameter."""

    name: str
    dtype: str


class PointerParameter(Record):
    """A parameter that is a tensor, or another address.

    Attributes:
        dtype: of what it points to.
        constant: whether the kernel only reads the memory.
        restrict: whether no other parameter points to the memory.
    """

    name: str
    dtype: str
    constant: bool = False
    restrict: bool = False


class TensorMapParameter(Record):
    """A descriptor for the tensor memory accelerator."""

    name: str


Parameter = Union[ValueParameter, PointerParameter, TensorMapParameter]


class Signature(Record):
    """The head of a kernel.

    Attributes:
        threads: largest number of threads of a block.
        blocks: smallest number of blocks that must fit on a multiprocessor; None leaves that to the device compiler.
    """

    name: str
    parameters: tuple[Parameter, ...]
    threads: int
    blocks: int | None = None


class DeclarePool(Instruction):
    """The shared memory of a block, as bytes."""

    pool: Array
    alignment: int


class DefineSharedArray(Instruction):
    """A name for a part of the block's shared memory, in the whole kernel."""

    array: Array
    start: Value


class DeclareGlobal(Instruction):
    """A variable in global memory, outside of all kernels; it is zero when the module is loaded."""

    name: Name
    dtype: str
