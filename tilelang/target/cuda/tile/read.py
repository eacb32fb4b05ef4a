"""Reads the tile tree of a kernel from its IR: one rule for each statement, and what operators make their nodes with."""

from __future__ import annotations

from typing import Any

from tilelang.errors import RunTimeValueError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import FRAGMENT, SHARED
from tilelang.ir.region import Region
from tilelang.ir.text import shape_text
from tilelang.ir.visit import flattened, is_parallel
from tilelang.target.cuda.arch import WARP_GROUP
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.tile.build import block, chunked, parallel_nest
from tilelang.target.cuda.tile.convert_layout import ConvertLayout
from tilelang.target.cuda.tile.gather import gathered
from tilelang.target.cuda.tile.nest import Nest
from tilelang.target.cuda.tile.tree import (
    PIPELINE_NOTES,
    USER_WARP_GROUPS,
    WARP_ROLE,
    Branch,
    Loop,
    Operator,
    Parallel,
    Repeat,
    Scalar,
    Sequence,
    ThreadGroup,
    TileTree,
)
from tilelang.tileop import decode, is_tile_op
from tilelang.tileop.thread import intrinsic_call


def read_tree(body: Any, threads: int = 0, target: Any = None, gathers: bool = True) -> TileTree:
    """The tile tree of a kernel's body; without the threads of a block, or a target, what depends on these is left out."""
    reader = Reader(threads, target, gathers)
    reader.tree.root = reader.block(body)
    return reader.tree


def copy_between(source: Region, target: Region, span: Any) -> Parallel:
    """The node of a copy that the compiler adds."""
    op = ConvertLayout(source, target)
    (node,) = rule_of(op).read(op, span, None)
    return node


