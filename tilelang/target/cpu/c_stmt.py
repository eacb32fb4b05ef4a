"""Statements of the C code generator: legal loops as C text, one function for each parallel loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.target.assumptions import assumed
from tilelang.target.cpu.c_expr import CExpressions, vector_lanes
from tilelang.target.cpu.c_types import string_literal
from tilelang.target.cpu.emit import REGISTER_LANES, is_no_op

_INDENT = "  "


class CStatements:
    """Renders the body of one program.

    Attributes:
        expr: the renderer of expressions.
        tasks: the text of a struct and a function for each parallel loop.
        failures: message of each failure that the entry function can return, the first being code 1.
    """

    def __init__(self, entry: str) -> None:
        self.expr = CExpressions()
        self.entry = entry
        self.tasks: list[str] = []
        self.failures: list[str] = []
        self.in_task = False
        self.pointers: dict[Any, str] = {}
        self.visible: dict[Any, str] = {}

    def lines(self, node: Any, depth: int) -> Iterator[str]:
        """The lines of a statement."""
        yield from getattr(self, f"_{type(node).__name__}")(node, depth)

    def _SeqStmt(self, node: Any, depth: int) -> Iterator[str]:
        for child in node.seq:
            yield from self.lines(child, depth)

    def _AttrStmt(self, node: Any, depth: int) -> Iterator[str]:
        yield from self.lines(node.body, depth)

    def _block(self, head: str, body: Any, depth: int) -> Iterator[str]:
        yield f"{_INDENT * depth}{head} {{"
        before = dict(self.visible)
        yield from self.lines(body, depth + 1)
        self.visible = before
        yield f"{_INDENT * depth}}}"

    def _For(self, node: Any, depth: int) -> Iterator[str]:
        if node.kind == ir.ForKind.PARALLEL and not self.in_task:
            yield from self._parallel(node, depth)
            return
        name, kind = self.expr.names(node.loop_var), self.expr.type(node.loop_var.ty)
        self.visible[node.loop_var] = kind
        low, extent = self.expr(node.min), self.expr(node.extent)
        end = extent if as_int(node.min) == 0 else f"{low} + {extent}"
        step = "++" + name if node.step is None or as_int(node.step) == 1 else f"{name} += {self.expr(node.step)}"
        with self.expr.inside(node):
            yield from self._block(f"for ({kind} {name} = {low}; {name} < {end}; {step})", node.body, depth)

    def _While(self, node: Any, depth: int) -> Iterator[str]:
        yield from self._block(f"while ({self.expr(node.condition)})", node.body, depth)

    def _IfThenElse(self, node: Any, depth: int) -> Iterator[str]:
        condition = self.expr(node.condition)
        self.expr.conditions += 1
        yield from self._block(f"if ({condition})", node.then_case, depth)
        if node.else_case is not None:
            yield from self._block("else", node.else_case, depth)
        self.expr.conditions -= 1

    def _Bind(self, node: Any, depth: int) -> Iterator[str]:
        pointer = isinstance(node.var.ty, ir.ir.PointerType)
        kind = f"{self.expr.type(node.var.ty.element_type)}*" if pointer else self.expr.type(node.var.ty)
        value = self.expr(node.value)
        self.visible[node.var] = kind
        if not pointer and self.expr.may_be_truncated(node.value):
            self.expr.truncated.add(node.var)
        yield f"{_INDENT * depth}const {kind} {self.expr.names(node.var)} = {value};"

    def _BufferStore(self, node: Any, depth: int) -> Iterator[str]:
        place = self.expr.element(node.buffer, list(node.indices))
        yield f"{_INDENT * depth}{place} = {self.expr(node.value)};"

    def _Evaluate(self, node: Any, depth: int) -> Iterator[str]:
        if not is_no_op(node) and assumed(node) is None:  # C has no word for an assumption
            yield f"{_INDENT * depth}{self.expr(node.value)};"

    def _AssertStmt(self, node: Any, depth: int) -> Iterator[str]:
        message = "".join(str(part.value) for part in node.message_parts)
        condition = self.expr(node.condition)
        # A thread of the pool cannot return the failure to the caller, and ends its block; the failure has been noted.
        if self.in_task:
            yield f"{_INDENT * depth}if (!({condition})) return;"
            return
        self.failures.append(message)
        leave = f"tl_error = {string_literal(message)}; return {len(self.failures)};"
        yield f"{_INDENT * depth}if (!({condition})) {{ {leave} }}"

    def _Return(self, node: Any, depth: int) -> Iterator[str]:
        yield f"{_INDENT * depth}return {self.expr(node.value)};"

    # Buffers

    def _AllocBuffer(self, node: Any, depth: int) -> Iterator[str]:
        buffer = node.buffer
        name, kind = self.expr.names(buffer), self.expr.type(buffer.dtype)
        lanes = node.annotations.get(REGISTER_LANES) if node.annotations else None
        if lanes is not None:
            yield from self._registers(buffer, as_int(lanes), depth)
            return
        shape = [as_int(extent) for extent in buffer.shape]
        self.expr.places[buffer] = lambda indices: self._array_element(buffer, name, indices)
        self.visible[buffer] = "array"
        extents = "".join(f"[{extent}]" for extent in shape)
        aligned = " __attribute__((aligned(64)))" if shape != [1] else ""
        yield f"{_INDENT * depth}{kind} {name}{extents}{aligned};"

    def _registers(self, buffer: Any, lanes: int, depth: int) -> Iterator[str]:
        """A buffer of vector registers: one variable for each, since every index is known."""
        dtype = f"{buffer.dtype}x{lanes}" if lanes > 1 else str(buffer.dtype)
        name, kind = self.expr.names(buffer), self.expr.type(dtype)
        registers = [self.expr.names.fresh(f"{name}_{number}") for number in range(as_int(buffer.shape[0]) // lanes)]

        def place(indices: list[Any]) -> str:
            first = indices[0].base if isinstance(indices[0], ir.Ramp) else indices[0]
            return registers[as_int(first) // lanes]

        self.expr.places[buffer] = place
        yield f"{_INDENT * depth}{kind} {', '.join(registers)};"

    def _array_element(self, buffer: Any, name: str, indices: list[Any]) -> str:
        lanes = vector_lanes(indices)
        plain = [index.base if isinstance(index, ir.Ramp) else index for index in indices]
        text = name + "".join(f"[{self.expr(index)}]" for index in plain)
        return text if lanes == 1 else f"*({self.expr.type(f'{buffer.dtype}x{lanes}')}*)&{text}"

    def _DeclBuffer(self, node: Any, depth: int) -> Iterator[str]:
        buffer = node.buffer
        data = self.expr(node.data)
        yield f"{_INDENT * depth}{self.pointer(buffer)} = {data};"

    def pointer(self, buffer: Any) -> str:
        """Declares a buffer that is reached through a pointer; the text before ``=``."""
        name, kind = self.expr.names(buffer), self.expr.type(buffer.dtype)
        self.expr.places[buffer] = lambda indices: self._pointer_element(buffer, name, indices)
        self.visible[buffer] = f"{kind}*"
        return f"{kind}* {name}"

    def _pointer_element(self, buffer: Any, name: str, indices: list[Any]) -> str:
        lanes = vector_lanes(indices)
        plain = [index.base if isinstance(index, ir.Ramp) else index for index in indices]
        text = f"{name}[{self._offset(buffer, plain)}]"
        return text if lanes == 1 else f"*({self.expr.type(f'{buffer.dtype}x{lanes}')}*)&{text}"

    def _offset(self, buffer: Any, indices: list[Any]) -> str:
        """The element offset, in 64 bits as soon as there is a product."""
        strides = list(buffer.strides)
        if strides:
            terms = [f"(int64_t){_paren(self.expr(i))} * {self.expr(s)}" for i, s in zip(indices, strides)]
            return " + ".join(terms)
        text = self.expr(indices[0]) if indices else "0"
        for index, extent in zip(indices[1:], list(buffer.shape)[1:]):
            head = text if text.startswith("((int64_t)") else f"(int64_t){_paren(text)}"
            text = f"({head} * {self.expr(extent)} + {self.expr(index)})"
        return text[1:-1] if text.startswith("((int64_t)") and text.endswith(")") else text

    # Parallel loops

    def _parallel(self, node: Any, depth: int) -> Iterator[str]:
        """A loop over blocks: its body becomes a function over a range, which the pool's threads call."""
        number = len(self.tasks)
        extent = self.expr(node.extent)
        captured = self._captured(node)
        # The body is printed as another function: only what it captures is visible there, under the same names.
        outer, self.visible, self.in_task = self.visible, dict(self.visible), True
        saved_places = dict(self.expr.places)
        fields, unpack, pack = [], [], []
        for var in captured:
            name = self.expr.names(var)
            if ir.is_buffer_var(var):
                kind = f"{self.expr.type(var.dtype)}*"
                pack.append(f"({kind}){name}")
                unpack.append(f"{self.pointer(var)} = task->{name};")
            else:
                kind = outer[var]
                pack.append(name)
                unpack.append(f"const {kind} {name} = task->{name};")
            fields.append(f"{kind} {name};")
        block = self.expr.names(node.loop_var)
        self.visible[node.loop_var] = "int32_t"
        with self.expr.inside(node):
            body = list(self.lines(node.body, 2))
        self.visible, self.in_task, self.expr.places = outer, False, saved_places
        symbol = f"{self.entry}_blocks{number or ''}"
        self.tasks.append(
            "\n".join(
                [
                    f"typedef struct {{ {' '.join(fields) or 'char none;'} }} {symbol}_task;",
                    "",
                    f"static void {symbol}(const void* closure, int64_t first, int64_t last) {{",
                    f"  const {symbol}_task* task = (const {symbol}_task*)closure;",
                    "  (void)task;",
                    *[f"  {line}" for line in unpack],
                    f"  for (int32_t {block} = (int32_t)first; {block} < last; ++{block}) {{",
                    *body,
                    "  }",
                    "}",
                    "",
                ]
            )
        )
        values = ", ".join(pack) if pack else "0"
        yield f"{_INDENT * depth}{{"
        yield f"{_INDENT * (depth + 1)}const {symbol}_task task = {{{values}}};"
        yield f"{_INDENT * (depth + 1)}tl_parallel({symbol}, &task, {extent});"
        yield f"{_INDENT * depth}}}"

    def _captured(self, node: Any) -> list[Any]:
        """The outer variables that the loop's body uses, in order of definition."""
        used: set[Any] = set()
        tvm_ffi.structural_walk(node.body, [(ir.Var, lambda var: used.add(var) if var in self.visible else None)])
        sizes: list[Any] = []
        for var in used:
            if ir.is_buffer_var(var):
                sizes += [*var.shape, *var.strides]
        for size in sizes:
            tvm_ffi.structural_walk(size, [(ir.Var, lambda var: used.add(var) if var in self.visible else None)])
        return [var for var in self.visible if var in used]


def _paren(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() or text.startswith("(") else f"({text})"
