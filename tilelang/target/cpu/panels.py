"""How a product reads B: from packed panels as wide as the register tile, or in place.

A packed panel is read in order, once for each row of tiles. Packing does not pay if there is only one row of tiles, if B is so
small that it stays in the first-level cache anyway, or if its memory already has the order of a panel. B is then read in place,
provided that its elements need no conversion but widening. Under the same condition the first row of tiles packs the panels for
the others: it reads B in place, and stores what it has loaded, while its multiply-adds wait for nothing. A panel that is packed
when its turn comes lies where the one before it lay, in the first-level cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.memory import is_global
from tilelang.ir.region import Region
from tilelang.target.cpu import helpers
from tilelang.target.cpu.dot import DotProduct
from tilelang.target.cpu.emit import address_of, extern_call, local, nest, seq, span, splat
from tilelang.target.cpu.kept import Kept, Place
from tilelang.target.cpu.tiles import Columns, Tile, element, whole
from tilelang.target.cpu.transposed import SIDE, transpose
from tilelang.tileop.gemm import Gemm

_NEAR = 24 * 1024
"""Bytes from the first to the last element of a B that several rows of tiles read in place: less than a first-level cache has."""

_AHEAD = 32
"""Rows between what is read and what is fetched, into the second-level cache: in the first one, lines of so many rows would evict
each other, as rows of large tensors lie a power of two apart."""

_FETCHES = {1: "tl_fetch", 2: "tl_fetch_far"}
"""Level of a cache -> the function that fetches a line into it."""

for _level, _name in _FETCHES.items():
    # Operands of LLVM's prefetch: for reading (0), to be kept in all caches (3) or all but the first (2), data (1).
    _locality = 4 - _level
    helpers.register(
        _name,
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
        f"define i32 @{_name}(ptr %p) alwaysinline {{\n"
        f"  call void @llvm.prefetch.p0(ptr %p, i32 0, i32 {_locality}, i32 1)\n  ret i32 0\n}}",
        f"static inline int32_t {_name}(const void* place) {{ __builtin_prefetch(place, 0, {_locality}); return 0; }}",
    )


@dataclass(frozen=True)
class Before:
    """The statements before a product, its allocations and declarations first."""

    allocations: list[Any]
    statements: list[Any]


def columns_of(record: Gemm, dot: DotProduct, tile: Tile, steps: Any, before: Before, kept: Kept | None = None) -> Columns:
    """How the micro-kernel reads B: in place where packing does not pay, else from packed panels.

    Args:
        record: the product.
        dot: how products are formed.
        tile: the register tile.
        steps: extent of K in steps of ``dot``.
        before: takes the statements that run before the product.
        kept: the panels that blocks leave for the next ones.
    """
    if _needs_no_packing(record, dot, tile):
        columns = _in_place(record, dot, tile, before)
        # The later rows of tiles find B in the caches.
        return columns if _is_read_once(record, tile) else replace(columns, ahead=None)
    static = all(isinstance(size, int) for size in (record.m, record.n, steps))
    # A register tile that packs is one more to compile, which the few blocks at an edge do not repay.
    if _is_vectors(record.b, record.transpose_b, dot) and static and not (kept is not None and kept.at_edge):
        return _packed_by_the_first(record, dot, tile, before, kept)
    if record.transpose_b:
        return _packed_one_by_one(record, dot, tile, steps, before, kept)
    return _packed(record, dot, tile, steps, before, kept)


def summed(record: Gemm) -> list[tuple[Region, int]]:
    """A and B, and the axis of each that counts K."""
    (a_row, a_column), (b_row, b_column) = record.a.matrix_axes, record.b.matrix_axes
    return [(record.a, a_row if record.transpose_a else a_column), (record.b, b_column if record.transpose_b else b_row)]


def bound(region: Region, axis: int) -> Any:
    """An extent for scratch memory: the region's, or its buffer's where the region's depends on the call.

    Args:
        region: a matrix.
        axis: 0 for its rows, 1 for its columns.
    """
    place = region.matrix_axes[axis]
    extent = as_int(region.extents[place])
    return extent if isinstance(extent, int) else as_int(region.buffer.shape[place])


def are_rows_dense(region: Region) -> bool:
    """Whether the elements of a row of a matrix are neighbours."""
    return region.has_rows and not len(region.buffer.strides)


def pitch(region: Region) -> Any:
    """Elements from one row of a matrix to the next."""
    sizes = [as_int(size) for size in region.buffer.shape[region.matrix_axes[0] + 1 :]]
    return math.prod(sizes[1:], start=sizes[0])


# In place


def _needs_no_packing(record: Gemm, dot: DotProduct, tile: Tile) -> bool:
    """Whether rows of B can be loaded as vectors where they are, and are used too seldom, or are too near, to be copied first."""
    b = record.b
    if not _is_vectors(b, record.transpose_b, dot):
        return False
    # Read in place: where there is one row of tiles, so that packing would read B as often as the product does; or where B costs
    # no more in place than packed.
    return _is_read_once(record, tile) or (is_near(b) or _is_panel(b, tile)) and b.dtype == dot.operand


def _is_vectors(b: Region, transposed: bool, dot: DotProduct) -> bool:
    """Whether rows of B can be loaded as vectors where they are, and need no conversion but widening."""
    return not transposed and dot.depth == 1 and are_rows_dense(b) and b.dtype in (dot.operand, _widened(dot))


def _widened(dot: DotProduct) -> str:
    """The type whose elements become the instruction's operands by a shift; the operand's own where there is none."""
    return "bfloat16" if dot.operand == "float32" else dot.operand


def _is_read_once(record: Gemm, tile: Tile) -> bool:
    """Whether C has one row of tiles."""
    m = as_int(record.m)
    return isinstance(m, int) and m <= tile.rows


def is_near(b: Region) -> bool:
    """Whether the first-level cache holds all of B and what lies between its rows."""
    row, rows = pitch(b), as_int(b.matrix_extents[0])
    return isinstance(row, int) and isinstance(rows, int) and row * rows * canonical(str(b.buffer.dtype)).bytes <= _NEAR


def _is_panel(b: Region, tile: Tile) -> bool:
    """Whether the rows of the tensor are as wide as a panel, so that a packed one would be the same."""
    return pitch(b) == tile.columns


def _in_place(record: Gemm, dot: DotProduct, tile: Tile, before: Before) -> Columns:
    b = record.b
    if b.dtype == dot.operand:
        read = lambda p, k, column, lanes: element(b, k, p * tile.columns + column, lanes)  # noqa: E731
        return Columns(read, _fetches(b, tile))
    view, widened = widening(b, before)
    return Columns(lambda p, k, column, lanes: widened(k, p * tile.columns + column, lanes), _fetches(view, tile))


def widening(b: Region, before: Before) -> tuple[Region, Callable[[Any, Any, int], Any]]:
    """A matrix of bfloat16 as bits, and ``(row, column, lanes)`` -> its elements as float32."""
    bits = ir.decl_buffer(list(b.buffer.shape), "uint16", name=f"{b.buffer.name}_bits", layout=None, data_alignment=2)
    before.allocations.append(ir.DeclBuffer(bits, data=ir.buffer_data(b.buffer)))
    view = Region(bits, b.mins, b.extents)

    def widened(row: Any, column: Any, lanes: int) -> Any:
        words = ir.Cast(_vector("uint32", lanes), element(view, row, column, lanes))
        # bfloat16 is the upper half of a float32.
        shifted = words << splat(ir.IntImm("uint32", 16), lanes)
        return ir.Call(ir.Op.get("tirx.reinterpret"), [shifted], ret_ty=_vector("float32", lanes))

    return view, widened


def _vector(dtype: str, lanes: int) -> str:
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def _fetches(b: Region, tile: Tile) -> Callable[[Any, Any], Any] | None:
    """Fetches the same columns of a later row, where B is a tensor too large for the first-level cache."""
    if not is_global(b) or is_near(b):
        return None
    line = 64 // canonical(str(b.buffer.dtype)).bytes

    def ahead(p: Any, k: Any) -> Any:
        return seq([fetch(element(b, k + _AHEAD, p * tile.columns + column), 2) for column in range(0, tile.columns, line)])

    return ahead


def fetch(load: Any, level: int = 1) -> Any:
    """The statement that prefetches a cache line into the first- or second-level cache."""
    return ir.Evaluate(extern_call(_FETCHES[level], [address_of(load)], "int32", pure=False))


# Packed


def _panels(record: Gemm, dot: DotProduct, tile: Tile, count: Any, before: Before) -> Any:
    """The buffer of ``count`` panels of B as ``[panel, step, column]``; of columns past N the micro-kernel reads nothing."""
    panel = local("b_panel", _shape(record, dot, tile, count), dot.panel)
    before.allocations.append(ir.AllocBuffer(panel))
    return panel


def _shape(record: Gemm, dot: DotProduct, tile: Tile, count: Any) -> tuple[Any, ...]:
    depth = bound(record.b, 1 if record.transpose_b else 0)
    return count, _ceil(depth, dot.unit) * (dot.unit // dot.depth), tile.columns


def _all_panels(record: Gemm, dot: DotProduct, tile: Tile, kept: Kept | None) -> Place | None:
    """Where all panels of B are kept for the next blocks; None where they are not."""
    count = _ceil(bound(record.b, 0 if record.transpose_b else 1), tile.columns)
    static = all(isinstance(size, int) for size in (record.m, record.n, record.k))
    return kept.place(record.b, _shape(record, dot, tile, count), dot.panel) if kept is not None and static else None


def _packed_by_the_first(record: Gemm, dot: DotProduct, tile: Tile, before: Before, kept: Kept | None) -> Columns:
    """B in place for the first row of tiles, which packs it for the others."""
    every = _all_panels(record, dot, tile, kept)
    held = every or Place(_panels(record, dot, tile, 1, before))
    panel = held.buffer
    place = lambda p, k, column, lanes: ir.BufferLoad(panel, [held.first + p if every else 0, k, span(column, lanes)])  # noqa: E731
    in_place = _in_place(record, dot, tile, before)

    def keep(p: Any, k: Any, column: Any, value: Any, lanes: int) -> Any:
        return ir.BufferStore(panel, value, place(p, k, column, lanes).indices)

    return Columns(place, first=replace(in_place, keep=keep), fresh=held.fresh)


def _packed_one_by_one(record: Gemm, dot: DotProduct, tile: Tile, steps: Any, before: Before, kept: Kept | None) -> Columns:
    """Panels of a transposed B, each packed when its turn comes."""
    b, width = record.b, tile.columns
    every = _all_panels(record, dot, tile, kept)
    place = every or Place(_panels(record, dot, tile, 1, before))
    panel = place.buffer

    def number(p: Any) -> Any:
        """Of a panel in the buffer; without others, it lies where the one before it lay."""
        return place.first + p if every else 0

    def store(p: Any, step: Any, column: Any) -> Any:
        one = lambda d: element(b, p * width + column, step * dot.depth + d)  # noqa: E731
        return ir.BufferStore(panel, dot.pack_b(one), [number(p), step, column])

    # Words of a transposed B: elements in each, and rows of the panel that it becomes.
    elements, rows = (2, 2) if dot.depth == 1 and b.dtype == "bfloat16" else (dot.depth, 1)
    side = SIDE * rows

    def block(p: Any, v: Any, k: Any) -> Any:
        source = element(b, p * width + v * SIDE, k * (SIDE * elements))
        words = pitch(b) // elements
        target = ir.BufferLoad(panel, [number(p), k * side, v * SIDE])
        return transpose(target, width, source, words, 0x80808080 if dot.bias else 0, widened=rows == 2)

    in_blocks = steps // side * side if _is_of_words(b, dot, tile, steps, elements) else 0

    def pack(p: Any, columns: Any) -> Any:
        done = in_blocks if isinstance(columns, int) and columns == width else 0
        blocks = nest([width // SIDE, done // side], lambda at: block(p, *at), "vk") if done else None
        return place.packing(seq(blocks, nest([steps - done, columns], lambda at: store(p, done + at[0], at[1]), "kj")))

    return Columns(lambda p, k, column, lanes: ir.BufferLoad(panel, [number(p), k, span(column, lanes)]), pack=pack)


def _packed(record: Gemm, dot: DotProduct, tile: Tile, steps: Any, before: Before, kept: Kept | None) -> Columns:
    """All panels, packed before the product."""
    b, width = record.b, tile.columns
    place = _all_panels(record, dot, tile, kept) or Place(_panels(record, dot, tile, _ceil(bound(b, 1), width), before))

    def store(p: Any, step: Any, column: Any) -> Any:
        one = lambda d: element(b, step * dot.depth + d, p * width + column)  # noqa: E731
        return ir.BufferStore(place.buffer, dot.pack_b(one), [place.first + p, step, column])

    full = whole(record.n, width)
    # Row by row: the rest of a row lies beside its first panel, the next row pages away.
    packing = [nest([steps, full, width], lambda at: store(at[1], at[0], at[2]), "kpj")]
    # Not zero, or not known: in the second case the loop may have no iterations.
    rest = as_int(record.n - full * width)
    if rest != 0:
        packing.append(nest([steps, rest], lambda at: store(full, at[0], at[1]), "kj"))
    before.statements.append(place.packing(seq(packing)))
    return Columns(lambda p, k, column, lanes: ir.BufferLoad(place.buffer, [place.first + p, k, span(column, lanes)]))


def _is_of_words(b: Region, dot: DotProduct, tile: Tile, steps: Any, elements: int) -> bool:
    """Whether the rows of a transposed B are words of 32 bits, of so many elements, and panels whole blocks of them."""
    width = pitch(b)
    stored_as_is = b.dtype in (dot.operand_b or dot.operand, _widened(dot)) and are_rows_dense(b)
    words = canonical(dot.panel).bits == 32 and isinstance(width, int) and width % elements == 0
    return stored_as_is and words and isinstance(steps, int) and tile.lanes == SIDE


def _ceil(value: Any, divisor: int) -> Any:
    return -(-value // divisor) if isinstance(value, int) else ir.FloorDiv(value + (divisor - 1), constant(divisor))
