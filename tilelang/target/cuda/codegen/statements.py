"""Statements that each thread runs by itself, as lines of C++: one rule for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.visit import walk_expr
from tilelang.target.cuda.codegen.element_types import c_type, is_packed, packed_store, value_type
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.tileop.base import decode
from tilelang.tileop.debug import DeviceAssert, PrintValue
from tilelang.tileop.thread import intrinsic_name


def statement(e: Emitter, stmt: Any, owner: str | None = None) -> list[str]:
    """Lines of a statement.

    Args:
        owner: condition under which this thread is the one that stores to memory; None where every thread may.
    """
    return _RULES[type(stmt)](e, stmt, owner)


def guarded(line: str, tests: list[str | None]) -> list[str]:
    """A line under the conjunction of the conditions that are there."""
    present = [test for test in tests if test]
    return [f"if ({' && '.join(present)}) {line}"] if present else [line]


def loop_header(e: Emitter, stmt: Any) -> str:
    """The header of a serial, unrolled or vectorised loop, with its pragma; names the variable."""
    name = e.names.take(stmt.loop_var.name)
    step = 1 if stmt.step is None else as_int(stmt.step)
    first, limit = e.text(e.facts.simplify(stmt.min)), e.simple(stmt.min + stmt.extent)
    end = ""
    if _reads_memory(stmt.min) or _reads_memory(stmt.extent):  # computed once: the body may change what it came from
        bound, limit = limit, e.names.take("end")
        end = f", {limit} = {bound}"
    e.facts.bind_range(stmt.loop_var, stmt.extent, stmt.min)
    e.var_text[stmt.loop_var] = name
    increment = f"++{name}" if step == 1 else f"{name} += {step if isinstance(step, int) else e.text(step)}"
    return f"{_pragma(stmt)}for ({c_type(str(stmt.loop_var.ty))} {name} = {first}{end}; {name} < {limit}; {increment})"


def _pragma(stmt: Any) -> str:
    kind = int(stmt.kind)
    if kind == int(ir.ForKind.UNROLLED) and "pragma_unroll_factor" in stmt.annotations:
        return f"#pragma unroll {as_int(stmt.annotations['pragma_unroll_factor'])}\n"
    return "#pragma unroll\n" if kind in (int(ir.ForKind.UNROLLED), int(ir.ForKind.VECTORIZED)) else ""


def _body(e: Emitter, stmt: Any, owner: str | None) -> list[str]:
    return ["  " + line for line in statement(e, stmt, owner)]


def _sequence(e: Emitter, stmt: Any, owner: str | None) -> list[str]:
    return [line for child in stmt.seq for line in statement(e, child, owner)]


def _store(e: Emitter, stmt: Any, owner: str | None) -> list[str]:
    buffer, indices, scope = stmt.buffer, list(stmt.indices), stmt.buffer.scope()
    if is_packed(str(buffer.dtype)):
        alone = not e.places.shares_bytes or scope.startswith("local")
        line = packed_store(e.places.place(buffer, indices), e.text(stmt.value), alone)
    else:
        line = f"{e.places.place(buffer, indices)} = {e.text(stmt.value)};"
    tests = [e.places.bounds_guard(buffer, indices)]
    if scope in ("global", "", "shared", "shared.dyn") or _accumulates(e, stmt):
        tests.append(owner)
    return guarded(line, tests)


def _accumulates(e: Emitter, stmt: Any) -> bool:
    """Whether a store adds to a reducer, which only one of the threads that run an iteration may do."""
    return stmt.buffer in e.layouts.reducers and any(
        isinstance(node, ir.TensorLoad) and node.source == stmt.buffer for node in walk_expr(stmt.value)
    )


def _evaluate(e: Emitter, stmt: Any, owner: str | None) -> list[str]:
    value = stmt.value
    if isinstance(value, ir.IntImm):
        return []
    name = value.op.name if isinstance(value, ir.Call) and isinstance(value.op, ir.Op) else ""
    if name.endswith(".assume"):
        return []
    if name in _DEBUG:
        return guarded(debug_line(e, decode(value)), [owner])
    if name.startswith("tl.atomic"):
        return guarded(e.text(value) + ";", [_atomic_guard(e, value), owner])
    return [e.text(value) + ";"]


_DEBUG = (PrintValue.op_name, DeviceAssert.op_name)


def _atomic_guard(e: Emitter, call: Any) -> str | None:
    target = call.args[0]
    return e.places.bounds_guard(target.source, list(target.indices)) if isinstance(target, ir.TensorLoad) else None


def _bind(e: Emitter, stmt: Any, owner: str | None) -> list[str]:
    if intrinsic_name(stmt.value) == "create_tma_descriptor":  # it is a parameter of the kernel, not a value
        e.var_text[stmt.var] = e.text(stmt.value)
        return []
    name = e.names.take(stmt.var.name)
    value = e.text(stmt.value)
    e.var_text[stmt.var] = name
    if str(stmt.var.ty).startswith(("int", "uint")) and not _loads(stmt.value):
        e.facts.bind_value(stmt.var, stmt.value)
    return [f"const {value_type(str(stmt.var.ty))} {name} = {value};"]


def _reads_memory(expr: Any) -> bool:
    return any(isinstance(node, ir.TensorLoad) for node in walk_expr(expr))


def _loads(expr: Any) -> bool:
    return any(isinstance(node, (ir.TensorLoad, ir.Call)) for node in walk_expr(expr))


def _if(e: Emitter, stmt: Any, owner: str | None) -> list[str]:
    lines = [f"if ({e.text(stmt.condition)}) {{", *_body(e, stmt.then_case, owner)]
    if stmt.else_case is not None:
        lines += ["} else {", *_body(e, stmt.else_case, owner)]
    return [*lines, "}"]


def _for(e: Emitter, stmt: Any, owner: str | None) -> list[str]:
    *pragma, header = loop_header(e, stmt).split("\n")
    return [*pragma, header + " {", *_body(e, stmt.body, owner), "}"]


def _while(e: Emitter, stmt: Any, owner: str | None) -> list[str]:
    return [f"while ({e.text(stmt.condition)}) {{", *_body(e, stmt.body, owner), "}"]


def _tensor_at(e: Emitter, stmt: Any, owner: str | None) -> list[str]:
    kind = c_type(str(stmt.buffer.dtype))
    return [f"{kind}* {e.name(stmt.buffer)} = reinterpret_cast<{kind}*>({e.text(stmt.data)});"]


def debug_line(e: Emitter, op: Any) -> str:
    """``T.device_assert``, or ``T.print`` of one value."""
    if isinstance(op, DeviceAssert):
        return f"tl::device_assert_msg({e.text(op.condition)}, {quoted(op.message or 'device assertion failed')});"
    if op.value is None:
        return f"tl::debug_print_message({quoted(op.message)});"
    return f"tl::debug_print({quoted(op.message)}, {e.text(op.value)});"


def quoted(text: str) -> str:
    """A C++ string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


_RULES: Mapping[type, Callable[[Emitter, Any, str | None], list[str]]] = {
    ir.SeqStmt: _sequence,
    ir.BufferStore: _store,
    ir.Evaluate: _evaluate,
    ir.Bind: _bind,
    ir.IfThenElse: _if,
    ir.For: _for,
    ir.While: _while,
    ir.AttrStmt: lambda e, stmt, owner: statement(e, stmt.body, owner),
    ir.Break: lambda e, stmt, owner: ["break;"],
    ir.Continue: lambda e, stmt, owner: ["continue;"],
    ir.DeclBuffer: _tensor_at,
    ir.AllocBuffer: lambda e, stmt, owner: [],
    ir.AssertStmt: lambda e, stmt, owner: [],
}
