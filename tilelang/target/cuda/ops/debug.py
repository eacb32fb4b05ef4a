"""``T.print`` and ``T.device_assert`` as code."""

from __future__ import annotations

from math import prod
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_fragment
from tilelang.ir.region import Region
from tilelang.target.cuda.codegen.nest import emit_nest
from tilelang.target.cuda.inference.loop_layout import whole_loop
from tilelang.target.cuda.ir.code import Block, BranchCode, Code, counted, leaf
from tilelang.target.cuda.ir.instructions import Evaluate
from tilelang.target.cuda.ir.printer import quoted
from tilelang.target.cuda.ir.values import Call, Text, both
from tilelang.target.cuda.operators import OperatorRule, implements
from tilelang.target.cuda.tile.build import index_at
from tilelang.target.cuda.tile.nest import Axis, Nest
from tilelang.target.cuda.tile.tree import Parallel
from tilelang.tileop.debug import DeviceAssert, PrintBuffer, PrintLine


@implements(PrintBuffer)
class BufferPrint(OperatorRule):
    """``T.print`` of a tile or tensor."""

    collective = False
    reads_itself = True

    def lower(self, node: Any, generator: Any) -> list[Code]:
        e, op = generator.emitter, node.op
        layout = e.layouts.fragments.get(op.buffer.buffer)
        if is_fragment(op.buffer) and layout is not None:
            return _print_fragment(e, op, layout, node.span)
        return [_print_memory(e, op)]


@implements(PrintLine, DeviceAssert)
class Message(OperatorRule):
    """``T.print`` of a line, and ``T.device_assert``."""

    cooperative = collective = False

    def lower(self, node: Any, generator: Any) -> list[Code]:
        e = generator.emitter
        code = self.lower_scalar(node.op, e)
        # The block's statement is executed once, and so one thread says what all of them would.
        is_of_each = generator.divergent or node in e.uniformity.by_thread or e.uniformity.varies(node.op.scalars())
        return [leaf(code if is_of_each else [BranchCode(e.is_first, Block(code))])]

    def lower_scalar(self, op: Any, emitter: Any) -> list[Any]:
        if isinstance(op, DeviceAssert):
            return [Evaluate(Call("tl::device_assert_msg", (emitter.value(op.condition), Text(op.text))))]
        return [Evaluate(Call("tl::debug_print_line", (Text(_format(op)), *map(emitter.value, op.values))))]


_CONVERSIONS = {"float": "%g", "uint": "%llu"}
"""What printf calls the values of a kind of dtype; those of any other are signed."""


def _format(op: PrintLine) -> str:
    """The format of a line: its texts and values, then which thread prints it."""
    # A line alternates: text, value, text, …, text. A percent sign of the program's own text must not begin a conversion.
    first, *texts = map(_literal, op.texts)
    conversions = [_conversion(str(value.ty)) for value in op.values]
    line = first + "".join(map("".join, zip(conversions, texts)))
    return f"{line}: block=(%d, %d, %d) thread=(%d, %d, %d)\n"


def _element_format(op: PrintBuffer) -> str:
    """The format of the line of one element: its indices, and its value."""
    label = _literal(f"{op.message} {op.buffer.buffer.name}".strip())
    indices = ", ".join(["%lld"] * len(op.buffer.extents))
    return f"{label}[{indices}] = {_conversion(op.buffer.dtype)}\n"


def _literal(text: str) -> str:
    """The program's own text in a format."""
    return text.replace("%", "%%")


def _conversion(dtype: str) -> str:
    return _CONVERSIONS.get(canonical(dtype).kind, "%lld")


def _print_memory(e: Any, op: PrintBuffer) -> Code:
    """One thread prints a buffer that it can read by itself."""
    region: Region = op.buffer
    extents = [as_int(extent) for extent in region.extents]
    with e.names.block():
        var = e.variable("p", prod(extents))
        name = e.name_of(var)
        index = [low + digit for low, digit in zip(region.mins, index_at(var, extents))]
        element = e.places.element(region.buffer, index)
        shown = (*(e.index(as_int(place)) for place in index), element)
    printed = Evaluate(Call("tl::debug_print_element", (Text(_element_format(op)), *shown)))
    return leaf([BranchCode(e.is_first, Block([counted(name, prod(extents), [printed], unroll=None)]))])


def _print_fragment(e: Any, op: PrintBuffer, layout: Any, span: Any) -> list[Code]:
    """Each thread prints what it holds, the first one of those that hold the same."""
    region: Region = op.buffer
    extents = [as_int(extent) for extent in region.extents]
    variables = [ir.Var(f"p{axis}", "int32") for axis in range(len(extents))]
    index = [low + var for low, var in zip(region.mins, variables)]
    shown = (*index, ir.BufferLoad(region.buffer, index))
    call = ir.tirx.call_extern("int32", "tl::debug_print_element", ir.StringImm(quoted(_element_format(op))), *shown)
    axes = tuple(Axis(var, extent) for var, extent in zip(variables, extents))
    nest = Nest.build(axes, ir.Evaluate(call), span, "T.print")
    access = next(access for access in nest.accesses if access.buffer == region.buffer)
    loop = whole_loop(nest.axes, access.site.indices, layout)
    code = emit_nest(e, Parallel(nest), loop)
    owner = both(e.digit(mode).is_("==", 0) for mode in loop.replicas)
    return code if owner is None else [BranchCode(owner, Block(code))]
