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
from tilelang.target.cpu.emit import address_of, extern_call, when
from tilelang.target.cpu.forward_copies import is_call, uses_of, writes_globally
from tilelang.target.cpu.lower import Scope
from tilelang.target.cpu.panels import are_rows_dense, pitch
from tilelang.target.cpu.place import buffer_bytes
from tilelang.target.cpu.tiles import Tile, element
from tilelang.tileop import record_of
from tilelang.tileop.copy import Copy
from tilelang.tileop.gemm import Gemm

_STEPS = 64
"""Steps of a product that fetches: it has a fetch for so many multiply-adds at most."""

_FETCH = "tl_fetch_rows"
helpers.register(
    _FETCH,
    # Loops that stay loops: the addresses of all lines took an eighth of the compile time of a product.
    f"""
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define i32 @{_FETCH}(ptr %first, i64 %pitch, i64 %rows, i64 %bytes) alwaysinline {{
entry:
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r.next, %end ]
  %offset = mul i64 %r, %pitch
  %start = getelementptr i8, ptr %first, i64 %offset
  br label %line
line:
  %at = phi i64 [ 0, %row ], [ %at.next, %line ]
  %place = getelementptr i8, ptr %start, i64 %at
  ; for reading (0; a line that no other core has may be written, too), to be kept in all caches but the first (2), data (1)
  call void @llvm.prefetch.p0(ptr %place, i32 0, i32 2, i32 1)
  %at.next = add i64 %at, 64
  %in = icmp ult i64 %at.next, %bytes
  br i1 %in, label %line, label %end, !llvm.loop !100
end:
  %r.next = add i64 %r, 1
  %more = icmp ult i64 %r.next, %rows
  br i1 %more, label %row, label %done, !llvm.loop !101
done:
  ret i32 0
}}
!100 = distinct !{{!100, !102}}
!101 = distinct !{{!101, !102}}
!102 = !{{!"llvm.loop.unroll.disable"}}""",
    f"static inline int32_t {_FETCH}(const void* first, int64_t pitch, int64_t rows, int64_t bytes) {{\n"
    "  for (int64_t r = 0; r < rows; ++r)\n"
    "    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch((const char*)first + r * pitch + at, 0, 2);\n"
    "  return 0;\n}",
)

_DISJOINT = "tl_are_disjoint"
helpers.register(
    _DISJOINT,
    f"""
define i32 @{_DISJOINT}(ptr %a, i64 %a_size, ptr %b, i64 %b_size) alwaysinline {{
  %a_first = ptrtoint ptr %a to i64
  %b_first = ptrtoint ptr %b to i64
  %a_end = add i64 %a_first, %a_size
  %b_end = add i64 %b_first, %b_size
  %before = icmp ule i64 %a_end, %b_first
  %behind = icmp ule i64 %b_end, %a_first
  %disjoint = or i1 %before, %behind
  %r = zext i1 %disjoint to i32
  ret i32 %r
}}""",
    f"static inline int32_t {_DISJOINT}(const void* a, int64_t a_size, const void* b, int64_t b_size) {{\n"
    "  return (uintptr_t)a + a_size <= (uintptr_t)b || (uintptr_t)b + b_size <= (uintptr_t)a;\n}",
)


@dataclass(frozen=True)
class Result:
    """Where an accumulator is copied to.

    Attributes:
        region: the part of the tensor.
        last: whether a product is the last one before: a bool, or an expression.
        disjoint: whether that product may store there: a bool, or an expression.
    """

    region: Region
    last: Any
    disjoint: Any = False

    @property
    def stored(self) -> Any:
        """Whether a product stores to the region: a bool, or an expression."""
        if self.last is False or self.disjoint is False:
            return False
        unproved = conjunction((_unproved(self.last), _unproved(self.disjoint)))
        return True if unproved is None else unproved

    def fetches(self, steps: Any) -> Callable[[Any, Any, Tile], Any] | None:
        """``(row, column, tile)`` -> the statement by which a register tile of C fetches its place; None for short products."""
        if not isinstance(steps, int) or steps < _STEPS or self.last is False:
            return None
        size = canonical(self.region.dtype).bytes

        def fetch(row: Any, column: Any, tile: Tile) -> Any:
            first = address_of(element(self.region, row, column))
            counts = (pitch(self.region) * size, tile.rows, tile.columns * size)
            call = extern_call(_FETCH, [first, *(ir.Cast("int64", constant(count)) for count in counts)], "int32", pure=False)
            return when(self.last, ir.Evaluate(call))

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
            if last is not None and _is_plain(region, blocks) and hash(region.buffer) not in streamed:
                # Its allocation, one product that starts from zeros, and the copy right after that or its loop.
                alone = uses[key] == 3 and adding[0] is statements[position - 1]
                found[key] = Result(region, last, _disjoint(adding[0], copy, scope) if alone else False)
    return found


def _disjoint(stmt: Any, copy: Copy, scope: Scope) -> Any:
    """Whether the last product of ``stmt`` may store where the accumulator is copied to: a bool, or an expression."""
    src, dst, tensors = copy.src, copy.dst, _tensors(stmt)
    inner = flattened(stmt.body) if isinstance(stmt, ir.For) else [stmt]
    plain = not any(len(tensor.strides) for tensor in (dst.buffer, *tensors))
    inside = box_condition(dst, scope) is None
    reads = not any(tensor.same_as(dst.buffer) for tensor in tensors) and not any(map(writes_globally, inner))
    # A loop that is left early has no last turn.
    if not (plain and inside and reads and _clears(stmt, inner, hash(src.buffer))) or any_statement(stmt, leaves):
        return False
    conditions = [_are_disjoint(dst.buffer, tensor) for tensor in tensors]
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


def _are_disjoint(a: Any, b: Any) -> Any:
    """The condition that two tensors share no memory."""
    operands = [part for tensor in (a, b) for part in (_start(tensor), constant(buffer_bytes(tensor), "int64"))]
    return extern_call(_DISJOINT, operands, "int32") != 0


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


def _is_plain(region: Region, blocks: Sequence[Any]) -> bool:
    """Whether the rows of a region lie along its tensor's, and the blocks alone say where they begin."""
    if not are_rows_dense(region):
        return False
    nodes = [node for low in region.mins for node in walk_expr(constant(low))]
    variables = [node for node in nodes if isinstance(node, ir.Var)]
    plain = not any(isinstance(node, (ir.TensorLoad, ir.Call)) for node in nodes)
    return plain and all(any(var.same_as(block) for block in blocks) for var in variables)
