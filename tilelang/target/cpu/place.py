"""Step ``place_buffers``: a block's buffers go on the stack of its thread, or in the thread's workspace where they are large.

Before: allocations anywhere in a kernel's body. After: each allocation is either marked to stay on the stack (TVM would
otherwise take heap memory for it on every block), or is an alias into one workspace that the thread keeps between blocks. All
sizes in the workspace are rounded to cache lines.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.target.cpu.legalize import LegalProgram, extern_call
from tilelang.target.cpu.rewriter import StmtRewriter

STACK_BYTES = 96 * 1024
"""What the buffers of one block may take of the stack; threads of a pool have 2 MiB or more."""

LARGEST_ON_STACK = 48 * 1024
"""What one buffer may."""

_LINE = 64
ON_STACK = "disable_lower_builtin"


def place_buffers(program: LegalProgram, context: Any) -> LegalProgram:
    """The program with every allocation placed."""
    planner = _Planner()
    planner.stmt(program.func.body)
    placer = _Placer(planner.offsets, planner.workspace)
    func = program.func.with_body(placer.stmt(program.func.body))
    helpers = (*program.helpers, "tl_workspace") if planner.offsets else program.helpers
    return replace(program, func=func, helpers=helpers)


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
    """Decides which allocations leave the stack, and where each lies in the workspace."""

    def __init__(self) -> None:
        self.stack = 0
        self.workspace: Any = 0
        self.offsets: dict[Any, Any] = {}

    def visit_AllocBuffer(self, node: Any) -> Any:
        size = buffer_bytes(node.buffer)
        if isinstance(size, int) and size <= LARGEST_ON_STACK and self.stack + size <= STACK_BYTES:
            self.stack += size
            return node
        self.offsets[node.buffer] = self.workspace
        if isinstance(size, int):
            rounded: Any = math.ceil(size / _LINE) * _LINE
        else:
            rounded = ir.FloorDiv(size + (_LINE - 1), constant(_LINE, "int64")) * _LINE
        self.workspace = constant(self.workspace, "int64") + rounded if not isinstance(rounded, int) else self.workspace + rounded
        return node


class _Placer(StmtRewriter):
    def __init__(self, offsets: dict[Any, Any], total: Any):
        self.offsets = offsets
        self.total = constant(total, "int64")

    def visit_AllocBuffer(self, node: Any) -> Any:
        offset = self.offsets.get(node.buffer)
        if offset is None:
            return ir.AllocBuffer(node.buffer, {**node.annotations, ON_STACK: ir.IntImm("bool", 1)}, node.span)
        pointer = ir.ir.PointerType(ir.ir.PrimType(str(node.buffer.dtype)))
        data = extern_call("tl_workspace", [self.total, constant(offset, "int64")], pointer, pure=False)
        return ir.DeclBuffer(node.buffer, data=data, span=node.span)
