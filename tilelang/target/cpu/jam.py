"""Step ``jam``: a few steps of serial loops around a ``T.Parallel`` are made element by element (unroll and jam).

Before: tile IR. After: the same, in which serial loops of few iterations, around a ``T.Parallel`` that makes each element of a
tile of what that element held, are unrolled inside of its iterations:

    for i, j in T.grid(3, 3):
        for c in T.Parallel(C):
            acc[c] += x[i, j, c] * w[i, j, c]
    =>
    for c in T.Parallel(C):
        acc[c] = acc[c] + x[0, 0, c] * w[0, 0, c] + ... + x[2, 2, c] * w[2, 2, c]

Each element then stays in a register over all steps; the loops as they are written load and store it in each.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant, is_pure
from tilelang.ir.memory import is_global
from tilelang.ir.visit import flattened, is_parallel, parallel_loops, variables, walk, walk_expr
from tilelang.target.cpu.rewriter import StmtRewriter
from tilelang.transform.substitute import substitute

_MOST = 16
"""Steps: the statement grows with them, and reads of many of them are far apart in memory."""


def jam(func: Any, context: Any) -> Any:
    """The program whose short serial loops run inside of the iterations of their ``T.Parallel``."""
    return func.with_body(_Jam(func.body).stmt(func.body))


class _Jam(StmtRewriter):
    """Rewrites serial loops.

    Attributes:
        named_twice: memory with several names, in which an element may be read under another one.
    """

    def __init__(self, body: Any):
        views = [stmt for stmt in walk(body) if isinstance(stmt, ir.DeclBuffer)]
        self.named_twice = {buffer for view in views for buffer in (view.buffer, *variables(view.data))}

    def visit_For(self, node: Any) -> Any:
        serial, inner = _serial_loops(node)
        steps = prod(max(0, as_int(loop.extent)) for loop in serial)
        # A loop of no step stores nothing, and has no last value.
        if not serial or not is_parallel(inner) or not 0 < steps <= _MOST:
            return super().visit_For(node)
        loops = parallel_loops(inner)
        store = self._update(serial, loops)
        return super().visit_For(node) if store is None else _nest(loops, _jammed(serial, store))

    def _update(self, serial: Sequence[Any], loops: Sequence[Any]) -> Any | None:
        """The only statement of a nest, if it makes each element of a tile of what that element held; else None."""
        (store, *others) = flattened(loops[-1].body)
        if others or not isinstance(store, ir.BufferStore) or is_global(store.buffer) or store.buffer in self.named_twice:
            return None
        bounds = {var for loop in loops for bound in (loop.min, loop.extent) for var in variables(bound)}
        axes, moving = [loop.loop_var for loop in loops], {loop.loop_var for loop in serial}
        is_element = sorted(map(hash, store.indices)) == sorted(map(hash, axes))
        parts = list(walk_expr(store.value))
        own = [part for part in parts if isinstance(part, ir.TensorLoad) and part.source.same_as(store.buffer)]
        pure = all(is_pure(part) for part in parts if isinstance(part, ir.Call))
        if not is_element or len(own) != 1 or not pure or bounds & moving:
            return None
        return store if all(index.same_as(at) for index, at in zip(own[0].indices, store.indices)) else None


def _serial_loops(node: Any) -> tuple[list[Any], Any]:
    """The serial loops of known length that are around nothing else but each other, and what the innermost one is around."""
    found = []
    while (
        isinstance(node, ir.For)
        and node.kind in (ir.ForKind.SERIAL, ir.ForKind.UNROLLED)
        and not is_parallel(node)
        and all(isinstance(as_int(part), int) for part in (node.min, node.extent))
        and node.step is None
    ):
        found.append(node)
        body = flattened(node.body)
        if len(body) != 1:
            break
        node = body[0]
    return found, node


def _jammed(serial: Sequence[Any], store: Any) -> Any:
    """A store of what an element holds after all steps."""
    value = None
    for step in itertools.product(*(range(as_int(loop.min), as_int(loop.min) + as_int(loop.extent)) for loop in serial)):
        names = {loop.loop_var: constant(number) for loop, number in zip(serial, step)}
        made = substitute(store.value, names)
        before = value
        value = made if before is None else _after(made, store.buffer, before)
    return ir.BufferStore(store.buffer, value, list(store.indices), store.span)


def _after(value: Any, buffer: Any, before: Any) -> Any:
    """A value in which the element of a buffer is what it was made before."""
    load = lambda node: before if node.source.same_as(buffer) else node  # noqa: E731
    return tvm_ffi.structural_map(value, [(ir.TensorLoad, load)])


def _nest(loops: Sequence[Any], body: Any) -> Any:
    for loop in reversed(loops):
        body = ir.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, annotations=loop.annotations, span=loop.span)
    return body
