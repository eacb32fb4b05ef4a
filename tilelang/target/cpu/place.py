"""Step ``place_buffers``: a block's buffers go on the stack of its thread, or in the thread's workspace where they are large.

Before: allocations anywhere in a kernel's body. After: each allocation is either marked to stay on the stack (TVM would
otherwise take heap memory for it on every block), or is an alias into a workspace that the thread keeps between blocks. All
sizes in the workspace are rounded to cache lines. A function that is called while others have their buffers in use has a
workspace of another level than theirs; parts that are never active together share one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import tvm_ffi

from tilelang.dtypes import canonical
from tilelang.errors import UnsupportedError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.target.cpu.emit import REGISTER_LANES, extern_call, seq
from tilelang.target.cpu.program import CpuProgram
from tilelang.target.cpu.rewriter import StmtRewriter
from tilelang.target.cpu.runtime_ll import WORKSPACES

STACK_BYTES = 96 * 1024
"""Bytes of stack that the buffers of one block may take in all; threads of a pool have 2 MiB or more."""

LARGEST_ON_STACK = 48 * 1024
"""Bytes of stack that one buffer may take."""

_LINE = 64
ON_STACK = "disable_lower_builtin"


def place_buffers(program: CpuProgram, context: Any) -> CpuProgram:
    """The program with every allocation placed."""
    levels = _levels(program)
    in_lines = not context.emits_c  # C text says it of each array
    parts = tuple(_placed(part, levels[_name(part)], in_lines) for part in program.parts)
    return replace(_placed(program, 0, in_lines), parts=parts)


def _placed(program: CpuProgram, level: int, in_lines: bool) -> CpuProgram:
    planner = _Planner()
    planner.stmt(program.func.body)
    offsets, size = planner.workspace()
    func = program.func.with_body(_Placer(offsets, size, level, in_lines).stmt(program.func.body))
    helpers = (*program.helpers, "tl_workspace") if offsets else program.helpers
    return replace(program, func=func, helpers=helpers)


def _levels(program: CpuProgram) -> dict[str, int]:
    """Part -> one more than the highest level that calls it; the kernel has level 0. Parts follow those that they call."""
    levels = dict.fromkeys(map(_name, program.parts), 1)
    for part in reversed(program.parts):
        for name in _called(part):
            if name in levels:
                # Callers come after the functions that they call, so in reverse order the level of a caller is final when it is
                # used.
                levels[name] = max(levels[name], levels[_name(part)] + 1)
    if max(levels.values(), default=0) >= WORKSPACES:
        raise UnsupportedError(f"long statements are nested deeper than {WORKSPACES - 1} levels")
    return levels


def _name(part: CpuProgram) -> str:
    return str(part.func.attrs["global_symbol"])


def _called(part: CpuProgram) -> list[str]:
    """The names of the functions that it may call."""
    found: list[str] = []
    tvm_ffi.structural_walk(part.func.body, [(ir.StringImm, lambda text: found.append(str(text.value)))])
    return found


def buffer_bytes(buffer: Any) -> Any:
    """Size in bytes, an ``int`` where it is known."""
    size: Any = canonical(str(buffer.dtype)).bytes
    for extent in buffer.shape:
        extent = as_int(extent)
        if isinstance(size, int) and isinstance(extent, int):
            size *= extent
        else:
            size = ir.Cast("int64", constant(size)) * ir.Cast("int64", constant(extent))
    return size


class _Planner(StmtRewriter):
    """Decides which allocations leave the stack, and where each lies in the workspace.

    The smallest buffers are the first on the stack: some are meant to be registers, which they can only be there.
    """

    def __init__(self) -> None:
        self.sizes: dict[Any, Any] = {}

    def visit_AllocBuffer(self, node: Any) -> Any:
        self.sizes[node.buffer] = buffer_bytes(node.buffer)
        return node

    def workspace(self) -> tuple[dict[Any, Any], Any]:
        """The offsets of the buffers in the workspace, and its size."""
        on_stack, free = set(), STACK_BYTES
        known = {buffer: size for buffer, size in self.sizes.items() if isinstance(size, int)}
        for buffer, size in sorted(known.items(), key=lambda item: item[1]):
            if size <= min(free, LARGEST_ON_STACK):
                on_stack.add(buffer)
                free -= size
        offsets, end = {}, 0
        # Buffers of sizes known at run time follow each other, too: from the first of these on, offsets are expressions.
        for buffer, size in self.sizes.items():
            if buffer not in on_stack:
                offsets[buffer] = end
                end = end + _lines(size) if isinstance(end, int) else end + constant(_lines(size), "int64")
        return offsets, end


def _lines(size: Any) -> Any:
    """A size rounded up to whole cache lines."""
    if isinstance(size, int):
        return math.ceil(size / _LINE) * _LINE
    return ir.FloorDiv(size + (_LINE - 1), constant(_LINE, "int64")) * _LINE


class _Placer(StmtRewriter):
    """Rewrites allocations.

    Attributes:
        in_lines: whether buffers on the stack are aligned to cache lines. TVM aligns an array to 16 bytes at most, so most
            accesses of a whole register would touch two lines; an array of vectors has the alignment of these.
    """

    def __init__(self, offsets: dict[Any, Any], total: Any, level: int, in_lines: bool):
        self.offsets, self.in_lines = offsets, in_lines
        self.level = constant(level, "int32")
        self.total = constant(total, "int64")

    def visit_AllocBuffer(self, node: Any) -> Any:
        offset = self.offsets.get(node.buffer)
        if offset is None and self.in_lines and REGISTER_LANES not in node.annotations and buffer_bytes(node.buffer) >= _LINE:
            return self._of_lines(node)
        if offset is None:
            return ir.AllocBuffer(node.buffer, {**node.annotations, ON_STACK: ir.IntImm("bool", 1)}, node.span)
        pointer = ir.ir.PointerType(ir.ir.PrimType(str(node.buffer.dtype)))
        data = extern_call("tl_workspace", [self.total, constant(offset, "int64"), self.level], pointer, pure=False)
        return ir.DeclBuffer(node.buffer, data=data, span=node.span)

    def _of_lines(self, node: Any) -> Any:
        """The buffer in an array of vectors as long as a line."""
        count = math.ceil(buffer_bytes(node.buffer) / _LINE)
        lines = ir.decl_buffer((count,), "float32x16", name=f"{node.buffer.name}_lines", layout=None, data_alignment=_LINE)
        pointer = ir.pointer_type(str(node.buffer.dtype))
        data = ir.Call(ir.Op.get("tirx.reinterpret"), [ir.buffer_data(lines)], ret_ty=pointer)
        allocation = ir.AllocBuffer(lines, {ON_STACK: ir.IntImm("bool", 1)})
        return seq(allocation, ir.DeclBuffer(node.buffer, data=data, span=node.span))
