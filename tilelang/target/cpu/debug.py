"""``T.print`` and ``T.device_assert``."""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.target.cpu import helpers
from tilelang.target.cpu.emit import cast, local, nest, seq
from tilelang.target.cpu.lower import Scope, rule
from tilelang.tileop.debug import DeviceAssert, PrintBuffer, PrintLine

_FORMATS = {
    # kind of dtype -> printf conversion, the C type that is passed
    "float": ("%g", "float64"),
    "int": ("%lld", "int64"),
    "uint": ("%llu", "uint64"),
    "bool": ("%lld", "int64"),
}


_PASSED = {
    # argument type -> letter in the helper's name, LLVM's type, C's
    "int32": ("i", "i32", "int32_t"),
    "int64": ("l", "i64", "int64_t"),
    "uint64": ("l", "i64", "int64_t"),
    "float64": ("d", "double", "double"),
}


def _printf(text: str, *arguments: Any) -> Any:
    name = _printer(tuple(str(argument.ty) for argument in arguments))
    call = ir.Call(ir.Op.get("tirx.call_extern"), [ir.StringImm(name), ir.StringImm(text), *arguments], ret_ty="int32")
    return ir.Evaluate(call)


def _printer(dtypes: tuple[str, ...]) -> str:
    """The helper that calls ``printf`` with arguments of these types.

    ``printf`` takes a variable number of arguments, which are passed in another way than those of the calls that TVM emits.
    """
    letters, llvm, c = zip(*(_PASSED[dtype] for dtype in dtypes)) if dtypes else ((), (), ())
    name = f"tl_print_{''.join(letters)}"
    if name not in helpers.HELPERS:
        parameters = "".join(f", {kind} %a{position}" for position, kind in enumerate(llvm))
        c_parameters = "".join(f", {kind} a{position}" for position, kind in enumerate(c))
        c_arguments = "".join(f", a{position}" for position in range(len(c)))
        helpers.register(
            name,
            "declare i32 @printf(ptr, ...)\n"
            f"define i32 @{name}(ptr %format{parameters}) alwaysinline {{\n"
            f"  %n = call i32 (ptr, ...) @printf(ptr %format{parameters})\n  ret i32 %n\n}}",
            f"static inline int32_t {name}(const char* format{c_parameters}) {{ return printf(format{c_arguments}); }}",
        )
    return name


def _flush() -> Any:
    null = ir.Call(ir.Op.get("tirx.reinterpret"), [ir.IntImm("uint64", 0)], ret_ty="handle")
    return ir.Evaluate(ir.Call(ir.Op.get("tirx.call_extern"), [ir.StringImm("fflush"), null], ret_ty="int32"))


def _conversion(dtype: str) -> tuple[str, str]:
    return _FORMATS[canonical(dtype).kind]


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


@rule(PrintLine)
def lower_print_line(record: PrintLine, scope: Scope) -> Any:
    """The texts and values; once a block."""
    conversions = [_conversion(str(value.ty)) for value in record.values]
    text = _escaped(record.texts[0])
    for (conversion, _), after in zip(conversions, record.texts[1:]):
        text += conversion + _escaped(after)
    passed = [cast(value, dtype) for value, (_, dtype) in zip(record.values, conversions)]
    return seq(_printf(f"{text}\n", *passed), _flush())


@rule(PrintBuffer)
def lower_print_buffer(record: PrintBuffer, scope: Scope) -> Any:
    """One line an element: ``message name[i, j] = value``."""
    region = record.buffer
    conversion, passed = _conversion(region.dtype)
    prefix = _escaped(record.message) + (" " if record.message else "")

    def line(offsets: list[Any]) -> Any:
        indices = [low + offset for low, offset in zip(region.mins, offsets)]
        places = ", ".join("%d" for _ in indices)
        value = cast(ir.BufferLoad(region.buffer, indices), passed)
        shown = [cast(index if hasattr(index, "ty") else ir.IntImm("int32", index), "int32") for index in indices]
        return _printf(f"{prefix}{region.buffer.name}[{places}] = {conversion}\n", *shown, value)

    return seq(nest(region.extents, line), _flush())


@rule(DeviceAssert)
def lower_device_assert(record: DeviceAssert, scope: Scope) -> Any:
    """Where the condition fails, the block notes which assertion it was and stops; the call raises after all blocks stopped.

    A thread of the pool cannot raise for its caller, hence the note; blocks that run on the calling thread raise at once.
    """
    if scope.status is None:
        scope.status = local("status", (1,), "int32")
    scope.failures.append(record.text)
    note = ir.BufferStore(scope.status, ir.IntImm("int32", len(scope.failures)), [0])
    return ir.IfThenElse(ir.Not(record.condition), seq(note, _fail(ir.IntImm("bool", 0), record.text)), None)


def _fail(condition: Any, message: str) -> Any:
    return ir.AssertStmt(condition, ir.StringImm("RuntimeError"), [ir.StringImm(message)])


def report_failures(scope: Scope, body: Any) -> Any:
    """``body`` between the allocation of the failure status and the statements that raise what was noted in it."""
    if scope.status is None:
        return body
    noted = ir.BufferLoad(scope.status, [0])
    raises = [_fail(noted != number, message) for number, message in enumerate(scope.failures, start=1)]
    return seq(ir.AllocBuffer(scope.status), ir.BufferStore(scope.status, ir.IntImm("int32", 0), [0]), body, raises)
