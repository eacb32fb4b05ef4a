"""What every part of generating one kernel's code shares: its names, what is known of it, and what code generation adds to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tilelang.errors import CompileError
from tilelang.ir.facts import Facts
from tilelang.ir.visit import statement_exprs
from tilelang.target.cuda.codegen.element_types import is_packed
from tilelang.target.cuda.codegen.expr import ExprPrinter
from tilelang.target.cuda.codegen.names import Names
from tilelang.target.cuda.codegen.places import Places
from tilelang.target.cuda.inference.layouts import Layouts, ThreadScope
from tilelang.target.cuda.ir.access import ThreadMap
from tilelang.target.cuda.reading.nest import READ, Nest
from tilelang.target.cuda.reading.tree import TileTree

COMMUTATIVE: Mapping[str, str] = {
    "atomic_add": "add",
    "atomic_addx2": "add",
    "atomic_addx4": "add",
    "atomic_max": "max",
    "atomic_min": "min",
    "atomic_or": "or",
    "atomic_load": "load",
}
"""Atomic accesses whose order among themselves makes no difference."""


@dataclass(eq=False)
class Emitter:
    """The state of generating one kernel.

    Attributes:
        kernel: the kernel.
        target: what for.
        tree, layouts, facts: what is known about it.
        safe_values: what an out-of-bounds read of a buffer gives, where not zero.
        guarded: whether accesses that may leave a global buffer are guarded.
        fast_math, use_async: options.
        names: identifiers.
        var_text: C++ text of each variable.
        buffer_text: name of each buffer's pointer, array or variable.
        versions: text of the slot in use of each multi-versioned shared buffer.
        version_count: how many slots a shared buffer has.
        scope: threads that run the statements being generated.
        scratch: bytes and alignment of shared scratch buffers.
        shared_buffers, local_buffers: tiles and fragments that code generation added.
        padded: fragments whose registers beyond the edge are read, too; what they hold is not used.
        kept: numbers that each thread computes once, at the kernel's top: C++ text -> name.
        uniformity: what the threads agree on.
        thread_maps: which threads touch which elements.
        iterations: the kernel's loops.
        tracked: tensors that the kernel both changes and reads, or changes in several places.
        descriptors: the kernel's tensor maps so far; None where the target has none.
        places: where elements are for what is being generated.
    """

    kernel: Any
    target: Any
    tree: TileTree
    layouts: Layouts
    facts: Facts
    safe_values: Mapping[Any, Any] = field(default_factory=dict)
    guarded: bool = True
    fast_math: bool = False
    use_async: bool = True
    names: Names = field(default_factory=Names)
    var_text: dict[Any, str] = field(default_factory=dict)
    buffer_text: dict[Any, str] = field(default_factory=dict)
    versions: dict[Any, str] = field(default_factory=dict)
    version_count: dict[Any, int] = field(default_factory=dict)
    scope: ThreadScope = ThreadScope(0, 128)
    scratch: dict[Any, tuple[int, int]] = field(default_factory=dict)
    shared_buffers: list[Any] = field(default_factory=list)
    local_buffers: list[Any] = field(default_factory=list)
    padded: set[Any] = field(default_factory=set)
    kept: dict[str, str] = field(default_factory=dict)
    uniformity: Any = None
    thread_maps: Any = None
    iterations: Any = None
    tracked: set[Any] = field(default_factory=set)
    descriptors: Any = None

    def __post_init__(self) -> None:
        self.places = Places(self)
        self.printer = ExprPrinter(self)

    # Expressions -------------------------------------------------------------------------------------------------------

    def text(self, expr: Any) -> str:
        """C++ text of an expression."""
        return self.printer.text(expr)

    def simple(self, expr: Any) -> str:
        """C++ text of an index expression, simplified first."""
        return self.printer.text(self.facts.simplify(expr))

    @property
    def thread(self) -> str:
        """The thread's number in the scope."""
        return "tid" if self.scope.first == 0 else f"(tid - {self.scope.first})"

    @contextmanager
    def spoken(self, texts: Mapping[Any, str]) -> Iterator[None]:
        """While this lasts, variables are printed as ``texts`` says."""
        outer = {var: self.var_text[var] for var in texts}
        self.var_text.update(texts)
        yield
        self.var_text.update(outer)

    def keep(self, text: str, wanted: str) -> str:
        """The name of an integer that each thread computes once, from its own number only."""
        if text not in self.kept:
            self.kept[text] = self.names.declare(wanted)
        return self.kept[text]

    # Buffers -----------------------------------------------------------------------------------------------------------

    def root(self, buffer: Any) -> Any:
        """The buffer that owns the storage of ``buffer``."""
        return self.tree.root_of(buffer)

    def is_shared(self, buffer: Any) -> bool:
        """Whether a buffer lies in shared memory."""
        return buffer.scope().startswith("shared")

    def name(self, buffer: Any) -> str:
        """The C++ name of a buffer."""
        try:
            return self.buffer_text[buffer]
        except KeyError:
            raise CompileError(f"{buffer.name} is not defined in this kernel") from None

    def declare_local(self, buffer: Any) -> None:
        """Adds a fragment that the program does not know of."""
        self.buffer_text[buffer] = self.names.declare(buffer.name)
        self.local_buffers.append(buffer)

    # Accesses ----------------------------------------------------------------------------------------------------------

    def accesses(self, stmt: Any) -> tuple[set[Any], set[Any]]:
        """Shared storage that a statement reads and writes."""
        nest = Nest.build((), stmt, stmt.span, "statement")
        reads = {self.root(a.buffer) for a in nest.accesses if a.kind == READ and self.is_tile(a.buffer)}
        writes = {self.root(a.buffer) for a in nest.accesses if a.kind != READ and self.is_tile(a.buffer)}
        return reads, writes

    def annotated(self, leaf: Any, accesses: Iterable[Any], maps: Callable[[Any], ThreadMap | None]) -> Any:
        """A leaf with what else is known of its accesses: which threads touch which elements, and what only one atomic operation
        touches.

        Args:
            accesses: those of the statement.
            maps: the map of an access, where one is known.
        """
        touched: dict[Any, list[Any]] = {}
        for access in accesses:
            if self.is_tile(access.buffer):
                touched.setdefault(self.root(access.buffer), []).append(access)
        for buffer, found in touched.items():
            operations = {COMMUTATIVE.get(access.operation, "") for access in found}
            if len(operations) == 1 and "" not in operations:
                leaf.updates[buffer] = operations.pop()
            placed = [None if is_packed(str(access.buffer.dtype)) else maps(access) for access in found]
            if None not in placed:
                leaf.maps[buffer] = frozenset(placed)
        return leaf

    def is_tile(self, buffer: Any) -> bool:
        """Whether barriers guard a buffer: a shared tile (mbarriers order themselves), or a tensor whose accesses meet."""
        return buffer.scope() in ("shared", "shared.dyn") or self.root(buffer) in self.tracked

    def is_own(self, node: Any) -> bool:
        """Whether a statement outside of nests is each thread's: it mentions what differs between threads, or stands where they
        may disagree."""
        return node in self.uniformity.divergent or self.uniformity.varies(statement_exprs(node.stmt))

    def agrees(self, node: Any) -> bool:
        """Whether the threads of the scope agree on how often the body of a loop or branch runs."""
        return self.uniformity.agrees(node, range(self.scope.first, self.scope.first + self.scope.count))
