"""Panels of B that are kept for the next blocks: neighbouring blocks multiply other rows of A by the same columns of B.

A block packs the B of its products (``panels.py``), and the block beside it, whose tile of C lies below, would pack the same
again: with the tiles of a program for a GPU that is two fifths of the time of a product by AMX. So blocks run in groups along a
grid axis on which B does not depend, and only the first block of a group that a thread runs packs. All panels of its products
lie in memory of the thread, one after the other for each turn of the loops around a product.

That is right where every block runs the same products: under loops of known length, under no condition, and in a kernel that no
statement leaves early. And nothing may write to B meanwhile: it is a tensor that the kernel does not write, and C is not the same
memory, as blocks that ran at the same time would then read what others write.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.access import WRITE
from tilelang.ir.expr import as_int, constant
from tilelang.ir.memory import is_global
from tilelang.ir.region import Region
from tilelang.ir.visit import any_statement, variables, walk, walk_expr
from tilelang.target.cpu import helpers
from tilelang.target.cpu.accumulate import leaves
from tilelang.target.cpu.emit import extern_call, local, seq
from tilelang.target.cpu.random import draws
from tilelang.transform.in_place import accesses, sources_of

Axes = Sequence[tuple[Any, Any]]
"""Variable and extent of each axis of a grid, or of each digit of a block's number, the fastest first."""

_BYTES = 512 * 1024
"""Bytes of panels that are kept: a quarter of a second-level cache of 2 MiB, half of one of 1 MiB."""

_LONGEST = 8
"""Blocks of a group at most: their rows of A are read again for other columns of B, and a cache should hold them."""

_TASKS_PER_THREAD = 4
"""Parts that blocks are dealt in where they keep panels: few, so that each is long; the blocks take equally long."""

BLOCKS_EACH = "tl_blocks_each"
helpers.register(
    BLOCKS_EACH,
    f"""
declare extern_weak i32 @omp_get_max_threads()
define i32 @{BLOCKS_EACH}(i32 %blocks, i32 %group) {{
entry:
  %pool = icmp ne ptr @omp_get_max_threads, null
  br i1 %pool, label %count, label %done
count:
  %threads = call i32 @omp_get_max_threads()
  %several = icmp sgt i32 %threads, 1
  br i1 %several, label %divide, label %done
divide:
  %tasks = mul i32 %threads, {_TASKS_PER_THREAD}
  %most = sub i32 %tasks, 1
  %up = add i32 %blocks, %most
  %each = sdiv i32 %up, %tasks
  %rest = srem i32 %each, %group
  %groups = sub i32 %each, %rest
  %whole = icmp sgt i32 %groups, 0
  %chosen = select i1 %whole, i32 %groups, i32 %each
  ret i32 %chosen
done:
  ret i32 %blocks
}}""",
    "extern int omp_get_max_threads(void) __attribute__((weak));\n"
    f"static int32_t {BLOCKS_EACH}(int32_t blocks, int32_t group) {{\n"
    "  const int32_t threads = omp_get_max_threads ? omp_get_max_threads() : 1;\n"
    "  if (threads <= 1) return blocks;\n"
    f"  const int32_t tasks = threads * {_TASKS_PER_THREAD}, each = (blocks + tasks - 1) / tasks;\n"
    "  return each >= group ? each - each % group : each;\n}",
)
"""Blocks of a task: whole groups where that many are left for each."""


@dataclass(frozen=True)
class Place:
    """Where a product's panels lie.

    Attributes:
        buffer: the panels as ``[panel, step, column]``.
        first: the number of the first panel.
        fresh: whether they have to be packed: a bool, or an expression.
    """

    buffer: Any
    first: Any = 0
    fresh: Any = True

    def packing(self, stmt: Any) -> Any:
        """The statement that packs, where that has to be done."""
        return stmt if self.fresh is True else ir.IfThenElse(self.fresh, stmt, None)


