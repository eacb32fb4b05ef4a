"""Where the results of products go, so that the last product of an accumulator fetches that part of the tensor.

An accumulator is copied to its tensor when the last product is added. By then a store of each line waits until the line has come
from memory, and nothing else is left to do meanwhile. So each register tile of the last product fetches the lines that it will
be copied to: into the second-level cache, as the first one is full of the operands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.memory import is_global
from tilelang.ir.region import Region
from tilelang.ir.visit import walk, walk_expr
from tilelang.target.cpu import helpers
from tilelang.target.cpu.elide import is_call, record_of
from tilelang.target.cpu.emit import address_of, extern_call, seq, when
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


@dataclass(frozen=True)
class Result:
    """Where an accumulator is copied to.

    Attributes:
        region: the part of the tensor.
        last: whether a product is the last one before: a bool, or an expression.
    """

    region: Region
    last: Any

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


def results_of(body: Any, blocks: Sequence[Any], streamed: Collection[int]) -> dict[int, Result]:
    """Accumulator (by hash) -> where it goes.

    Args:
        body: of a kernel.
        blocks: the variables that number its blocks.
        streamed: the tensors (by hash) that are stored past the caches.
    """
    found: dict[int, Result] = {}
    products = _products(body)
    for stmt in walk(body) if products else ():
        statements = list(stmt.seq) if isinstance(stmt, ir.SeqStmt) else []
        for position, copy in _copies(statements):
            key, region = hash(copy.src.buffer), copy.dst
            # All products of the accumulator are in one statement: elsewhere its loop's variable would mean nothing.
            adding = [before for before in statements[:position] if _products(before)[key]] if products[key] else []
            last = _last_turn(adding[0]) if len(adding) == 1 and _products(adding[0])[key] == products[key] else None
            if last is not None and hash(region.buffer) not in streamed and _begins_by(region, blocks):
                found[key] = Result(region, last)
    return found


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
    turns = (as_int(stmt.min), as_int(stmt.extent)) if isinstance(stmt, ir.For) and stmt.step is None else (None,)
    if not all(isinstance(turn, int) for turn in turns):
        return None
    return ir.EQ(stmt.loop_var, constant(sum(turns) - 1, str(stmt.loop_var.ty)))


def _begins_by(region: Region, blocks: Sequence[Any]) -> bool:
    """Whether the blocks alone say where a region begins."""
    nodes = [node for low in region.mins for node in walk_expr(constant(low))]
    variables = [node for node in nodes if isinstance(node, ir.Var)]
    plain = not any(isinstance(node, (ir.TensorLoad, ir.Call)) for node in nodes)
    return plain and all(any(var.same_as(block) for block in blocks) for var in variables)
