"""Kernels: ``with T.Kernel(...)``, its block and thread indices, and clusters."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tilelang.attributes import attributes
from tilelang.errors import MisplacedError, OptionError
from tilelang.frontend.builder import Builder, Frame, KernelInfo, active_builder, current, kernel_info
from tilelang.frontend.declare import ProbeDone
from tilelang.frontend.loops import bound
from tilelang.frontend.values import as_expr
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int

__getattr__ = attributes(__name__, {"tilelang.language.foreign": "CUDASourceCodeKernel"})

_AXES = "xyz"


class KernelFrame:
    """The context manager that :func:`Kernel` returns; ``with`` gives the block index, or one index a grid axis."""

    opens_kernel = True

    def __init__(self, blocks: tuple[Any, ...], threads: tuple[int, ...], cluster: tuple[int, int, int] | None):
        self.blocks = blocks
        self.threads = threads
        self.cluster = cluster
        self.axes: list[Any] = []
        self.builder: Builder | None = None
        self.frame: Frame | None = None

    def __enter__(self) -> Any:
        builder = self.builder = current("T.Kernel")
        if builder.eager is not None and builder.eager.consts is None:
            # The probe of an eager program asks for its signature, and declarations stand above the kernel.
            raise ProbeDone
        if builder.kernel is not None:
            raise MisplacedError("a kernel cannot be opened inside a kernel")
        span = builder.span()
        blocks = self._bind(builder, "b", "blockIdx", self.blocks)
        cluster_blocks = [] if self.cluster is None else self._bind(builder, "cta", "clusterCtaIdx", self.cluster)
        threads = self._bind(builder, "t", "threadIdx", self.threads)

        def wrap(body: Any) -> Any:
            for axis in reversed(self.axes):
                body = ir.AttrStmt(axis, "thread_extent", axis.dom.extent, body, span)
            return body

        builder.kernel = KernelInfo(
            tuple(blocks), self.blocks, tuple(threads), self.threads, self.cluster or (1, 1, 1), tuple(cluster_blocks)
        )
        self.frame = builder.open("kernel", wrap, always=True)
        return blocks[0] if len(blocks) == 1 else tuple(blocks)

    def _bind(self, builder: Builder, prefix: str, tag: str, extents: tuple[Any, ...]) -> list[Any]:
        bound = [
            axis_of(builder, ir.Var(builder.unique(prefix + axis), "int32"), f"{tag}.{axis}", extent)
            for axis, extent in zip(_AXES, extents)
        ]
        self.axes += bound
        return [axis.var for axis in bound]

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        # After an error the trace is over: closing the scope could raise another one, which would hide the first.
        if kind is None and self.builder is not None and self.frame is not None:
            self.builder.close(self.frame)
            self.builder.kernel = self.builder.barriers = None
            self.builder.has_generator = False
            self.builder.tables.clear()


def axis_of(builder: Builder, var: Any, tag: str, extent: Any) -> Any:
    """The axis of a kernel along which ``var`` counts.

    Args:
        builder: is told the values of ``var``.
        var: an int32 variable.
        tag: the axis's name in the IR.
        extent: how many blocks or threads.

    Returns:
        The axis, as an ``IterVar``.
    """
    size = as_expr(extent)
    size = ir.Cast("int32", size) if str(size.ty) != "int32" else size
    known = as_int(size)
    builder.ranges[var] = (0, known - 1 if isinstance(known, int) else None)
    return ir.IterVar(ir.Range.from_min_extent(ir.IntImm("int32", 0), size), var, ir.IterVar.ThreadIndex, tag)


def block_counts(blocks: Sequence[Any]) -> tuple[Any, ...]:
    """The sizes of a grid.

    Raises:
        OptionError: one that is no integer, or negative.
    """
    sizes = tuple(as_int(bound(size, "T.Kernel: a grid size")) for size in blocks)
    for size in sizes:
        if isinstance(size, int) and size < 0:
            raise OptionError(f"T.Kernel: the grid size {size} is negative")
    return sizes


def thread_counts(threads: Any) -> tuple[int, ...]:
    """Threads a block along x, y and z.

    Raises:
        OptionError: a number that is unknown at compile time or not positive, or more than 1024 in all.
    """
    given = threads if isinstance(threads, (tuple, list)) else (128 if threads is None else threads,)
    sizes = tuple(as_int(as_expr(size)) for size in given)
    if not 1 <= len(sizes) <= 3 or not all(isinstance(size, int) and size > 0 for size in sizes):
        raise OptionError(f"threads={threads!r}: expected one to three positive compile-time integers")
    total = 1
    for size in sizes:
        total *= size
    # CUDA programming guide, "Technical Specifications per Compute Capability": 1024 on all architectures.
    if total > 1024:
        raise OptionError(f"threads={threads!r} is {total} threads a block; the limit is 1024")
    return sizes + (1,) * (3 - len(sizes))


def _cluster(dims: Any, blocks: tuple[Any, ...]) -> tuple[int, int, int] | None:
    """Blocks a cluster along x, y and z; None where a cluster is one block.

    Args:
        dims: as given to ``T.Kernel``.
        blocks: the grid.

    Raises:
        OptionError: a number that is no positive integer, or does not divide a grid size that is known.
    """
    if dims is None:
        return None
    given = tuple(map(as_int, dims)) if isinstance(dims, (tuple, list)) else (as_int(dims),)
    if not 1 <= len(given) <= 3 or not all(isinstance(size, int) and size > 0 for size in given):
        raise OptionError(f"cluster_dims={dims!r}: expected one to three positive compile-time integers")
    x, y, z = (*given, 1, 1)[:3]
    # A launch whose grid is no multiple of the cluster fails (CUDA programming guide, "Thread Block Clusters").
    for axis, count, size in zip("xyz", (*map(as_int, blocks), 1, 1), (x, y, z)):
        if isinstance(count, int) and count % size:
            raise OptionError(f"cluster_dims={dims!r}: the grid has {count} blocks along {axis}, no multiple of {size}")
    return None if (x, y, z) == (1, 1, 1) else (x, y, z)


def Kernel(
    *blocks: Any, threads: Any = None, prelude: str | None = None, cluster_dims: Any = None, is_cpu: bool = False
) -> KernelFrame:
    """Opens a kernel: its body runs once for each block of the grid.

    Args:
        blocks: the grid, one to three sizes (compile-time or dynamic); none is one block.
        threads: threads a block, an int or up to three; 128 by default, at most 1024 in all.
        prelude: CUDA source to put before the kernel, as with ``T.import_source``.
        cluster_dims: blocks a cluster, an int or up to three; each divides the grid along its axis.
        is_cpu: accepted for compatibility; every kernel runs on the CPU too.

    Returns:
        A context manager; ``with T.Kernel(gx, gy, threads=128) as (bx, by)`` binds the block indices.

    Raises:
        OptionError: more than three sizes, one that is no integer, a block too large, clusters that do not divide the grid, or a
            kernel inside a kernel.
    """
    if len(blocks) > 3:
        raise OptionError(f"T.Kernel takes up to three grid sizes, got {len(blocks)}")
    if prelude:
        import_source(prelude)
    grid = block_counts(blocks) or (1,)
    return KernelFrame(grid, thread_counts(threads), _cluster(cluster_dims, grid))


def ClusterKernel(*blocks: Any, cluster_dims: Any, threads: Any = None, prelude: str | None = None) -> KernelFrame:
    """Opens a kernel whose blocks form clusters.

    Args:
        blocks, threads, prelude: as for :func:`Kernel`.
        cluster_dims: blocks a cluster, an int or up to three; each divides the grid along its axis.

    Returns:
        A context manager, as :func:`Kernel` gives it.

    Raises:
        CompileError: as for :func:`Kernel`.
    """
    return Kernel(*blocks, threads=threads, prelude=prelude, cluster_dims=cluster_dims)


def import_source(source: str | None = None) -> None:
    """Adds CUDA source before the kernels of this program, for ``T.call_extern``."""
    builder = current("T.import_source")
    builder.attrs["tl.import_source"] = builder.attrs.get("tl.import_source", "") + (source or "")


def annotate_pass_configs(configs: Mapping[Any, Any]) -> None:
    """Pass configurations of this program, by ``tilelang.PassConfigKey``; options of the caller go before them."""
    named = {str(getattr(key, "value", key)): value for key, value in configs.items()}
    attrs = current("T.annotate_pass_configs").attrs
    attrs["tl.pass_configs"] = json.dumps({**json.loads(attrs.get("tl.pass_configs", "{}")), **named}, sort_keys=True)


def annotate_compile_flags(flags: str | Sequence[str]) -> None:
    """Flags of this program for the toolchain, after those of the caller."""
    attrs = current("T.annotate_compile_flags").attrs
    given = [flags] if isinstance(flags, str) else list(flags)
    attrs["tl.compile_flags"] = json.dumps([*json.loads(attrs.get("tl.compile_flags", "[]")), *given])


def func_attr(attrs: dict[str, Any]) -> None:
    """Sets attributes of the program (``global_symbol`` renames it)."""
    current("T.func_attr").attrs.update({str(key): value for key, value in attrs.items()})


def get_thread_binding(dim: int = 0) -> Any:
    """The thread's index in its block along x, y or z (``dim`` 0, 1 or 2)."""
    return _along("T.get_thread_binding", dim, kernel_info("T.get_thread_binding").threads)


