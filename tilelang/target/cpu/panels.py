"""How a product reads B: from packed panels as wide as the register tile, or in place.

A packed panel is read in order, once for each row of tiles. Packing does not pay if there is only one row of tiles, if B is so
small that it stays in the first-level cache anyway, or if its memory already has the order of a panel. B is then read in place,
provided that its elements need no conversion but widening.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.memory import is_global
from tilelang.ir.region import Region
from tilelang.target.cpu import helpers
from tilelang.target.cpu.dot import Way
from tilelang.target.cpu.emit import address_of, extern_call, local, nest, seq, span, splat
from tilelang.target.cpu.tiles import Columns, Tile, element, whole
from tilelang.target.cpu.transposed import SIDE, transpose
from tilelang.tileop.gemm import Gemm

_NEAR = 24 * 1024
"""Bytes from the first to the last element of a B that several rows of tiles read in place: less than a first-level cache has."""

_DISTANCE = 8 * 1024
"""Bytes between what is read and what is fetched."""

_FETCH = "tl_fetch"
helpers.register(
    _FETCH,
    "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
    # Operands of LLVM's prefetch: for reading (0), to be kept in all caches (3), data (1).
    f"define i32 @{_FETCH}(ptr %p) alwaysinline {{\n  call void @llvm.prefetch.p0(ptr %p, i32 0, i32 3, i32 1)\n  ret i32 0\n}}",
    f"static inline int32_t {_FETCH}(const void* place) {{ __builtin_prefetch(place); return 0; }}",
)


@dataclass(frozen=True)
class Before:
    """The statements before a product, its allocations and declarations first."""

    allocations: list[Any]
    statements: list[Any]


def columns_of(record: Gemm, way: Way, tile: Tile, steps: Any, before: Before) -> Columns:
    """How the micro-kernel reads B: in place where packing does not pay, else from packed panels.

    Args:
        record: the product.
        way: how products are formed.
        tile: the register tile.
        steps: extent of K in steps of ``way``.
        before: takes the statements that run before the product.
    """
    if _needs_no_packing(record, way, tile):
        return _in_place(record, way, tile, before)
    return _packed(record, way, tile, steps, before)


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


def _needs_no_packing(record: Gemm, way: Way, tile: Tile) -> bool:
    """Whether rows of B can be loaded as vectors where they are, and are used too seldom, or are too near, to be copied first."""
    b = record.b
    if record.transpose_b or way.depth > 1 or not are_rows_dense(b) or b.dtype not in (way.operand, "bfloat16"):
        return False
    # Read in place: where there is one row of tiles, so that packing would read B as often as the product does; or where B costs
    # no more in place than packed.
    kept = _is_near(b) or _is_panel(b, tile)
    return _is_read_once(record, tile) and (tile.rows <= 4 or _is_near(b)) or kept and b.dtype == way.operand


def _is_read_once(record: Gemm, tile: Tile) -> bool:
    """Whether C has one row of tiles."""
    m = as_int(record.m)
    return isinstance(m, int) and m <= tile.rows


def _is_near(b: Region) -> bool:
    """Whether the first-level cache holds all of B and what lies between its rows."""
    row, rows = pitch(b), as_int(b.matrix_extents[0])
    return isinstance(row, int) and isinstance(rows, int) and row * rows * canonical(str(b.buffer.dtype)).bytes <= _NEAR


def _is_panel(b: Region, tile: Tile) -> bool:
    """Whether the rows of the tensor are as wide as a panel, so that a packed one would be the same."""
    return pitch(b) == tile.columns


def _in_place(record: Gemm, way: Way, tile: Tile, before: Before) -> Columns:
    b = record.b
    if b.dtype == way.operand:
        read = lambda p, k, column, lanes: element(b, k, p * tile.columns + column, lanes)  # noqa: E731
        return Columns(read, _fetches(b, tile) if _is_read_once(record, tile) else None)
    bits = ir.decl_buffer(list(b.buffer.shape), "uint16", name=f"{b.buffer.name}_bits", layout=None, data_alignment=2)
    before.allocations.append(ir.DeclBuffer(bits, data=ir.buffer_data(b.buffer)))
    view = Region(bits, b.mins, b.extents)

    def widened(p: Any, k: Any, column: Any, lanes: int) -> Any:
        words = ir.Cast(_vector("uint32", lanes), element(view, k, p * tile.columns + column, lanes))
        # bfloat16 is the upper half of a float32.
        shifted = words << splat(ir.IntImm("uint32", 16), lanes)
        return ir.Call(ir.Op.get("tirx.reinterpret"), [shifted], ret_ty=_vector("float32", lanes))

    return Columns(widened, _fetches(view, tile))


def _vector(dtype: str, lanes: int) -> str:
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def _fetches(b: Region, tile: Tile) -> Callable[[Any, Any], Any] | None:
    """Fetches the same columns of a later row, where B is a tensor too large for the first-level cache."""
    if not is_global(b) or _is_near(b):
        return None
    size = canonical(str(b.buffer.dtype)).bytes
    # A row of the panel is read in each step, so this many steps lie between the fetch of a line and its use.
    rows = max(1, _DISTANCE // (tile.columns * size))

    def ahead(p: Any, k: Any) -> Any:
        return seq([fetch(element(b, k + rows, p * tile.columns + column)) for column in range(0, tile.columns, 64 // size)])

    return ahead


def fetch(load: Any) -> Any:
    """The statement that prefetches a cache line."""
    return ir.Evaluate(extern_call(_FETCH, [address_of(load)], "int32", pure=False))


# Packed


def _packed(record: Gemm, way: Way, tile: Tile, steps: Any, before: Before) -> Columns:
    """B as ``[panel, step, column]``; columns past N are left as they are, the micro-kernel does not read them."""
    b, transposed = record.b, record.transpose_b
    columns, depth = bound(b, 0 if transposed else 1), bound(b, 1 if transposed else 0)
    width = tile.columns
    panel = local("b_panel", (_ceil(columns, width), _ceil(depth, way.depth), width), way.panel)
    before.allocations.append(ir.AllocBuffer(panel))

    def store(p: Any, step: Any, column: Any) -> Any:
        n = p * width + column

        def one(d: int) -> Any:
            return element(b, n, step * way.depth + d) if transposed else element(b, step * way.depth + d, n)

        return ir.BufferStore(panel, way.pack_b(one), [p, step, column])

    def block(p: Any, v: Any, k: Any) -> Any:
        source = element(b, p * width + v * SIDE, k * (SIDE * way.depth))
        words = pitch(b) // way.depth
        return transpose(ir.BufferLoad(panel, [p, k * SIDE, v * SIDE]), width, source, words, 0x80808080 if way.bias else 0)

    full = whole(record.n, width)
    done = steps // SIDE * SIDE if transposed and _is_of_words(b, way, tile, steps) else 0
    if done:
        before.statements.append(nest([full, width // SIDE, done // SIDE], lambda at: block(*at), "pvk"))
    if transposed:
        before.statements.append(nest([full, steps - done, width], lambda at: store(at[0], done + at[1], at[2]), "pkj"))
    else:
        # Row by row: the rest of a row lies beside its first panel, the next row pages away.
        before.statements.append(nest([steps, full, width], lambda at: store(at[1], at[0], at[2]), "kpj"))
    # Not zero, or not known: in the second case the loop may have no iterations.
    rest = as_int(record.n - full * width)
    if rest != 0:
        before.statements.append(nest([steps, rest], lambda at: store(full, at[0], at[1]), "kj"))
    read = lambda p, k, column, lanes: ir.BufferLoad(panel, [p, k, span(column, lanes)])  # noqa: E731
    return Columns(read)


def _is_of_words(b: Region, way: Way, tile: Tile, steps: Any) -> bool:
    """Whether the rows of a transposed B are panel elements of 32 bits side by side, and panels whole blocks of them."""
    width = pitch(b)
    stored_as_is = b.dtype == (way.operand_b or way.operand) and are_rows_dense(b)
    words = canonical(way.panel).bits == 32 and isinstance(width, int) and width % way.depth == 0
    return stored_as_is and words and isinstance(steps, int) and tile.lanes == SIDE


def _ceil(value: Any, divisor: int) -> Any:
    return -(-value // divisor) if isinstance(value, int) else ir.FloorDiv(value + (divisor - 1), constant(divisor))
