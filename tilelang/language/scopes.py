"""Scopes of a kernel (warp groups, attributes), and calls of foreign code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import OperandError, OptionError, RunTimeValueError
from tilelang.frontend.builder import current, kernel_info, require_kernel
from tilelang.frontend.conversion import convert
from tilelang.frontend.values import as_expr, is_symbolic
from tilelang.ir import nodes as ir
from tilelang.language import calls
from tilelang.language.thread_reduce import reduce_scope

_WARP_GROUP_THREADS = 128
_ALL = -1


@contextmanager
def WarpSpecialize(*warp_group_idx: int) -> Iterator[None]:
    """Only the given warp groups (of 128 threads) run the body: ``with T.ws(0): …``.

    Args:
        warp_group_idx: their numbers; -1 stands for all threads.

    Raises:
        CompileError: no warp group, none such in the block, or a number that is known at run time only.
    """
    builder = require_kernel("T.ws")
    if not warp_group_idx:
        raise OptionError("T.ws names no warp group", hint="T.ws(0)")
    if any(index == _ALL for index in warp_group_idx if not is_symbolic(index)):
        yield
        return
    threads = 1
    for extent in kernel_info("T.ws").thread_extents:
        threads *= extent
    groups = -(-threads // _WARP_GROUP_THREADS)
    mask = 0
    for index in warp_group_idx:
        if is_symbolic(index):
            numbers = [*range(groups)]
            hint = f"`for group in {numbers}:`, over a list, is unrolled; `if` takes any condition on the thread's number"
            raise RunTimeValueError(f"T.ws: a warp group is a compile-time number, not {index}", hint=hint)
        if not 0 <= int(index) < groups:
            raise OptionError(f"T.ws({index}): the block has {threads} threads, {groups} warp group(s)")
        mask |= 1 << int(index)
    span = builder.span()
    value = ir.IntImm("int32", mask)
    with builder.scope("scope", lambda body: ir.AttrStmt(ir.StringImm("warp_groups"), "tl.warp_group", value, body, span)):
        yield


ws = WarpSpecialize
"""The short name of :func:`WarpSpecialize`."""


@contextmanager
def attr(node: Any, attr_key: str, value: Any) -> Iterator[None]:
    """Attaches an attribute to the statements of the body: ``with T.attr(node, "pragma", 1): …``.

    Args:
        node: what the attribute is about: a buffer, a variable, a text, or None.
        attr_key: its name; ``"reduce_scope"`` says how :func:`tvm_thread_allreduce` combines.
        value: a text, a number or an expression.

    Yields:
        Nothing; the statements of the ``with`` block get the attribute.
    """
    if attr_key == "reduce_scope":
        with reduce_scope(node):
            yield
        return
    builder = current("T.attr")
    span = builder.span()
    target = ir.IntImm("int32", 0) if node is None else ir.StringImm(node) if isinstance(node, str) else node
    setting = ir.StringImm(value) if isinstance(value, str) else as_expr(value)
    with builder.scope("scope", lambda body: ir.AttrStmt(target, attr_key, setting, body, span), always=True):
        yield


def let(v: Any, value: Any, body: Any = None) -> Any:
    """Gives a variable of ``T.int32()`` and its like its value, once.

    Args:
        v: the variable.
        value: a scalar, converted to the variable's type.
        body: the expression in which the variable has that value; by default all that follows.

    Returns:
        ``body`` with the value, or None.

    Raises:
        OperandError: ``v`` is no such variable, but the declaration of a pointer, say.
    """
    if not isinstance(v, ir.Var):
        raise OperandError(
            f"T.let and T.bind give a value to variables of T.int32() and its like, not to {type(v).__name__}",
            hint="a tensor at an address is T.make_tensor(address, shape, dtype)",
        )
    builder, kind = current("T.let"), str(v.ty)
    given = convert(as_expr(value, kind), kind)
    if body is not None:
        return ir.Let(v, given, as_expr(body))
    builder.emit(ir.Bind(v, given, builder.span()))
    return None


def address_of(obj: Any) -> Any:
    """The address of an element, or of the first element of a buffer or slice, for :func:`call_extern`."""
    return ir.tirx.address_of(calls.address(obj, "T.address_of"))


def access_ptr(
    base: Any, access_type: str = "r", *extents: Any, offset: Any = 0, extent: Any = None, ignore_last_ndim: int = 0
) -> Any:
    """The address of ``base`` plus ``offset`` elements of its last axis, for :func:`call_extern`.

    Args:
        base: an element, a buffer or a slice.
        access_type, extents, extent, ignore_last_ndim: what the callee accesses; accepted for compatibility.
        offset: elements beyond that of ``base``.

    Returns:
        An expression of pointer type.
    """
    load = calls.address(base, "T.access_ptr")
    *outer, last = load.indices
    return ir.tirx.address_of(ir.BufferLoad(load.source, [*outer, last + as_expr(offset)]))


def call_extern(*args: Any, dtype: Any = None, func_name: str | None = None) -> Any:
    """A call to a C function: ``T.call_extern(dtype, func_name, *args)`` or ``T.call_extern(func_name, *args, dtype=dtype)``.

    The function is one of the program's surroundings (``T.import_source``, or the target's own headers).

    Args:
        dtype: type of the result; ``"handle"`` where there is none.
        func_name: its name.
        args: scalars; buffers and slices are passed as the address of their first element.

    Returns:
        The call, as an expression.
    """
    given = list(args)
    if dtype is None:
        dtype = given.pop(0)
    if func_name is None:
        func_name = given.pop(0)
    values = [arg if isinstance(arg, str) else address_of(arg) if calls.is_tile(arg) else as_expr(arg) for arg in given]
    return ir.tirx.call_extern(str(canonical(dtype)), func_name, *values)


def evaluate(value: Any) -> None:
    """Evaluates an expression for its side effect; None is the result of a function that is a statement already."""
    if value is not None:
        current("T.evaluate").evaluate(as_expr(value))
