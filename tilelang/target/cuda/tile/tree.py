"""A kernel's statements as plain records, which are read once from the IR (tile/read.py).

Later steps walk this tree several times; it is far cheaper to walk than the IR and it carries each nest with its accesses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from operator import is_
from typing import Any, Union

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_fragment, lies_in_shared
from tilelang.ir.region import Region
from tilelang.ir.visit import statement_exprs
from tilelang.layout import make_swizzled_layout
from tilelang.records import Record
from tilelang.target.cuda.ir.access import Access
from tilelang.target.cuda.tile.nest import Nest, accesses_in, given_to_calls, operand_accesses
from tilelang.tileop.base import plain

USER_WARP_GROUPS = "tl.warp_group"
"""Attribute of ``T.ws``: a statement below it is that of each thread of these warp groups."""
WARP_ROLE = "tl.warp_role"
"""Attribute of the warp groups among which the compiler has divided the block's work: a statement is still the block's."""
SINGLE_THREAD = "tl.single_thread"
"""Attribute of statements that one thread of such a warp group runs."""
ORDER = ("tl.pipeline_order", "software_pipeline_order")
STAGE = ("tl.pipeline_stage", "software_pipeline_stage")
GROUP = ("tl.pipeline_group",)
"""Annotations that fix the schedule of a loop: those of ``T.Pipelined``, and what ``T.serial(annotations=)`` says."""
SCHEDULE_NOTES = (*ORDER, *STAGE, *GROUP)
PIPELINE_NOTES = ("num_stages", *SCHEDULE_NOTES)


class Node(Record, eq=False):
    """A statement of the tree, or several. What it touches is found once, however many analyses ask."""

    @property
    def span(self) -> Any:
        """Where it stands in the program; None of several statements."""
        return None

    @property
    def inside(self) -> list[Any]:
        """The nodes directly inside it."""
        return []

    def with_parts(self, of: Callable[[Any], Any]) -> Any:
        """The node with ``of`` applied to those directly inside; itself where that changes none."""
        parts = [of(part) for part in self.inside]
        return self if all(map(is_, parts, self.inside)) else self._of(parts)

    def _of(self, parts: list[Any]) -> Any:
        """The node with others inside."""
        raise NotImplementedError

    def runners(self, threads: range) -> range:
        """Those of the threads that come to the node that run what is inside."""
        return threads

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """What the node itself (not the nodes inside it) reads and writes element by element."""
        return ()

    @cached_property
    def regions(self) -> tuple[Access, ...]:
        """What its tile operator does to its operands."""
        return ()

    @property
    def touched(self) -> tuple[Access, ...]:
        """What the node itself does to buffers: to elements, or as an operator to its operands."""
        return self.accesses

    @cached_property
    def written(self) -> frozenset[Any]:
        """The buffers that the node itself may write."""
        return frozenset(access.buffer for access in self.touched if access.writes)


class Sequence(Node):
    """Statements in order.

    Attributes:
        origins: of the body of a pipelined loop, each of its statements in the IR, with how many nodes it became.
    """

    items: list[TileNode]
    origins: tuple[tuple[Any, int], ...] | None = None

    @property
    def inside(self) -> list[Any]:
        return self.items

    @property
    def parts(self) -> Iterator[tuple[Any, list[TileNode]]]:
        """Of the body of a pipelined loop, each statement in the IR, with its nodes."""
        nodes = iter(self.items)
        return ((stmt, list(islice(nodes, count))) for stmt, count in self.origins or ())

    def regrouped(self, groups: Iterable[list[TileNode]]) -> Sequence:
        """The statements with some nodes in place of each node."""
        groups = list(groups)
        # Groups stand for the old nodes in order, so each statement takes as many groups as it had nodes, and has as many nodes
        # as they hold.
        left = iter(groups)
        origins = self.origins and tuple((stmt, sum(map(len, islice(left, count)))) for stmt, count in self.origins)
        return Sequence([*chain(*groups)], origins)

    def _of(self, parts: list[Any]) -> Sequence:
        return Sequence(parts, self.origins)


class _Statement(Node):
    """A node that is a statement of the IR; its condition or bounds may depend on what memory holds."""

    stmt: Any

    @property
    def span(self) -> Any:
        return self.stmt.span

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        heads = (ir.Evaluate(expr) for expr in statement_exprs(self.stmt) if isinstance(expr, ir.PrimExpr))
        return tuple(access for head in heads for access in accesses_in(head))


class _WithBody(_Statement):
    """A statement around others."""

    body: Sequence

    @property
    def inside(self) -> list[Any]:
        return [self.body]

    @property
    def is_pipelined(self) -> bool:
        """Whether a schedule may reorder its statements."""
        return self.body.origins is not None

    def _of(self, parts: list[Any]) -> Any:
        return replace(self, body=parts[0])


class Loop(_WithBody):
    """A ``for`` loop that every thread runs."""


class Branch(_Statement):
    """An ``if``."""

    then: Sequence
    otherwise: Sequence | None = None

    @property
    def inside(self) -> list[Any]:
        return [self.then] + ([self.otherwise] if self.otherwise is not None else [])

    def _of(self, parts: list[Any]) -> Branch:
        return Branch(self.stmt, *parts)


class Repeat(_WithBody):
    """A ``while`` loop."""


class ThreadGroup(_WithBody):
    """Statements in an attribute (``T.ws``, ``T.attr``), or of some threads.

    Attributes:
        threads: those that run them, where not all do.
        by_thread: whether statements outside of tile operators are each thread's own, and not the group's.
    """

    threads: range | None = None
    by_thread: bool = False

    @property
    def accesses(self) -> tuple[Access, ...]:
        return ()

    def runners(self, threads: range) -> range:
        return threads if self.threads is None else self.threads


class Operator(Node):
    """A tile operator that is no nest."""

    op: Any
    span: Any = None

    @cached_property
    def regions(self) -> tuple[Access, ...]:
        return tuple(operand_accesses(self.op))

    @cached_property
    def values(self) -> tuple[Access, ...]:
        """What each of its threads reads for the values that the operator gets, and for the places where its regions start."""
        starts = (low for region, _ in self.op.regions() for low in region.mins)
        exprs = (expr for expr in (*self.op.scalars(), *starts) if isinstance(expr, ir.PrimExpr))
        return tuple(access for expr in exprs for access in accesses_in(ir.Evaluate(expr)))

    @property
    def touched(self) -> tuple[Access, ...]:
        return self.regions


class Parallel(Node):
    """A nest; ``op`` is the tile operator that it came from, if any."""

    nest: Nest
    op: Any = None

    @property
    def span(self) -> Any:
        return self.nest.span

    @property
    def accesses(self) -> tuple[Access, ...]:
        return self.nest.accesses

    @cached_property
    def regions(self) -> tuple[Access, ...]:
        return () if self.op is None else tuple(operand_accesses(self.op))


class Scalar(_Statement):
    """A statement that each thread runs by itself: a store, a call, a binding, ``break`` …"""

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        return accesses_in(self.stmt)

    @cached_property
    def written(self) -> frozenset[Any]:
        return super().written | given_to_calls(self.stmt)


AFTER_EXIT = "after_exit"
"""Attribute of a barrier that threads which have returned need not reach, but may: they have nothing else to do."""

TileNode = Union[Sequence, Loop, Branch, Repeat, ThreadGroup, Operator, Parallel, Scalar]


@dataclass(eq=False)
class Hints:
    """The hints that a program gives about a kernel, collected by the rules of operators; none changes what it computes.

    Attributes:
        layouts: (buffer, layout, span) of each annotation, in order.
        safe_values: what an out-of-bounds read of a buffer gives, where not zero.
        may_overlap: names of parameters that lose ``__restrict__``.
        blocks_per_sm: blocks that must fit on one multiprocessor.
        rasterisation: ``"row"`` or ``"column"``, and how many of them make a panel of blocks.
    """

    layouts: list[tuple[Any, Any, Any]] = field(default_factory=list)
    safe_values: dict[Any, Any] = field(default_factory=dict)
    may_overlap: set[str] = field(default_factory=set)
    blocks_per_sm: int | None = None
    rasterisation: tuple[str, int] | None = None


def is_default_swizzle(buffer: Any, layout: Any) -> bool:
    """Whether a layout is the swizzle that any compiler would choose for a shared tile, and none in particular."""
    return lies_in_shared(buffer) and layout == make_swizzled_layout(buffer)


@dataclass(eq=False)
class TileTree:
    """A kernel as a tree.

    Attributes:
        root: its statements.
        allocations: every buffer of the kernel with the annotations of its allocation.
        aliases: a buffer that views another -> that other.
        pointers: a tensor at an address -> the variable that holds the address.
        hints: what the program says about the kernel.
    """

    root: Sequence
    allocations: dict[Any, dict[str, Any]] = field(default_factory=dict)
    aliases: dict[Any, Any] = field(default_factory=dict)
    pointers: dict[Any, Any] = field(default_factory=dict)
    hints: Hints = field(default_factory=Hints)

    def root_of(self, buffer: Any) -> Any:
        """The allocation or tensor that a view is of."""
        while buffer in self.aliases:
            buffer = self.aliases[buffer]
        return buffer

    @cached_property
    def reducers(self) -> Mapping[Any, str]:
        """Reducers: fragments whose values are partial in each thread, with the operation that combines them."""
        notes = self.allocations.items()
        return {buffer: str(plain(note["tl.reducer_op"])) for buffer, note in notes if "tl.reducer_op" in note}

    @cached_property
    def around(self) -> dict[Any, tuple[Any, ...]]:
        """Each node in program order, with the nodes that it stands in, outermost first."""
        found: dict[Any, tuple[Any, ...]] = {}

        def enter(node: Any, outer: tuple[Any, ...]) -> None:
            found[node] = outer
            for part in node.inside:
                enter(part, (*outer, node))

        enter(self.root, ())
        return found

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {node: place for place, node in enumerate(self.around)}

    def may_follow(self, node: Any, other: Any) -> bool:
        """Whether ``node`` may run after ``other`` has: it stands below it, or a loop has both."""
        repeated = {each for each in (*self.around[node], node) if isinstance(each, (Loop, Repeat))}
        return self._places[other] < self._places[node] or not repeated.isdisjoint((*self.around[other], other))

    def aliased(self) -> set[Any]:
        """Buffers that share their memory with others."""
        return set(self.aliases) | set(self.aliases.values())


def is_matrix(region: Region) -> bool:
    """Whether a region is a whole fragment of two axes."""
    return is_fragment(region) and region.is_whole and len(region.buffer.shape) == 2


def walk(node: Any) -> Iterator[Any]:
    """Every node in program order, containers before their contents."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.inside))


def bindings(root: Any) -> dict[Any, Any]:
    """The value of each name that statements bind."""
    stmts = (node.stmt for node in walk(root) if isinstance(node, Scalar))
    return {stmt.var: stmt.value for stmt in stmts if isinstance(stmt, ir.Bind)}


def is_certainly_run(extent: Any) -> bool:
    """Whether a loop of so many iterations has one."""
    count = as_int(extent)
    return isinstance(count, int) and count > 0
