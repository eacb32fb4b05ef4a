"""The kernels of a program, taken out of their thread-extent attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from tilelang.errors import RunTimeValueError, UnsupportedError
from tilelang.identifiers import numbered
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.facts import Facts
from tilelang.ir.host_value import host_value
from tilelang.ir.span import location_of
from tilelang.ir.text import expr_text
from tilelang.ir.visit import variables, walk
from tilelang.records import Record
from tilelang.target.assumptions import assumed, facts_of_calls
from tilelang.target.cuda.tile.host_flow import HostValues

_ONE = (1, 1, 1)

MOST_COPIES = 16
"""Iterations of a loop around kernels that become kernels of their own, each with its number in it."""


class Kernel(Record):
    """One kernel of a program.

    Attributes:
        name: the symbol in the device module.
        func: the program that it is part of.
        blocks: (variable, extent) of each grid axis that the program names.
        cluster: (variable, extent) of each cluster axis.
        threads: (variable, extent) along x, y, z.
        body: the statements of the kernel.
        bindings: host values that the kernel may use.
        loops: (variable, extent) of each loop of the host around the kernel, which the kernel gets as an argument.
        within: control flow of the host around the launch; see :attr:`~tilelang.artifact.KernelLaunch.within`.
        assumed: what every call is checked for (``T.assume``), over sizes and integer arguments.
        gathers: whether a ``T.Parallel`` may be an asynchronous copy; its tile then has a slot for each stage of a pipeline.
    """

    name: str
    func: Any
    blocks: tuple[tuple[Any, Any], ...]
    cluster: tuple[tuple[Any, int], ...]
    threads: tuple[tuple[Any, int], ...]
    body: Any
    bindings: tuple[tuple[Any, Any], ...] = ()
    loops: tuple[tuple[Any, Any], ...] = ()
    within: tuple[tuple, ...] = ()
    assumed: tuple[Any, ...] = ()
    gathers: bool = True

    @property
    def variables(self) -> tuple[tuple[Any, Any], ...]:
        """(variable, extent) of everything that numbers launches, blocks and threads."""
        return (*self.loops, *self.blocks, *self.cluster, *self.threads)

    @cached_property
    def allocations(self) -> Mapping[Any, Any]:
        """Where the program allocates each buffer of the kernel; None for those that compiler steps before this record have made,
        and nothing for those of steps after it."""
        return {stmt.buffer: stmt.span for stmt in walk(self.body) if isinstance(stmt, ir.AllocBuffer)}

    @property
    def thread_count(self) -> int:
        """Threads a block."""
        return math.prod(extent for _, extent in self.threads)

    @property
    def cluster_dims(self) -> tuple[int, int, int]:
        """Blocks a cluster along x, y, z."""
        x, y, z, *_ = (*(extent for _, extent in self.cluster), *_ONE)
        return x, y, z

    def facts(self) -> Facts:
        """What is known of the variables that the kernel gets: bounds of indices, values, and what calls are checked for."""
        facts = Facts()
        for var, extent in self.variables:
            facts.bind_range(var, extent)
        for var, value in self.bindings:
            facts.bind_value(var, value)
        for condition in self.assumed:
            facts.assume(condition)
        return facts


def thread_digits(threads: Iterable[tuple[Any, int]]) -> dict[Any, tuple[int, int]]:
    """Which digit of the thread's number each variable of its index is: ``thread // low % extent``, as (low, extent)."""
    found, low = {}, 1
    for var, extent in threads:
        found[var] = (low, extent)
        low *= extent
    return found


def dimension_variables(func: Any) -> list[Any]:
    """The variables of the parameters' shapes and strides, in order of first occurrence."""
    tensors = (param for param in func.params if ir.is_buffer_var(param))
    return list(dict.fromkeys(var for param in tensors for size in (*param.shape, *param.strides) for var in variables(size)))


def split_kernels(func: Any) -> list[Kernel]:
    """The kernels of ``func`` in launch order; none where the host never comes to one.

    Raises:
        CompileError: a host statement that a launch sequence cannot express.
    """
    name = str(func.attrs["global_symbol"])
    collected = _Collector(func)
    collected.visit(func.body, ())
    found = collected.found
    if len(found) == 1:
        return [replace(found[0], name=f"{name}_kernel")]
    return [replace(kernel, name=f"{name}_kernel_{index}") for index, kernel in enumerate(found)]


