"""A kernel between two steps as text that one can read: what ``dump_ir`` keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.ir.text import expr_text
from tilelang.target.cuda.ir.access import Access
from tilelang.target.cuda.ir.code import Leaf, Slot, owner
from tilelang.target.cuda.ir.printer import Printer, Statement
from tilelang.target.cuda.tile.build import describe
from tilelang.target.cuda.tile.tree import Branch, Loop, Operator, Parallel, Scalar, inside


def dumped(state: Any) -> str:
    """The latest form that a kernel has reached: its text, device code, layouts, tree, or statements."""
    if state.text:
        return state.text
    if state.code is not None:
        return "\n".join([*_places(state.plan), *_CodeDump().lines(state.code)]) + "\n"
    if state.emitter is not None:
        layouts = state.emitter.layouts
        return "".join(
            f"{buffer.name}: {layout.to_text()}\n" for buffer, layout in [*layouts.fragments.items(), *layouts.memory.items()]
        )
    if state.tree is not None:
        return "\n".join(_tree(state.tree.root, 0)) + "\n"
    return f"{state.kernel.name}\n{state.kernel.body.script(show_meta=False)}\n"


class _CodeDump(Printer):
    """Device code with what each group of statements does to the memory that barriers guard."""

    def lines(self, code: Any, indent: int = 1, barrier: Statement = "__syncthreads();") -> Iterator[str]:
        if isinstance(code, Leaf):
            touched = sorted(set(map(_said, code.accesses)))
            yield from [f"{'  ' * indent}// {', '.join(touched)}"] * bool(touched)
        yield from super().lines(code, indent, barrier)


def _said(access: Access) -> str:
    slot = f"[slot {access.storage.number}]" if isinstance(access.storage, Slot) else ""
    unit = "" if access.synchronous else f" by {access.unit.value}"
    return f"{access.kind} {owner(access.storage).name}{slot}{unit}"


def _places(plan: Any) -> Iterator[str]:
    for buffer, (offset, size) in sorted(plan.places.items(), key=lambda item: item[1]) if plan is not None else ():
        yield f"  // {buffer.name}: {size} bytes from {offset}"


def _tree(node: Any, indent: int) -> Iterator[str]:
    """A line for each node of the tile tree, those inside of it further to the right."""
    line = _line(node)
    if line:
        yield "  " * indent + line
    for part in inside(node):
        yield from _tree(part, indent + bool(line))


def _line(node: Any) -> str:
    if isinstance(node, Parallel):
        uses = dict.fromkeys(f"{access.kind} {access.buffer.name}" for access in node.nest.accesses)
        return f"{describe(node.nest)} over {tuple(axis.extent for axis in node.nest.axes)}: {', '.join(uses)}"
    if isinstance(node, Operator):
        return f"{type(node.op).__name__}: {', '.join(f'{kind} {region.buffer.name}' for region, kind in node.op.regions())}"
    if isinstance(node, Loop):
        pipelined = " pipelined" if node.parts is not None else ""
        return f"for {node.stmt.loop_var.name} < {expr_text(node.stmt.extent)}{pipelined}"
    if isinstance(node, Branch):
        return f"if {expr_text(node.stmt.condition)}"
    if isinstance(node, Scalar):
        return type(node.stmt).__name__
    return ""
