"""Fragments: tiles distributed over the registers of a block's threads.

A fragment maps each element to a thread and a register of it. Every axis of the tile is cut into *modes*, minor first: mode
``(extent, stride, coord)`` takes the next ``extent`` steps of the axis to ``stride`` steps of the coordinate, the thread's number
or the register's. *Replicas* are thread modes that no axis moves: the threads along them hold copies. Extents need not be
powers of two, and reducing, broadcasting and slicing are operations on the lists of modes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.errors import LayoutError
from tilelang.layout.recover import recover_modes
from tilelang.provided import provided

THREAD, REGISTER = "thread", "register"


@dataclass(frozen=True, slots=True)
class Mode:
    """``extent`` steps of an axis, each ``stride`` steps of ``coord``."""

    extent: int
    stride: int
    coord: str

    def scaled(self, factor: int) -> Mode:
        """The mode with its stride multiplied."""
        return Mode(self.extent, self.stride * factor, self.coord)


def on_thread(extent: int, stride: int) -> Mode:
    """A mode over threads."""
    return Mode(extent, stride, THREAD)


def on_register(extent: int, stride: int) -> Mode:
    """A mode over registers."""
    return Mode(extent, stride, REGISTER)


def _product(values: Sequence[int]) -> int:
    result = 1
    for value in values:
        result *= value
    return result


@dataclass(frozen=True, slots=True)
class FragmentLayout:
    """Which thread and register hold each element of a tile.

    Attributes:
        shape: extents of the tile.
        modes: of each axis, minor first; their extents multiply to at least the axis' extent (the rest is padding).
        replicas: thread modes along which every element is copied.
    """

    shape: tuple[int, ...]
    modes: tuple[tuple[Mode, ...], ...]
    replicas: tuple[Mode, ...] = ()

    @property
    def threads(self) -> int:
        """Threads that hold any element; they are numbered from 0 without gaps."""
        return _product([m.extent for axis in (*self.modes, self.replicas) for m in axis if m.coord == THREAD])

    @property
    def registers(self) -> int:
        """Elements in each thread, padding included."""
        return 1 + sum((m.extent - 1) * m.stride for axis in self.modes for m in axis if m.coord == REGISTER)

    @property
    def is_whole(self) -> bool:
        """Whether each of its threads holds all elements."""
        return all(mode.coord == REGISTER for axis in self.modes for mode in axis)

    def padded(self, axis: int) -> int:
        """The extent of an axis with its padding."""
        return _product([m.extent for m in self.modes[axis]])

    @property
    def is_padded(self) -> bool:
        """Whether threads have registers for elements beyond the edge of an axis."""
        return any(self.padded(axis) != extent for axis, extent in enumerate(self.shape))

    def locate(self, index: Sequence[Any]) -> tuple[Any, Any]:
        """Thread (of replica 0) and register of an element, of integers or of expressions."""
        position: dict[str, Any] = {THREAD: 0, REGISTER: 0}
        for value, modes in zip(index, self.modes):
            for mode in modes:
                position[mode.coord] += value % mode.extent * mode.stride
                value = value // mode.extent
        return position[THREAD], position[REGISTER]

    def owners(self, index: Sequence[int]) -> list[int]:
        """All threads that hold an element."""
        threads = [self.locate(index)[0]]
        for mode in self.replicas:
            threads = [thread + copy * mode.stride for thread in threads for copy in range(mode.extent)]
        return sorted(threads)

    def axis_threads(self, axis: int) -> list[int]:
        """What each index along an axis adds to the thread number."""
        offsets = [0]
        for mode in self.modes[axis]:
            # The outer comprehension runs over the new digit, so that earlier (minor) digits keep moving fastest: offsets are in
            # the order of the index.
            step = mode.stride if mode.coord == THREAD else 0
            offsets = [offset + digit * step for digit in range(mode.extent) for offset in offsets]
        return offsets[: self.shape[axis]]

    def same_threads(self, other: FragmentLayout) -> bool:
        """Whether both put every element in the same threads, registers aside."""
        return (
            self.shape == other.shape
            and self.threads == other.threads
            and all(self.axis_threads(axis) == other.axis_threads(axis) for axis in range(len(self.shape)))
        )

    def project(self, axis: int, keep: bool = False) -> FragmentLayout:
        """The layout of the tile reduced over ``axis``: the threads along it become replicas.

        Args:
            keep: whether the axis stays, with extent 1.
        """
        # Registers along the axis are gone: each thread adds its own elements first. After the exchange between threads all of
        # them have the sum, which is what a replica is.
        lost = tuple(mode for mode in self.modes[axis] if mode.coord == THREAD)
        middle = ((),) if keep else ()
        modes = (*self.modes[:axis], *middle, *self.modes[axis + 1 :])
        shape = (*self.shape[:axis], *((1,) if keep else ()), *self.shape[axis + 1 :])
        if not shape:
            shape, modes = (1,), ((),)
        return FragmentLayout(shape, modes, merge_modes((*self.replicas, *lost))).compact()

    def compact(self) -> FragmentLayout:
        """The same distribution with registers renumbered without gaps, the last axis' digits lowest."""
        stride = 1
        axes: list[tuple[Mode, ...]] = []
        for modes in reversed(self.modes):
            renumbered: list[Mode] = []
            for mode in modes:
                if mode.coord == REGISTER:
                    renumbered.append(on_register(mode.extent, stride))
                    stride *= mode.extent
                else:
                    renumbered.append(mode)
            axes.append(tuple(renumbered))
        return FragmentLayout(self.shape, tuple(reversed(axes)), self.replicas)

    def spread(self, threads: int) -> FragmentLayout:
        """The layout with copies in the remaining threads of a block of ``threads``, where they divide evenly."""
        # Without copies, threads beyond the layout's own would have no elements, and every statement over the fragment would
        # leave them idle.
        own = self.threads
        if own >= threads or threads % own:
            return self
        return FragmentLayout(self.shape, self.modes, merge_modes((*self.replicas, on_thread(threads // own, own))))

    def reshape(self, shape: Sequence[int]) -> FragmentLayout | None:
        """The same elements in row-major order as a tile of another shape, each in its thread and register.

        None where the new axes do not come out of the modes, or the tile is padded along another axis than the first.
        """
        if any(self.padded(axis) != extent for axis, extent in enumerate(self.shape) if axis):
            return None
        # Row-major order counts the last axis fastest, and modes are minor first: this is the list of modes of the tile as one
        # long axis, which the new extents then cut up anew.
        rest = [mode for modes in reversed(self.modes) for mode in modes]
        axes: list[tuple[Mode, ...]] = []
        for extent in reversed(shape[1:]):
            taken, rest = split_modes(rest, extent)
            if taken is None:
                return None
            axes.append(tuple(taken))
        return FragmentLayout(tuple(shape), (tuple(rest), *reversed(axes)), self.replicas)

    def repeat(self, repeats: Sequence[int], repeat_on_thread: bool = False, lower_dim_first: bool = True) -> FragmentLayout:
        """The layout of a grid of such tiles, ``repeats`` along each axis.

        Args:
            repeats: how many tiles along each axis.
            repeat_on_thread: whether each tile has threads of its own; else registers of its own.
            lower_dim_first: whether tiles along the last axis come first; else along the first.

        Returns:
            A layout of ``repeats`` times the extents.

        Raises:
            LayoutError: another number of axes, or a tile with padding inside.
        """
        if len(repeats) != len(self.shape) or any(self.padded(axis) != extent for axis, extent in enumerate(self.shape)):
            raise LayoutError(f"Fragment.repeat: {list(repeats)} does not fit a tile of {list(self.shape)} without padding")
        coord, stride = (THREAD, self.threads) if repeat_on_thread else (REGISTER, self.registers)
        modes = list(self.modes)
        axes = range(len(self.shape))
        for axis in reversed(axes) if lower_dim_first else axes:
            if repeats[axis] > 1:
                modes[axis] = (*modes[axis], Mode(repeats[axis], stride, coord))
                stride *= repeats[axis]
        shape = tuple(extent * count for extent, count in zip(self.shape, repeats))
        return FragmentLayout(shape, tuple(modes), self.replicas)

    def replicate(self, replicate: int) -> FragmentLayout:
        """The layout with each element in ``replicate`` times as many threads."""
        return FragmentLayout(self.shape, self.modes, merge_modes((*self.replicas, on_thread(replicate, self.threads))))

    def condense_rep_var(self) -> FragmentLayout:
        """The layout itself: its replicas have no gaps."""
        return self

    def get_input_shape(self) -> list[int]:
        """The extents of the tile."""
        return list(self.shape)

    def get_output_shape(self) -> list[int]:
        """How many registers each thread has."""
        return [self.registers]

    @property
    def input_size(self) -> list[int]:
        """The extents of the tile, as :meth:`get_input_shape`."""
        return self.get_input_shape()

    def get_forward_vars(self) -> list[Any]:
        """A variable of the IR for each axis of the tile."""
        return provided("place_variables")(len(self.shape))

    def map_forward_index(self, indices: Sequence[Any]) -> list[Any]:
        """The register of an element, of integers or of expressions."""
        return [self.locate(indices)[1]]

    def map_forward_thread(self, indices: Sequence[Any]) -> list[Any]:
        """The first thread that holds an element, of integers or of expressions."""
        return [self.locate(indices)[0]]

    def get_forward_index(self) -> list[Any]:
        """The register as an expression over those of :meth:`get_forward_vars`."""
        return self.map_forward_index(self.get_forward_vars())

    @property
    def index(self) -> list[Any]:
        """The register as an expression, as :meth:`get_forward_index`."""
        return self.get_forward_index()

    forward_index = index

    @property
    def thread(self) -> Any:
        """The first thread that holds an element, as an expression over those of :meth:`get_forward_vars`."""
        return self.map_forward_thread(self.get_forward_vars())[0]

    forward_thread = thread

    def get_linearized_forward_index(self) -> Any:
        """The register as an expression."""
        return self.get_forward_index()[0]

    def get_thread_size(self) -> int:
        """How many threads hold any element."""
        return self.threads

    @property
    def replicate_size(self) -> int:
        """How many threads hold each element."""
        return _product([mode.extent for mode in self.replicas])

    def is_equal(self, other: Any) -> bool:
        """Whether both put every element in the same threads and registers."""
        same = isinstance(other, FragmentLayout) and self.shape == other.shape and self.replicas == other.replicas
        # Thread and register are sums over the axes: two layouts that agree along each axis agree everywhere.
        origin = [0] * len(self.shape)
        return same and all(
            self.locate([*origin[:axis], value, *origin[axis + 1 :]])
            == other.locate([*origin[:axis], value, *origin[axis + 1 :]])
            for axis, extent in enumerate(self.shape)
            for value in range(extent)
        )

    def to_text(self) -> str:
        """Canonical text; :meth:`from_text` reads it."""
        axes = [[[m.extent, m.stride, m.coord[0]] for m in axis] for axis in (*self.modes, self.replicas)]
        return json.dumps({"fragment": list(self.shape), "modes": axes}, separators=(",", ":"))

    @staticmethod
    def from_text(text: str) -> FragmentLayout:
        """The layout that :meth:`to_text` wrote."""
        fields = json.loads(text)
        names = {"t": THREAD, "r": REGISTER}
        axes = tuple(tuple(Mode(e, s, names[u]) for e, s, u in axis) for axis in fields["modes"])
        return FragmentLayout(tuple(fields["fragment"]), axes[:-1], axes[-1])


def split_modes(modes: Sequence[Mode], extent: int) -> tuple[list[Mode] | None, list[Mode]]:
    """The modes that make up the first ``extent`` steps, and the others; None where a mode straddles."""
    taken: list[Mode] = []
    rest, left = list(modes), extent
    while left > 1:
        if not rest:
            return None, []
        mode = rest.pop(0)
        # (8, 4) cut after 16 steps: the 8 whole, 2 of the 4, and the other 2 stay.
        if left % mode.extent == 0:
            taken.append(mode)
            left //= mode.extent
        # The mode reaches beyond the extent: its low part is taken, the high part stays with a larger stride.
        elif mode.extent % left == 0:
            taken.append(Mode(left, mode.stride, mode.coord))
            rest.insert(0, Mode(mode.extent // left, mode.stride * left, mode.coord))
            left = 1
        else:
            return None, []
    return taken, rest


def merge_modes(modes: Iterable[Mode]) -> tuple[Mode, ...]:
    """Thread modes sorted by stride, neighbours that continue each other merged, those of extent 1 dropped."""
    return join_modes(sorted(modes, key=lambda mode: mode.stride))


def thread_offsets(modes: Iterable[Mode]) -> set[int]:
    """What the positions along some modes, padding included, add to a thread's number."""
    found = {0}
    for mode in modes:
        step = mode.stride if mode.coord == THREAD else 0
        found = {offset + digit * step for offset in found for digit in range(mode.extent)}
    return found


def join_modes(modes: Iterable[Mode]) -> tuple[Mode, ...]:
    """Modes in their order, neighbours that continue each other joined, those of extent 1 dropped."""
    joined: list[Mode] = []
    for mode in (mode for mode in modes if mode.extent > 1):
        last = joined[-1] if joined else None
        if last and last.coord == mode.coord and last.stride * last.extent == mode.stride:
            joined[-1] = Mode(last.extent * mode.extent, last.stride, last.coord)
        else:
            joined.append(mode)
    return tuple(joined)


def replicated(shape: Sequence[int], threads: int) -> FragmentLayout:
    """Every thread of ``threads`` holds the whole tile, row-major in its registers."""
    modes = tuple((on_register(extent, 1),) if extent > 1 else () for extent in shape)
    copies = (on_thread(threads, 1),) if threads > 1 else ()
    return FragmentLayout(tuple(shape), modes, copies).compact()


def make_fully_replicated_layout_fragment(buffer: Any, threads: int) -> FragmentLayout:
    """The layout of a fragment (a buffer, or its shape) that every one of ``threads`` threads holds whole."""
    return replicated([int(extent) for extent in getattr(buffer, "shape", buffer)], int(threads))


def _first_of(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *index: function(*index)[0]


def _number(found: Any) -> int:
    """What an index function gave: a number (a constant of TVM, too, as its index maps give), or a list of one."""
    return int(found[0] if hasattr(found, "__len__") else found)


def Fragment(
    shape: Sequence[int],
    forward_fn: Callable[..., Any] | None = None,
    forward_thread_fn: Callable[..., Any] | None = None,
    replicate: int = 1,
    forward_index_fn: Callable[..., Any] | None = None,
) -> FragmentLayout:
    """The fragment that index functions describe.

    Args:
        shape: extents of the tile.
        forward_fn: ``(i, j, ...[, rep]) -> (thread, register)``.
        forward_thread_fn: ``(i, j, ...[, rep]) -> thread``, used with ``forward_index_fn``.
        replicate: copies of each element; the functions of the thread then take the copy's number last.
        forward_index_fn: ``(i, j, ...) -> register``; without one registers are numbered in row-major order.

    Returns:
        The layout, for ``T.annotate_layout`` or a ``loop_layout``.

    Threads are counted from the one that holds the first element: which threads of a block they are follows from the statements
    that use the fragment.

    Raises:
        LayoutError: the functions are no mixed-radix map (every part of an index must go to one place by a stride), threads are
            not numbered without gaps, or elements share a register.
    """
    shape = tuple(map(int, shape))  # a buffer's shape has expressions
    rank = len(shape)
    thread_fn = forward_thread_fn
    if thread_fn is None:
        if forward_fn is None:
            raise LayoutError("T.Fragment needs forward_fn or forward_thread_fn")
        thread_fn = _first_of(forward_fn)

    def thread_of(*index: int) -> int:
        return int(thread_fn(*(index if replicate > 1 else index[:rank])))

    def register_of(*index: int) -> int | None:
        if forward_index_fn is not None:
            return _number(forward_index_fn(*index[:rank]))
        if forward_fn is None:
            return None
        return _number(forward_fn(*(index if replicate > 1 else index[:rank]))[1])

    first = thread_of(*(0,) * (rank + 1))
    axes = recover_modes((*shape, replicate), lambda *index: thread_of(*index) - first, register_of)
    modes = tuple(
        tuple(Mode(extent, stride, THREAD if kind == "t" else REGISTER) for extent, stride, kind in axis) for axis in axes
    )
    layout = FragmentLayout(shape, modes[:-1], merge_modes(modes[-1]))
    return layout if forward_fn is not None or forward_index_fn is not None else layout.compact()
