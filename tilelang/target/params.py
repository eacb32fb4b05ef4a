"""The parameters of a program as plain records."""

from __future__ import annotations

from typing import Any

from tilelang.artifact import KernelParam, dim_names
from tilelang.dtypes import canonical
from tilelang.errors import DeclarationError
from tilelang.ir import nodes as ir
from tilelang.ir.dim import to_dim
from tilelang.sizes import bindings


def kernel_params(func: Any) -> tuple[KernelParam, ...]:
    """One record a parameter of a ``PrimFunc``, in order.

    Raises:
        DeclarationError: a dynamic size that no call could give, as no sum or product in a shape has it.
    """
    params = tuple(_param(param) for param in func.params)
    given = {binding.name for binding in bindings(params, scalar_names(params))}
    for name in dynamic_names(params):
        if name not in given:
            raise DeclarationError(
                f"no argument gives the size {name}: it cannot be computed from the sizes that have it",
                hint=f"make it an argument ({name}: T.int32), or declare the whole size by T.dynamic",
            )
    return params


def _param(param: Any) -> KernelParam:
    if ir.is_buffer_var(param):
        strides = tuple(to_dim(stride) for stride in param.strides) or None
        return KernelParam(str(param.name), "tensor", str(canonical(str(param.dtype))), tuple(map(to_dim, param.shape)), strides)
    if isinstance(param.ty, ir.ir.PointerType):
        return KernelParam(str(param.name), "pointer", str(canonical(str(param.ty.element_type))))
    return KernelParam(str(param.name), "scalar", str(canonical(str(param.ty))))


def scalar_names(params: tuple[KernelParam, ...]) -> set[str]:
    """The scalar parameters."""
    return {param.name for param in params if param.kind == "scalar"}


def dynamic_names(params: tuple[KernelParam, ...]) -> tuple[str, ...]:
    """The dynamic variables of the parameters' shapes and strides, in order of first occurrence, scalar parameters left out."""
    scalars = scalar_names(params)
    found: dict[str, None] = {}
    for param in params:
        for name in dim_names((*param.shape, *(param.strides or ()))):
            if name not in scalars:
                found[name] = None
    return tuple(found)


def unused_names(func: Any, params: tuple[KernelParam, ...]) -> tuple[str, ...]:
    """The tensor parameters and dynamic sizes that the program's body never mentions: calls need not give them."""
    mentioned = {str(var.name) for var in ir.tirx.analysis.undefined_vars(func.body)}
    tensors = (param.name for param in params if param.kind == "tensor")
    return tuple(name for name in (*tensors, *dynamic_names(params)) if name not in mentioned)
