"""The loops of a nest: each thread runs its share of the iterations.

The register digits of the loop layout become unrolled loops, the thread digits expressions of the thread's number. Along the
contiguous axis the innermost digit may be a vector, which has no loop: what is done for it as a whole is the body's business.
"""

from __future__ import annotations

from math import prod
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_memory
from tilelang.ir.visit import expressions, variables
from tilelang.layout.digits import Form, Term
from tilelang.layout.fragment import REGISTER
from tilelang.target.cuda.analysis.thread_map import is_aligned
from tilelang.target.cuda.analysis.uniformity import computes_once, replaces_what_it_reads
from tilelang.target.cuda.arch import arch_of
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.inference.loop_layout import LoopLayout
from tilelang.target.cuda.inference.vectors import Vectors, contiguous_axis
from tilelang.target.cuda.ir.access import ThreadMap
from tilelang.target.cuda.ir.code import Block, partly_unrolled, under
from tilelang.target.cuda.ir.instructions import Define
from tilelang.target.cuda.ir.values import Name, Number, Value, both, total
from tilelang.target.cuda.tile.nest import Nest

_REGISTER_ITERATIONS = 512
"""Iterations of a nest on registers that are written out at most, where the registers need no more: one thread may have all
elements of a tile to fill from a register of its own."""

_NODES = 8192
"""Nodes of expressions that those iterations have together at most: 400 iterations of a long expression take NVRTC seconds."""

_MOST_NODES = 4 * _NODES
"""The same where registers need the iterations: with more of them, the registers are local memory, and NVRTC takes no minutes."""

_ITERATIONS = 64
"""Iterations of a nest on memory alone: more of them cost time to compile and instruction cache."""

_CALLS = 512
"""Calls of short functions that are written out, over all elements of all iterations."""

_LONG = {
    # function -> the short functions whose code is as long
    **dict.fromkeys(("sin", "cos", "tan", "rng_rand", "rng_rand_float"), 32),
    **dict.fromkeys(("pow", "fmod", "asin", "acos", "atan2", "erf"), 4),
}

_DOUBLE = 8
"""How much longer the functions of float64 are, which have no instruction."""


def part_of(digit: Value, term: Term) -> Value:
    """The part of a digit that a term of a sum takes."""
    part = digit // term.low
    return part % term.extent if term.low * term.extent < term.digit.extent else part


