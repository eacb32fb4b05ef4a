"""Views of buffers, queries of their elements, and small helper functions of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import DtypeError, LayoutError, MisplacedError, OperandError, OptionError, ShapeError
from tilelang.frontend.access import as_region, is_buffer
from tilelang.frontend.bounded import bounded_memory, bounded_view, is_bounded, leading_part
from tilelang.frontend.builder import current, require_kernel
from tilelang.frontend.declare import declare_buffer
from tilelang.frontend.loops import each_element
from tilelang.frontend.operators import and_, or_
from tilelang.frontend.values import as_expr
from tilelang.frontend.vectors import VectorArray, declared_sizes, typed
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, same_product
from tilelang.ir.memory import is_fragment, is_global
from tilelang.ir.text import shape_text
from tilelang.language import calls
from tilelang.language.math import condition
from tilelang.language.memory import alloc_var
from tilelang.language.tensors import as_shape, strided


def reshape(src: Any, shape: Any) -> Any:
    """The elements of ``src`` under another shape of the same size; no data moves.

    Raises:
        CompileError: the sizes differ, or ``src`` is not a compact buffer.
    """
    return _view("T.reshape", src, shape, None, None)


def view(src: Any, shape: Any = None, dtype: Any = None, strides: Any = None) -> Any:
    """The memory of ``src`` as a buffer of another shape, element type or strides; no data moves.

    Args:
        src: a buffer; compact, unless ``strides`` are given.
        shape: the new shape; by default that of ``src``, its last axis rescaled where the element size changes.
        dtype: the new element type.
        strides: element strides of the view; the sizes need not match then.

    Returns:
        A buffer that shares the memory of ``src``.

    Raises:
        CompileError: the sizes in bytes differ.
    """
    return _view("T.view", src, shape, dtype, strides)


def make_tensor(ptr: Any, shape: Any, dtype: Any = "float32", strides: Any = None) -> Any:
    """A tensor of ``shape`` at ``ptr``: an argument declared ``T.ptr``, an integer address, ``tensor.data``, or the address of a
    tensor's first element.

    Args:
        ptr: where the tensor starts; an integer is an address in bytes.
        shape: a size or a sequence of sizes, compile-time or dynamic.
        dtype: type of the elements, whatever the pointer was declared with.
        strides: element strides; compact row-major without.

    Returns:
        A buffer over that memory.

    Raises:
        CompileError: ``tensor`` has another size in bytes, or ``ptr`` is none of these.
    """
    # `other.data` is memory whose extent is known: a view of it, whose size is checked, and no address.
    memory = _memory_at(ptr)
    if memory is not None:
        return view(memory, shape, dtype, strides)
    builder = current("T.make_tensor")
    spec = strided(as_shape(shape), canonical(dtype), None if strides is None else as_shape(strides), "global")
    buffer = declare_buffer(builder.take_name("tensor"), spec)
    # An address from a table is read here, once: the table may change before the tensor is accessed.
    data = ptr if isinstance(ptr, ir.Var) else builder.bind("address", _address(ptr))
    builder.emit(ir.DeclBuffer(buffer, data=data, span=builder.span()))
    return buffer


def _memory_at(ptr: Any) -> Any:
    """The buffer that begins at a pointer, or None."""
    if isinstance(ptr, ir.Call) and ptr.op.name == "tirx.buffer_data":
        return ptr.args[0]
    if calls.is_address(ptr) and all(as_int(index) == 0 for index in ptr.args[0].indices):
        return ptr.args[0].source
    return None


def _address(ptr: Any) -> Any:
    expr = as_expr(ptr, "int64")
    if calls.is_address(expr) or "float" in str(expr.ty):
        raise OperandError(
            f"T.make_tensor takes a T.ptr argument, an integer address or tensor.data, got {expr}",
            hint="a part of a tensor is a region, as A[8:16], or an element of T.make_tensor(A.data, …)",
        )
    return expr


def make_tensor_from_addr(
    addr: Any, shape: Any, dtype: Any = "float32", strides: Any = None, storage_scope: str = "global"
) -> Any:
    """:func:`make_tensor` at an address.

    Args:
        addr: where the tensor starts, in bytes.
        shape, dtype, strides: as for :func:`make_tensor`.
        storage_scope: ``"global"``.

    Returns:
        A buffer over that memory.

    Raises:
        OptionError: another ``storage_scope``.
    """
    if storage_scope != "global":
        raise OptionError(f"T.make_tensor_from_addr: an address is one of global memory, not of {storage_scope!r}")
    return make_tensor(addr, shape, dtype, strides)


def _view(what: str, src: Any, shape: Any, dtype: Any, strides: Any) -> Any:
    if strides is None and is_bounded(src, [] if shape is None else as_shape(shape)):
        sizes, whole = bounded_view(what, src, None if shape is None else as_shape(shape), dtype)
        return leading_part(_view(what, bounded_memory(what, src), whole, dtype, None), sizes)
    array = src
    src = src.buffer if isinstance(src, VectorArray) else src
    if not is_buffer(src):
        raise OperandError(f"{what} takes a buffer, got {type(src).__name__}")
    if src.strides and strides is None:
        raise LayoutError(f"{what}: {src.name} is not compact", hint="give the strides of the view")
    kind = canonical(str(array.dtype) if dtype is None else dtype)
    shown = _view_shape(array, shape, kind)
    sizes = declared_sizes(shown, kind)
    if strides is not None and kind.bits < 8:
        strides = strided(tuple(sizes), canonical(kind.base), as_shape(strides), "").strides
    if strides is None and not same_product([kind.bits, *sizes], [canonical(str(src.dtype)).bits, *src.shape]):
        raise ShapeError(
            f"{what}: {src.name} is {shape_text(array.shape)} of {array.dtype}, which does not fill "
            f"{shape_text(shown)} of {kind}",
            hint="source and view must have the same size in bytes",
        )
    if strides is None:
        _check_rows(what, src, kind, sizes)
    builder = current(what)
    buffer = ir.decl_buffer(
        sizes, kind.base, builder.take_name(f"{src.name}_view"), scope=src.scope() if not is_global(src) else "",
        strides=None if strides is None else [as_expr(stride) for stride in as_shape(strides)],
        data_alignment=kind.bytes, layout=None,
    )  # fmt: skip
    builder.emit(ir.DeclBuffer(buffer, data=ir.buffer_data(src), span=builder.span()))
    builder.aliases[buffer] = src
    return typed(buffer, kind)


def _check_rows(what: str, src: Any, kind: Any, shape: Sequence[Any]) -> None:
    """Refuses other rows over rows of 4-bit elements of an odd length, and such over others: each ends with half a byte."""
    seen = [(canonical(str(src.dtype)), [as_int(size) for size in src.shape]), (kind, [as_int(size) for size in shape])]
    rows = [(of.bits, sizes[-1]) for of, sizes in seen if sizes and isinstance(sizes[-1], int)]
    if len(rows) == 2 and rows[0] == rows[1]:
        return
    for of, sizes in seen:
        if of.bits == 4 and isinstance(sizes[-1], int) and sizes[-1] % 2 and any(size != 1 for size in sizes[:-1]):
            raise ShapeError(
                f"{what} of {src.name}: rows of {sizes[-1]} elements of {of} end with half a byte, which other rows do not",
                hint="give the rows an even length",
            )


def _view_shape(src: Any, shape: Any, kind: Any) -> list[Any]:
    if shape is not None:
        return [as_int(as_expr(size)) for size in as_shape(shape)]
    old, new = (each.bits * each.lanes for each in (canonical(str(src.dtype)), kind))
    *outer, last = [as_int(size) for size in src.shape]
    return [*outer, last if old == new else as_int(as_expr(last) * old // new)]


def dp4a(A: Any, B: Any, C: Any) -> None:
    """``C[0] += A[0] * B[0] + … + A[3] * B[3]``: four int8 products summed into an int32.

    Args:
        A, B: the first of four consecutive int8 elements each.
        C: an int32 element.

    Raises:
        DtypeError: other element types.
    """
    loads = [calls.address(value, "T.dp4a") for value in (A, B, C)]
    types = [str(load.source.dtype) for load in loads]
    if types != ["int8", "int8", "int32"]:
        raise DtypeError(f"T.dp4a takes int8, int8 and int32, got {', '.join(types)}")
    calls.effect("dp4a", *loads)


def loop_break() -> None:
    """Leaves the innermost run-time loop, like ``break``."""
    builder = require_kernel("T.loop_break")
    if not any(frame.kind == "loop" for frame in builder.frames):
        raise MisplacedError("T.loop_break outside of a run-time loop")
    builder.leave_loop()


def _quantified(what: str, buffer: Any, start: bool) -> Any:
    """A loop over the elements that combines them in a mutable scalar."""
    region = as_region(buffer, what)
    if is_fragment(region):
        raise OperandError(f"{what}: {region.buffer.name} is spread over the threads", hint="use T.reduce_max or T.reduce_min")
    builder = require_kernel(what)
    # The name on the left side of an assignment belongs to the result, and not to the scalar of the loop.
    builder.pending_name = None
    result = alloc_var("bool", init=start)
    result.fresh = False
    with each_element(builder, region.shape, "SERIAL", "q") as indices:
        load = condition(ir.BufferLoad(region.buffer, [as_expr(index) for index in region.index(indices)]))
        combined = (and_ if start else or_)(result.expr, lambda: load)
        builder.emit(ir.BufferStore(result.buffer, combined, [0], builder.span()))
    return result.expr()


def any_of(buffer: Any) -> Any:
    """Whether some element of a buffer or slice is not zero; every thread looks at all of them."""
    return _quantified("T.any_of", buffer, start=False)


def all_of(buffer: Any) -> Any:
    """Whether no element of a buffer or slice is zero; every thread looks at all of them."""
    return _quantified("T.all_of", buffer, start=True)
