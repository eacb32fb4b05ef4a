"""Where the results of products go: the last product of an accumulator fetches that part of the tensor, and stores to it.

An accumulator is copied to its tensor when the last product is added. By then a store of each line waits until the line has come
from memory, and nothing else is left to do meanwhile. So each register tile of the last product fetches the lines that it will
be copied to: into the second-level cache, as the first one is full of the operands. And if nothing else is done with the
accumulator, it stores them itself. The product reads other tensors meanwhile, for which a caller may have given the same memory;
this is asked at run time, and the accumulator copied if it is so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.memory import is_global
from tilelang.ir.region import Region
from tilelang.ir.visit import any_statement, conjunction, flattened, walk, walk_expr
from tilelang.target.cpu import helpers
from tilelang.target.cpu.accumulate import leaves
from tilelang.target.cpu.copy import box_condition
from tilelang.target.cpu.deepen import is_first
from tilelang.target.cpu.elide import is_call, record_of, uses_of, writes_globally
from tilelang.target.cpu.emit import address_of, extern_call, seq, when
from tilelang.target.cpu.lower import Scope
from tilelang.target.cpu.place import buffer_bytes
from tilelang.target.cpu.tiles import Tile, element
from tilelang.tileop.copy import Copy
from tilelang.tileop.gemm import Gemm

_STEPS = 64
"""Steps of a product that fetches: it has a fetch for so many multiply-adds at most."""

_LINE = 64

_FETCH = "tl_fetch_to_second_level"
helpers.register(
    _FETCH,
    "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
    # Operands of LLVM's prefetch: for reading (0; a line that no other core has may be written, too), to be kept in all caches
    # but the first (2), data (1).
    f"define i32 @{_FETCH}(ptr %p) alwaysinline {{\n  call void @llvm.prefetch.p0(ptr %p, i32 0, i32 2, i32 1)\n  ret i32 0\n}}",
    f"static inline int32_t {_FETCH}(const void* place) {{ __builtin_prefetch(place, 0, 2); return 0; }}",
)

_APART = "tl_are_apart"
helpers.register(
    _APART,
    f"""
