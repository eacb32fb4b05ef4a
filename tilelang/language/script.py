"""Names of TVM's scripts that programs of this language use: branches as context managers, blocks, buffers of pointers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import CompileError
from tilelang.frontend.access import is_buffer
from tilelang.frontend.branches import DynamicBranch
from tilelang.frontend.builder import current
from tilelang.frontend.operators import constant
from tilelang.frontend.values import as_expr, as_operand, is_symbolic
from tilelang.ir import nodes as ir
from tilelang.language.allocate import alloc_buffer
from tilelang.language.customize import make_tensor
from tilelang.language.debug import device_assert
from tilelang.language.intrinsics import activemask, shfl_down, shfl_up
from tilelang.language.math import condition


class _If:
    """The ``if`` that :func:`Then` and :func:`Else` complete."""

    def __init__(self, test: Any):
        self.test = test

    def __enter__(self) -> None:
        builder = current("T.If")
        test = as_operand(self.test)
        test = condition(test) if is_symbolic(test) else ir.IntImm("bool", int(bool(constant(test))))
        self.branch = DynamicBranch(builder, test)
        builder.branches.append(self.branch)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            return
        current("T.If").branches.pop()
        if not self.branch.arms:
            raise CompileError("T.If without T.Then", hint="with T.If(c):\n    with T.Then(): ...")
        self.branch.finish()


If = _If


@contextmanager
def _arm(what: str, position: int) -> Iterator[None]:
    branches = current(what).branches
    if not branches or len(branches[-1].arms) != position:
        raise CompileError(f"{what} does not follow {'T.If' if position == 0 else 'T.Then'}")
    branch = branches[-1]
    branch.enter_then()
    yield
    branch.close()


def Then() -> Any:
    """``with T.If(c): with T.Then(): …``: what runs where the condition holds."""
    return _arm("T.Then", 0)


def Else() -> Any:
    """``with T.Else(): …`` after :func:`Then`: what runs where the condition does not hold."""
    return _arm("T.Else", 1)


def Assert(test: Any, message: str = "") -> None:
    """:func:`~tilelang.language.debug.device_assert`, by TVM's name."""
    device_assert(test, message)


@contextmanager
def sblock(name: str = "", no_realize: bool = False) -> Iterator[None]:
    """A block of statements; its declared reads and writes are ignored, since the compiler derives them."""
    current("T.sblock")
    yield


def reads(*regions: Any) -> None:
    """The regions that a block reads; ignored, since the compiler derives them."""


def writes(*regions: Any) -> None:
    """The regions that a block writes; ignored, since the compiler derives them."""


def sblock_alloc_buffer(shape: Any, dtype: Any = "float32", scope: str = "global", **_: Any) -> Any:
    """Memory of a block, as ``T.alloc_buffer``.

    Args:
        shape, dtype, scope: as for :func:`~tilelang.language.allocate.alloc_buffer`; other arguments of TVM are ignored.

    Returns:
        The memory, as a buffer.
    """
    return alloc_buffer(shape, dtype, scope)


def match_buffer(param: Any, shape: Any, dtype: Any = "float32", strides: Any = None, **_: Any) -> Any:
    """The tensor at a parameter declared ``T.handle`` (or ``T.ptr``), or a whole buffer under another shape.

    Args:
        param: the parameter, or a buffer.
        shape: its sizes; names of ``T.dynamic`` take their values from the call.
        dtype: type of the elements.
        strides: element strides; compact without.

    Returns:
        A buffer over the memory at ``param``.
    """
    return make_tensor(ir.buffer_data(param) if is_buffer(param) else param, shape, dtype, strides or None)


def decl_buffer(
    shape: Any, dtype: Any = "float32", data: Any = None, strides: Any = None, scope: str = "global", **_: Any
) -> Any:
    """A buffer over ``data`` (another buffer's, or a pointer); without it new memory of ``scope``.

    Args:
        shape: a size or a sequence of sizes.
        dtype: type of the elements.
        data: where the buffer starts, or None.
        strides: element strides of a buffer over ``data``; compact without.
        scope: memory of a new buffer.

    Returns:
        The buffer.
    """
    if data is None:
        return alloc_buffer(shape, dtype, scope)
    return make_tensor(data, shape, dtype, strides or None)


def call_intrin(dtype: Any, op: Any, *args: Any, **_: Any) -> Any:
    """The call of an operator of TVM by its name or object.

    Args:
        dtype: type of the result.
        op: ``"tirx.exp"`` and the like, or the operator itself.
        args: scalars and texts.

    Returns:
        The call, as an expression.
    """
    return ir.tirx.call_intrin(str(canonical(dtype)), op, *map(_argument, args))


