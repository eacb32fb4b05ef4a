"""Matrix products as scalar loops, for shapes and types that no tensor-core instruction has."""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.target.cuda.codegen.code import Code, leaf_of
from tilelang.target.cuda.codegen.element_types import c_type, converted
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.codegen.nest_loops import thread_digit
from tilelang.target.cuda.inference.products import Product
from tilelang.target.cuda.reading.tree import Operator


def emit_scalar(emitter: Emitter, node: Operator, plan: Product) -> list[Code]:
    """Each thread sums its own elements of C."""
    e, op = emitter, node.op
    accumulate = str(op.c.dtype)
    wide = "float32" if canonical(accumulate).is_float and canonical(accumulate).bits < 32 else accumulate
    lines, depth, guards = [], 0, []
    if plan.c.threads < e.scope.count:
        guards.append(f"{e.thread} < {plan.c.threads}")
    variables, register = [], []
    for axis, (modes, extent) in enumerate(zip(plan.c.modes, plan.c.shape)):
        parts, weight = [], 1
        for mode in modes:
            if mode.unit == "thread":
                text = thread_digit(e.thread, mode.extent, mode.stride, e.scope.count)
            else:
                text = e.names.take("c")
                header = f"for (int {text} = 0; {text} < {mode.extent}; ++{text}) {{"
                lines += ["  " * depth + "#pragma unroll", "  " * depth + header]
                depth += 1
                register.append(f"{text} * {mode.stride}")
            parts.append(f"{text} * {weight}")
            weight *= mode.extent
        name = e.names.take("mn"[axis])
        variables.append((name, " + ".join(parts) or "0"))
        if weight != extent:
            guards.append(f"{name} < {extent}")
    lines += ["  " * depth + f"const int {name} = {text};" for name, text in variables]
    row, column, inner = (ir.Var(name, "int32") for name in ("m", "n", "k"))
    k_name = e.names.take("k")
    e.var_text.update({row: variables[0][0], column: variables[1][0], inner: k_name})
    for var, extent in ((row, op.m), (column, op.n), (inner, op.k)):
        e.facts.bind_range(var, extent)
    a = _operand_text(e, op.a, (inner, row) if op.transpose_a else (row, inner), wide)
    b = _operand_text(e, op.b, (column, inner) if op.transpose_b else (inner, column), wide)
    place = f"{e.name(op.c.buffer)}[{' + '.join(register) or '0'}]"
    kept = f"({e.text(op.clear_accum)} ? {c_type(wide)}(0) : {converted(place, accumulate, wide)})"
    start = {0: converted(place, accumulate, wide), 1: f"{c_type(wide)}(0)"}.get(
        int(op.clear_accum) if isinstance(op.clear_accum, (bool, int)) else -1, kept
    )
    sum_name = e.names.take("sum")
    body = [
        f"{c_type(wide)} {sum_name} = {start};",
        f"for (int {k_name} = 0; {k_name} < {e.simple(op.k)}; ++{k_name}) {sum_name} += {a} * {b};",
        f"{place} = {converted(sum_name, wide, accumulate)};",
    ]
    if guards:
        body = [f"if ({' && '.join(guards)}) {{", *("  " + line for line in body), "}"]
    lines += ["  " * depth + line for line in body]
    lines += ["  " * level + "}" for level in range(depth - 1, -1, -1)]
    read = {e.root(region.buffer) for region in (op.a, op.b) if region.scope.startswith("shared")}
    return [leaf_of(lines, read)]


def _operand_text(e: Emitter, region: Any, index: tuple[Any, Any], wide: str) -> str:
    indices = [*region.mins[:-2], region.mins[-2] + index[0], region.mins[-1] + index[1]]
    indices = [ir.IntImm("int32", i) if isinstance(i, int) else i for i in indices]
    return converted(e.places.element(region.buffer, indices), region.dtype, wide)
