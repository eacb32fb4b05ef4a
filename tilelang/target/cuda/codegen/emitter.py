"""What every part of lowering one kernel shares: its names, what is known of it, and what lowering adds to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tilelang.errors import CompileError
from tilelang.ir.facts import Facts
from tilelang.ir.visit import statement_exprs
from tilelang.target.cuda.arch import WARP
from tilelang.target.cuda.codegen.expr import lower_expr
from tilelang.target.cuda.codegen.names import Names
from tilelang.target.cuda.codegen.places import Places
from tilelang.target.cuda.inference.layouts import Layouts, ThreadScope
from tilelang.target.cuda.ir.access import ThreadMap
from tilelang.target.cuda.ir.code import Slot
from tilelang.target.cuda.ir.cpp_types import is_packed
from tilelang.target.cuda.ir.values import Array, Name, Value
from tilelang.target.cuda.tile.tree import TileTree

TID, WARP_GROUP_NUMBER = Name("tid"), Name("warp_group_id")
"""The thread's number in the block, and that of its warp group."""

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
    """The state of lowering one kernel.

    Attributes:
        kernel: the kernel.
        target: what for.
        tree, layouts, facts: what is known about it.
        safe_values: what an out-of-bounds read of a buffer gives, where not zero.
        guarded: whether accesses that may leave a global buffer are guarded.
        fast_math, use_async, bulk_stores: options.
        names: identifiers.
        values: what each variable is.
        array_names: name of each buffer's pointer, array or variable.
        slots: the slot in use of each shared buffer that has several: its value, and its number within the step.
        slot_counts: how many slots a shared buffer has.
        scope: threads that run the statements being lowered.
        scratch: bytes and alignment of shared scratch buffers.
        shared_buffers, local_buffers: tiles and fragments that lowering added.
        padded: fragments whose registers beyond the edge are read, too; what they hold is not used.
        kept: integers that each thread computes once, at the kernel's top, with their names.
        uniformity: what the threads agree on.
        thread_maps: which threads touch which elements.
        iterations: the kernel's loops.
        tracked: tensors that the kernel both changes and reads, or changes in several places.
        descriptors: the kernel's tensor maps so far; None where the target has none.
        places: where elements are for what is being lowered.
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
    bulk_stores: bool = False
    names: Names = field(default_factory=Names)
    values: dict[Any, Value] = field(default_factory=dict)
    array_names: dict[Any, str] = field(default_factory=dict)
    slots: dict[Any, tuple[Value, int]] = field(default_factory=dict)
    slot_counts: dict[Any, int] = field(default_factory=dict)
    scope: ThreadScope = ThreadScope(0, 128)
    scratch: dict[Any, tuple[int, int]] = field(default_factory=dict)
    shared_buffers: list[Any] = field(default_factory=list)
    local_buffers: list[Any] = field(default_factory=list)
    padded: set[Any] = field(default_factory=set)
    kept: dict[Value, Name] = field(default_factory=dict)
    uniformity: Any = None
    thread_maps: Any = None
    iterations: Any = None
    tracked: set[Any] = field(default_factory=set)
    descriptors: Any = None

    def __post_init__(self) -> None:
        self.places = Places(self)

    # Expressions -------------------------------------------------------------------------------------------------------

    def value(self, expr: Any) -> Value:
        """An expression as a value of the thread."""
        return lower_expr(self, expr)

    def index(self, expr: Any) -> Value:
        """An index expression as a value, simplified first."""
        return lower_expr(self, self.facts.simplify(expr))

    @property
    def thread(self) -> Value:
        """The thread's number in the scope."""
        return TID if self.scope.first == 0 else TID - self.scope.first

    @property
    def is_first(self) -> Value:
        """Whether the thread is the first of the scope."""
        return self.thread.is_("==", 0)

    @contextmanager
    def spoken(self, values: Mapping[Any, Value]) -> Iterator[None]:
        """While this lasts, variables are what ``values`` says."""
        outer = {var: self.values[var] for var in values}
        self.values.update(values)
        yield
        self.values.update(outer)

    def named(self, var: Any, wanted: str | None = None) -> Name:
        """A fresh name for a variable of the program."""
        name = self.names.take(var.name if wanted is None else wanted)
        self.values[var] = name
        return name

    def keep(self, value: Value, wanted: str) -> Name:
        """The name of an integer that each thread computes once, from its own number only."""
        if value not in self.kept:
            self.kept[value] = self.names.declare(wanted)
        return self.kept[value]

    # Buffers -----------------------------------------------------------------------------------------------------------

    def root(self, buffer: Any) -> Any:
        """The buffer that owns the storage of ``buffer``."""
        return self.tree.root_of(buffer)

    def is_shared(self, buffer: Any) -> bool:
        """Whether a buffer lies in shared memory."""
        return buffer.scope().startswith("shared")

    def array(self, buffer: Any) -> Array:
        """The array that a buffer is."""
        try:
            name = self.array_names[buffer]
        except KeyError:
            raise CompileError(f"{buffer.name} is not defined in this kernel") from None
        return Array(name, str(buffer.dtype), self.storage(buffer))

    def storage(self, buffer: Any) -> Any:
        """The memory that barriers guard: a shared tile (mbarriers order themselves), one slot of it, or a tensor whose accesses
        meet."""
        if buffer.scope().startswith("local"):
            return None
        root = self.root(buffer)
        if buffer.scope() not in ("shared", "shared.dyn") and root not in self.tracked:
            return None
        return next((Slot(root, number) for ring, (_, number) in self.slots.items() if self.root(ring) == root), root)

    def declare_local(self, buffer: Any) -> None:
        """Adds a fragment that the program does not know of."""
        self.array_names[buffer] = self.names.declare(buffer.name).text
        self.local_buffers.append(buffer)

    # Accesses ----------------------------------------------------------------------------------------------------------

    def annotated(self, leaf: Any, accesses: Iterable[Any], maps: Callable[[Any], ThreadMap | None]) -> Any:
        """A leaf with what else is known of its accesses: which threads touch which elements, and what only one atomic operation
        touches.

        Args:
            accesses: those of the statement.
            maps: the map of an access, where one is known.
        """
        touched: dict[Any, list[Any]] = {}
        for access in accesses:
            storage = self.storage(access.buffer)
            if storage is not None and not isinstance(storage, Slot):
                touched.setdefault(storage, []).append(access)
        for buffer, found in touched.items():
            operations = {COMMUTATIVE.get(access.operation, "") for access in found}
            if len(operations) == 1 and "" not in operations:
                leaf.updates[buffer] = operations.pop()
            placed = [None if is_packed(str(access.buffer.dtype)) else maps(access) for access in found]
            if None not in placed:
                leaf.maps[buffer] = frozenset(placed)
        return leaf

    def is_own(self, node: Any) -> bool:
        """Whether a statement outside of nests is each thread's: it mentions what differs between threads, or stands below a
        condition that does."""
        return node in self.uniformity.by_thread or self.uniformity.varies(statement_exprs(node.stmt))

    def agrees(self, node: Any) -> bool:
        """Whether the threads of the scope agree on how often the body of a loop or branch runs."""
        return self.uniformity.agrees(node, range(self.scope.first, self.scope.first + self.scope.count))

    def warps_agree(self, node: Any) -> bool:
        """Whether the threads of each warp of the scope, all of them whole, agree on how often a body runs."""
        whole = self.scope.first % WARP == 0 and self.scope.count % WARP == 0
        return whole and self.uniformity.agrees(node, range(WARP))