class Reader:
    """Reads a kernel; operators make their nodes with it.

    Attributes:
        threads, target: what the kernel is for.
        gathers: whether a ``T.Parallel`` may be a copy.
        tree: what has been read.
    """

    copy = staticmethod(copy_between)

    def __init__(self, threads: int = 0, target: Any = None, gathers: bool = True) -> None:
        self.threads, self.target, self.gathers = threads, target, gathers
        self.tree = TileTree(Sequence([]))

    def block(self, stmt: Any) -> Sequence:
        items: list[Any] = []
        for child in flattened(stmt):
            items += self.statement(child)
        return Sequence(items)

    def statement(self, stmt: Any) -> list[Any]:
        if isinstance(stmt, ir.Evaluate):
            return self.evaluate(stmt)
        if isinstance(stmt, ir.For):
            nest = parallel_nest(stmt) if is_parallel(stmt) else None
            return [self.loop(stmt) if nest is None else self.parallel(nest, gathered(nest) if self.gathers else None)]
        if isinstance(stmt, ir.IfThenElse):
            otherwise = None if stmt.else_case is None else self.block(stmt.else_case)
            return [Branch(stmt, self.block(stmt.then_case), otherwise)]
        if isinstance(stmt, ir.While):
            return [Repeat(stmt, self.block(stmt.body))]
        if isinstance(stmt, ir.AttrStmt):
            return [self.attribute(stmt)]
        if isinstance(stmt, ir.AllocBuffer):
            self.tree.allocations[stmt.buffer] = {str(k): v for k, v in (stmt.annotations or {}).items()}
            return []
        if isinstance(stmt, ir.DeclBuffer):
            # A view of a buffer has that buffer's address as its data, an expression; a tensor at an address has a variable.
            if isinstance(stmt.data, ir.Var):
                self.tree.pointers[stmt.buffer] = stmt.data
            else:
                self.tree.aliases[stmt.buffer] = stmt.data.args[0]
            # The kernel's code defines such a tensor, and then its views; all other views are declared before the code.
            return [Scalar(stmt)] if self.tree.root_of(stmt.buffer) in self.tree.pointers else []
        return [Scalar(stmt)]

    def attribute(self, stmt: Any) -> Any:
        """The group of threads of an attribute; a branch of warp groups that are no neighbours."""
        body, of_user = self.block(stmt.body), stmt.attr_key == USER_WARP_GROUPS
        if not of_user and stmt.attr_key != WARP_ROLE:
            return ThreadGroup(stmt, body)
        mask = as_int(stmt.value)
        threads = warp_groups(mask)
        if len(threads) == mask.bit_count() * WARP_GROUP:
            # The block's last warp group may be a part of one. Before the block's threads are known, it counts as whole.
            stop = min(threads.stop, self.threads) if self.threads else threads.stop
            return ThreadGroup(stmt, body, range(threads.start, stop), by_thread=of_user)
        numbered = ir.IntImm("int32", mask) >> intrinsic_call("warp_group_idx", dtype="int32")
        return Branch(ir.IfThenElse(numbered % 2 == 1, stmt.body, None, stmt.span), body, None)

    def loop(self, stmt: Any) -> Loop:
        if not any(note in stmt.annotations for note in PIPELINE_NOTES):
            return Loop(stmt, self.block(stmt.body))
        # A schedule numbers statements of the source, and one of these may become several nodes (a product with copies of its
        # operands): the numbers go to all of them. Allocations become none, and are not numbered.
        parts = [(child, nodes) for child in flattened(stmt.body) if (nodes := self.statement(child))]
        origins = tuple((child, len(nodes)) for child, nodes in parts)
        return Loop(stmt, Sequence([node for _, nodes in parts for node in nodes], origins))

    def parallel(self, nest: Nest, op: Any = None) -> Any:
        """The node of a nest, inside loops over chunks where its extents are known at run time only; nothing if it is empty."""
        if any(axis.extent <= 0 and axis.limit is None for axis in nest.axes):
            return Sequence([])
        loops, nest = chunked(nest)
        # In chunks it is no longer the operator's own region, so that rules of the operator do not apply to it.
        node: Any = Parallel(nest, None if loops else op)
        for var, extent in reversed(loops):
            zero = ir.IntImm("int32", 0)
            node = Loop(ir.For(var, zero, extent, ir.ForKind.SERIAL, block([])), Sequence([node]))
        return node

    def evaluate(self, stmt: Any) -> list[Any]:
        if isinstance(stmt.value, ir.IntImm):
            return []
        if not is_tile_op(stmt.value):
            return [Scalar(stmt)]
        op, span = decode(stmt.value), stmt.span
        return rule_of(op).read(op, span, self)

    # What operators are made of -----------------------------------------------------------------------------------------

    def operator(self, op: Any, span: Any) -> Operator:
        """An operator as it is."""
        return Operator(op, span)

    def shared(self, shape: list[int], dtype: str, name: str) -> Region:
        """A new shared tile."""
        buffer = ir.decl_buffer(shape, dtype, name, scope=SHARED, layout=None)
        self.tree.allocations[buffer] = {}
        return Region.whole(buffer)

    def temporary(self, like: Region, name: str, matrix: bool = False) -> Region:
        """A new fragment with the extents of a region.

        Args:
            name: suffix of its name.
            matrix: whether to take the two extents of a matrix only.

        Raises:
            RunTimeValueError: an extent is not a compile-time number.
        """
        shape = [as_int(extent) for extent in (like.matrix_extents if matrix else like.extents)]
        if not all(isinstance(size, int) for size in shape):
            raise RunTimeValueError(
                f"on CUDA this operator takes tiles of compile-time sizes, and {like.buffer.name} has {shape_text(like.extents)}",
                hint="give it the whole tile, and fill what is beyond the size with a value that does not matter",
            )
        name = f"{like.buffer.name}_{name}"
        buffer = ir.decl_buffer(shape, like.dtype, name, scope=FRAGMENT, data_alignment=1, layout=None)
        self.tree.allocations[buffer] = {}
        return Region.whole(buffer)


def warp_groups(mask: int) -> range:
    """The threads from the first to the last of the warp groups in a bit mask."""
    # `mask & -mask` is the lowest set bit alone: 0b0110 are groups 1 and 2, threads 128 to 383.
    return range(((mask & -mask).bit_length() - 1) * WARP_GROUP, mask.bit_length() * WARP_GROUP)
