"""How the language emits intrinsic calls: for effect, or for a value that is computed once where the call stands."""

from __future__ import annotations

from typing import Any

from tilelang.errors import OperandError
from tilelang.frontend.access import as_region, is_buffer
from tilelang.frontend.builder import require_kernel
from tilelang.frontend.values import BufferLike
from tilelang.ir import nodes as ir
from tilelang.ir.region import Region
from tilelang.tileop.thread import INTRINSICS, intrinsic_call

_ADDRESSES = (ir.Op.get("tirx.address_of"), ir.Op.get("tirx.buffer_data"))


def effect(name: str, *args: Any, attrs: dict[str, Any] | None = None) -> None:
    """Appends the statement ``tl.<name>(*args)``.

    Args:
        name: a row of :data:`tilelang.tileop.thread.INTRINSICS`.
        args: operands as expressions; None leaves one out.
        attrs: settings that are no operands, by name.

    Raises:
        CompileError: outside of a kernel.
    """
    require_kernel(INTRINSICS[name].spelling).evaluate(intrinsic_call(name, *args, attrs=attrs))


def value(name: str, *args: Any, attrs: dict[str, Any] | None = None, dtype: str | None = None) -> Any:
    """The result of ``tl.<name>(*args)``; one with side effects is bound to a variable, so that it happens exactly once.

    Args:
        name: a row of :data:`tilelang.tileop.thread.INTRINSICS`.
        args: operands as expressions.
        attrs: settings that are no operands, by name.
        dtype: type of the result, where the intrinsic's row leaves it open.

    Returns:
        The call, or the variable that holds its result.

    Raises:
        CompileError: outside of a kernel.
    """
    builder = require_kernel(INTRINSICS[name].spelling)
    call = intrinsic_call(name, *args, attrs=attrs, dtype=dtype, span=builder.span())
    return call if INTRINSICS[name].pure else builder.bind(name, call)


def element(target: Any, what: str) -> Any:
    """The element load that names where an operation acts.

    Args:
        target: an element, a region of one, a buffer of one element, or a ``T.alloc_var``.

    Raises:
        OperandError: ``target`` has several elements, or is no buffer.
    """
    if isinstance(target, ir.TensorLoad):
        return target
    region = as_region(target, what)
    if any(extent != 1 for extent in region.extents):
        raise OperandError(f"{what} acts on one element, {region.buffer.name} has several", hint="index the element")
    return first(region)


def first(region: Region) -> Any:
    """A load of the first element of a region."""
    return ir.BufferLoad(region.buffer, [ir.IntImm("int32", low) if isinstance(low, int) else low for low in region.mins])


def address(target: Any, what: str) -> Any:
    """The element load that names an address: of the first element of a buffer or region, what ``T.access_ptr`` took, or what a
    name was bound to (``row = tile[i, 0]``)."""
    target = target.args[0] if is_address(target) else target
    bound = require_kernel(what).bound(target) if isinstance(target, ir.Var) and not is_buffer(target) else None
    target = bound if isinstance(bound, ir.TensorLoad) else target
    return target if isinstance(target, ir.TensorLoad) else first(as_region(target, what))


def is_address(target: Any) -> bool:
    """Whether ``target`` is what ``T.access_ptr`` or ``T.address_of`` gave, or the ``.data`` of a buffer."""
    return isinstance(target, ir.Call) and any(map(target.op.same_as, _ADDRESSES))


def pointed(pointer: Any, what: str) -> Any:
    """The buffer whose ``.data`` is ``pointer``.

    Raises:
        OperandError: it is something else.
    """
    if isinstance(pointer, ir.Call) and pointer.op.name == "tirx.buffer_data":
        return pointer.args[0]
    raise OperandError(f"{what} takes the .data of a buffer")


def is_tile(target: Any) -> bool:
    """Whether ``target`` is a buffer or region (of any size), not a scalar."""
    return is_buffer(target) or isinstance(target, (BufferLike, Region, ir.TensorRegion))
