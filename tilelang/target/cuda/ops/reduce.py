"""Reductions as code: registers first, then lanes by shuffles, then warps through shared memory."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_fragment
from tilelang.ir.region import Region
from tilelang.layout.fragment import REGISTER, THREAD, FragmentLayout, Mode, merge_modes, on_thread, thread_offsets
from tilelang.records import Record
from tilelang.target.cuda.arch import WARP
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.codegen.expr import extremum
from tilelang.target.cuda.inference.cost import BARRIER, REQUEST, SHUFFLE
from tilelang.target.cuda.ir.code import Code, counted, leaf, nested, scoped, under
from tilelang.target.cuda.ir.conversions import converted
from tilelang.target.cuda.ir.instructions import Assign, Define, WarpBarrier
from tilelang.target.cuda.ir.values import Array, Binary, Call, Convert, Literal, Name, Number, Type, Unary, Value, total
from tilelang.target.cuda.operators import OperatorRule, implements
from tilelang.tileop.reduce import FinalizeReducer, Reduce, fits


class Combine(Record):
    """How a kind of reduction combines two values.

    Attributes:
        functor: the device header's operation.
        infix: C++ operator, or ``"max"``/``"min"``.
        absolute: whether elements count by magnitude.
    """

    functor: str
    infix: str
    absolute: bool = False


KINDS: Mapping[str, Combine] = {
    "sum": Combine("Sum", "+"),
    "abssum": Combine("Sum", "+", True),
    "max": Combine("Max", "max"),
    "min": Combine("Min", "min"),
    "absmax": Combine("Max", "max", True),
    "bitand": Combine("BitAnd", "&"),
    "bitor": Combine("BitOr", "|"),
    "bitxor": Combine("BitXor", "^"),
}

_UNROLLED_TERMS = 1024
"""The most terms of a thread's sums in shared memory that are unrolled; device compilers take seconds for more."""


class Reduction:
    """Combining values of one kind in one type.

    Args:
        kind: a name of :data:`KINDS`.
        dtype: of the result; narrow floats are summed in float32, integers of four bits in int32.
        propagate: whether NaN wins in max and min.
    """

    def __init__(self, kind: str, dtype: str, propagate: bool = False):
        self.combine_kind = KINDS[kind]
        self.dtype = canonical(dtype)
        narrow = self.dtype.is_float and self.dtype.bits < 32
        self.wide = canonical("float32") if narrow else canonical("int32") if self.dtype.bits == 4 else self.dtype
        self.propagate = propagate and self.combine_kind.infix in ("max", "min")

    @property
    def functor(self) -> str:
        """The device header's operation."""
        return f"tl::{self.combine_kind.functor}{'Nan' if self.propagate else ''}"

    def combine(self, left: Value, right: Value) -> Value:
        """Two values combined."""
        infix = self.combine_kind.infix
        if self.propagate:
            return Call(f"{self.functor}::apply", (left, right), (Type(self.wide),))
        if infix in ("max", "min"):
            return extremum(infix, left, right, self.wide)
        return Binary(infix, left, right)

    def element(self, value: Value, dtype: str) -> Value:
        """An element of the source, ready to be combined."""
        value = converted(value, dtype, self.wide)
        if not self.combine_kind.absolute or self.wide.kind in ("uint", "bool"):
            return value
        return Call("fabsf" if self.wide == "float32" else "fabs" if self.wide.is_float else "abs", (value,))

    def identity(self) -> Value:
        """The value that changes nothing."""
        infix, wide = self.combine_kind.infix, self.wide
        if infix == "+" and wide.is_float:
            return Literal(-0.0, wide)  # compilers may not leave out the addition of +0, which changes -0
        if infix in ("+", "|", "^") or self.combine_kind.absolute:
            return Convert(wide, Number(0))
        if infix == "&":
            return Convert(wide, Unary("~", Convert(wide, Number(0)))) if wide != "bool" else Literal(1, "bool")
        if wide.is_float:
            return Literal(float("-inf") if infix == "max" else float("inf"), wide)
        signed = wide.kind == "int"
        low = -(1 << (wide.bits - 1)) if signed else 0
        high = (1 << (wide.bits - signed)) - 1
        return Literal(low if infix == "max" else high, wide)


