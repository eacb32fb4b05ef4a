"""A kernel's statements as plain records, read once from the IR; operators on shared memory are brought to fragments here.

Later steps walk this tree several times; it is far cheaper to walk than the IR and it carries each nest with its accesses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Union

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.region import Region
from tilelang.ir.visit import flattened, statement_exprs
from tilelang.target.cuda.reading.nest import Nest
from tilelang.target.cuda.reading.tiles import chunked, expansion_nest, is_elementwise, nest_of, parallel_nest
from tilelang.tileop import decode, is_tile_op
from tilelang.tileop.copy import Copy
from tilelang.tileop.gemm import Gemm, GemmSparse
from tilelang.tileop.hint import (
    AnnotateLayout,
    L2HitRatio,
    MaxRegisters,
    MinBlocksPerSM,
    RestrictBuffers,
    SafeValue,
    UseSwizzle,
)  # fmt: skip
from tilelang.tileop.reduce import Reduce, Scan

FRAGMENT = "local.fragment"
PIPELINE_NOTES = (
    "num_stages", "tl.pipeline_order", "tl.pipeline_stage", "tl.pipeline_group",
    "software_pipeline_order", "software_pipeline_stage",
)  # fmt: skip
"""Annotations of a ``T.Pipelined`` loop; the last two are what ``T.serial(annotations=)`` says."""
SHARED = ("shared", "shared.dyn")
_HINTS = (AnnotateLayout, L2HitRatio, MaxRegisters, MinBlocksPerSM, RestrictBuffers, SafeValue, UseSwizzle)


@dataclass(eq=False, slots=True)
class Sequence:
    """Statements in order."""

    items: list[TileNode]


@dataclass(eq=False, slots=True)
class Loop:
    """A ``for`` loop that every thread runs.

    Attributes:
        parts: where the loop is pipelined, each statement of the body in the IR with the nodes that it became.
    """

    stmt: Any
    body: Sequence
    parts: list[tuple[Any, list[TileNode]]] | None = None


@dataclass(eq=False, slots=True)
class Branch:
    """An ``if``."""

    stmt: Any
    then: Sequence
    otherwise: Sequence | None


@dataclass(eq=False, slots=True)
class Repeat:
    """A ``while`` loop."""

    stmt: Any
    body: Sequence


@dataclass(eq=False, slots=True)
class Scope:
    """Statements in an attribute (``T.ws``, ``T.attr``), or of some threads.

    Attributes:
        threads: (first, count) of the threads that run them, where not all do.
        by_thread: whether statements outside of tile operators are each thread's own, and not the scope's.
    """

    stmt: Any
    body: Sequence
    threads: tuple[int, int] | None = None
    by_thread: bool = False


@dataclass(eq=False, slots=True)
class Operator:
    """A tile operator that is no nest."""

    op: Any
    span: Any


@dataclass(eq=False, slots=True)
class Parallel:
    """A nest; ``op`` is the tile operator that it came from, if any."""

    nest: Nest
    op: Any = None

    @property
    def span(self) -> Any:
        return self.nest.span


@dataclass(eq=False, slots=True)
class Scalar:
    """A statement that each thread runs by itself: a store, a call, a binding, ``break`` …"""

    stmt: Any


TileNode = Union[Sequence, Loop, Branch, Repeat, Scope, Operator, Parallel, Scalar]


@dataclass(eq=False)
class TileTree:
    """A kernel as a tree.

    Attributes:
        root: its statements.
        allocations: every buffer of the kernel with the annotations of its allocation.
        aliases: a buffer that views another -> that other.
        pointers: a tensor at an address -> the variable that holds the address.
        hints: the hints of the kernel, in order, with their spans.
    """

    root: Sequence
    allocations: dict[Any, dict[str, Any]] = field(default_factory=dict)
    aliases: dict[Any, Any] = field(default_factory=dict)
    pointers: dict[Any, Any] = field(default_factory=dict)
    hints: list[tuple[Any, Any]] = field(default_factory=list)

    def root_of(self, buffer: Any) -> Any:
        """The allocation or tensor that a view is of."""
        while buffer in self.aliases:
            buffer = self.aliases[buffer]
        return buffer

    def viewed(self) -> set[Any]:
        """Buffers that share their memory with others."""
        return set(self.aliases) | set(self.aliases.values())


def span_of(node: Any) -> Any:
    """Where a node stands in the program."""
    return node.stmt.span if hasattr(node, "stmt") else node.span


def accesses_of(node: Any) -> tuple[Any, ...]:
    """What a node itself (not the nodes inside it) reads and writes element by element."""
    if isinstance(node, Parallel):
        return node.nest.accesses
    if isinstance(node, Scalar):
        return Nest.build((), node.stmt, None, "statement").accesses
    if isinstance(node, (Branch, Loop, Repeat)):
        heads = (ir.Evaluate(expr) for expr in statement_exprs(node.stmt) if isinstance(expr, ir.PrimExpr))
        return tuple(access for head in heads for access in Nest.build((), head, None, "condition").accesses)
    return ()


def read_tree(body: Any, takes_sparse: Callable[[GemmSparse], bool] = lambda op: False) -> TileTree:
    """The tree of a kernel's body; ``takes_sparse`` says which sparse products need no dense operand."""
    return _Reader(takes_sparse).read(body)


