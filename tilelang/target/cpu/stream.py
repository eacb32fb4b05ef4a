"""Non-temporal stores to tensors too large for the caches, and prefetches of the rows of the next block.

An ordinary store to a cache line that is in no cache first reads the line, and evicts another one. A non-temporal store of a
whole line only writes it. So a piece of the loop is computed into an array of a few lines, which the compiler keeps in registers,
and stored from there. This is legal if nothing reads the tensor, and possible for rows that begin at a cache line, which is
checked at run time. While a loop only stores, or computes exponentials, the memory has time for reads: then the rows that the
next block will copy are prefetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm_ffi import structural_equal

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.memory import is_global
from tilelang.ir.region import Region
from tilelang.ir.visit import statement_exprs, variables, walk, walk_expr
from tilelang.target.cpu import helpers
from tilelang.target.cpu.elementwise import Elementwise, elementwise, runs_along
from tilelang.target.cpu.emit import address_of, alloc, extern_call, local, loop, nest, seq, span
from tilelang.target.cpu.panels import fetch
from tilelang.target.cpu.place import buffer_bytes
from tilelang.target.cpu.wide_loops import is_exponential
from tilelang.tileop import record_of
from tilelang.tileop.copy import Copy
from tilelang.transform.in_place import Order, sources_of
from tilelang.transform.substitute import substitute

LARGE = 16 * 1024 * 1024
"""Bytes of a tensor that no core's share of the caches holds until something reads it."""

_LINE = 64
_LINES = 4
"""Lines of a piece: what the loop is unrolled to."""

_ALIGNED, _FENCE = "tl_begins_a_line", "tl_stream_fence"
helpers.register(
    _ALIGNED,
    f"define i32 @{_ALIGNED}(ptr %p) alwaysinline {{\n  %a = ptrtoint ptr %p to i64\n  %m = and i64 %a, {_LINE - 1}\n"
    "  %z = icmp eq i64 %m, 0\n  %r = zext i1 %z to i32\n  ret i32 %r\n}",
)
helpers.register(
    _FENCE,
    f"declare void @llvm.x86.sse.sfence()\ndefine i32 @{_FENCE}() alwaysinline {{\n"
    "  call void @llvm.x86.sse.sfence()\n  ret i32 0\n}",
)
for _lanes in (8, 16):
    helpers.register(
        f"tl_stream_{_lanes}",
        f"define i32 @tl_stream_{_lanes}(ptr %p, <{_lanes} x float> %x) alwaysinline {{\n"
        f"  store <{_lanes} x float> %x, ptr %p, align {4 * _lanes}, !nontemporal !{{i32 1}}\n  ret i32 0\n}}",
    )


