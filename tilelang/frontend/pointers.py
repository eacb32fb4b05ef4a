"""Pointer arguments that give sizes: a tensor at the pointer has a dynamic size which no other argument has.

``T.make_tensor(p, (n,), dtype)`` makes the argument ``p`` a tensor of that shape then, and ``n`` is read from the tensor that a
call passes. An address alone could not tell it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import tvm_ffi

from tilelang.frontend.builder import sequence
from tilelang.ir import nodes as ir
from tilelang.ir.visit import flattened, variables, walk, with_children


def with_sizes_of_pointers(params: Sequence[Any], body: Any, dynamic_sizes: Collection[Any]) -> tuple[list[Any], Any]:
    """The parameters and the body of a program whose pointers are tensors where they must give a size.

    Args:
        params: tensors, scalars and pointers.
        body: the program.
        dynamic_sizes: the variables of the sizes that it names.
    """
    found = list(params)
    pointers = [param for param in params if ir.is_pointer(param) and not ir.is_buffer_var(param)]
    if not pointers or not dynamic_sizes:
        return found, body
    given = {size for param in params for size in (_sizes(param) if ir.is_buffer_var(param) else [param])}
    for stmt in [each for each in walk(body) if isinstance(each, ir.DeclBuffer) and each.data in pointers]:
        sizes = set(_sizes(stmt.buffer))
        if sizes <= given or not sizes <= given.union(dynamic_sizes) or stmt.data not in found:
            continue
        tensor = _renamed(stmt.buffer, str(stmt.data.name))
        found[found.index(stmt.data)] = tensor
        values = {stmt.buffer: tensor, stmt.data: ir.buffer_data(tensor)}
        body = tvm_ffi.structural_map(_without(body, stmt), [(ir.Var, lambda var, values=values: values.get(var, var))])
        given |= sizes
    return found, body


def _sizes(buffer: Any) -> list[Any]:
    """The variables of a tensor's sizes and strides."""
    return [var for size in (*buffer.shape, *buffer.strides) for var in variables(size)]


def _renamed(buffer: Any, name: str) -> Any:
    strides = list(buffer.strides) or None
    shape, alignment = list(buffer.shape), buffer.data_alignment
    return ir.decl_buffer(shape, str(buffer.dtype), name, strides=strides, data_alignment=alignment, layout=None)


def _without(stmt: Any, declaration: Any) -> Any:
    if isinstance(stmt, ir.SeqStmt):
        return sequence([_without(part, declaration) for part in flattened(stmt) if not part.same_as(declaration)])
    return with_children(stmt, lambda child: _without(child, declaration))
