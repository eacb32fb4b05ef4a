"""Copies and products that the program itself waits for.

Their writes take effect as late as the program allows: at the wait that guarantees them. So a program that forgets a wait never
gets the new data by luck. Until then their destination is *pending*, and an access to it is a finding. So is a write of what
they read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilelang.errors import OptionError
from tilelang.interpreter.access import both, cells_of, check_free, load, locate, mark_written, store
from tilelang.interpreter.barriers import chosen, place_of
from tilelang.interpreter.boxes import Box, positions, write
from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.expressions import Evaluate, compiled, compiled_element, intrinsic
from tilelang.interpreter.numbers import element
from tilelang.interpreter.state import Lanes
from tilelang.interpreter.strands import Strand
from tilelang.ir.expr import as_int, constant
from tilelang.tensor_maps import DATA_TYPES

Effect = Callable[[Lanes], Any]


@dataclass(frozen=True, eq=False)
class Group:
    """A committed group of work.

    Attributes:
        threads: that committed it.
        work: functions that complete it.
        strand: which has the accesses of a product; None where the threads have them themselves.
    """

    threads: Any
    work: list[Callable[[], None]]
    strand: Strand | None = None


class Queue:
    """Work in flight of one unit (copies, bulk stores or products), in the groups that threads commit and wait for.

    Attributes:
        open: ``(threads, function that completes it)`` of each piece of work since the last commit.
        groups: committed groups, oldest first.
    """

    def __init__(self) -> None:
        self.open: list[tuple[Any, Callable[[], None]]] = []
        self.groups: list[Group] = []

    def start(self, x: Lanes, complete: Callable[[], None]) -> None:
        """Adds work of the active lanes."""
        self.open.append((x.mask, complete))

    def commit(self, x: Lanes) -> None:
        """Closes the group of the active lanes."""
        # The hardware has a queue for each thread; here all share one, and a thread commits and waits for what it has started
        # itself. Work of more threads than those that commit stays open until all of them do.
        mine = [work for mask, work in self.open if _within(mask, x.mask)]
        self.open = [(mask, work) for mask, work in self.open if not _within(mask, x.mask)]
        self.groups.append(Group(x.mask, mine))

    def of(self, x: Lanes) -> list[Group]:
        """The groups of the active lanes, oldest first."""
        return [group for group in self.groups if _within(group.threads, x.mask)]

    def wait(self, x: Lanes, left: int) -> None:
        """Completes all but the last ``left`` groups of the active lanes."""
        mine = self.of(x)
        # `cp.async.wait_group N`: at most the N latest groups may still be in flight.
        for group in mine[: max(0, len(mine) - left)]:
            for complete in group.work:
                complete()
            if group.strand is not None:
                x.strand.wait_for(group.strand)
            self.groups = [other for other in self.groups if other is not group]


def _within(threads: Any, others: Any) -> bool:
    """Whether the first set of threads is a part of the second."""
    return others is True or threads is others or bool(np.all(np.less_equal(threads, others)))


def pend(x: Lanes, view: Any, row: Any, at: Any) -> Callable[[], None]:
    """Marks elements as pending; returns the function that removes the marks. Those that are in use already are a finding.

    Args:
        x: the state, which gets the finding.
        view: the buffer.
        row: of the storage.
        at: flat positions.
    """
    check_free(x, view, row, at, True)
    return view.storage.mark("pending", row, cells_of(view, at))


def _reads(x: Lanes, box: Box) -> Callable[[], None]:
    """Marks a tile as one that something asynchronous reads; returns the function that removes the marks.

    A tensor gets none: what nothing waits for would read it beyond the end of its kernel.
    """
    if box.view.is_tensor:
        return _nothing
    at, inside = positions(x, box)
    at = at if inside is True else at[inside]
    return box.view.storage.mark("reading", 0, cells_of(box.view, at))


def _nothing() -> None:
    pass


def _both(one: Callable[[], None], other: Callable[[], None]) -> Callable[[], None]:
    """A function that calls two."""

    def run() -> None:
        one()
        other()

    return run


def _deferred(x: Lanes, dst: Box, value: np.ndarray) -> Callable[[], None]:
    """A function that writes a box later, with values captured now."""
    state = x.fork(x.mask)
    # The write has the time of this statement: what the thread does until the wait does not happen before it.
    state.strand = x.strand.frozen()
    at, inside = positions(state, dst)
    arrived = pend(x, dst.view, 0, at if inside is True else at[inside])

    def complete() -> None:
        arrived()
        write(state, dst, value)

    return complete


# Copies of tiles -----------------------------------------------------------------------------------------------------


def started(c: Compiler, record: Any, source: Callable[[Lanes], Box], target: Callable[[Lanes], Box]) -> Effect:
    """The effect of ``T.async_copy`` and ``T.tma_copy``.

    Args:
        c: the compiler.
        record: the operator.
        source, target: give the two boxes in a state.
    """
    from tilelang.interpreter.operators.copy import moved

    barrier = None if record.barrier is None else (c.view(record.barrier.buffer), compiled(c, constant(record.barrier.mins[0])))

    def effect(x: Lanes) -> None:
        src, dst = source(x), target(x)
        complete = _both(_deferred(x, dst, moved(x, src, dst)), _reads(x, src))
        if record.kind == "async":
            x.block.copies.start(x, complete)
            x.block.copies.commit(x)
        elif barrier is None:
            x.block.stores.start(x, complete)
            x.block.stores.commit(x)
        else:
            slot, index = barrier
            x.views[slot].at(x, index(x)).copies.append((complete, x.strand.frozen()))

    return effect if record.cluster_mask is None or barrier is None else _multicast(record, source, target, barrier, effect)


def _multicast(record: Any, source: Any, target: Any, barrier: tuple[int, Evaluate], alone: Effect) -> Effect:
    """A load that the lowest block of a set makes for all of them; each waits at its own barrier."""
    from tilelang.interpreter.operators.copy import moved

    mask, (slot, index) = record.cluster_mask, barrier
    receivers = [rank for rank in range(mask.bit_length()) if mask >> rank & 1]

    def effect(x: Lanes) -> None:
        rank = x.block.rank
        if rank not in receivers:
            return alone(x)
        src, dst = source(x), target(x)
        # One block reads the memory for all: they get the same values even if it is written meanwhile, and a race is found once.
        if rank == receivers[0]:
            for other in receivers:
                x.block.cluster.send(other, moved(x, src, dst))
        signal, state = x.views[slot].at(x, index(x)), x.fork(x.mask)
        state.strand = x.strand.frozen()
        arrived = pend(x, dst.view, 0, positions(x, dst)[0])
        # Keeps the phase of this block's barrier open until the tile has been sent, as expected bytes do.
        signal.bytes += 1

        def receive(value: np.ndarray) -> None:
            def complete() -> None:
                arrived()
                write(state, dst, value)
                signal.bytes -= 1

            signal.copies.append((complete, state.strand))
            x.run.progress += 1

        return x.block.cluster.receive(rank, receive)

    return effect


@intrinsic("ptx_cp_async")
def _cp_async(c: Compiler, call: Any) -> Evaluate:
    target, source = call.args[0], call.args[1]
    count = as_int(call.args[2]) * 8 // element(str(target.source.dtype)).bits
    predicate = compiled(c, call.args[3]) if len(call.args) > 3 else None
    (to, to_at), (of, of_at) = compiled_element(c, target), compiled_element(c, source)

    def evaluate(x: Lanes) -> None:
        places, taken = [index(x) for index in to_at], [index(x) for index in of_at]
        outer = x.mask
        chosen = True if predicate is None else np.not_equal(predicate(x), 0)
        for lane in range(count):
            here = [*places[:-1], places[-1] + np.int32(lane)]
            x.mask = both(outer, chosen) if np.ndim(chosen) else outer
            # A false predicate is a source of 0 bytes, for which cp.async fills the destination with zeros.
            zero = x.views[to].kind.value.type(0)
            value = load(x, x.views[of], [*taken[:-1], taken[-1] + np.int32(lane)]) if np.any(chosen) else zero
            x.mask = outer
            _start_element(x, to, here, np.where(chosen, value, zero)[()])

    return evaluate


def _start_element(x: Lanes, slot: int, indices: list[Any], value: Any) -> None:
    view, state = x.views[slot], x.fork(x.mask)
    state.strand = x.strand.frozen()
    at, inside = locate(x, view, indices)
    active = both(x.mask, inside)
    if active is not True:
        at = np.broadcast_to(at, (x.lanes,))[active]
    arrived = pend(x, view, 0, at)

    def complete() -> None:
        arrived()
        state.begin(state.span)
        store(state, view, indices, value)

    x.block.copies.start(x, complete)


# Groups --------------------------------------------------------------------------------------------------------------


@intrinsic("ptx_commit_group")
def _commit(c: Compiler, call: Any) -> Evaluate:
    return lambda x: x.block.copies.commit(x)


@intrinsic("ptx_wait_group")
def _wait_group(c: Compiler, call: Any) -> Evaluate:
    left = as_int(call.args[0])
    return lambda x: x.block.copies.wait(x, left)


@intrinsic("tma_store_arrive")
def _store_arrive(c: Compiler, call: Any) -> Evaluate:
    return lambda x: x.block.stores.commit(x)


@intrinsic("tma_store_wait")
def _store_wait(c: Compiler, call: Any) -> Evaluate:
    left = as_int(call.args[0]) if call.args else 0
    return lambda x: x.block.stores.wait(x, left)


@intrinsic("warpgroup_commit_batch")
def _commit_products(c: Compiler, call: Any) -> Evaluate:
    return lambda x: None


@intrinsic("wait_wgmma", "warpgroup_wait")
def _wait_products(c: Compiler, call: Any) -> Evaluate:
    left = as_int(call.args[0])
    return lambda x: x.block.products.wait(x, left)


@intrinsic("cp_async_barrier_noinc")
def _arrive_with_copies(c: Compiler, call: Any) -> Evaluate:
    """The thread's copies so far arrive at a barrier when they are complete, which may be as late as something waits for them."""
    slot, index = place_of(c, call.args[0])

    def evaluate(x: Lanes) -> None:
        x.block.copies.commit(x)
        x.block.copies.wait(x, 0)
        for barrier, times in chosen(x, slot, index(x)):
            barrier.arrive(x, times)

    return evaluate