def _along(what: str, dim: int, values: Sequence[Any]) -> Any:
    """The value along an axis.

    Args:
        what: the function that was called, for the message.
        dim: the axis.
        values: one an axis.

    Raises:
        OptionError: there is no such axis.
    """
    if not isinstance(dim, int) or not 0 <= dim < len(values):
        raise OptionError(f"{what}({dim!r}): the axes are " + ", ".join(map(str, range(len(values)))))
    return values[dim]


def get_thread_bindings() -> list[Any]:
    """The thread's indices along x, y and z."""
    return list(kernel_info("T.get_thread_bindings").threads)


def get_block_binding(dim: int = 0) -> Any:
    """The block's index in the grid along x, y or z."""
    return _along("T.get_block_binding", dim, kernel_info("T.get_block_binding").blocks)


def get_block_bindings() -> list[Any]:
    """The block's indices, one for each grid axis."""
    return list(kernel_info("T.get_block_bindings").blocks)


def get_thread_extent(dim: int = 0) -> int:
    """Threads a block along x, y or z."""
    return _along("T.get_thread_extent", dim, kernel_info("T.get_thread_extent").thread_extents)


def get_thread_extents() -> list[int]:
    """Threads a block along x, y and z."""
    return list(kernel_info("T.get_thread_extents").thread_extents)


