"""The kernels of a program, taken out of their thread-extent attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import CompileError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.span import location_of

_ONE = (1, 1, 1)


@dataclass(frozen=True)
class Kernel:
    """One kernel of a program.

    Attributes:
        name: the symbol in the device module.
        func: the program that it is part of.
        blocks: (variable, extent) of each grid axis that the program names.
        cluster: (variable, extent) of each cluster axis.
        threads: (variable, extent) along x, y, z.
        body: the statements of the kernel.
        bindings: host values that the kernel may use.
    """

    name: str
    func: Any
    blocks: tuple[tuple[Any, Any], ...]
    cluster: tuple[tuple[Any, int], ...]
    threads: tuple[tuple[Any, int], ...]
    body: Any
    bindings: tuple[tuple[Any, Any], ...] = ()

    @property
    def thread_count(self) -> int:
        """Threads a block."""
        total = 1
        for _, extent in self.threads:
            total *= extent
        return total

    @property
    def cluster_dims(self) -> tuple[int, int, int]:
        """Blocks a cluster along x, y, z."""
        sizes = tuple(extent for _, extent in self.cluster)
        return (sizes + _ONE)[:3]


def split_kernels(func: Any) -> list[Kernel]:
    """The kernels of ``func`` in launch order.

    Raises:
        CompileError: a host statement that a launch sequence cannot express.
    """
    name = str(func.attrs["global_symbol"])
    found: list[Kernel] = []
    _collect(func.body, func, [], [], found)
    if not found:
        raise CompileError(f"{name} has no kernel", hint="open one: with T.Kernel(...) as ...:")
    if len(found) == 1:
        return [_renamed(found[0], f"{name}_kernel")]
    return [_renamed(kernel, f"{name}_kernel_{index}") for index, kernel in enumerate(found)]


def check_strides(func: Any) -> None:
    """Refuses strided tensors of elements that share a byte: their strides count elements, those of the argument bytes.

    Raises:
        CompileError: a parameter is one.
    """
    for param in func.params:
        if ir.is_buffer_var(param) and param.strides and canonical(str(param.dtype)).bits < 8:
            raise CompileError(
                f"a strided tensor of {param.dtype} is not supported: {param.name}", hint="pass it contiguous, declared T.Tensor"
            )


def _renamed(kernel: Kernel, name: str) -> Kernel:
    return Kernel(name, kernel.func, kernel.blocks, kernel.cluster, kernel.threads, kernel.body, kernel.bindings)


def _collect(stmt: Any, func: Any, bindings: list, views: list, found: list[Kernel]) -> None:
    """Finds the kernels in ``stmt``; the values and views that the host declares before one are known in it."""
    if isinstance(stmt, ir.SeqStmt):
        for child in stmt.seq:
            _collect(child, func, bindings, views, found)
    elif isinstance(stmt, ir.Bind):
        bindings.append((stmt.var, stmt.value))
    elif isinstance(stmt, ir.DeclBuffer):
        views.append(stmt)
    elif isinstance(stmt, ir.AttrStmt) and stmt.attr_key == "thread_extent":
        found.append(_kernel(stmt, func, tuple(bindings), views))
    elif isinstance(stmt, ir.AttrStmt):
        _collect(stmt.body, func, bindings, views, found)
    elif isinstance(stmt, ir.For) and isinstance(as_int(stmt.extent), int):
        for step in range(as_int(stmt.extent)):
            value = ir.IntImm(str(stmt.loop_var.ty), as_int(stmt.min) + step)
            _collect(stmt.body, func, [*bindings, (stmt.loop_var, value)], views, found)
    elif isinstance(stmt, (ir.AssertStmt, ir.AllocBuffer)) or _is_nothing(stmt):
        return
    else:
        raise CompileError(
            f"a {type(stmt).__name__} between kernels cannot be launched on CUDA",
            location_of(stmt.span),
            hint="move it into a kernel, or into the Python code that calls the kernels",
        )


def _is_nothing(stmt: Any) -> bool:
    return isinstance(stmt, ir.Evaluate) and isinstance(stmt.value, ir.IntImm)


def _kernel(stmt: Any, func: Any, bindings: tuple, views: list) -> Kernel:
    groups: dict[str, list] = {"blockIdx": [], "clusterCtaIdx": [], "threadIdx": []}
    while isinstance(stmt, ir.AttrStmt) and stmt.attr_key == "thread_extent":
        family = str(stmt.node.thread_tag).partition(".")[0]
        groups[family].append((stmt.node.var, as_int(stmt.value)))
        stmt = stmt.body
    body = ir.SeqStmt([*views, stmt]) if views else stmt
    return Kernel("", func, tuple(groups["blockIdx"]), tuple(groups["clusterCtaIdx"]), tuple(groups["threadIdx"]), body, bindings)
