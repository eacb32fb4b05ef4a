"""Step ``make_entry``: the program as the function that its execution backend calls.

With TVM's packed convention the parameters stay typed buffers, and TVM generates the argument checks. With plain C arguments the
entry is ``int32_t <name>_call(pointers and scalars in order, dynamic sizes and strides, void* stream)``: integers are ``int64_t``,
floating-point scalars ``double``; it returns 0, or -1 with a text at ``tilelang_last_error()``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.target.cpu.emit import seq
from tilelang.target.cpu.legalize import LegalProgram
from tilelang.target.params import dynamic_names, kernel_params


def make_entry(program: LegalProgram, context: Any) -> LegalProgram:
    """The program with its final signature and name."""
    func = program.func
    if context.packed:
        return replace(program, func=func.with_attr("global_symbol", context.name))
    return replace(program, func=plain_entry(func, context.name))


def plain_entry(func: Any, name: str) -> Any:
    """The function ``<name>_call`` over plain C arguments."""
    params, binds = [], []
    for param in func.params:
        fresh, bind = _plain_param(param)
        params.append(fresh)
        binds.append(bind)
    sizes = _dynamic_vars(func)
    for dynamic in dynamic_names(kernel_params(func)):
        variable = sizes[dynamic]
        wide = ir.Var(f"{dynamic}_arg", "int64")
        params.append(wide)
        binds.insert(0, ir.Bind(variable, _converted(wide, str(variable.ty))))
    params.append(ir.Var("stream", "handle"))
    body = seq(binds, func.body, ir.tirx.Return(ir.IntImm("int32", 0)))
    plain = ir.PrimFunc(params, body, ret_type=ir.ir.PrimType("int32"))
    return plain.with_attr("global_symbol", f"{name}_call").with_attr("tirx.noalias", True)


def _plain_param(param: Any) -> tuple[Any, Any]:
    if ir.is_buffer_var(param):
        pointer = ir.Var(f"{param.name}_ptr", ir.ir.PointerType(ir.ir.PrimType(str(param.dtype))))
        return pointer, ir.DeclBuffer(param, data=pointer)
    if not isinstance(param.ty, ir.ir.PrimType) or str(param.ty) == "handle":
        return param, None
    dtype = str(param.ty)
    wide = ir.Var(f"{param.name}_arg", "float64" if dtype.startswith(("float", "bfloat")) else "int64")
    return wide, ir.Bind(param, _converted(wide, dtype))


def _converted(value: Any, dtype: str) -> Any:
    if dtype == str(value.ty):
        return value
    if dtype == "bool":
        return value != ir.IntImm("int64", 0)
    return ir.Cast(dtype, value)


def _dynamic_vars(func: Any) -> dict[str, Any]:
    """The shape and stride variables of the parameters, by name."""
    found: dict[str, Any] = {}
    for param in func.params:
        if ir.is_buffer_var(param):
            for size in (*param.shape, *param.strides):
                if isinstance(size, ir.Var):
                    found.setdefault(size.name, size)
    return found
