"""Prints the device IR as CUDA C++: the only place where code becomes text.

The printer records which names, functions and types it has written. From these follow the declarations of a kernel and the
headers that it includes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tilelang.dtypes import canonical
from tilelang.target.cuda.ir import instructions as op
from tilelang.target.cuda.ir import values as v
from tilelang.target.cuda.ir.code import Barrier, Block, BranchCode, GroupCode, Jump, Leaf, LoopCode, Wait
from tilelang.target.cuda.ir.cpp_types import VECTOR_TYPES, c_type, is_packed, literal, value_type

_WIDTH = 126
_INDENT = "  "

_SELECT, _SUM, _PRODUCT, _UNARY, _POSTFIX = 1, 10, 11, 12, 13
_PRECEDENCE: Mapping[str, int] = {
    "=": 0, "||": 2, "&&": 3, "|": 4, "^": 5, "&": 6, "==": 7, "!=": 7, "<": 8, "<=": 8, ">": 8, ">=": 8, "<<": 9, ">>": 9,
    "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT,
}  # fmt: skip
_BITWISE = frozenset({"|", "^", "&", "<<", ">>", "||"})
"""Operators whose operands are put in parentheses even where C++ needs none: few readers know their precedence."""

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_QUALIFIED = re.compile(r"\btl::\w+")


class Line(str):
    """A printed line.

    Attributes:
        code: the innermost code around it that comes from a statement of the program.
    """

    code: Any


def _of(code: Any, text: str) -> Line:
    if isinstance(text, Line):
        return text
    line = Line(text)
    line.code = code
    return line


_OF_BLOCK = op.Evaluate(v.Call("__syncthreads"))
"""The barrier of all threads of a block."""


class Printer:
    """Prints code.

    Attributes:
        names: variables, parameters and arrays that it has written.
        functions: device functions that it has called.
        types: element types that it has written.
        barrier: that of the threads which run the code; None where the program orders them.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.functions: set[str] = set()
        self.types: set[str] = set()
        self.barrier: op.Instruction | None = _OF_BLOCK

    # Values ------------------------------------------------------------------------------------------------------------

    def value(self, value: v.Value, least: int = 0) -> str:
        """The text of a value; in parentheses if its operator has a lower precedence than ``least``."""
        text, precedence = _VALUES[type(value)](self, value)
        return f"({text})" if precedence < least else text

    def values(self, values: Iterable[v.Value]) -> str:
        """Some values, as the arguments of a call."""
        return ", ".join(map(self.value, values))

    def type(self, dtype: str) -> str:
        """The C++ type of an element."""
        text = c_type(dtype)
        self.types.add(text)
        return text

    def value_type(self, dtype: str) -> str:
        """The C++ type of a value outside of memory."""
        text = dtype if dtype in _RECORDS else value_type(dtype)
        self.types.add(text)
        return text

    def called(self, function: str, *arguments: str) -> str:
        """The text of a call."""
        self.functions.add(function)
        return f"{function}({', '.join(arguments)})"

    def _named(self, name: str) -> tuple[str, int]:
        self.names.add(name)
        return name, _POSTFIX

    def _verbatim(self, value: v.Verbatim) -> tuple[str, int]:
        self.names.update(_IDENTIFIER.findall(value.text))
        self.functions.update(_QUALIFIED.findall(value.text))
        return value.text, _POSTFIX

    def _binary(self, value: v.Binary) -> tuple[str, int]:
        own = _PRECEDENCE[value.op]
        bits = value.op in _BITWISE
        left = self.value(value.left, own if not bits or _op_of(value.left) == value.op else _UNARY)
        # a - (b - c): C++ groups from the left, so an operand on the right needs a higher precedence than the operator's own.
        right = self.value(value.right, _UNARY if bits else own + 1)
        return f"{left} {value.op} {right}", own

    def _select(self, value: v.Select) -> tuple[str, int]:
        parts = (self.value(part, _SELECT + 1) for part in (value.condition, value.then, value.otherwise))
        return "{} ? {} : {}".format(*parts), _SELECT

    def _call(self, value: v.Call) -> tuple[str, int]:
        function = value.function
        self.functions.add(function)
        if value.templates:
            function += f"<{', '.join(map(self._template, value.templates))}>"
        return f"{function}({self.values(value.arguments)})", _POSTFIX

    def _template(self, argument: Any) -> str:
        if isinstance(argument, v.Type):
            return VECTOR_TYPES[argument.bytes] if argument.bytes else self.type(argument.dtype)
        if isinstance(argument, str):
            self.functions.add(argument)
        return str(argument).lower() if isinstance(argument, bool) else str(argument)

    def _element(self, value: v.Element) -> tuple[str, int]:
        base, index = self.value(value.array), self.value(value.index)
        if is_packed(value.array.dtype):
            signed = "s" if canonical(value.array.dtype).kind == "int" else "u"
            return self.called(f"tl::nibble_{'atomic_' * value.shared_byte}{signed}", base, index), _POSTFIX
        return f"{base}[{index}]", _POSTFIX

    def _pointer(self, value: v.Pointer) -> tuple[str, int]:
        offsets = value.offsets
        if offsets and is_packed(value.array.dtype):
            # Two elements of four bits a byte: halves of single summands would be rounded down one by one.
            offsets = (v.total(offsets) // 2,)
        base = "&" * value.of_variable + self.value(value.array)
        text = "".join(f" + {self.value(offset, _PRODUCT)}" for offset in offsets)
        return base + text, _SUM if offsets else _POSTFIX

    def _cast(self, value: v.Cast) -> tuple[str, int]:
        kind = VECTOR_TYPES[value.bytes] if value.bytes else _CAST_TYPES.get(value.dtype) or self.type(value.dtype)
        return f"reinterpret_cast<{'const ' * value.constant}{kind}*>({self.value(value.pointer)})", _POSTFIX

    def word(self, value: v.Word, constant: bool = True) -> str:
        """The text of a word; ``constant`` where it is read."""
        kind = value.dtype or VECTOR_TYPES[value.bytes]
        return f"*reinterpret_cast<{'const ' * constant}{kind}*>({self.value(value.pointer)})"

    # Code --------------------------------------------------------------------------------------------------------------

    def lines(self, code: Any, indent: int = 1) -> Iterator[str]:
        """The lines of some code.

        Args:
            code: a node of the device IR.
            indent: levels of indentation.
        """
        pad = _INDENT * indent
        structure = _STRUCTURE.get(type(code))
        own = (pad + line for line in self.instruction(code)) if structure is None else structure(self, code, indent)
        yield from own if getattr(code, "span", None) is None else (_of(code, line) for line in own)

    def instruction(self, code: op.Instruction) -> list[str]:
        """The lines of a statement without statements inside."""
        found = _INSTRUCTIONS[type(code)](self, code)
        return [found] if isinstance(found, str) else found

    def _items(self, items: Iterable[Any], indent: int) -> Iterator[str]:
        for item in items:
            yield from self.lines(item, indent)

    def _block(self, code: Block, indent: int) -> Iterator[str]:
        if not code.braces:
            yield from self._items(code.items, indent)
            return
        yield _INDENT * indent + "{"
        yield from self._items(code.items, indent + 1)
        yield _INDENT * indent + "}"

    def _barrier(self, code: Barrier, indent: int) -> Iterator[str]:
        for each in (op.FenceAsync(code.of_tensors) if code.fence else None, self.barrier):
            yield from () if each is None else self.lines(each, indent)

    def _wait(self, code: Wait, indent: int) -> Iterator[str]:
        yield _INDENT * indent + self._statement("tl::cp_async_wait", templates=(code.pending,))

    def _jump(self, code: Jump, indent: int) -> Iterator[str]:
        yield f"{_INDENT * indent}{code.keyword};"

    def _loop(self, code: LoopCode, indent: int) -> Iterator[str]:
        pad = _INDENT * indent
        if code.unroll is not None:
            yield f"{pad}#pragma unroll{f' {code.unroll}' if code.unroll else ''}"
        yield f"{pad}{self._header(code)} {{"
        yield from self.lines(code.body, indent + 1)
        yield pad + "}"

    def _header(self, code: LoopCode) -> str:
        if not code.counters:
            return f"while ({self.value(code.condition)})"
        first = ", ".join(f"{self.value(name)} = {self.value(start)}" for name, start in code.counters)
        advance = ", ".join(self._step(name, following) for name, following in code.advance)
        return f"for ({self.value_type(code.dtype)} {first}; {self.value(code.condition)}; {advance})"

    def _step(self, name: v.Name, following: v.Value) -> str:
        text = self.value(name)
        if isinstance(following, v.Binary) and following.left == name and following.op in ("+", "^"):
            one = following.op == "+" and following.right == v.Number(1)
            return f"++{text}" if one else f"{text} {following.op}= {self.value(following.right)}"
        return f"{text} = {self.value(following)}"

    def _branch(self, code: BranchCode, indent: int) -> Iterator[str]:
        pad, condition = _INDENT * indent, self.value(code.condition)
        then = list(self.lines(code.then, indent + 1))
        short = f"{pad}if ({condition}) {then[0].strip()}" if len(then) == 1 else ""
        if code.otherwise is None and short and len(short) <= _WIDTH and short.endswith(";"):
            yield short
            return
        yield f"{pad}if ({condition}) {{"
        yield from then
        if code.otherwise is not None:
            yield pad + "} else {"
            yield from self.lines(code.otherwise, indent + 1)
        yield pad + "}"

    def _group(self, code: GroupCode, indent: int) -> Iterator[str]:
        around, self.barrier = self.barrier, code.barrier
        if code.condition is None:
            yield from self.lines(code.body, indent)
        else:
            yield f"{_INDENT * indent}if ({self.value(code.condition)}) {{"
            yield from self.lines(code.body, indent + 1)
            yield _INDENT * indent + "}"
        self.barrier = around

    # Instructions ------------------------------------------------------------------------------------------------------

    def _define(self, code: op.Define) -> str:
        kind = self.value_type(code.dtype)
        # Of a pointer the variable is constant, not what it points to.
        declared = kind if not code.constant else f"{kind} const" if kind.endswith("*") else f"const {kind}"
        return f"{declared} {self.value(code.name)} = {self.value(code.value)};"

    def _define_pointer(self, code: op.DefinePointer) -> str:
        return f"{'const ' * code.constant}{self.type(code.array.dtype)}* {self.value(code.array)} = {self.value(code.value)};"

    def _declare_array(self, code: op.DeclareArray) -> str:
        align = f"alignas({code.alignment}) " if code.alignment else ""
        first = f" = {{{self.values(code.values)}}}" if code.values or code.zero else ""
        return f"{align}{'const ' * code.constant}{self.type(code.array.dtype)} {self.value(code.array)}[{code.count}]{first};"

    def _assign(self, code: op.Assign) -> str:
        value, place = self.value(code.value), code.place
        if isinstance(place, v.Element) and is_packed(place.array.dtype):
            function = f"tl::set_nibble{'_atomic' * code.shared_byte}"
            return self.called(function, self.value(place.array), self.value(place.index), value) + ";"
        target = self.word(place, constant=False) if isinstance(place, v.Word) else self.value(place)
        return f"{target} = {value};"

    def _move(self, code: op.Move) -> str:
        source: v.Value = v.Word(code.source, code.bytes, code.dtype)
        if code.exists is not None:
            source = v.Select(code.exists, source, v.Zeros(code.bytes, code.dtype))
        return self._assign(op.Assign(v.Word(code.target, code.bytes, code.dtype), source))

    def _copy_async(self, code: op.CopyAsync) -> str:
        return self.value(v.async_copy(code.bytes, code.target, code.source, code.exists)) + ";"

    def _bulk_load(self, code: op.BulkLoad) -> str:
        form, extra = "", []
        if code.multicast is not None:
            form, extra = "_multicast", [v.Number(code.multicast)]
        elif code.policy is not None:
            form, extra = "_hint", [v.Call(f"tl::cache_policy_{code.policy}")]
        function = f"tl::tma_load_{len(code.coordinates)}d{form}"
        return self._statement(function, code.target, code.map, code.barrier, *extra, *code.coordinates)

    def _bulk_store(self, code: op.BulkStore) -> str:
        kind = "store" if code.reduction is None else f"reduce_{code.reduction}"
        return self._statement(f"tl::tma_{kind}_{len(code.coordinates)}d", code.map, code.source, *code.coordinates)

    def _multiply(self, code: op.Multiply) -> str:
        metadata = [] if code.metadata is None else [code.metadata]
        return self._statement(code.function, code.accumulator, code.left, code.right, *metadata)

    # Declarations around code -------------------------------------------------------------------------------------------

    def head(self, signature: op.Signature) -> str:
        """The line that begins a kernel."""
        bounds = signature.threads if signature.blocks is None else f"{signature.threads}, {signature.blocks}"
        parameters = ", ".join(_PARAMETERS[type(parameter)](self, parameter) for parameter in signature.parameters)
        return f'extern "C" __global__ void __launch_bounds__({bounds}) {signature.name}({parameters}) {{'

    def _pointer_parameter(self, parameter: op.PointerParameter) -> str:
        restrict = " __restrict__" * parameter.restrict
        return f"{'const ' * parameter.constant}{self.type(parameter.dtype)}*{restrict} {parameter.name}"

    def _define_shared_array(self, code: op.DefineSharedArray) -> str:
        kind = self.type(code.array.dtype)
        return f"{kind}* const {self.value(code.array)} = reinterpret_cast<{kind}*>({self.value(code.start)});"

    def _statement(self, function: str, *arguments: v.Value, templates: tuple[Any, ...] = ()) -> str:
        return self.value(v.Call(function, arguments, templates)) + ";"


def _op_of(value: v.Value) -> str | None:
    return value.op if isinstance(value, v.Binary) else None


def _number(printer: Printer, value: v.Number) -> tuple[str, int]:
    return str(value.value), _SUM if value.value < 0 else _POSTFIX


def _literal(printer: Printer, value: v.Literal) -> tuple[str, int]:
    text = literal(value.value, value.dtype)
    printer.type(value.dtype)
    return text, _SUM if text.startswith("-") else _POSTFIX


def quoted(text: str) -> str:
    """A C++ string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


_RECORDS = frozenset({"float2", "dim3", "tl::Philox"})
"""C++ types of variables that are no element types."""

_CAST_TYPES: Mapping[str, str] = {"byte": "uchar", "word": "uint32_t"}
"""What a pointer is cast to that is no element type."""

_VALUES: Mapping[type, Callable[[Printer, Any], tuple[str, int]]] = {
    v.Name: lambda printer, value: printer._named(value.text),
    v.Number: _number,
    v.Literal: _literal,
    v.Text: lambda printer, value: (quoted(value.value), _POSTFIX),
    v.Verbatim: Printer._verbatim,
    v.Binary: Printer._binary,
    v.Unary: lambda printer, value: (f"{value.op}{printer.value(value.operand, _POSTFIX)}", _UNARY),
    v.Select: Printer._select,
    v.Convert: lambda printer, value: (f"{printer.type(value.dtype)}({printer.value(value.operand)})", _POSTFIX),
    v.Call: Printer._call,
    v.Array: lambda printer, value: printer._named(value.name),
    v.Element: Printer._element,
    v.Pointer: Printer._pointer,
    v.AddressOf: lambda printer, value: (f"&{printer.value(value.place, _POSTFIX)}", _UNARY),
    v.Cast: Printer._cast,
    v.Word: lambda printer, value: (printer.word(value), _UNARY),
    v.Field: lambda printer, value: (f"{printer.value(value.vector, _POSTFIX)}.{value.name}", _POSTFIX),
    v.Zeros: lambda printer, value: (f"{value.dtype or VECTOR_TYPES[value.bytes]}{{}}", _POSTFIX),
}

_STRUCTURE: Mapping[type, Callable[[Printer, Any, int], Iterator[str]]] = {
    Leaf: lambda printer, code, indent: printer._items(code.body, indent),
    Block: Printer._block,
    Barrier: Printer._barrier,
    Wait: Printer._wait,
    Jump: Printer._jump,
    LoopCode: Printer._loop,
    BranchCode: Printer._branch,
    GroupCode: Printer._group,
}


def _call(function: str, *fields: str, **templates: str) -> Callable[[Printer, Any], str]:
    """The printer of an instruction that is a call of one device function.

    Args:
        function: name of the function; ``{name}`` in it stands for the value of a field.
        fields: the fields that are its arguments.
        templates: the names of the fields that are its template arguments.
    """

    def text(printer: Printer, code: Any) -> str:
        name = function.format_map(vars(code))
        found = tuple(getattr(code, template) for template in templates)
        return printer._statement(name, *(v.value_of(getattr(code, f)) for f in fields), templates=found)

    return text


_INSTRUCTIONS: Mapping[type, Callable[[Printer, Any], str]] = {
    op.Define: Printer._define,
    op.Declare: lambda printer, code: f"{printer.value_type(code.dtype)} {printer.value(code.name)};",
    op.DefinePointer: Printer._define_pointer,
    op.DeclareArray: Printer._declare_array,
    op.Assign: Printer._assign,
    op.Evaluate: lambda printer, code: f"{printer.value(code.value)};",
    op.Move: Printer._move,
    op.Return: lambda printer, code: "return;",
    op.CopyAsync: Printer._copy_async,
    op.CommitCopies: _call("tl::cp_async_commit"),
    op.FenceAsync: lambda printer, code: printer._statement(f"tl::fence_proxy_async{'_tensors' * code.of_tensors}"),
    op.BulkLoad: Printer._bulk_load,
    op.BulkStore: Printer._bulk_store,
    op.BulkLoadBytes: _call("tl::tma_load_bytes", "target", "source", "bytes", "barrier"),
    op.BulkStoreBytes: _call("tl::tma_store_bytes", "target", "source", "bytes"),
    op.CommitBulk: _call("tl::tma_store_commit"),
    op.WaitBulk: lambda printer, code: printer._statement(
        f"tl::tma_store_wait{'_complete' * code.complete}", templates=(code.pending,)
    ),
    op.ExpectBytes: _call("tl::mbarrier_expect_tx", "barrier", "bytes"),
    op.LoadMatrix: _call("tl::ldmatrix_{form}", "registers", "source"),
    op.StoreMatrix: _call("tl::stmatrix_{form}", "target", "registers"),
    op.Multiply: Printer._multiply,
    op.WarpGroupMultiply: lambda printer, code: printer._statement(
        f"tl::{code.instruction.name}", code.accumulator, code.left, code.right, code.scale
    ),
    op.FenceProducts: _call("tl::wgmma_fence"),
    op.CommitProducts: _call("tl::wgmma_commit"),
    op.WaitProducts: _call("tl::wgmma_wait", pending=""),
    op.PinRegisters: _call("tl::wgmma_fence_operand", "registers", count=""),
    op.SetRegisters: _call("tl::set_max_nreg_{change}", count=""),
    op.NamedBarrier: _call("tl::named_barrier_sync", "number", "threads"),
    op.DeclarePool: lambda printer, code: f"extern __shared__ __align__({code.alignment}) uchar {printer.value(code.pool)}[];",
    op.DefineSharedArray: Printer._define_shared_array,
    op.DeclareGlobal: lambda printer, code: f"__device__ {printer.type(code.dtype)} {printer.value(code.name)};",
    op.WarpBarrier: lambda printer, code: f"__syncwarp(0x{code.mask:x}u);",
}

_PARAMETERS: Mapping[type, Callable[[Printer, Any], str]] = {
    op.ValueParameter: lambda printer, parameter: f"{printer.type(parameter.dtype)} {parameter.name}",
    op.PointerParameter: Printer._pointer_parameter,
    op.TensorMapParameter: lambda printer, parameter: f"const __grid_constant__ CUtensorMap {parameter.name}",
}
