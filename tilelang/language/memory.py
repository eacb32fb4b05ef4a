"""Memory of a kernel: shared tiles, fragments, thread-local arrays, mutable scalars, barriers and reducers.

Tiles, arrays and mutable scalars may be allocated above the ``with T.Kernel(...)`` that uses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.dtypes import canonical, is_dtype
from tilelang.errors import DtypeError, OperandError, OptionError, ShapeError
from tilelang.frontend.access import assign_subscript
from tilelang.frontend.bounded import largest_sizes, leading_part
from tilelang.frontend.builder import Builder, current, require_kernel
from tilelang.frontend.specs import TensorSpec
from tilelang.frontend.values import LocalVar, VectorVar, as_expr
from tilelang.frontend.vectors import declared_sizes, typed
from tilelang.ignored import ignored
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import ARRAY, FRAGMENT, SHARED, STATIC_SHARED, VARIABLE
from tilelang.language.tensors import as_shape

_TILES = (SHARED, STATIC_SHARED, FRAGMENT, ARRAY)
_SCOPES = {
    "T.alloc_shared": _TILES,
    "T.alloc_fragment": _TILES,
    "T.alloc_local": _TILES,
    "T.alloc_var": (VARIABLE, ARRAY),
    "T.alloc_buffer": (*_TILES, VARIABLE),
}
"""The memory that each function may be asked for by name: programs ask ``T.alloc_fragment`` for shared memory."""


def _buffer(
    builder: Builder, what: str, shape: Any, dtype: Any, scope: str, default: str, notes: Mapping[str, Any] | None = None
) -> Any:
    if is_dtype(shape):
        raise OperandError(
            f"{what}: the shape comes before the dtype", hint=f"write {what}({_spelled(dtype)}, {_spelled(shape)})"
        )
    kind = canonical(dtype)
    known = _SCOPES.get(what)
    if known is not None and scope not in known:
        raise OptionError(f"{what}: scope={scope!r} is none of {', '.join(map(repr, known))}")
    sizes = [as_int(as_expr(size)) for size in as_shape(shape)]
    for size in sizes:
        if not isinstance(size, int) or size < 0:
            raise ShapeError(
                f"{what}: every size must be a compile-time integer that is not negative, got the shape {shape!s}",
                hint=None if isinstance(size, int) else _CONSTANT_SIZE,
            )
    buffer = ir.decl_buffer(
        declared_sizes(sizes, kind), kind.base, builder.take_name(default), scope=scope, data_alignment=kind.bytes, layout=None
    )
    builder.allocate(buffer, notes)
    return typed(buffer, kind)


_CONSTANT_SIZE = "allocate the largest size, or take a T.alloc_shared tile, whose size T.assume(n <= 256) can bound"


def _spelled(value: Any) -> str:
    return f'"{canonical(value)}"' if is_dtype(value) else repr(value)


def alloc_shared(shape: Any, dtype: Any, scope: str = "shared.dyn") -> Any:
    """A tile in the block's shared memory, of ``shape`` and ``dtype``; not initialised.

    A size may follow from run-time sizes that :func:`assume` gives a bound: the tile has memory for the largest.

    Args:
        shape: a size or a sequence of sizes.
        dtype: type of the elements.
        scope: ``"shared.dyn"``, or ``"shared"``; one memory either way. That of another allocation function gives its memory.

    Returns:
        The tile, as a buffer; where a size is dynamic, the part of it that the size selects.

    Raises:
        CompileError: outside of a program; a size that is neither a compile-time integer nor bounded, or negative;
            an unknown scope.
    """
    builder, what = current("T.alloc_shared"), "T.alloc_shared"
    sizes = [] if is_dtype(shape) else [as_int(as_expr(size)) for size in as_shape(shape)]
    if all(isinstance(size, int) for size in sizes):
        return _buffer(builder, what, shape, dtype, scope, "shared")
    return leading_part(_buffer(builder, what, largest_sizes(what, sizes, builder), dtype, scope, "shared"), sizes)


def alloc_fragment(shape: Any, dtype: Any, scope: str = "local.fragment") -> Any:
    """A tile distributed over the registers of the block's threads; not initialised.

    Args:
        shape: a size or a sequence of sizes, compile-time integers; with a 0 among them it has no elements.
        dtype: type of the elements.
        scope: ``"local.fragment"``; that of another allocation function, as ``"shared"``, gives its memory.

    Returns:
        The tile, as a buffer. The compiler chooses which thread holds which element, unless :func:`annotate_layout` does.

    Raises:
        CompileError: outside of a program; a size that is no compile-time integer or negative; an unknown scope.
    """
    return _buffer(current("T.alloc_fragment"), "T.alloc_fragment", shape, dtype, scope, "fragment")


def alloc_local(shape: Any, dtype: Any, scope: str = "local") -> Any:
    """An array private to each thread; not initialised.

    Args:
        shape: a size or a sequence of sizes, compile-time integers; with a 0 among them it has no elements.
        dtype: type of the elements.
        scope: ``"local"``; that of another allocation function, as ``"shared"``, gives its memory.

    Returns:
        The array, as a buffer; it lies in registers where every index is known at compile time.

    Raises:
        CompileError: outside of a program; a size that is no compile-time integer or negative; an unknown scope.
    """
    return _buffer(current("T.alloc_local"), "T.alloc_local", shape, dtype, scope, "local")


def alloc_var(dtype: Any, *args: Any, scope: str = "local.var", init: Any = None) -> Any:
    """A mutable scalar: ``x = T.alloc_var("int32", 0)``; then ``x = x + 1`` stores and ``x`` loads.

    Args:
        dtype: its type; a vector type (``"float16x2"``) gives a vector, ``x[1]`` is one of its lanes.
        args: the initial value, or the scope as a string, in any order.
        scope: ``"local.var"`` for a variable of each thread.
        init: the initial value; a variable without one that is read before it is stored to begins as 0, with a warning.

    Returns:
        The variable; assignments to its Python name inside the kernel store to it.

    Raises:
        CompileError: outside of a program; with a value, outside of a kernel.
    """
    for value in args:
        if isinstance(value, str):
            scope = value
        else:
            init = value
    kind = canonical(dtype)
    if kind.lanes == 1:
        builder = current("T.alloc_var") if init is None else require_kernel("T.alloc_var with a value")
        variable = LocalVar(_buffer(builder, "T.alloc_var", (1,), kind, scope, "var"))
    else:
        # A buffer has scalar elements: a vector is an array of its lanes, of which a ramp names all.
        array = _buffer(require_kernel("T.alloc_var"), "T.alloc_var", (kind.lanes,), kind.base, "local", "var")
        variable = VectorVar(array, ir.Ramp(ir.IntImm("int32", 0), ir.IntImm("int32", 1), kind.lanes))
    if init is not None:
        assign_subscript(variable.buffer, variable.indices, init)
    return variable


def alloc_barrier(arrive_count: int | list[int]) -> Any:
    """One mbarrier, or an array of them, each completing a phase after ``arrive_count`` arrivals."""
    return _barriers(require_kernel("T.alloc_barrier"), "T.alloc_barrier", arrive_count, "shared.barrier")


def alloc_cluster_barrier(arrive_count: int | list[int]) -> Any:
    """Like :func:`alloc_barrier`, for arrivals from all blocks of a cluster."""
    return _barriers(require_kernel("T.alloc_cluster_barrier"), "T.alloc_cluster_barrier", arrive_count, "shared.cluster_barrier")


def _barriers(builder: Builder, what: str, arrive_count: int | list[int], scope: str) -> Any:
    counts = list(arrive_count) if isinstance(arrive_count, (list, tuple)) else [arrive_count]
    counts = [as_int(as_expr(count)) for count in counts]
    for count in counts or [None]:
        # An mbarrier counts arrivals in 20 bits (PTX ISA, "Valid range for the mbarrier count").
        if count is None or not 0 < count < 1 << 20:
            raise OptionError(f"{what}: a phase takes between 1 and {(1 << 20) - 1} arrivals, got {arrive_count!r}")
    return _buffer(builder, what, (len(counts),), "uint64", scope, "barrier", {"tl.arrive_counts": counts})


def alloc_tmem(shape: Any, dtype: Any) -> Any:
    """A tile in tensor memory (sm_100a and later)."""
    return _buffer(require_kernel("T.alloc_tmem"), "T.alloc_tmem", shape, dtype, "shared.tmem", "tmem")


_REDUCER_OPS = ("sum", "max", "min", "bitand", "bitor", "bitxor")


def alloc_reducer(shape: Any, dtype: Any, op: str = "sum", replication: str | None = None) -> Any:
    """A fragment into which every thread accumulates by ``op``; :func:`finalize_reducer` combines their parts.

    Args:
        shape: a size or a sequence of sizes, compile-time integers; with a 0 among them it has no elements.
        dtype: type of the elements and of the accumulation.
        op: ``"sum"``, ``"max"``, ``"min"``, or for integers ``"bitand"``, ``"bitor"``, ``"bitxor"``.
        replication: ``"all"`` where every thread holds a part of every element, ``"none"`` (the default) otherwise.

    Returns:
        The reducer, as a buffer; until it is finalized only ``reducer[i] += x`` and the like may use it.

    Raises:
        CompileError: unknown ``op`` or ``replication``; a bitwise ``op`` of floats; a size that is no
            compile-time integer or negative.
    """
    if op not in _REDUCER_OPS:
        raise OptionError(f"T.alloc_reducer: op={op!r} is none of {', '.join(_REDUCER_OPS)}")
    if replication not in (None, "all", "none"):
        raise OptionError(f"T.alloc_reducer: replication={replication!r} is neither 'all' nor 'none'")
    if op.startswith("bit") and not canonical(dtype).is_integer:
        raise DtypeError(f"T.alloc_reducer: op={op!r} needs an integer dtype, not {canonical(dtype)}")
    notes = {"tl.reducer_op": op, "tl.reducer_replication": replication or "none"}
    buffer = _buffer(require_kernel("T.alloc_reducer"), "T.alloc_reducer", shape, dtype, "local.fragment", "reducer", notes)
    require_kernel("T.alloc_reducer").reducers[buffer] = op
    return buffer


def alloc_buffer(shape: Any, dtype: Any = "float32", scope: str = "global", annotations: Any = None) -> Any:
    """Memory of any ``scope``: ``"global"`` (a workspace of the call), ``"shared"``, ``"local.fragment"``, ``"local"``.

    Args:
        shape: a size or a sequence of sizes; compile-time integers except for ``"global"``.
        dtype: type of the elements.
        scope: the memory, as above.
        annotations: has no effect; a value warns.

    Returns:
        The memory, as a buffer; not initialised.

    Raises:
        CompileError: ``scope`` is not ``"global"`` and this is outside of a kernel, or a size is no integer or negative.
    """
    ignored("T.alloc_buffer", annotations=annotations)
    if scope == "global":
        return alloc_global(shape, dtype)
    return _buffer(require_kernel("T.alloc_buffer"), "T.alloc_buffer", shape, dtype, _FULL_SCOPES.get(scope, scope), "buffer")


allocate = alloc_buffer
"""The name of :func:`alloc_buffer` in TVM's scripts."""

_FULL_SCOPES = {STATIC_SHARED: SHARED, "fragment": FRAGMENT}


def alloc_global(shape: Any, dtype: Any, scope: str = "global") -> Any:
    """A workspace in global memory that every call allocates.

    Args:
        shape: a size or a sequence of sizes, compile-time or dynamic.
        dtype: type of the elements.
        scope: ``"global"``; accepted for programs that name it.

    Returns:
        The tensor, as :func:`empty` gives it; not initialised, and the same memory for every block of the call.
    """
    from tilelang.frontend.declare import empty_tensor

    return empty_tensor(TensorSpec(as_shape(shape), canonical(dtype)))
