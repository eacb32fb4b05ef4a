"""Memory: allocations with their shadow state, and views of them.

A :class:`Storage` is one allocation. Beside its elements it keeps, if the run checks, which elements were written and by whom.
This shadow state has an entry for each *cell*, which is as large as the smallest element of any view of the storage. A
:class:`View` is a shape and an element type over a storage. Memory of threads (``T.alloc_local``, ``T.alloc_var``) has one row
for each lane, or a single row as long as all lanes hold the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from tilelang.interpreter.numbers import Element, element
from tilelang.ir.memory import ARRAY, FRAGMENT, is_global


class Storage:
    """One allocation.

    Attributes:
        data: the bytes; two axes (rows, bytes) for memory of threads, else one row.
        name: of the buffer that it was made for.
        scope: its storage scope; empty for tensors.
        cell_bits: bits of a cell.
        written: which cells hold a value, or None where all do.
        lost: cells that had a value until several threads or iterations left different ones, in any row; None where none has.
        access: the record of who touched each cell, made when it is first needed.
        typed: the data under the types that it was accessed by.
        pending: how many asynchronous copies and products are still to write each cell; None where none is.
        reading: how many of them may still read it.
        blocks: of a tensor that a launch of several blocks writes, or a tile that others of a cluster may write, which block
            touched each cell.
        owners: of a copy of a fragment for some threads, these threads.
        versions: of a fragment, the copies that some threads hold for themselves: ``(threads, storage)``.
        strands: which group of threads touched each cell, made when threads first diverge.
        handed: for each element that an atomic access has released, the clock that the next one acquires.
        touched: of a copy for iterations, which cells each of them stored to.
    """

    __slots__ = (
        "data",
        "name",
        "scope",
        "cell_bits",
        "written",
        "lost",
        "access",
        "typed",
        "pending",
        "reading",
        "touched",
        "blocks",
        "strands",
        "handed",
        "owners",
        "versions",
    )

    def __init__(self, data: np.ndarray, name: str, scope: str, cell_bits: int, fresh: bool):
        self.data = data
        self.name = name
        self.scope = scope
        self.cell_bits = cell_bits
        self.written: np.ndarray | None = None
        if fresh:
            self.written = np.zeros((data.shape[0], data.shape[1] * 8 // cell_bits), bool)
        self.lost: np.ndarray | None = None
        self.access: Any = None
        self.handed: dict[int, dict[int, int]] = {}
        self.typed: dict[Any, np.ndarray] = {}
        self.pending: np.ndarray | None = None
        self.reading: np.ndarray | None = None
        self.touched: np.ndarray | None = None
        self.blocks: Any = None
        self.strands: Any = None
        self.owners: np.ndarray | None = None
        self.versions: list[tuple[np.ndarray, Storage]] | None = None

    @property
    def rows(self) -> int:
        """1, or the number of lanes where each has its own."""
        return self.data.shape[0]

    @property
    def private(self) -> bool:
        """Whether threads hold it in registers, each its own."""
        return self.scope.startswith(ARRAY) and self.scope != FRAGMENT

    def elements(self, kind: Element) -> np.ndarray:
        """The memory as elements of a type (rows, elements); as bytes for types of four bits."""
        found = self.typed.get(kind.memory)
        if found is None:
            found = self.typed[kind.memory] = self.data.view(kind.memory)
        return found

    def spread(self, lanes: int) -> None:
        """Gives each lane a row of its own, initialised from the common row."""
        if self.data.shape[0] == lanes:
            return
        self.data = np.repeat(self.data, lanes, axis=0)
        # Those were views of the single row.
        self.typed = {}
        if self.written is not None:
            self.written = np.repeat(self.written, lanes, axis=0)

    def mark(self, marks: Literal["pending", "reading"], row: Any, cells: Any) -> Callable[[], None]:
        """Counts cells as :attr:`pending` or :attr:`reading`; returns the function that takes them off again.

        Args:
            marks: which of the two.
            row: of each cell.
            cells: their numbers; one that occurs several times counts once.
        """
        counts: np.ndarray | None = getattr(self, marks)
        if counts is None:
            counts = np.zeros((self.rows, self.cell_count), np.uint16)
            setattr(self, marks, counts)
        counts[row, cells] += 1

        def ended() -> None:
            counts[row, cells] -= 1
            if getattr(self, marks) is counts and not counts.any():
                setattr(self, marks, None)

        return ended

    @property
    def cell_count(self) -> int:
        """Cells of a row."""
        return self.data.shape[1] * 8 // self.cell_bits

    def cells(self) -> np.ndarray:
        """The bytes of each cell, (rows, cells, bytes); of a cell of four bits, a byte that holds them."""
        if self.cell_bits >= 8:
            return self.data.reshape(self.rows, self.cell_count, -1)
        pairs = np.stack([self.data & 15, self.data >> 4], axis=-1) if self.cell_bits == 4 else self.data
        return pairs.reshape(self.rows, -1, 1)

    def set_cells(self, cells: np.ndarray) -> None:
        """Sets the memory from cells in the form of :meth:`cells`."""
        if self.cell_bits == 4:
            pairs = cells.reshape(self.rows, -1, 2)
            cells = pairs[..., 0] | pairs[..., 1] << 4
        self.data[:] = cells.reshape(self.data.shape)

    def lose(self, cells: np.ndarray, rows: Any = slice(None)) -> None:
        """Some cells of some rows hold no value from here on, since several were left in them."""
        if self.written is None:  # all did
            self.written = np.ones((self.rows, self.cell_count), bool)
        self.written[rows] &= ~cells
        if self.lost is None:
            self.lost = np.zeros(self.cell_count, bool)
        self.lost |= cells.reshape(-1, self.cell_count).any(axis=0)

    def fork(self, rows: np.ndarray) -> Storage:
        """A copy of some rows, one for each lane."""
        twin = Storage.__new__(Storage)
        twin.name, twin.scope, twin.cell_bits, twin.access = self.name, self.scope, self.cell_bits, None
        twin.lost, twin.touched = None if self.lost is None else self.lost.copy(), None
        twin.blocks = twin.strands = twin.owners = twin.versions = None
        twin.data, twin.typed, twin.pending, twin.reading = self.data[rows], {}, None, None
        twin.written = None if self.written is None else self.written[rows]
        return twin


def allocate(name: str, scope: str, size: int, kind: Element, cell_bits: int, rows: int = 1) -> Storage:
    """A fresh allocation, every bit of it set: NaN in every format of floats, so that a read without checks is noticed, too.

    Args:
        name: of the buffer.
        scope: its storage scope.
        size: how many elements a row has.
        kind: their type.
        cell_bits: bits of a cell of the shadow state.
        rows: how many rows; one for each lane of memory in which lanes differ.
    """
    count = -(-size * kind.bits // 8)
    # Whole words of 64 bits, so that the row can be viewed as elements of any type.
    data = np.full((rows, -(-count // 8) * 8), 0xFF, "uint8")
    return Storage(data, name, scope, cell_bits, fresh=True)


class View:
    """A buffer of the program: a shape and an element type over a storage.

    Attributes:
        storage: where the elements are.
        kind: their type.
        shape, strides: in elements.
        name: the buffer's.
        safe: what is read outside of a tensor, as a value.
    """

    __slots__ = ("storage", "kind", "shape", "strides", "name", "safe", "axes", "size", "cells", "is_tensor", "base")

    def __init__(
        self, storage: Storage, kind: Element, shape: Sequence[int], strides: Sequence[int] | None, name: str, base: int = 0
    ):
        self.storage = storage
        self.kind = kind
        self.shape = tuple(shape)
        self.strides = tuple(compact(shape, kind) if strides is None else strides)
        self.name = name
        self.safe: Any = None
        self.axes = tuple(zip(self.shape, self.strides))
        self.size = int(np.prod(self.shape, dtype="int64"))
        self.cells = kind.bits // storage.cell_bits
        self.is_tensor = is_global(storage)
        self.base = base

    def over(self, storage: Storage) -> View:
        """The same view of another storage."""
        return View(storage, self.kind, self.shape, self.strides, self.name, self.base)

    def codes(self) -> View:
        """The same elements as unsigned numbers, which are copied bit by bit."""
        twin = View(self.storage, element(f"uint{self.kind.bits}"), self.shape, self.strides, self.name, self.base)
        if self.safe is not None:
            twin.safe = twin.kind.decode(np.asarray(self.kind.encode(self.safe)).view(twin.kind.memory))
        return twin

    def with_safe(self, value: Any) -> View:
        """The same view of a tensor of which ``value`` is read outside."""
        twin = self.over(self.storage)
        twin.safe = value
        return twin

    def read(self, row: Any, at: Any) -> Any:
        """The values at flat positions of rows; no checks."""
        data = self.storage.elements(self.kind)
        if self.kind.bits == 4:
            at = np.asarray(at)
            # The even element of a pair is in the low half of the byte. The decoder masks what is above.
            return self.kind.decode(data[row, at >> 1] >> ((at & 1) << 2).astype("uint8"))
        return self.kind.decode(data[row, at])

    def write(self, row: Any, at: Any, value: Any) -> None:
        """Sets elements at flat positions of rows; no checks.

        Args:
            row: of each position; one number for all.
            at: flat positions.
            value: in the view's element type.
        """
        data = self.storage.elements(self.kind)
        if self.kind.bits == 4:
            self._write_nibbles(data, row, at, self.kind.encode(value))
        else:
            data[row, at] = self.kind.encode(value)

    def _write_nibbles(self, data: np.ndarray, row: Any, at: Any, code: Any) -> None:
        """Writes elements of four bits, the even ones and then the odd ones, since two of them share a byte."""
        row, at, code = np.broadcast_arrays(row, at, code)
        for odd in (0, 1):
            chosen = (at & 1) == odd
            place = row[chosen], at[chosen] >> 1
            other = np.uint8(0x0F if odd else 0xF0)
            data[place] = (data[place] & other) | (code[chosen] << np.uint8(4 * odd))


def compact(shape: Sequence[int], kind: Element) -> list[int]:
    """Strides of a row-major array, whose rows are whole bytes."""
    strides, step = [], 1
    for size in reversed(list(shape)):
        strides.append(step)
        step *= size + size % 2 if kind.bits == 4 and step == 1 else size
    return strides[::-1]


def extent(shape: Sequence[int], kind: Element) -> int:
    """The number of elements of a compact array, padding of rows included."""
    size = int(shape[0]) * compact(shape, kind)[0] if len(shape) else 1
    return size + size % 2 if kind.bits == 4 else size