def call_pure_extern(dtype: Any, name: str, *args: Any) -> Any:
    """The call of a foreign function without side effects; see ``T.call_extern``.

    Args:
        dtype: type of the result.
        name: the C function; the compiler may call it more or less often than the program says.
        args: scalars and texts.

    Returns:
        The call, as an expression.
    """
    return ir.tirx.call_pure_extern(str(canonical(dtype)), name, *map(_argument, args))


def _argument(value: Any) -> Any:
    return value if isinstance(value, str) else as_expr(value)


def type_annotation(dtype: Any) -> Any:
    """A dtype as an argument, for :func:`tvm_access_ptr`."""
    return canonical(dtype)


def tvm_access_ptr(dtype: Any, data: Any, offset: Any, extent: Any, rw_mask: int = 3) -> Any:
    """The address of an element of ``buffer.data``, for foreign code.

    Args:
        dtype: accepted for compatibility; the buffer knows its own.
        data: the buffer, or its ``data``.
        offset: number of the element, in row-major order.
        extent, rw_mask: accepted for compatibility; foreign code may read and write all of it.

    Returns:
        An expression of pointer type.

    Raises:
        CompileError: ``data`` is neither a buffer nor a buffer's ``data``.
    """
    buffer = data.args[0] if isinstance(data, ir.Call) and data.op.name == "tirx.buffer_data" else data
    if not is_buffer(buffer):
        raise CompileError(f"T.tvm_access_ptr takes a buffer or its data, got {type(data).__name__}")
    rest, indices = as_expr(offset), []
    for size in reversed(list(buffer.shape)[1:]):
        indices.append(rest % size)
        rest = rest // size
    return ir.tirx.address_of(ir.BufferLoad(buffer, [rest, *reversed(indices)]))


def isnullptr(pointer: Any) -> Any:
    """Whether an address is 0."""
    return ir.tirx.isnullptr(as_expr(pointer))


def target(config: Any, host: Any = None) -> Any:
    """A target of TVM, for ``T.func_attr``."""
    return ir.Target(config) if host is None else ir.Target(config, host)


def bind(value: Any, **_: Any) -> Any:
    """``value`` held by an immutable variable."""
    builder = current("T.bind")
    return builder.bind(builder.take_name("v"), as_expr(value))


def ret(value: Any = None) -> None:
    """``return`` of a thread.

    Raises:
        CompileError: with a value.
    """
    from tilelang.language.intrinsics import thread_return

    if value is not None:
        raise CompileError("T.ret with a value: a kernel returns nothing", hint="return what T.empty gave, outside of T.Kernel")
    thread_return()


def continue_loop() -> None:
    """``continue``."""
    builder = current("T.continue_loop")
    builder.emit(ir.Continue(builder.span()))


def buffer_store(buffer: Any, value: Any, indices: Any) -> None:
    """``buffer[indices] = value``.

    Args:
        buffer: a buffer in any memory.
        value: a scalar, or a vector where an index is one; converted to the buffer's type.
        indices: one index or range an axis.
    """
    from tilelang.frontend.access import assign_subscript

    assign_subscript(buffer, tuple(indices), value)


def ldexp(x: Any, exponent: Any) -> Any:
    """``x`` times two to the power of ``exponent``."""
    from tilelang.language.casts import cast
    from tilelang.language.math import exp2

    return x * exp2(cast(exponent, "float32"))


def tvm_warp_shuffle_up(mask: Any, value: Any, delta: Any, width: int = 32, warp_size: int = 32) -> Any:
    """The value of the lane ``delta`` below, as :func:`~tilelang.language.intrinsics.shfl_up` gives it.

    Args:
        mask: the lanes that take part, as bits.
        value: what this lane offers.
        delta: distance in lanes.
        width: lanes of a group: 2, 4, 8, 16 or 32.
        warp_size: accepted for compatibility; 32.

    Returns:
        The value, in the type of ``value``; lanes without such a neighbour get their own.
    """
    return shfl_up(value, delta, width, mask)


def tvm_warp_shuffle_down(mask: Any, value: Any, delta: Any, width: int = 32, warp_size: int = 32) -> Any:
    """The value of the lane ``delta`` above, as :func:`~tilelang.language.intrinsics.shfl_down` gives it.

    Args:
        mask, value, delta, width, warp_size: as for :func:`tvm_warp_shuffle_up`.

    Returns:
        The value, in the type of ``value``; lanes without such a neighbour get their own.
    """
    return shfl_down(value, delta, width, mask)


tvm_warp_activemask = activemask