class Kept:
    """The panels that a kernel keeps.

    Attributes:
        axes: of the grid.
        axis: the one along which blocks run in groups; None as long as no panel is kept.
        allocations: the panels.
        loops: variable, first value and length of each loop around the statement that is lowered.
    """

    def __init__(self, axes: Axes, body: Any, distinct: bool):
        written = (buffer for stmt in walk(body) for buffer, kind in accesses(stmt) if kind == WRITE)
        self.axes = axes
        self.written = frozenset(map(hash, written))
        self.axis: int | None = None
        self.allocations: list[Any] = []
        self.loops: list[tuple[Any, int, int]] = []
        self._fresh = ir.Var("fresh", "bool")
        self._free = _BYTES
        self._edges: frozenset[int] = frozenset()
        self._every_block = distinct and not sources_of(body) and not any_statement(body, leaves) and not draws(body)

    @contextmanager
    def sometimes(self, condition: Any = None, holds: bool = True) -> Iterator[None]:
        """Around statements that not every block runs alike.

        The blocks below a bound of an axis come first in their group, so that they follow the one that packs for them. Those
        above it share panels only with blocks of the same place along that axis.

        Args:
            condition: when they run, where that is known.
            holds: whether they run where it holds, or where it does not.
        """
        every, edges = self._every_block, self._edges
        axis = self._bounded(condition)
        self._every_block = every and axis is not None
        self._edges = edges if holds or axis is None else edges | {axis}
        yield
        self._every_block, self._edges = every, edges

    @property
    def at_edge(self) -> bool:
        """Whether the statement that is lowered runs in the blocks at the end of an axis alone."""
        return bool(self._edges)

    def _bounded(self, condition: Any) -> int | None:
        """The axis that a condition bounds from above by a number."""
        if not isinstance(condition, ir.LT) or not isinstance(as_int(condition.b), int):
            return None
        return next((number for number, (var, _) in enumerate(self.axes) if condition.a.same_as(var)), None)

    @contextmanager
    def around(self, variable: Any, low: Any, length: Any) -> Iterator[None]:
        """Around the body of a loop.

        Args:
            variable: of the loop; a number where there is one turn.
            low, length: its first value, and how many there are.
        """
        before, known = self._every_block, isinstance(low, int) and isinstance(length, int)
        self._every_block = before and known
        if known and isinstance(variable, ir.Var):
            self.loops.append((variable, low, length))
            yield
            self.loops.pop()
        else:
            yield
        self._every_block = before

    def place(self, b: Region, panels: tuple[Any, ...], dtype: str) -> Place | None:
        """Where the panels of B are kept; None where each block packs its own.

        Args:
            b: the region of B.
            panels: how many there are, their steps and columns.
            dtype: of their elements.
        """
        used = {hash(var) for low in b.mins for var in variables(constant(low))}
        loops = [loop for loop in self.loops if hash(loop[0]) in used]
        turns = math.prod(length for *_, length in loops)
        if not self._every_block or not all(isinstance(size, int) for size in panels) or not self._is_constant(b, used):
            return None
        size = turns * math.prod(panels) * canonical(dtype).bytes
        axis = self._axis_without(used)
        if axis is None or size > self._free:
            return None
        self.axis = axis
        self._free -= size
        buffer = local("b_kept", (turns * panels[0], *panels[1:]), dtype)
        self.allocations.append(ir.AllocBuffer(buffer))
        turn: Any = 0
        for variable, low, length in loops:
            turn = turn * length + (variable - low)
        return Place(buffer, turn * panels[0], self._fresh)

    def _is_constant(self, b: Region, used: set[int]) -> bool:
        """Whether a region of B is a part of a tensor that nothing writes, at a place that blocks and loops alone decide."""
        known = {hash(var) for var, _ in self.axes} | {hash(var) for var, *_ in self.loops}
        reads = any(isinstance(node, (ir.TensorLoad, ir.Call)) for low in b.mins for node in walk_expr(constant(low)))
        return is_global(b) and hash(b.buffer) not in self.written and used <= known and not reads

    def _axis_without(self, used: set[int]) -> int | None:
        """The axis along which neighbouring blocks share a B whose place depends on variables (by hash)."""
        others = [(number, axis) for number, axis in enumerate(self.axes) if number not in self._edges]
        fitting = [number for number, (var, extent) in others if hash(var) not in used and _group(extent) > 1]
        return (self.axis if self.axis in fitting else None) if self.axis is not None else next(iter(fitting), None)

    def numbered(self, block: Any) -> tuple[Axes, list[Any]]:
        """The digits of a block's number, and the statements that name the grouped axis's variable and whether a group begins."""
        if self.axis is None:
            return self.axes, []
        variable, extent = self.axes[self.axis]
        length, kind = _group(extent), variable.ty
        low, high = ir.Var(f"{variable.name}_low", kind), ir.Var(f"{variable.name}_high", kind)
        others = [axis for number, axis in enumerate(self.axes) if number != self.axis]
        place = ir.Bind(variable, high * ir.IntImm(kind, length) + low)
        return [(low, length), *others, (high, as_int(extent) // length)], [place]

    def loops_over(self, blocks: Any, block: Any, body: Any, parallel: bool, notes: dict[str, Any], span: Any) -> Any:
        """The loops over all blocks, in which the first block of a group packs for the others.

        Args:
            blocks: how many there are.
            block: the variable that numbers them.
            body: the statement of one block.
            parallel: whether blocks run on several threads.
            notes: the annotations of the loop over blocks.
            span: the source location of ``T.Kernel``.
        """
        if self.axis is None:
            kind = ir.ForKind.PARALLEL if parallel else ir.ForKind.SERIAL
            return ir.For(block, ir.IntImm("int32", 0), constant(blocks), kind, body, annotations=notes, span=span)
        group, zero = ir.IntImm("int32", _group(self.axes[self.axis][1])), ir.IntImm("int32", 0)

        def part(first: Any, count: Any) -> Any:
            begins = ir.Or(ir.EQ(block, first), ir.EQ(ir.FloorMod(block, group), zero))
            inner = seq(ir.Bind(self._fresh, begins), body)
            return seq(self.allocations, ir.For(block, first, count, ir.ForKind.SERIAL, inner, annotations=notes, span=span))

        total = constant(blocks)
        if not parallel:
            return part(zero, total)
        each, task = ir.Var("each", "int32"), ir.Var("task", "int32")
        first = task * each
        tasks = ir.FloorDiv(total + each - 1, each)
        work = part(first, ir.Min(each, total - first))
        return seq(
            ir.Bind(each, extern_call(BLOCKS_EACH, [total, group], "int32")),
            ir.For(task, zero, tasks, ir.ForKind.PARALLEL, work, span=span),
        )


def _group(extent: Any) -> int:
    """The length of groups along an axis: the largest divisor that is not too long; 1 for an extent that is not known."""
    extent = as_int(extent)
    return next(n for n in range(_LONGEST, 0, -1) if extent % n == 0) if isinstance(extent, int) and extent else 1