def product_started(
    c: Compiler, record: Any, effect: Effect, operands: Sequence[Callable[[Lanes], Box]], target: Callable[[Lanes], Box]
) -> Effect:
    """``T.wgmma_gemm``, ``T.gemm(wg_wait=)`` (complete at ``T.wait_wgmma``) and ``T.tcgen05_gemm`` (complete at its barrier).

    Products are executed in order, so the sum is computed at once; until the wait, an access of a thread to it is a finding,
    and so is a write of an operand.

    Args:
        c: the compiler.
        record: the operator.
        effect: computes the product.
        operands: give the boxes of what is multiplied in a state.
        target: gives the accumulator's box in a state.
    """
    signal = None if record.barrier is None else (c.view(record.barrier.buffer), compiled(c, constant(record.barrier.mins[0])))

    def run(x: Lanes) -> None:
        dst = target(x)
        storage = dst.view.storage
        # The hardware executes products in order, so the marks of an earlier one do not concern this one.
        earlier, storage.pending = storage.pending, None
        strand = _strand_of_product(x) if signal is None else None
        mine, x.strand = x.strand, strand or x.strand
        effect(x)
        x.strand = mine
        storage.pending = earlier
        ended = [_reads(x, operand(x)) for operand in operands]
        ended.append(storage.mark("pending", 0, cells_of(dst.view, positions(x, dst)[0])))
        if signal is None:
            x.block.products.groups.append(Group(x.mask, ended, strand))
            if record.wg_wait > 0:
                x.block.products.wait(x, record.wg_wait)
            return
        slot, index = signal
        barrier = x.views[slot].at(x, index(x))
        barrier.copies += [(end, x.strand.frozen()) for end in ended]
        barrier.arrive(x)

    return run


