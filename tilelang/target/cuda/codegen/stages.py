"""The records that steps exchange: a frozen record of a kernel after each step, with the fields of the one before it and more.

A step makes a new record and changes nothing of the old one. ``script`` is the form in which ``dump_ir`` keeps a record.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from tilelang.artifact import KernelLaunch, TensorMapSpec
from tilelang.ir.facts import Facts
from tilelang.ir.text import expr_text
from tilelang.records import Record
from tilelang.target.cuda.analysis.uniformity import Uniformity
from tilelang.target.cuda.codegen.emitter import KernelOptions, Output
from tilelang.target.cuda.codegen.origins import Origins
from tilelang.target.cuda.inference.layouts import Layouts
from tilelang.target.cuda.inference.loop_layout import LoopLayout
from tilelang.target.cuda.ir.access import Access
from tilelang.target.cuda.ir.code import Block, Leaf, Slot, owner
from tilelang.target.cuda.ir.instructions import Instruction, Signature
from tilelang.target.cuda.ir.printer import Printer
from tilelang.target.cuda.ir.values import Name, Value
from tilelang.target.cuda.schedule.shared_plan import SharedPlan
from tilelang.target.cuda.tile.build import describe
from tilelang.target.cuda.tile.program import Kernel
from tilelang.target.cuda.tile.tree import Branch, Loop, Operator, Parallel, Scalar, TileTree, walk
from tilelang.target.request import CompileRequest

Stage = TypeVar("Stage")


class CudaContext(Record):
    """Facts that no step changes: the request and the options that it decides."""

    request: CompileRequest
    options: KernelOptions

    @property
    def target(self) -> Any:
        """The target to compile for."""
        return self.request.target


class Program(Record, eq=False):
    """The kernels of a program between two steps."""

    kernels: tuple[Any, ...]

    def script(self) -> str:
        """What a dump shows."""
        return "\n".join(kernel.script() for kernel in self.kernels)


def of_each(step: Callable[[Any, CudaContext], Any]) -> Callable[[Program, CudaContext], Program]:
    """A step of one kernel as one of a program."""
    return lambda program, context: Program(tuple(step(kernel, context) for kernel in program.kernels))


def check_each(check: Callable[[Any], None]) -> Callable[[Program], None]:
    """What must hold of each kernel as what must hold of a program."""

    @functools.wraps(check)
    def of_all(program: Program) -> None:
        for kernel in program.kernels:
            check(kernel)

    return of_all


class KernelStatements(Record, eq=False):
    """A kernel as statements of the tile IR."""

    kernel: Kernel

    def then(self, stage: type[Stage], **found: Any) -> Stage:
        """The record after the next step: this one's fields, and what the step has found."""
        return stage(**{**vars(self), **found})

    def facts(self) -> Facts:
        """What is known of the kernel's variables."""
        return self.kernel.facts()

    def script(self) -> str:
        """What a dump shows."""
        return f"{self.kernel.name}\n{self.kernel.body.script(show_meta=False)}\n"


class KernelTree(KernelStatements):
    """A kernel as a tile tree."""

    tree: TileTree

    def facts(self) -> Facts:
        facts = super().facts()
        for node in walk(self.tree.root):
            if isinstance(node, Loop):
                facts.bind_range(node.stmt.loop_var, node.stmt.extent, node.stmt.min)
        return facts

    def script(self) -> str:
        return "\n".join(_lines(self.tree.root, 0)) + "\n"


class KernelLayouts(KernelTree):
    """A kernel whose tiles have places; its tree has the conversions between them as statements."""

    layouts: Layouts
    uniformity: Uniformity

    def script(self) -> str:
        tables = (self.layouts.fragments, self.layouts.memory)
        places = "".join(f"{buffer.name}: {layout.to_text()}\n" for table in tables for buffer, layout in table.items())
        return places + "\n".join(_lines(self.tree.root, 0, self.layouts.loops)) + "\n"