def get_block_extent(dim: int = 0) -> Any:
    """Blocks of the grid along x, y or z."""
    return _along("T.get_block_extent", dim, kernel_info("T.get_block_extent").block_extents)


def get_block_extents() -> list[Any]:
    """Blocks of the grid along each axis."""
    return list(kernel_info("T.get_block_extents").block_extents)


def get_cluster_dims() -> list[int]:
    """Blocks a cluster along x, y and z."""
    return list(kernel_info("T.get_cluster_dims").cluster)


def get_cluster_size() -> int:
    """Blocks a cluster."""
    x, y, z = kernel_info("T.get_cluster_size").cluster
    return x * y * z


def get_cluster_id(dim: int = 0) -> Any:
    """The cluster's index in the grid of clusters along x, y or z; 0 along an axis that the grid does not have."""
    info = kernel_info("T.get_cluster_id")
    size = _along("T.get_cluster_id", dim, info.cluster)
    return info.blocks[dim] // size if dim < len(info.blocks) else as_expr(0)


def get_cluster_extent(dim: int = 0) -> Any:
    """Clusters of the grid along x, y or z; 1 along an axis that the grid does not have."""
    info = kernel_info("T.get_cluster_extent")
    size = _along("T.get_cluster_extent", dim, info.cluster)
    return -(-info.block_extents[dim] // size) if dim < len(info.blocks) else 1


def get_cluster_ids() -> list[Any]:
    """The cluster's indices, one for each grid axis."""
    return [get_cluster_id(dim) for dim in range(len(kernel_info("T.get_cluster_ids").blocks))]


def get_cluster_extents() -> list[Any]:
    """How many clusters there are along x, y and z."""
    return [get_cluster_extent(dim) for dim in range(3)]


class KernelLaunchFrame:
    """What ``T.get_thread_extents()`` and its like say of the open kernel, as methods of ``KernelLaunchFrame.Current()``."""

    @staticmethod
    def Current() -> KernelLaunchFrame | None:
        """The open kernel; None outside of kernels."""
        builder = active_builder()
        return None if builder is None or builder.kernel is None else KernelLaunchFrame()

    get_thread_binding = staticmethod(get_thread_binding)
    get_thread_bindings = staticmethod(get_thread_bindings)
    get_thread_extent = staticmethod(get_thread_extent)
    get_thread_extents = staticmethod(get_thread_extents)
    get_block_binding = staticmethod(get_block_binding)
    get_block_bindings = staticmethod(get_block_bindings)
    get_block_extent = staticmethod(get_block_extent)
    get_block_extents = staticmethod(get_block_extents)
    get_cluster_dims = staticmethod(get_cluster_dims)
    get_cluster_size = staticmethod(get_cluster_size)
    get_cluster_id = staticmethod(get_cluster_id)
    get_cluster_ids = staticmethod(get_cluster_ids)
    get_cluster_extent = staticmethod(get_cluster_extent)
    get_cluster_extents = staticmethod(get_cluster_extents)

    def get_num_threads(self) -> int:
        """Threads a block, along all axes."""
        return math.prod(self.get_thread_extents())

    @property
    def num_threads(self) -> int:
        """Threads a block, along all axes."""
        return self.get_num_threads()

    @property
    def threads(self) -> list[Any]:
        """The thread's indices along x, y and z."""
        return self.get_thread_bindings()

    @property
    def blocks(self) -> list[Any]:
        """The block's indices, one for each grid axis."""
        return self.get_block_bindings()

    @property
    def thread_extents(self) -> list[int]:
        """Threads a block along x, y and z."""
        return self.get_thread_extents()

    @property
    def grid_extents(self) -> list[Any]:
        """Blocks of the grid along each axis."""
        return self.get_block_extents()

    thread_vars, grid_vars = threads, blocks
