"""Sizes that TVM's convention does not bind: those inside of arithmetic alone, and those of a tensor that mixes their types."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.dim import to_dim, to_expr
from tilelang.sizes import AXIS, Binding, bindings, divisors, stored_dims
from tilelang.target.params import kernel_params, scalar_names


def wide_sizes(params: Iterable[Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """Variables of 64 bits for dynamic sizes: TVM's convention would cut a larger size to the type of its variable.

    Args:
        params: of the program; a size that is a scalar argument stays that argument.
        variables: the program's, by name.
    """
    scalars = [param for param in params if not ir.is_buffer_var(param)]
    given = {name for name, var in variables.items() if any(var.same_as(scalar) for scalar in scalars)}
    return {name: var if name in given else ir.Var(name, "int64") for name, var in variables.items()}


def _widened(param: Any, variables: Mapping[str, Any]) -> Any:
    """A tensor whose sizes are over ``variables``."""
    dims = [*param.shape, *param.strides]
    if all(isinstance(dim, (ir.IntImm, int)) for dim in dims):
        return param

    def wide(dim: Any) -> Any:
        if isinstance(dim, ir.Var):
            return variables[str(dim.name)]
        return to_expr(to_dim(dim), {name: ir.Cast("int64", var) for name, var in variables.items()})

    shape, strides = map(wide, param.shape), list(map(wide, param.strides)) or None
    alignment = param.data_alignment
    return ir.decl_buffer(list(shape), str(param.dtype), name=param.name, strides=strides, layout=None, data_alignment=alignment)


def solve_sizes(func: Any, params: list[Any], variables: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """The parameters as TVM can check them, and the statements that bind and check what it cannot.

    Args:
        func: the program.
        params: its parameters as they are stored.
        variables: its dynamic sizes by name, of 64 bits as callers give them.
    """
    params = [_widened(param, variables) if ir.is_buffer_var(param) else param for param in params]
    records = kernel_params(func)
    found = bindings(records, scalar_names(records))
    mixed = {str(param.name) for param in params if ir.is_buffer_var(param) and _mixes_types(param)}
    bare = {
        str(size.name) for param in params if ir.is_buffer_var(param) and str(param.name) not in mixed for size in _sizes(param)
    }
    own = [binding for binding in found if binding.solved or (binding.tensor in mixed and binding.name not in bare)]
    if not own and not mixed:
        return params, []
    axes: dict[tuple[str, int], Any] = {}
    fresh = [_with_own_sizes(param, axes, mixed) if ir.is_buffer_var(param) else param for param in params]
    known = {name: ir.Cast("int64", variable) for name, variable in variables.items()}
    binds = [stmt for binding in own for stmt in _bound(binding, axes, variables, known)]
    declared = {(param.name, axis): dim for param in records for axis, dim in enumerate(stored_dims(param))}
    return fresh, [*binds, *(_checked(place, to_expr(declared[place], known) == size) for place, size in axes.items())]


def _sizes(param: Any) -> list[Any]:
    """The sizes and strides of a tensor that are bare variables."""
    return [size for size in (*param.shape, *param.strides) if isinstance(size, ir.Var)]


def _mixes_types(param: Any) -> bool:
    return bool(len(param.strides)) and len({str(size.ty) for size in _sizes(param)}) > 1


def _with_own_sizes(param: Any, axes: dict[tuple[str, int], Any], mixed: Collection[str]) -> Any:
    """A tensor whose sizes are numbers, bare variables, or variables of their own, which are noted in ``axes``.

    Args:
        param: the tensor.
        axes: the variables by the tensor's name and the number of the axis; strides come after the sizes.
        mixed: names of tensors whose bare variables get variables of their own, too.
    """
    kept = (ir.IntImm, int) if str(param.name) in mixed else (ir.Var, ir.IntImm, int)
    rank, strides = len(param.shape), list(param.strides)
    # TVM reads strides as numbers of the widest type of the sizes.
    narrow = ir.Var in kept and any(isinstance(stride, ir.Var) and str(stride.ty) == "int32" for stride in strides)

    def own(axis: int, size: Any, dtype: str) -> Any:
        if isinstance(size, kept):
            return size
        found = ir.Var(f"{param.name}_{axis}", dtype)
        axes[str(param.name), axis] = found if dtype == "int64" else ir.Cast("int64", found)
        return found

    shape = [own(axis, size, "int32" if narrow else "int64") for axis, size in enumerate(param.shape)]
    if ir.Var not in kept:
        shape = [_as_type(size, "int64") for size in shape]
    kind = "int64" if any(str(size.ty) == "int64" for size in shape) else "int32"
    strides = [_as_type(own(rank + axis, stride, kind), kind) for axis, stride in enumerate(strides)] or None
    alignment = param.data_alignment
    return ir.decl_buffer(shape, str(param.dtype), name=param.name, strides=strides, layout=None, data_alignment=alignment)


def _as_type(stride: Any, dtype: str) -> Any:
    """A number as one of a type."""
    return ir.IntImm(dtype, int(stride)) if isinstance(stride, (ir.IntImm, int)) else stride


def _bound(
    binding: Binding, axes: Mapping[tuple[str, int], Any], variables: Mapping[str, Any], known: Mapping[str, Any]
) -> Iterable[Any]:
    place = (binding.tensor, binding.axis)
    variable = variables[binding.name]
    for divisor in divisors(binding.value):
        yield _checked(place, to_expr(divisor, known) != 0)
    yield ir.Bind(variable, ir.Cast(str(variable.ty), to_expr(binding.value, {**known, AXIS: axes[place]})))
    yield _checked(place, variable >= 0)


def _checked(place: tuple[str, int], condition: Any) -> Any:
    return ir.AssertStmt(condition, ir.StringImm("ValueError"), [ir.StringImm(f"{place[0]} has the wrong sizes")])