def split_lanes(modes: Sequence[Mode]) -> tuple[list[Mode], list[Mode]]:
    """Thread modes inside a warp that shuffles can serve, and the others."""
    lanes, across = [], []
    for mode in merge_modes(modes):
        inside = WARP // mode.stride if mode.stride < WARP else 1
        # Lanes are exchanged by XOR of their numbers, which needs powers of two; an odd factor goes through shared memory.
        # `extent & -extent` is the largest power of two in it: of 24 threads, 8 by shuffles and 3 through shared memory.
        common = min(mode.extent & -mode.extent, inside)
        if inside > 1 and not mode.stride & (mode.stride - 1) and common > 1:
            lanes.append(on_thread(common, mode.stride))
            if mode.extent > common:
                across.append(on_thread(mode.extent // common, mode.stride * common))
        else:
            across.append(mode)
    return lanes, across


def _result_strides(source: FragmentLayout, target: FragmentLayout, dim: int, kept: list[int]) -> list[int]:
    """Register stride in the result of each kept register mode of the source, in order."""
    kept_axis = dim if len(target.modes) == len(source.modes) else None
    target_modes = [modes for axis, modes in enumerate(target.modes) if axis != kept_axis]
    strides = []
    for axis, modes in zip(kept, target_modes):
        own = [mode for mode in source.modes[axis] if mode.coord != THREAD]
        theirs = [mode for mode in modes if mode.coord != THREAD]
        strides += [mode.stride for mode in theirs][: len(own)]
    return strides


class _Reducer:
    """The code of one reduction.

    Attributes:
        value: the name of what a thread has summed up so far.
        outer: names of the loops over the results that a thread has, with their modes.
        skipped: registers of the source before those of the results.
    """

    def __init__(self, emitter: Emitter, reduction: Reduction, op: Any):
        self.e, self.r, self.op = emitter, reduction, op
        self.skipped = 0

    def emit(
        self, outer: list[Mode], results: list[int], inner: list[Mode], threads: list[Mode], source: FragmentLayout
    ) -> list[Code]:
        lanes, across = split_lanes(threads)
        if not across or not outer or self.e.options.together:
            return self._results(outer, results, 0, inner, lanes, across, source)
        code: list[Code] = []
        scratch = self._scratch(_slots(lanes, across, len(self.e.threads)))
        for places in product(*(range(mode.extent) for mode in outer)):
            self.skipped = sum(place * mode.stride for place, mode in zip(places, outer))
            first = sum(place * stride for place, stride in zip(places, results))
            code += self._results([], [], first, inner, lanes, across, source, scratch)
        return code

    def _results(
        self, outer: list[Mode], results: list[int], first: int, inner: list[Mode], lanes: list[Mode], across: list[Mode],
        source: FragmentLayout, scratch: Array | None = None,
    ) -> list[Code]:  # fmt: skip
        """The code for the results from register ``first`` on."""
        self.holders = source.threads
        e, r = self.e, self.r
        self.value = value = e.names.take("total")
        self.outer = [(e.names.take("o"), mode) for mode in outer]
        self.place = e.array(self.op.dst.buffer).at(_sum([name for name, _ in self.outer], results) + first)
        self.continues = not across and self._may_continue(source)
        begin = self._old() if self.continues else r.identity()
        partial = [Define(value, r.wide, begin, constant=False), *self._registers(inner, source)]
        partial += [Assign(value, Call("tl::warp_reduce", (value,), (r.functor, m.extent, m.stride))) for m in lanes]
        if not across:
            return [leaf([*self._meeting(lanes), *self._each([*partial, self._finish()])])]
        return self._across(lanes, across, partial, scratch)

    def _meeting(self, lanes: list[Mode]) -> list[Any]:
        """What makes lanes wait for each other: a reduction orders what its threads do, also where the compiler does not."""
        threads = self.e.threads
        mask = (1 << min(len(threads), WARP)) - 1 << threads.start % WARP
        return [WarpBarrier(mask)] if lanes and not self.e.options.barriers else []

    def _each(self, body: list[Any]) -> list[Any]:
        """What a thread does for each of its results."""
        return scoped([(name, mode.extent) for name, mode in self.outer], body)

    def _may_continue(self, source: FragmentLayout) -> bool:
        """Whether each thread may begin with the old result, which then counts several times."""
        # max(x, x) is x, x + x is not: an old result in each of the threads may be combined with itself.
        idempotent = not self.r.combine_kind.absolute and self.r.combine_kind.infix in ("max", "min", "&", "|")
        return idempotent and not self.op.clear and self.r.wide == self.r.dtype and source.threads >= len(self.e.threads)

    def _old(self) -> Value:
        """The old result, for threads to begin with; a NaN that is ignored like those of elements is the identity instead."""
        ignored = self.r.wide.is_float and not self.r.propagate
        return self.r.combine(self.place, self.r.identity()) if ignored else self.place

    def _registers(self, inner: list[Mode], source: FragmentLayout) -> list[Any]:
        e, names = self.e, [self.e.names.take("r") for _ in inner]
        index = _sum([*(name for name, _ in self.outer), *names], [m.stride for m in (*(m for _, m in self.outer), *inner)])
        index = index + self.skipped
        element = self.r.element(e.array(self.op.src.buffer).at(index), self.op.src.dtype)
        step = Assign(self.value, self.r.combine(self.value, element))
        guard = self._padding(source, inner, names)
        return nested([(name, mode.extent) for name, mode in zip(names, inner)], under(guard, [step]))

    def _padding(self, source: FragmentLayout, inner: list[Mode], names: list[Name]) -> Value | None:
        """Condition under which a position along the reduced axis exists."""
        dim, e = self.op.dim, self.e
        if source.padded(dim) == source.shape[dim]:
            return None
        parts, weight = [], 1
        registers = dict(zip(inner, names))
        for mode in source.modes[dim]:
            parts.append((e.digit(mode) if mode.coord == THREAD else registers[mode]) * weight)
            weight *= mode.extent
        return total(parts).is_("<", source.shape[dim])

    def _finish(self) -> Assign:
        result: Value = self.value
        if not self.op.clear and not self.continues:
            result = self.r.combine(converted(self.place, self.r.dtype, self.r.wide), result)
        return Assign(self.place, converted(result, self.r.wide, self.r.dtype))

    def _scratch(self, count: int) -> Array:
        return self.e.scratch(count, str(self.r.wide), "reduce_scratch")

    def _across(self, lanes: list[Mode], across: list[Mode], partial: list[Any], scratch: Array | None) -> list[Code]:
        """The parts of several warps, combined through shared memory; neighbours that hold the same part have one slot."""
        e, same, threads = self.e, _neighbours(lanes, across), len(self.e.threads)
        slots = _slots(lanes, across, threads)
        scratch = scratch or self._scratch(slots * prod(mode.extent for _, mode in self.outer))
        strides, step = [], slots
        for _, mode in reversed(self.outer):
            strides.insert(0, step)
            step *= mode.extent
        row = _sum([name for name, _ in self.outer], strides)
        one = (e.thread % same).is_("==", 0) if same > 1 else None
        store = under(one, [Assign(scratch.at(row + e.thread // same), self.value)])
        write = leaf(self._each([*partial, *store]), fills={scratch.storage})
        combine = self._combined(scratch, row, across, same)
        inside = e.thread.is_("<", self.holders) if self.holders < threads else None
        return [write, leaf(under(inside, self._each(combine)))]

    def _combined(self, scratch: Array, row: Value, across: list[Mode], same: int) -> list[Any]:
        """The sum of what the threads across hold of one result."""
        e, first = self.e, self.e.names.take("first")
        # The thread's number with the digits across set to zero is the same for all threads that reduce one result, whose slots
        # lie at its multiples of the strides.
        base = e.thread
        for mode in across:
            base = base - e.digit(mode) * mode.stride
        parts = [(e.names.take("p"), mode) for mode in across]
        offset = _sum([name for name, _ in parts], [mode.stride // same for _, mode in parts])
        part = scratch.at(row + first + offset)
        body: list[Any] = [Assign(self.value, self.r.combine(self.value, part))]
        # Only the loop over the results must be unrolled: they are registers.
        terms = prod(mode.extent for mode in (*across, *(mode for _, mode in self.outer)))
        for name, mode in reversed(parts):
            body = [counted(name, mode.extent, body, unroll=0 if terms <= _UNROLLED_TERMS else 4)]
        return [
            Define(self.value, self.r.wide, self.r.identity(), constant=False),
            Define(first, "int32", base // same),
            *body,
            self._finish(),
        ]


def _neighbours(lanes: Sequence[Mode], across: Sequence[Mode]) -> int:
    """How many threads beside each other hold the same part once ``lanes`` are combined."""
    count = 1
    for mode in sorted(lanes, key=lambda mode: mode.stride):
        # After the shuffles the lanes of a mode hold the same sum. Only modes that follow each other without a gap make such
        # threads neighbours.
        if mode.stride != count:
            break
        count *= mode.extent
    return count if all(mode.stride % count == 0 for mode in across) else 1


def _slots(lanes: Sequence[Mode], across: Sequence[Mode], threads: int) -> int:
    """How many parts of one result the threads hold."""
    return -(-threads // _neighbours(lanes, across))


def _sum(names: Sequence[Name], strides: Sequence[int]) -> Value:
    return total(name * stride for name, stride in zip(names, strides))


# The operators --------------------------------------------------------------------------------------------------------


@implements(Reduce)
class ReduceRule(OperatorRule):
    """``T.reduce_*`` from a fragment to a fragment."""

    in_warps = True

    def overwritten(self, op: Any) -> Any:
        return op.dst if op.clear and op.dst.is_whole else None

    def offer(self, op: Any, fragments: Mapping[Any, FragmentLayout]) -> tuple[Any, FragmentLayout] | None:
        """The layout of the source, in which the threads along the axis become replicas."""
        source = fragments.get(op.src.buffer)
        if source is None or op.dst.buffer in fragments or not (op.dst.is_whole and op.src.is_whole):
            return None
        layout = source.project(op.dim, len(op.dst.buffer.shape) == len(op.src.buffer.shape))
        return (op.dst.buffer, layout) if layout.shape == tuple(as_int(extent) for extent in op.dst.buffer.shape) else None

    def misfits(self, op: Any, plan: Any, fragments: Mapping[Any, FragmentLayout]) -> list[tuple[Any, str]]:
        source, target = (fragments.get(region.buffer) for region in (op.src, op.dst))
        fits = source is None or target is None or reduces_to(op, source, target)
        return [] if fits else [(op.dst.buffer, "a reduction leaves its elements in other threads")]

    def proofs(self, op: Any, fragments: Mapping[Any, FragmentLayout], threads: int) -> Iterator[tuple[bool, Any, str]]:
        source, target = fragments[op.src.buffer], fragments[op.dst.buffer]
        yield source.threads <= threads, op.src.buffer, "more threads hold it than reduce it"
        yield stays_in_rows(source, target, op.dim), op.dst.buffer, "it is not where its sums are"

    def cost(self, op: Any, fragments: Mapping[Any, FragmentLayout]) -> float:
        """Cycles for its registers, the shuffles between lanes, and the exchange between warps."""
        if op.src.buffer not in fragments:
            return 0
        source = fragments[op.src.buffer]
        kept = [mode for axis, modes in enumerate(source.modes) if axis != op.dim for mode in modes]
        results = prod(mode.extent for mode in kept if mode.coord == REGISTER)
        threads = [mode for mode in source.modes[op.dim] if mode.coord == THREAD]
        across = any(mode.stride * mode.extent > WARP for mode in threads)
        shuffles = sum(math.log2(min(mode.extent, WARP // mode.stride)) for mode in threads if mode.stride < WARP)
        return source.registers + results * (shuffles * SHUFFLE + across * 4 * REQUEST) + across * BARRIER

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        before, after = [], []
        if not is_fragment(op.src) or not op.src.is_whole:
            source = reader.temporary(op.src, "tile")
            before.append(reader.copy(op.src, source, span))
            op = op.replace(src=source)
        if not is_fragment(op.dst) or not op.dst.is_whole or not _has_axes_of(op):
            extents = tuple(1 if axis == op.dim else extent for axis, extent in enumerate(op.src.extents))
            result = reader.temporary(Region(op.dst.buffer, (0,) * len(extents), extents), "result")
            if not op.clear:
                before.append(reader.copy(op.dst, result, span))
            after.append(reader.copy(result, op.dst, span))
            op = op.replace(dst=result)
        return [*before, reader.operator(op, span), *after]

    def lower(self, node: Any, generator: Any) -> list[Code]:
        e, op = generator.emitter, node.op
        source, target = e.layouts.fragments[op.src.buffer], e.layouts.fragments[op.dst.buffer]
        kept = [axis for axis in range(len(source.modes)) if axis != op.dim]
        registers = [[mode for mode in modes if mode.coord != THREAD] for modes in source.modes]
        threads = [mode for mode in source.modes[op.dim] if mode.coord == THREAD]
        if source.is_padded or source.threads < len(e.threads):
            e.output.padded.add(e.root(op.src.buffer))
        with e.names.block():
            reducer = _Reducer(e, Reduction(op.kind, op.dst.dtype, op.nan_propagate), op)
            outer = [mode for axis in kept for mode in registers[axis]]
            return reducer.emit(outer, _result_strides(source, target, op.dim, kept), registers[op.dim], threads, source)


def _has_axes_of(op: Reduce) -> bool:
    """Whether the destination's axes are those of the source, with one of length one or none in place of the reduced one."""
    extents = list(op.src.extents)
    without, with_one = extents[: op.dim] + extents[op.dim + 1 :], [*extents[: op.dim], 1, *extents[op.dim + 1 :]]
    return any(fits(want, op.dst.extents) for want in (without or [1], with_one))


@implements(FinalizeReducer)
class FinalizeRule(OperatorRule):
    """``T.finalize_reducer``: a reduction of what all threads of the group hold to the reducer itself."""

    def lower(self, node: Any, generator: Any) -> list[Code]:
        e, op = generator.emitter, node.op
        layout = e.layouts.fragments[op.buffer.buffer]
        registers = [mode for modes in layout.modes for mode in modes]
        threads = [on_thread(len(e.threads), 1)] if len(e.threads) > 1 else []
        reducer = _Reducer(e, Reduction(op.op, op.buffer.dtype), Reduce(op.buffer, op.buffer, op.op))
        return reducer.emit(registers, [mode.stride for mode in registers], [], threads, layout)


# Layouts --------------------------------------------------------------------------------------------------------------


def reduces_to(op: Any, source: FragmentLayout, target: FragmentLayout) -> bool:
    """Whether a reduction leaves its result where ``target`` has it; registers may be numbered differently."""
    expected = source.project(op.dim, len(target.shape) == len(source.shape))
    counts = ([[m.extent for m in axis if m.coord == REGISTER] for axis in layout.modes] for layout in (expected, target))
    alike = expected.shape == target.shape and expected.same_threads(target) and operator.eq(*counts)
    return alike and stays_in_rows(source, target, op.dim)


def stays_in_rows(source: FragmentLayout, target: FragmentLayout, dim: int) -> bool:
    """Whether each element of ``source`` reduced over ``dim`` is in all threads that hold a part of it, and in no other."""
    kept = [axis for axis in range(len(source.shape)) if axis != dim]
    axes = [axis for axis, extent in enumerate(target.shape) if len(target.shape) <= len(kept) or axis != dim]
    if kept and (len(kept) != len(axes) or any(source.axis_threads(a) != target.axis_threads(b) for a, b in zip(kept, axes))):
        return False
    steps = {place + step for place in source.owners([0] * len(source.shape)) for step in thread_offsets(source.modes[dim])}
    return steps == set(target.owners([0] * len(target.shape)))
