"""Names of TVM's scripts that programs of this language use: branches as context managers, blocks, buffers of pointers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import DeclarationError, MisplacedError, OperandError
from tilelang.frontend.access import assign_subscript, is_buffer
from tilelang.frontend.branches import DynamicBranch
from tilelang.frontend.builder import current
from tilelang.frontend.containers import State
from tilelang.frontend.operators import constant
from tilelang.frontend.reads import read_anew
from tilelang.frontend.safe_values import as_block
from tilelang.frontend.values import ExprLike, as_expr, as_operand, is_symbolic
from tilelang.ignored import ignored, unless
from tilelang.ir import nodes as ir
from tilelang.language.casts import cast
from tilelang.language.customize import make_tensor
from tilelang.language.debug import assertion
from tilelang.language.intrinsics import activemask, shfl_down, shfl_up
from tilelang.language.math import condition, exp2
from tilelang.language.memory import alloc_buffer
from tilelang.language.scopes import let
from tilelang.language.tensors import declared_pointer, without_effect


class _If:
    """The ``if`` that :func:`Then` and :func:`Else` complete."""

    def __init__(self, condition: Any):
        self.condition = condition

    def __enter__(self) -> None:
        builder = current("T.If")
        test = as_operand(self.condition)
        test = condition(test) if is_symbolic(test) else ir.IntImm("bool", int(bool(constant(test))))
        self.branch = DynamicBranch(builder, test, State({}), {})
        builder.branches.append(self.branch)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            return
        current("T.If").branches.pop()
        if not self.branch.arms:
            raise MisplacedError("T.If without T.Then", hint="with T.If(c):\n    with T.Then(): ...")
        self.branch.finish()


If = _If


@contextmanager
def _arm(what: str, position: int) -> Iterator[None]:
    branches = current(what).branches
    if not branches or len(branches[-1].arms) != position:
        raise MisplacedError(f"{what} does not follow {'T.If' if position == 0 else 'T.Then'}")
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


def Assert(condition: Any, message: Any = "", error_kind: str = "RuntimeError") -> None:
    """``assert``, by TVM's name.

    Args:
        condition: what must hold.
        message: what is said where it does not; several texts are put one after the other.
        error_kind: has no effect, a failed kernel raises ExecutionError; a value but ``"RuntimeError"`` warns.
    """
    ignored("T.Assert", error_kind=unless("RuntimeError", error_kind))
    assertion(condition, message if isinstance(message, str) else "".join(map(str, message)))


@contextmanager
def sblock(name: str = "", no_realize: bool = False) -> Iterator[None]:
    """A block of statements, in which annotations hold; the compiler derives what it reads and writes, whatever is declared."""
    begin = current("T.sblock").frames[-1].here()
    yield
    stmts = begin.frame.stmts
    stmts[begin.position :] = as_block(stmts[begin.position :])


def reads(*regions: Any) -> None:
    """The regions that a block reads; ignored, since the compiler derives them."""


def writes(*regions: Any) -> None:
    """The regions that a block writes; ignored, since the compiler derives them."""


def match_buffer(
    param: Any, shape: Any = None, dtype: Any = "float32", data: Any = None, strides: Any = None, elem_offset: Any = None,
    scope: str = "global", align: int = -1, offset_factor: int = 0, buffer_type: str = "default", axis_separators: Any = None,
) -> Any:  # fmt: skip
    """The tensor at a parameter declared ``T.handle`` (or ``T.ptr``), or a whole buffer under another shape.

    Args:
        param: the parameter, or a buffer.
        shape: its sizes; names of ``T.dynamic`` take their values from the call. By default those of a buffer.
        dtype: type of the elements.
        strides: element strides; compact without.
        data, elem_offset, align, offset_factor, buffer_type, axis_separators: as for :func:`decl_buffer`.
        scope: accepted for compatibility; a buffer knows its own.

    Returns:
        A buffer over the memory at ``param``.

    Raises:
        DeclarationError: no shape of a parameter, or an ``elem_offset``.
    """
    without_effect("match_buffer", elem_offset, align, offset_factor, buffer_type, axis_separators)
    ignored("T.match_buffer", data=data)
    if is_buffer(param):
        return make_tensor(ir.buffer_data(param), param.shape if shape is None else shape, dtype, strides or None)
    if shape is None:
        raise DeclarationError("T.match_buffer: the shape of a parameter is missing", hint="T.match_buffer(a, (n,), dtype)")
    return make_tensor(param, shape, dtype, strides or None)


def decl_buffer(
    shape: Any, dtype: Any = "float32", data: Any = None, strides: Any = None, elem_offset: Any = None, scope: str = "global",
    align: int = 0, offset_factor: int = 0, buffer_type: str = "", axis_separators: Any = None,
) -> Any:  # fmt: skip
    """A buffer over ``data`` (another buffer's, or a pointer); without it new memory of ``scope``.

    Args:
        shape: a size or a sequence of sizes.
        dtype: type of the elements.
        data: where the buffer starts, or None.
        strides: element strides of a buffer over ``data``; compact without.
        elem_offset: 0 or None.
        scope: memory of a new buffer.
        align, offset_factor, buffer_type, axis_separators: have no effect; a value but TVM's default warns.

    Returns:
        The buffer.

    Raises:
        CompileError: another ``elem_offset``.
    """
    without_effect("decl_buffer", elem_offset, align, offset_factor, buffer_type, axis_separators)
    if data is None:
        return alloc_buffer(shape, dtype, scope)
    return make_tensor(data, shape, dtype, strides or None)


sblock_alloc_buffer = decl_buffer


def call_intrin(dtype: Any, func_name: Any, *args: Any, annotations: Any = None) -> Any:
    """The call of an operator of TVM by its name or object.

    Args:
        dtype: type of the result.
        func_name: ``"tirx.exp"`` and the like, or the operator itself.
        args: scalars and texts.
        annotations: has no effect; a value warns.

    Returns:
        The call, as an expression.
    """
    ignored("T.call_intrin", annotations=annotations)
    return ir.tirx.call_intrin(str(canonical(dtype)), func_name, *map(_argument, args))


def call_pure_extern(dtype: Any, func_name: str, *args: Any) -> Any:
    """The call of a foreign function without side effects; see ``T.call_extern``.

    Args:
        dtype: type of the result.
        func_name: the C function; the compiler may call it more or less often than the program says.
        args: scalars and texts.

    Returns:
        The call, as an expression.
    """
    return ir.tirx.call_pure_extern(str(canonical(dtype)), func_name, *map(_argument, args))


def _argument(value: Any) -> Any:
    return value if isinstance(value, str) else as_expr(value)


def type_annotation(dtype: Any) -> Any:
    """A dtype as an argument, for :func:`tvm_access_ptr`."""
    return canonical(dtype)


def tvm_access_ptr(ptype: Any, data: Any, offset: Any, extent: Any, rw_mask: int = 3) -> Any:
    """The address of an element of ``buffer.data``, for foreign code.

    Args:
        ptype: accepted for compatibility; the buffer knows its own.
        data: the buffer, or its ``data``.
        offset: number of the element, in row-major order.
        extent, rw_mask: accepted for compatibility; foreign code may read and write all of it.

    Returns:
        An expression of pointer type.

    Raises:
        OperandError: ``data`` is neither a buffer nor a buffer's ``data``.
    """
    buffer = data.args[0] if isinstance(data, ir.Call) and data.op.name == "tirx.buffer_data" else data
    if not is_buffer(buffer):
        raise OperandError(f"T.tvm_access_ptr takes a buffer or its data, got {type(data).__name__}")
    # The flat offset as indices, the innermost axis first; the outermost takes what is left, so that an offset past the end stays
    # one.
    rest, indices = as_expr(offset), []
    for size in reversed(list(buffer.shape)[1:]):
        indices.append(rest % size)
        rest = rest // size
    return ir.tirx.address_of(ir.BufferLoad(buffer, [rest, *reversed(indices)]))


def isnullptr(x: Any) -> Any:
    """Whether an address is 0."""
    return ir.tirx.isnullptr(as_expr(x))


def target(target_config: Any, host: Any = None) -> Any:
    """A target of TVM, for ``T.func_attr``."""
    return ir.Target(target_config) if host is None else ir.Target(target_config, host)


def bind(value: Any, type_annotation: Any = None, *, var: Any = None) -> Any:
    """``value`` held by an immutable variable.

    Args:
        value: a scalar or a vector.
        type_annotation: accepted for compatibility; a value knows its type.
        var: the variable, of ``T.int32()`` and its like; a new one by default, and for ``T.ptr(dtype)``, a pointer's type.

    Returns:
        The variable.
    """
    if var is not None and declared_pointer(var) is None:
        let(var, value)
        return var
    builder = current("T.bind")
    return builder.bind(builder.take_name("v"), as_expr(value))


class _Repeated(ExprLike):
    """What :func:`meta_var` makes of a value that the kernel computes."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def expr(self) -> Any:
        return as_expr(self.value)


def meta_var(value: Any) -> Any:
    """``value`` for a name that stands for the expression: it is computed where the name is used, not where it is assigned.

    Args:
        value: an expression, whose memory is read anew at each use, or a tuple or list of them; anything else is itself.
    """
    if isinstance(value, (tuple, list)):
        return type(value)(map(meta_var, value))
    if not is_symbolic(value):
        return value
    read_anew(current("T.meta_var"), value)
    return _Repeated(value)


def ret(val: Any = None) -> None:
    """``return`` of a thread.

    Raises:
        MisplacedError: with a value.
    """
    from tilelang.language.intrinsics import thread_return

    if val is not None:
        raise MisplacedError("T.ret with a value: a kernel returns nothing", hint="return what T.empty gave, outside of T.Kernel")
    thread_return()


def continue_loop() -> None:
    """``continue``."""
    builder = current("T.continue_loop")
    builder.emit(ir.Continue(builder.span()))


def buffer_store(buffer: Any, value: Any, indices: Any, predicate: Any = None) -> None:
    """``buffer[indices] = value``.

    Args:
        buffer: a buffer in any memory.
        value: a scalar, or a vector where an index is one; converted to the buffer's type.
        indices: one index or range an axis.
        predicate: nothing is stored where it does not hold; None always stores.
    """
    if predicate is None:
        assign_subscript(buffer, tuple(indices), value)
        return
    with If(predicate), Then():
        assign_subscript(buffer, tuple(indices), value)


def ldexp(x1: Any, x2: Any) -> Any:
    """``x1`` times two to the power of ``x2``."""
    return x1 * exp2(cast(x2, "float32"))


def tvm_warp_shuffle_up(mask: Any, value: Any, offset: Any, width: int = 32, warp_size: int = 32) -> Any:
    """The value of the lane ``offset`` below, as :func:`~tilelang.language.intrinsics.shfl_up` gives it.

    Args:
        mask: the lanes that take part, as bits.
        value: what this lane offers.
        offset: distance in lanes.
        width: lanes of a group: 2, 4, 8, 16 or 32.
        warp_size: accepted for compatibility; 32.

    Returns:
        The value, in the type of ``value``; lanes without such a neighbour get their own.
    """
    return shfl_up(value, offset, width, mask)


def tvm_warp_shuffle_down(mask: Any, value: Any, offset: Any, width: int = 32, warp_size: int = 32) -> Any:
    """The value of the lane ``offset`` above, as :func:`~tilelang.language.intrinsics.shfl_down` gives it.

    Args:
        mask, value, offset, width, warp_size: as for :func:`tvm_warp_shuffle_up`.

    Returns:
        The value, in the type of ``value``; lanes without such a neighbour get their own.
    """
    return shfl_down(value, offset, width, mask)


tvm_warp_activemask = activemask
