"""Kernels that a program brings as CUDA source: they are launched as they are."""

from __future__ import annotations

from typing import Any

from tilelang.artifact import KernelLaunch
from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.visit import walk
from tilelang.target.cuda.tile.program import Kernel
from tilelang.target.params import dynamic_names, kernel_params
from tilelang.tileop.thread import intrinsic_name


def source_entry(kernel: Kernel) -> str | None:
    """The symbol of a kernel of ``T.CUDASourceCodeKernel``; None of any other."""
    for stmt in walk(kernel.body):
        if isinstance(stmt, ir.Evaluate) and intrinsic_name(stmt.value) == "source_kernel":
            return str(stmt.value.args[0].value)
    return None


def source_launch(kernel: Kernel, symbol: str, grid: tuple) -> KernelLaunch:
    """Its launch: all arguments of the program in order, then the dynamic sizes."""
    params = kernel_params(kernel.func)
    args = [("tensor" if param.kind == "tensor" else "scalar", param.name) for param in params]
    dtypes = [str(canonical(param.dtype)) if param.kind == "scalar" else "handle" for param in params]
    sizes = {str(var.name): var for var in _size_variables(kernel.func)}
    for name in dynamic_names(params):
        args.append(("dim", name))
        dtypes.append(str(canonical(str(sizes[name].ty))))
    block = tuple(as_int(extent) for _, extent in kernel.threads)
    return KernelLaunch(symbol, tuple(args), tuple(dtypes), grid, block, kernel.cluster_dims, within=kernel.within)


def _size_variables(func: Any) -> list[Any]:
    shapes = [(*param.shape, *param.strides) for param in func.params if ir.is_buffer_var(param)]
    return [size for shape in shapes for size in shape if isinstance(size, ir.Var)]