class _Collector:
    """Finds kernels in program order; the values and views that the host declares before one are known in it.

    Attributes:
        found: the kernels.
        assumed: what every call is checked for.
        within: the loops and conditions of the host around the next one.
    """

    def __init__(self, func: Any):
        self.func = func
        self.host = HostValues(func)
        self.assumed = facts_of_calls(func)
        self.views: list[Any] = []
        self.found: list[Kernel] = []
        self.within: tuple[tuple, ...] = ()

    def visit(self, stmt: Any, guards: tuple[Any, ...]) -> None:
        """Collects from a statement; ``guards`` are conditions around it that the host cannot decide."""
        step = _STEPS.get(type(stmt))
        if step is not None:
            step(self, stmt, guards)
        elif not isinstance(stmt, (ir.AssertStmt, ir.AllocBuffer)) and not _is_nothing(stmt):
            raise UnsupportedError(
                f"{_NAMES.get(type(stmt), 'a statement')} outside of a kernel is for the CPU: CUDA launches kernels only",
                location_of(stmt.span),
                hint="move it below `with T.Kernel(...)`, or into the Python code that calls the program",
            )

    def _sequence(self, stmt: Any, guards: tuple[Any, ...]) -> None:
        for child in stmt.seq:
            self.visit(child, guards)

    def _attribute(self, stmt: Any, guards: tuple[Any, ...]) -> None:
        if stmt.attr_key == "thread_extent":
            self._kernel(stmt, guards)
        else:
            self.visit(stmt.body, guards)

    def _loop(self, stmt: Any, guards: tuple[Any, ...]) -> None:
        first, extent = (as_int(self.host.resolved(value)) for value in (stmt.min, stmt.extent))
        if isinstance(extent, int) and extent <= MOST_COPIES:
            for step in range(extent):
                self.host.values[stmt.loop_var] = first + ir.IntImm(str(stmt.loop_var.ty), step)
                self.visit(stmt.body, guards)
            return
        known = host_value(extent, self.host.names)
        if known is None:
            raise RunTimeValueError(
                f"how often kernels are launched is not known before they run: {expr_text(extent)}", location_of(stmt.span),
                hint="let the loop run over sizes and integer arguments, or move it into a kernel",
            )  # fmt: skip
        counter = ir.Var(self._unique(str(stmt.loop_var.name)), str(stmt.loop_var.ty))
        self.host.will_write(stmt)  # what it reads in one iteration, the iterations before it may have written
        with self.host.inside((counter, extent), {stmt.loop_var: first + counter}):
            self._inside(("loop", str(counter.name), known), stmt.body, guards)

    def _branch(self, stmt: Any, guards: tuple[Any, ...]) -> None:
        condition = self.host.resolved(stmt.condition)
        known = host_value(condition, self.host.names)
        changed = self.host.tensors(condition) & self.host.will_write(stmt)
        if known is None and changed:
            raise UnsupportedError(
                f"a condition around kernels reads {sorted(str(b.name) for b in changed)[0]}, which they write",
                location_of(stmt.span), hint="on CUDA each kernel evaluates it: let them write to another tensor",
            )  # fmt: skip
        for body, holds in ((stmt.then_case, True), (stmt.else_case, False)):
            if body is None:
                continue
            if known is None:
                self.visit(body, (*guards, condition if holds else ir.Not(condition)))
            else:
                self._inside(("if", known if holds else ("eq", known, 0)), body, guards)

    def _inside(self, step: tuple, body: Any, guards: tuple[Any, ...]) -> None:
        outer, self.within = self.within, (*self.within, step)
        self.visit(body, guards)
        self.within = outer

    def _unique(self, name: str) -> str:
        taken = {str(param.name) for param in self.func.params} | set(self.host.names.values())
        taken |= {step[1] for kernel in self.found for step in kernel.within if step[0] == "loop"}
        return next(found for found in numbered(name) if found not in taken)

    def _kernel(self, stmt: Any, guards: tuple[Any, ...]) -> None:
        self.host.will_write(stmt)
        self.host.check_use(stmt)
        groups: dict[str, list] = {"blockIdx": [], "clusterCtaIdx": [], "threadIdx": []}
        while isinstance(stmt, ir.AttrStmt) and stmt.attr_key == "thread_extent":
            family = str(stmt.node.thread_tag).partition(".")[0]
            groups[family].append((stmt.node.var, as_int(self.host.resolved(stmt.value))))
            stmt = stmt.body
        # What the host cannot decide the kernel decides: it is launched in any case, and does nothing where the condition fails.
        for guard in reversed(guards):
            stmt = ir.IfThenElse(guard, stmt, None)
        body = ir.SeqStmt([*self.views, stmt]) if self.views else stmt
        blocks, cluster, threads = (tuple(group) for group in groups.values())
        values = tuple(self.host.values.items())
        self.found.append(
            Kernel("", self.func, blocks, cluster, threads, body, values, self.host.loops, self.within, self.assumed)
        )


_STEPS: Mapping[type, Callable[[_Collector, Any, tuple[Any, ...]], None]] = {
    ir.SeqStmt: _Collector._sequence,
    ir.Bind: lambda self, stmt, guards: self.host.name(stmt),
    ir.DeclBuffer: lambda self, stmt, guards: self.views.append(stmt),
    ir.AttrStmt: _Collector._attribute,
    ir.For: _Collector._loop,
    ir.IfThenElse: _Collector._branch,
}
"""What the collector does at each kind of statement of the host."""

_NAMES: Mapping[type, str] = {ir.BufferStore: "a store", ir.While: "a `while` loop", ir.Evaluate: "an operation"}
"""What messages call statements that the host cannot do."""


def _is_nothing(stmt: Any) -> bool:
    return isinstance(stmt, ir.Evaluate) and (isinstance(stmt.value, ir.IntImm) or assumed(stmt) is not None)