class Streams:
    """What a program streams.

    Attributes:
        enabled: whether the machine has what it takes.
        tensors: the large tensors (by hash) that nothing reads.
        lanes: elements of a register.
        sources: the regions of large tensors that each block of the kernel copies.
        block: the variable that numbers neighbouring blocks.
        used: whether anything has been streamed.
        fetched: whether the rows of the next block are fetched already.
    """

    def __init__(self, func: Any, context: Any):
        streams = not context.emits_c and context.vectors.bits >= 256 and context.request.target.triple.startswith("x86_64")
        self.enabled = streams
        self.tensors = _written_only(func) if streams else frozenset()
        self.lanes = context.vectors.lanes(32)
        self.sources: list[Region] = []
        self.block: Any = None
        self.used = self.fetched = False

    def begin(self, blocks: Sequence[Any], body: Any) -> None:
        """A kernel, and the variables that number its blocks: neighbouring ones by the first."""

        def is_known(source: Region) -> bool:
            """Whether the blocks alone say where a region begins: nothing is read for that, and no loop counts there."""
            named = [var for low in source.mins for var in variables(constant(low))]
            return all(any(var.same_as(block) for block in blocks) for var in named)

        records = [record_of(stmt) for stmt in walk(body)] if self.enabled and blocks else []
        copied = [record.src for record in records if isinstance(record, Copy)]
        large = [source for source in copied if is_global(source) and _is_large(source.buffer)]
        self.sources = [source for source in large if is_known(source)]
        self.block, self.used, self.fetched = blocks[0] if blocks else None, False, False

    def lowered(self, stmt: Any, lowering: Any) -> Any | None:
        """The loop nest or copy, streaming what it stores; None if it does not store whole lines of such a tensor alone."""
        made = elementwise(stmt, lowering.scope)
        if made is None or len(made.stores) != 1 or hash(made.stores[0].buffer) not in self.tensors:
            return None
        step = self.lanes * max(1, _LINES * _LINE // (4 * self.lanes))
        if not _runs_along_rows(made, lowering) or made.extents[-1] < step:
            return None
        self.used = True
        return nest(made.extents[:-1], lambda outer: self._row(made, outer, step, lowering))

    def _row(self, made: Elementwise, outer: Sequence[Any], step: int, lowering: Any) -> Any:
        whole, rest = divmod(made.extents[-1], step)
        lowering.scope.bind_ranges(outer, made.extents)

        def piece(s: Any) -> Any:
            lowering.scope.bind_ranges([s], [whole])
            return self._piece(made, outer, s * step, step, lowering)

        end = lowering.stmt(made.piece(outer, constant(whole * step), rest)) if rest else None
        # The row's address is known at run time only. An aligned row is streamed in whole lines, any other one is stored as
        # usual.
        begins = extern_call(_ALIGNED, [address_of(made.place(outer, 0))], "int32")
        plain = lowering.stmt(made.piece(outer, constant(0), made.extents[-1]))
        return ir.IfThenElse(begins != 0, seq(loop("s", whole, piece), end), plain)

    def _piece(self, made: Elementwise, outer: Sequence[Any], first: Any, step: int, lowering: Any) -> Any:
        values = local("streamed", (step,), "float32")
        lanes = self.lanes

        def stream(at: int) -> Any:
            operands = [address_of(made.place(outer, first + at)), ir.BufferLoad(values, [span(at, lanes)])]
            return ir.Evaluate(extern_call(f"tl_stream_{lanes}", operands, "int32", pure=False))

        return seq(
            alloc(values),
            [fetch(load) for load in self._next_loads(made, first, step) if not self.fetched],
            lowering.stmt(made.piece(outer, constant(first), step, into=values)),
            [stream(at) for at in range(0, step, lanes)],
        )

    def fetches(self, loops: Sequence[Elementwise], first: Any, count: int) -> list[Any]:
        """The statements that fetch a piece of the next block's rows, where loops over the same piece compute exponentials.

        Args:
            loops: the loops.
            first, count: the piece.
        """
        values = (store.value for made in loops for store in made.stores)
        if not self.sources or not any(is_exponential(node) for value in values for node in walk_expr(value)):
            return []
        loads = self._next_loads(loops[-1], first, count)
        self.fetched = self.fetched or bool(loads)
        return [fetch(load) for load in loads]

    def _next_loads(self, made: Elementwise, first: Any, step: int) -> list[Any]:
        """One load for each line that lies as far in the rows of the next block as a piece in its own."""
        loads = []
        for source in self.sources:
            # Neighbouring blocks run one after the other on a thread: what the next one copies is fetched while this one
            # computes.
            *mins, low = (substitute(constant(low), {self.block: self.block + 1}) for low in source.mins)
            moves = any(not structural_equal(new, constant(old)) for new, old in zip(mins, source.mins))
            row = as_int(source.extents[-1]) == made.extents[-1] and all(as_int(extent) == 1 for extent in source.extents[:-1])
            if row and moves and all(extent == 1 for extent in made.extents[:-1]):
                size = canonical(source.dtype).bytes
                loads += [ir.BufferLoad(source.buffer, [*mins, low + (first + at)]) for at in range(0, step, _LINE // size)]
        return loads

    def fence(self) -> Any:
        """The statement after a kernel's blocks, before which all that was streamed is in memory; None if nothing was."""
        return ir.Evaluate(extern_call(_FENCE, [], "int32", pure=False)) if self.used else None


def _written_only(func: Any) -> frozenset[int]:
    """The large float32 tensors, or views of them (by hash), that a function has as rows of known length and never reads."""
    read: set[Any] = set()
    sources = {view: source for view, source in sources_of(func.body).items() if ir.is_buffer_var(source)}
    for stmt in walk(func.body):
        record = record_of(stmt)
        if record is not None:
            read |= {region.buffer for region, access in record.regions() if access != "w"}
            continue
        # A store and a view name their tensor, too, which is no read of it; everything else that names one may read it.
        if isinstance(stmt, ir.DeclBuffer):
            exprs = [] if stmt.buffer in sources else [stmt.data]
        else:
            exprs = [*stmt.indices, stmt.value] if isinstance(stmt, ir.BufferStore) else statement_exprs(stmt)
        read |= {node for expr in exprs for node in walk_expr(expr) if isinstance(node, ir.Var)}
    root = Order(sources).root
    read = {root(buffer) for buffer in read}
    tensors = filter(ir.is_buffer_var, (*func.params, *sources))
    large = (each for each in tensors if str(each.dtype) == "float32" and is_global(each) and _is_large(each))
    return frozenset(hash(each) for each in large if root(each) not in read)


def _is_large(tensor: Any) -> bool:
    size = buffer_bytes(tensor)
    return isinstance(size, int) and size >= LARGE and not len(tensor.strides)


def _runs_along_rows(made: Elementwise, lowering: Any) -> bool:
    """Whether neighbouring iterations store to neighbouring elements, all of them inside the tensor."""
    (store,) = made.stores
    lowering.scope.bind_ranges(made.variables, made.extents)
    inside = lowering.guards is None or lowering.guards.condition(store.buffer, store.indices) is None
    return inside and runs_along(store.indices, made.variables[-1], lowering.scope)