class NestLoops:
    """The loops of one nest: the names of its digits and variables, and the guards around its body.

    Attributes:
        axis: variable of the contiguous axis, along which vectors lie.
        width: elements of a vector; 1 where the body runs on single elements.
        vectors: decides how wide vectors may be.
        layout: the distribution, in which a vector is a digit of its own.
        partial: the memory of which each thread holds the result of its own iterations afterwards.
        owner: condition under which this thread is the first of those that run the same iteration; None where it is alone, or
            where each of them means its own memory.
    """

    def __init__(self, emitter: Emitter, nest: Nest, layout: LoopLayout, by_thread: bool = False):
        self.e, self.nest, self.by_thread = emitter, nest, by_thread
        self.axis = nest.axes[contiguous_axis(nest)].var
        self.partial = set() if by_thread else emitter.uniformity.carried_partially(nest)
        self.vectors = Vectors(emitter.layouts.place_of, emitter.facts, emitter.root, arch_of(emitter.target))
        self.width, self.layout = self.vectors.split(nest, layout)
        self.vector: Any = None
        self.digits: dict[str, Value] = {}
        self.loops: list[tuple[Name, int]] = []
        self.counted: list[tuple[Name, Any]] = []
        self.definitions: list[Define] = []
        self.guards = [emitter.thread.is_("<", self.layout.threads)] if self.layout.threads < len(emitter.threads) else []
        digits = self.layout.digits
        for number, dim in enumerate(self.layout.dims):
            for place, (digit, _) in enumerate(digits[number]):
                self._digit(dim, place, digit)
        for number, dim in enumerate(self.layout.dims):
            self._variable(dim, digits[number])
        if self.owner is not None and self._is_for_one():
            self.guards.append(self.owner)

    def around(self, body: list[Any]) -> list[Any]:
        """The whole nest."""
        code = [*self.definitions, *under(both(self.guards), body)]
        if not self.loops:
            return [Block(code, braces=True)]
        registers = [access for access in self.nest.accesses if not is_memory(access.buffer)]
        if not registers:
            return partly_unrolled(self.loops, code, _iterations_written_out(self.nest.body, self.width))
        nodes, numbering = _nodes(self.nest.body) * self.width, self._numbering(registers)
        if prod(extent for name, extent in self.loops if name in numbering) * nodes > _MOST_NODES:
            numbering = set()
        return partly_unrolled(self.loops, code, min(_REGISTER_ITERATIONS, max(1, _NODES // nodes)), numbering)

    def _numbering(self, registers: list[Any]) -> set[Name]:
        """The loops that registers are numbered by, which must be known when the kernel is compiled."""
        named = {
            var for access in registers for index in access.site.indices if not isinstance(index, int) for var in variables(index)
        }
        return {name for name, dim in self.counted if dim.var is None or dim.var in named}

    def _is_for_one(self) -> bool:
        """Whether one thread alone runs an iteration, even what only reads: another would read what the first has changed."""
        # Where the nest also fills registers, every thread needs its own copies, so all run it: layout inference has seen to it
        # then that no copies are made of what changes (`_check_nest` of the solver).
        changes = replaces_what_it_reads(self.nest, self.e.root) and self.e.uniformity.stores_to_memory_alone(self.nest)
        return changes or computes_once(self.nest.body)

    def _digit(self, dim: Any, place: int, digit: Any) -> None:
        e = self.e
        if digit.coord != REGISTER:
            self.digits[digit.name] = e.digit(digit)
        # The digit of the vector has no loop: the body moves its elements together, from the position of the first.
        elif place == 0 and self.width > 1 and dim.var is self.axis:
            self.digits[digit.name] = Number(0)
            self.vector = digit
        else:
            name = self.digits[digit.name] = e.names.take(f"{_name_of(dim)}_{place}")
            self.loops.append((name, digit.extent))
            self.counted.append((name, dim))

    def _variable(self, dim: Any, parts: Any) -> None:
        e = self.e
        name = e.names.take(_name_of(dim))
        self.definitions.append(Define(name, "int32", self._value(dim, parts)))
        self.guards += self._dimension_guards(dim, name)
        if dim.var is not None:
            e.names.values[dim.var] = name
            e.facts.bind_range(dim.var, dim.extent)

    def _value(self, dim: Any, parts: Any) -> Value:
        """A dimension's position, of some of its digits."""
        return total(self.digits[digit.name] * weight for digit, weight in parts) - self.e.index(dim.shift)

    def thread_map(self, access: Any) -> ThreadMap | None:
        """Which threads of the block touch which elements by an access of the nest."""
        e, layout = self.e, self.layout
        threads = range(e.threads.start, e.threads.start + layout.threads)
        if not is_aligned(e.threads):
            return None
        axes = {
            dim.var: e.thread_maps.distributed(layout.digits[number], -dim.shift)
            for number, dim in enumerate(layout.dims)
            if dim.var is not None and isinstance(dim.shift, int)
        }
        return e.thread_maps.of(access.buffer, access.site.indices, threads, axes)

    def steps(self, number: int) -> list[tuple[Any, int]]:
        """The digits of a dimension that loops count, with their weights."""
        return [(d, weight) for d, weight in self.layout.digits[number] if d.coord == REGISTER and d is not self.vector]

    def start(self, number: int) -> Value:
        """A dimension's position in the first step of all loops."""
        counted = [digit for digit, _ in self.steps(number)]
        parts = [(digit, weight) for digit, weight in self.layout.digits[number] if digit not in counted]
        return self._value(self.layout.dims[number], parts)

    def _dimension_guards(self, dim: Any, name: Name) -> list[Value]:
        if dim.equals is not None:
            return [name.is_("==", self.e.index(dim.equals))]
        # A shifted dimension walks the fragment's axis, of which the loop is a part: i + 1 as an index leaves out position 0,
        # where i would be -1.
        guards = [name.is_(">=", 0)] if dim.is_shifted else []
        if dim.is_shifted or dim.size != dim.extent:
            guards.append(name.is_("<", dim.extent))
        limits = [axis.limit for axis in self.nest.axes if axis.var is dim.var and axis.limit is not None]
        return guards + [name.is_("<", self.e.index(limit)) for limit in limits]

    @property
    def owner(self) -> Value | None:
        if self.by_thread:
            return None
        # Digit 0 along every mode of replicas: exactly one of the threads with the same iteration.
        return both(self.e.digit(mode).is_("==", 0) for mode in self.layout.replicas)

    # Registers of fragments --------------------------------------------------------------------------------------------

    def is_adjacent(self, form: Form) -> bool:
        """Whether the registers that a vector's elements have are neighbours, the first of them aligned."""
        for term in form:
            if term.digit is self.vector:
                if term.weight != 1 or term.low != 1 or term.extent != self.width:
                    return False
            elif term.weight % self.width:
                return False
        aligned = isinstance(form.offset, int) and form.offset % self.width == 0
        return aligned and any(term.digit is self.vector for term in form)

    def register(self, form: Form, lane: Value | None = None) -> Value:
        """A register's number, for the element ``lane`` of a vector."""
        parts = []
        for term in form:
            digit = (lane or Number(0)) if term.digit is self.vector else self.digits[term.digit.name]
            if digit == Number(0):
                continue
            parts.append(part_of(digit, term) * term.weight)
        return total([*parts, self.e.index(form.offset)])


def _name_of(dim: Any) -> str:
    return dim.var.name if dim.var is not None else "at"


def _iterations_written_out(body: Any, width: int) -> int:
    """How many iterations of a nest on memory alone, of so many elements each, are written out."""
    calls = sum(_length(node) for node in expressions(body) if isinstance(node, ir.Call))
    return min(_ITERATIONS, max(1, _CALLS // (calls * width))) if calls else _ITERATIONS


def _nodes(body: Any) -> int:
    return max(1, sum(1 for _ in expressions(body)))


def _length(call: Any) -> int:
    name = str(getattr(call.op, "name", "")).rpartition(".")[2]
    return _LONG.get(name, 1) * (_DOUBLE if str(call.ty) == "float64" else 1)