define i32 @{_APART}(ptr %a, i64 %a_size, ptr %b, i64 %b_size) alwaysinline {{
  %a_first = ptrtoint ptr %a to i64
  %b_first = ptrtoint ptr %b to i64
  %a_end = add i64 %a_first, %a_size
  %b_end = add i64 %b_first, %b_size
  %before = icmp ule i64 %a_end, %b_first
  %behind = icmp ule i64 %b_end, %a_first
  %apart = or i1 %before, %behind
  %r = zext i1 %apart to i32
  ret i32 %r
}}""",
    f"static inline int32_t {_APART}(const void* a, int64_t a_size, const void* b, int64_t b_size) {{\n"
    "  return (uintptr_t)a + a_size <= (uintptr_t)b || (uintptr_t)b + b_size <= (uintptr_t)a;\n}",
)


@dataclass(frozen=True)
class Result:
    """Where an accumulator is copied to.

    Attributes:
        region: the part of the tensor.
        last: whether a product is the last one before: a bool, or an expression.
        apart: whether that product may store there: a bool, or an expression.
    """

    region: Region
    last: Any
    apart: Any = False

    @property
    def stored(self) -> Any:
        """Whether a product stores to the region: a bool, or an expression."""
        return False if self.last is False or self.apart is False else conjunction((_unproved(self.last), _unproved(self.apart)))

    def fetches(self, steps: Any) -> Callable[[Any, Any, Tile], Any] | None:
        """``(row, column, tile)`` -> the statement by which a register tile of C fetches its place; None for short products."""
        if not isinstance(steps, int) or steps < _STEPS or self.last is False:
            return None
        columns = _LINE // canonical(self.region.dtype).bytes

        def fetch(row: Any, column: Any, tile: Tile) -> Any:
            places = [(row + r, column + first) for r in range(tile.rows) for first in range(0, tile.columns, columns)]
            loads = [address_of(element(self.region, *place)) for place in places]
            return when(self.last, seq([ir.Evaluate(extern_call(_FETCH, [load], "int32", pure=False)) for load in loads]))

        return fetch


def _unproved(condition: Any) -> Any | None:
    return None if condition is True else condition


def results_of(body: Any, blocks: Sequence[Any], streamed: Collection[int], scope: Scope) -> dict[int, Result]:
    """Accumulator (by hash) -> where it goes.

    Args:
        body: of a kernel.
        blocks: the variables that number its blocks.
        streamed: the tensors (by hash) that are stored past the caches.
        scope: of the body.
    """
    found: dict[int, Result] = {}
    products = _products(body)
    uses = uses_of(body) if products else Counter()
    for stmt in walk(body) if products else ():
        statements = list(stmt.seq) if isinstance(stmt, ir.SeqStmt) else []
        for position, copy in _copies(statements):
            key, region = hash(copy.src.buffer), copy.dst
            # All products of the accumulator are in one statement: elsewhere its loop's variable would mean nothing.
            adding = [before for before in statements[:position] if _products(before)[key]] if products[key] else []
            last = _last_turn(adding[0]) if len(adding) == 1 and _products(adding[0])[key] == products[key] else None
            if last is not None and hash(region.buffer) not in streamed and _begins_by(region, blocks):
                # Its allocation, one product that starts from zeros, and the copy right after that or its loop.
                alone = uses[key] == 3 and adding[0] is statements[position - 1]
                found[key] = Result(region, last, _apart(adding[0], copy, scope) if alone else False)
    return found


def _apart(stmt: Any, copy: Copy, scope: Scope) -> Any:
    """Whether the last product of ``stmt`` may store where the accumulator is copied to: a bool, or an expression."""
    src, dst, tensors = copy.src, copy.dst, _tensors(stmt)
    inner = flattened(stmt.body) if isinstance(stmt, ir.For) else [stmt]
    plain = src.dtype == dst.dtype and not any(len(tensor.strides) for tensor in (dst.buffer, *tensors))
    inside = box_condition(dst, scope) is None
    reads = not any(tensor.same_as(dst.buffer) for tensor in tensors) and not any(map(writes_globally, inner))
    # A loop that is left early has no last turn.
    if not (plain and inside and reads and _clears(stmt, inner, hash(src.buffer))) or any_statement(stmt, leaves):
        return False
    conditions = [_are_apart(dst.buffer, tensor) for tensor in tensors]
    return conjunction(conditions) if conditions else True


def _clears(stmt: Any, inner: Sequence[Any], key: int) -> bool:
    """Whether the first product of an accumulator starts from zeros.

    Args:
        stmt: the product, or a loop.
        inner: the statements of the loop's body.
        key: the accumulator, by hash.
    """
    clear = next((record_of(part).clear_accum for part in inner if is_call(part, Gemm) and _products(part)[key]), False)
    if isinstance(stmt, ir.For):
        return is_first(clear, stmt.loop_var, as_int(stmt.min))
    return isinstance(clear, int) and bool(clear)


def _tensors(stmt: Any) -> list[Any]:
    """The tensors that a statement names."""
    found: dict[int, Any] = {}

    def add(var: Any) -> None:
        if ir.is_buffer_var(var) and is_global(var):
            found[hash(var)] = var

    tvm_ffi.structural_walk(stmt, [(ir.Var, add)])
    return list(found.values())


def _are_apart(a: Any, b: Any) -> Any:
    """The condition that two tensors share no memory."""
    operands = [part for tensor in (a, b) for part in (_start(tensor), constant(buffer_bytes(tensor), "int64"))]
    return extern_call(_APART, operands, "int32") != 0


def _start(tensor: Any) -> Any:
    return address_of(ir.BufferLoad(tensor, [constant(0)] * len(tensor.shape)))


def _products(stmt: Any) -> Counter[int]:
    """How many products a statement adds to each accumulator (by hash)."""
    return Counter(hash(record_of(inner).c.buffer) for inner in walk(stmt) if is_call(inner, Gemm))


def _copies(statements: Sequence[Any]) -> Iterator[tuple[int, Copy]]:
    """The copies of whole accumulators to matrices of tensors, and their positions."""
    for position, stmt in enumerate(statements):
        copy: Any = record_of(stmt) if is_call(stmt, Copy) else None
        if copy is not None and is_global(copy.dst) and not is_global(copy.src) and copy.src.is_whole:
            if copy.src.shape == copy.dst.shape == copy.dst.extents[-2:]:
                yield position, copy


def _last_turn(stmt: Any) -> Any | None:
    """Whether a product inside of a statement is in its last turn: True, or a condition; None where no loop's end is known."""
    if is_call(stmt, Gemm):
        return True
    low, extent = (as_int(stmt.min), as_int(stmt.extent)) if isinstance(stmt, ir.For) and stmt.step is None else (None, None)
    if not isinstance(low, int) or not isinstance(extent, int):
        return None
    return ir.EQ(stmt.loop_var, constant(low + extent - 1, str(stmt.loop_var.ty)))


def _begins_by(region: Region, blocks: Sequence[Any]) -> bool:
    """Whether the blocks alone say where a region begins."""
    nodes = [node for low in region.mins for node in walk_expr(constant(low))]
    variables = [node for node in nodes if isinstance(node, ir.Var)]
    plain = not any(isinstance(node, (ir.TensorLoad, ir.Call)) for node in nodes)
    return plain and all(any(var.same_as(block) for block in blocks) for var in variables)