class Declarations(Record):
    """The declarations that device code relies on.

    Attributes:
        identifiers: all that are taken.
        values: what each variable of the program is.
        arrays: the name of each buffer's pointer, array or variable.
        shared: bytes and alignment of each buffer in shared memory.
        barriers: the number of each hardware barrier, by the groups of threads that meet at it.
        output: what lowering has added to the kernel.
    """

    identifiers: frozenset[str]
    values: Mapping[Any, Value]
    arrays: Mapping[Any, str]
    shared: Mapping[Any, tuple[int, int]]
    barriers: Mapping[tuple[range, ...], int]
    output: Output

    @property
    def tensor_maps(self) -> tuple[TensorMapSpec, ...]:
        """Descriptors for the tensor memory accelerator."""
        return tuple(self.output.tensor_maps.specs)

    def name_of(self, variable: Any) -> str:
        """The name of a variable of the program that is defined around the code."""
        value = self.values[variable]
        assert isinstance(value, Name), variable
        return value.text


class KernelCode(KernelLayouts):
    """A kernel as device code; the step that places barriers gives the same kind of record."""

    code: Block
    declarations: Declarations

    def script(self) -> str:
        return "\n".join(_CodeDump().lines(self.code)) + "\n"


class PlannedCode(KernelCode):
    """A kernel as device code, with the places of its buffers in shared memory."""

    plan: SharedPlan

    def script(self) -> str:
        places = sorted(self.plan.places.items(), key=lambda item: item[1])
        return "".join(f"  // {buffer.name}: {size} bytes from {start}\n" for buffer, (start, size) in places) + super().script()


class KernelText(PlannedCode):
    """A kernel as CUDA text; empty where the program brings its own.

    Attributes:
        signature, declared: what stands before the code; None of a kernel that the program brings.
        mentioned: names of functions and types in it.
        origins: None where the program brings the text.
    """

    text: str
    launch: KernelLaunch
    signature: Signature | None = None
    declared: tuple[Instruction, ...] = ()
    mentioned: frozenset[str] = frozenset()
    origins: Origins | None = None

    def script(self) -> str:
        return self.text or super().script()


# The text of a dump ----------------------------------------------------------------------------------------------------


class _CodeDump(Printer):
    """Device code with what each group of statements does to the memory that barriers guard."""

    def lines(self, code: Any, indent: int = 1) -> Iterator[str]:
        if isinstance(code, Leaf):
            touched = sorted(set(map(_access_text, code.accesses)))
            yield from [f"{'  ' * indent}// {', '.join(touched)}"] * bool(touched)
        yield from super().lines(code, indent)


def _access_text(access: Access) -> str:
    slot = f"[slot {access.buffer.number}]" if isinstance(access.buffer, Slot) else ""
    agent = "" if access.synchronous else f" by {access.agent.value}"
    return f"{access.kind} {owner(access.buffer).name}{slot}{agent}"


def _lines(node: Any, indent: int, loops: Mapping[Any, LoopLayout] = MappingProxyType({})) -> Iterator[str]:
    """A line for each node of the tile tree, those inside of it further to the right."""
    line = _line(node)
    if line:
        yield "  " * indent + line + (f", as {loops[node].to_text()}" if node in loops else "")
    for part in node.inside:
        yield from _lines(part, indent + bool(line), loops)


def _line(node: Any) -> str:
    if isinstance(node, Parallel):
        uses = dict.fromkeys(f"{access.kind} {access.buffer.name}" for access in node.nest.accesses)
        return f"{describe(node.nest)} over {tuple(axis.extent for axis in node.nest.axes)}: {', '.join(uses)}"
    if isinstance(node, Operator):
        return f"{type(node.op).__name__}: {', '.join(f'{kind} {region.buffer.name}' for region, kind in node.op.regions())}"
    if isinstance(node, Loop):
        pipelined = " pipelined" * node.is_pipelined
        return f"for {node.stmt.loop_var.name} < {expr_text(node.stmt.extent)}{pipelined}"
    if isinstance(node, Branch):
        return f"if {expr_text(node.stmt.condition)}"
    return type(node.stmt).__name__ if isinstance(node, Scalar) else ""