def _strand_of_product(x: Lanes) -> Strand | None:
    """A strand for the accesses of a product, which follows those that are in flight; None where no other threads run."""
    # A warp group executes a product as one: whichever of its threads waits for it knows that all operands have been read
    # (PTX ISA, wgmma.commit_group: a wgmma-group is the warp group's).
    if x.strand.is_alone:
        return None
    x.run.strands += 1
    found = x.strand.child(x.run.strands, has_each_warp=False)
    for group in x.block.products.of(x):
        if group.strand is not None:
            found.join(group.strand)
    return found


# Descriptors ---------------------------------------------------------------------------------------------------------


class Descriptor:
    """A tensor map: a tensor as the tensor memory accelerator sees it, axes from the innermost on.

    Attributes:
        view: the tensor.
        sizes: of its axes.
        strides: of its axes, in elements.
        box: extents of what one copy moves.
        swizzled: whether the box lies in shared memory as the tile's own layout has it, not row after row.
    """

    def __init__(self, view: Any, sizes: list[int], strides: list[int], box: list[int], swizzled: bool):
        self.view, self.sizes, self.strides, self.box, self.swizzled = view, sizes, strides, box, swizzled

    def elements(self, at: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Flat positions of the box at some coordinates, outermost axis first, and which are inside of the tensor."""
        extents = self.box[::-1]
        index = np.indices(extents)
        position, inside = np.zeros(extents, np.int64), np.ones(extents, bool)
        for axis, (size, stride, start) in enumerate(zip(self.sizes, self.strides, at)):
            place = index[len(extents) - 1 - axis] + start
            inside &= (place >= 0) & (place < size)
            position += place * stride
        return np.where(inside, position, 0), inside

    def places(self, tile: Any, first: list[int]) -> np.ndarray:
        """Flat positions of the box in a tile of shared memory whose element ``first`` it begins at."""
        start = sum(int(index) * stride for index, stride in zip(first, tile.strides))
        if not self.swizzled:
            return start + np.arange(int(np.prod(self.box))).reshape(self.box[::-1])
        strides = [*tile.strides[-len(self.box) :]]
        indices = np.indices(self.box[::-1])[-len(strides) :]
        return np.asarray(start + sum(index * stride for index, stride in zip(indices, strides)))


@intrinsic("create_tma_descriptor")
def _descriptor(c: Compiler, call: Any) -> Evaluate:
    kind, rank = as_int(call.args[0]), as_int(call.args[1])
    rest = list(call.args[3:])
    if len(rest) != 4 * rank + 4:
        raise OptionError("T.create_tma_descriptor: numbers that do not fit together")
    slot, numbers = c.view(call.args[2].source), [compiled(c, value) for value in rest]
    bits = element(str(call.args[2].source.dtype)).bits
    if kind not in DATA_TYPES.values():
        raise OptionError(f"T.create_tma_descriptor: no type {kind}")

    def evaluate(x: Lanes) -> Descriptor:
        values = [int(number(x)) for number in numbers]
        # The arguments are those of cuTensorMapEncodeTiled: sizes, strides in bytes, extents of the box and strides of its
        # elements, each from the innermost axis on, whose elements are neighbours; then interleaving, swizzle, promotion in L2
        # and what is read outside.
        strides = [1, *(stride * 8 // bits for stride in values[rank + 1 : 2 * rank])]
        return Descriptor(x.views[slot], values[:rank], strides, values[2 * rank : 3 * rank], values[4 * rank + 1] != 0)

    return evaluate


@intrinsic("tma_load")
def _tma_load(c: Compiler, call: Any) -> Evaluate:
    descriptor, (barrier, which) = compiled(c, call.args[0]), place_of(c, call.args[1])
    slot, indices = compiled_element(c, call.args[2])
    coordinates = [compiled(c, value) for value in call.args[3:]]

    def evaluate(x: Lanes) -> None:
        tensor_map, tile = descriptor(x), x.views[slot]
        at, inside = tensor_map.elements([x.uniform(value(x)) for value in coordinates])
        value = np.where(inside, tensor_map.view.read(0, at), 0).astype(tile.kind.value)
        places = tensor_map.places(tile, [x.uniform(index(x)) for index in indices])
        arrived = pend(x, tile, 0, places)
        size = value.size * tile.kind.bits // 8
        signal = x.views[barrier].at(x, x.uniform(which(x)))

        def complete() -> None:
            arrived()
            tile.write(0, places, value)
            mark_written(tile, 0, places)
            # The phase ends when all have arrived and as many bytes have come as T.mbarrier_expect_tx said.
            signal.bytes -= size

        signal.copies.append((complete, x.strand.frozen()))
        x.run.progress += 1

    return evaluate


@intrinsic("tma_store")
def _tma_store(c: Compiler, call: Any) -> Evaluate:
    descriptor, (slot, indices) = compiled(c, call.args[0]), compiled_element(c, call.args[1])
    coordinates = [compiled(c, value) for value in call.args[2:]]

    def evaluate(x: Lanes) -> None:
        tensor_map, tile = descriptor(x), x.views[slot]
        at, inside = tensor_map.elements([x.uniform(value(x)) for value in coordinates])
        places = tensor_map.places(tile, [x.uniform(index(x)) for index in indices])
        value, view = tile.read(0, places), tensor_map.view
        read = tile.storage.mark("reading", 0, cells_of(tile, places))

        def complete() -> None:
            read()
            view.write(0, at[inside], value[inside])
            mark_written(view, 0, at[inside])

        x.block.stores.start(x, complete)

    return evaluate


@intrinsic("store_cluster")
def _store_remote(c: Compiler, call: Any) -> Evaluate:
    """An element of another block's shared memory."""
    (slot, indices), value, rank = compiled_element(c, call.args[0]), compiled(c, call.args[1]), compiled(c, call.args[2])

    def evaluate(x: Lanes) -> None:
        view = x.block.cluster.memory_of(x, int(x.uniform(rank(x))), lambda other: other.state.views[slot])
        if view is not None:
            store(x, view, [index(x) for index in indices], value(x))

    return evaluate