class _Reader:
    def __init__(self, takes_sparse: Callable[[GemmSparse], bool]) -> None:
        self.takes_sparse = takes_sparse
        self.tree = TileTree(Sequence([]))

    def read(self, body: Any) -> TileTree:
        self.tree.root = self.block(body)
        return self.tree

    def block(self, stmt: Any) -> Sequence:
        items: list[Any] = []
        for child in stmt.seq if isinstance(stmt, ir.SeqStmt) else [stmt]:
            items += self.statement(child)
        return Sequence(items)

    def statement(self, stmt: Any) -> list[Any]:
        if isinstance(stmt, ir.SeqStmt):
            return self.block(stmt).items
        if isinstance(stmt, ir.Evaluate):
            return self.evaluate(stmt)
        if isinstance(stmt, ir.For):
            if "tl.parallel" in stmt.annotations:
                return [self.parallel(parallel_nest(stmt))]
            return [self.loop(stmt)]
        if isinstance(stmt, ir.IfThenElse):
            otherwise = None if stmt.else_case is None else self.block(stmt.else_case)
            return [Branch(stmt, self.block(stmt.then_case), otherwise)]
        if isinstance(stmt, ir.While):
            return [Repeat(stmt, self.block(stmt.body))]
        if isinstance(stmt, ir.AttrStmt):
            groups = warp_groups(as_int(stmt.value)) if stmt.attr_key == "tl.warp_group" else None
            return [Scope(stmt, self.block(stmt.body), groups)]
        if isinstance(stmt, ir.AllocBuffer):
            self.tree.allocations[stmt.buffer] = {str(k): v for k, v in (stmt.annotations or {}).items()}
            return []
        if isinstance(stmt, ir.DeclBuffer):
            if not isinstance(stmt.data, ir.Var):
                self.tree.aliases[stmt.buffer] = stmt.data.args[0]
                return []
            self.tree.pointers[stmt.buffer] = stmt.data
            return [Scalar(stmt)]
        return [Scalar(stmt)]

    def loop(self, stmt: Any) -> Loop:
        if not any(note in stmt.annotations for note in PIPELINE_NOTES):
            return Loop(stmt, self.block(stmt.body))
        parts = [(child, self.statement(child)) for child in flattened(stmt.body)]
        parts = [(child, nodes) for child, nodes in parts if nodes]
        return Loop(stmt, Sequence([node for _, nodes in parts for node in nodes]), parts)

    def parallel(self, nest: Nest, op: Any = None) -> Any:
        """The node of a nest, inside loops over chunks where its extents are known at run time only."""
        loops, nest = chunked(nest)
        node: Any = Parallel(nest, None if loops else op)
        for var, extent in reversed(loops):
            zero = ir.IntImm("int32", 0)
            node = Loop(ir.For(var, zero, extent, ir.ForKind.SERIAL, ir.Evaluate(zero)), Sequence([node]))
        return node

    def evaluate(self, stmt: Any) -> list[Any]:
        if isinstance(stmt.value, ir.IntImm):
            return []
        if not is_tile_op(stmt.value):
            return [Scalar(stmt)]
        op, span = decode(stmt.value), stmt.span
        if isinstance(op, _HINTS):
            self.tree.hints.append((op, span))
            return [Operator(op, span)] if isinstance(op, MaxRegisters) else []
        if isinstance(op, Copy) and op.kind == "tma":
            return [Operator(op, span)]
        if is_elementwise(op):
            return [self.parallel(nest_of(op, span), op)]
        if isinstance(op, GemmSparse) and not self.takes_sparse(op):
            return self.sparse_product(op, span)
        if isinstance(op, (Gemm, GemmSparse)) and (getattr(op, "kind", "gemm") == "gemm" or op.c.scope != FRAGMENT):
            return self.product(op, span)
        if isinstance(op, Reduce):
            return self.reduction(op, span)
        if isinstance(op, Scan):
            return self.scan(op, span)
        return [Operator(op, span)]

    # Operators on shared memory, on fragments --------------------------------------------------------------------------

    def temporary(self, like: Region, name: str, dtype: str | None = None, matrix: bool = False) -> Region:
        """A fragment of the extents of a region; of its last two with ``matrix``."""
        shape = [as_int(extent) for extent in like.extents][-2 if matrix else 0 :]
        buffer = ir.decl_buffer(
            shape, dtype or like.dtype, f"{like.buffer.name}_{name}", scope=FRAGMENT, data_alignment=1, layout=None
        )
        self.tree.allocations[buffer] = {}
        return Region.whole(buffer)

    def copy(self, src: Region, dst: Region, span: Any) -> Parallel:
        op = Copy(src, dst)
        return Parallel(nest_of(op, span), op)

    def product(self, op: Any, span: Any) -> list[Any]:
        """A product whose operands in fragments are whole matrices, and whose result is one."""
        before, after = [], []
        for name, region in (("a", op.a), ("b", op.b)):
            if region.scope == FRAGMENT and not is_matrix(region):
                part = self.temporary(region, "part", matrix=True)
                before.append(self.copy(region, part, span))
                op = op.replace(**{name: part})
        if not is_matrix(op.c):
            wide = self.temporary(op.c, "accum", matrix=True)
            if op.clear_accum not in (True, 1):
                before.append(self.copy(op.c, wide, span))
            after.append(self.copy(wide, op.c, span))
            op = op.replace(c=wide)
        return [*before, Operator(op, span), *after]

    def sparse_product(self, op: GemmSparse, span: Any) -> list[Any]:
        """The sparse operand expanded to a dense tile, then an ordinary product."""
        shape = [as_int(op.m), as_int(op.k)]
        dense = ir.decl_buffer(shape, op.a.dtype, f"{op.a.buffer.name}_dense", scope="shared.dyn", layout=None)
        self.tree.allocations[dense] = {}
        product = Gemm(
            Region.whole(dense), op.b, op.c, op.clear_accum, transpose_b=op.transpose_b, policy=op.policy, wg_wait=op.wg_wait
        )
        return [Parallel(expansion_nest(op, dense, span)), *self.product(product, span)]

    def reduction(self, op: Reduce, span: Any) -> list[Any]:
        before, after = [], []
        if op.src.scope != FRAGMENT or not op.src.is_whole:
            source = self.temporary(op.src, "tile")
            before.append(self.copy(op.src, source, span))
            op = op.replace(src=source)
        if op.dst.scope != FRAGMENT or not op.dst.is_whole:
            target = self.temporary(op.dst, "result")
            if not op.clear:
                before.append(self.copy(op.dst, target, span))
            after.append(self.copy(target, op.dst, span))
            op = op.replace(dst=target)
        return [*before, Operator(op, span), *after]

    def scan(self, op: Scan, span: Any) -> list[Any]:
        """A scan works in shared memory; fragments and global tiles go through a shared one."""
        if op.src.scope in SHARED and op.dst.scope in SHARED:
            return [Operator(op, span)]
        if op.dst.scope in SHARED:
            return [self.copy(op.src, op.dst, span), Operator(op.replace(src=op.dst), span)]
        shape = [as_int(extent) for extent in op.src.extents]
        buffer = ir.decl_buffer(shape, op.dst.dtype, f"{op.dst.buffer.name}_scan", scope="shared.dyn", layout=None)
        self.tree.allocations[buffer] = {}
        tile = Region.whole(buffer)
        work = op.replace(src=tile, dst=tile)
        return [self.copy(op.src, tile, span), Operator(work, span), self.copy(tile, op.dst, span)]


def warp_groups(mask: int) -> tuple[int, int]:
    """First thread and number of threads of the warp groups in a bit mask (neighbouring groups)."""
    first = (mask & -mask).bit_length() - 1
    return 128 * first, 128 * bin(mask).count("1")


def is_matrix(region: Region) -> bool:
    """Whether a region is a whole fragment of two axes."""
    return region.scope == FRAGMENT and region.is_whole and len(region.buffer.shape) == 2


def walk(node: Any) -> Iterator[Any]:
    """Every node in program order, containers before their contents."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(inside(current)))


def inside(node: Any) -> list[Any]:
    """The nodes directly inside one."""
    if isinstance(node, Sequence):
        return node.items
    if isinstance(node, Branch):
        return [node.then] + ([node.otherwise] if node.otherwise is not None else [])
    if isinstance(node, (Loop, Repeat, Scope)):
        return [node.body]
    return []
