"""Which tensors a program may write: the others may be read-only memory, and need no functionalisation in a traced graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.visit import statement_exprs, walk, walk_expr
from tilelang.tileop import record_of
from tilelang.tileop.thread import intrinsic_name
from tilelang.transform.in_place import sources_of

_READS_AT_MOST = 2
"""TVM's effect kinds up to this one are those of calls that do not write: annotations, pure functions, reads."""

_ADDRESSES = ("tirx.address_of", "tirx.tvm_access_ptr")


def written_tensors(func: Any) -> tuple[str, ...]:
    """Names of the tensor parameters that a ``PrimFunc`` may write: all but those that it provably only reads."""
    tensors = [param for param in func.params if ir.is_buffer_var(param)]
    # CUDA source gets all tensors, and may write to any of them.
    if any(isinstance(stmt, ir.Evaluate) and intrinsic_name(stmt.value) == "source_kernel" for stmt in walk(func.body)):
        return tuple(str(param.name) for param in tensors)
    sources = sources_of(func.body)
    found: set[Any] = set()
    left = [buffer for stmt in walk(func.body) for buffer in _touched(stmt)]
    while left:
        buffer = left.pop()
        if buffer not in found:
            found.add(buffer)
            left += [part for part in walk_expr(sources[buffer]) if ir.is_buffer_var(part)] if buffer in sources else []
    return tuple(str(param.name) for param in tensors if param in found)


def _touched(stmt: Any) -> Iterator[Any]:
    """The buffers that a statement itself may write."""
    record = record_of(stmt)
    if record is not None:
        yield from (region.buffer for region, access in record.regions() if "w" in access)
        yield from _handed_on(stmt.value.args)
        return
    if isinstance(stmt, ir.BufferStore):
        yield stmt.buffer
    yield from _handed_on([*stmt.indices, stmt.value] if isinstance(stmt, ir.BufferStore) else statement_exprs(stmt))


def _handed_on(exprs: Iterable[Any]) -> Iterator[Any]:
    """The buffers that calls may write: those whose address they get, or an element where the call has side effects."""
    for call in (part for expr in exprs for part in walk_expr(expr) if isinstance(part, ir.Call)):
        if may_write(call):
            for part in walk_expr(call):
                if isinstance(part, ir.TensorLoad):
                    yield part.source
                elif isinstance(part, ir.Var) and ir.is_buffer_var(part):
                    yield part


def may_write(call: Any) -> bool:
    """Whether a call may write to memory of which it gets an element or the address."""
    if not isinstance(call.op, ir.Op) or call.op.name in _ADDRESSES:
        return True
    kind = call.op.get_attr("TCallEffectKind")
    return kind is None or int(kind) > _READS_AT_MOST
