"""What every part of lowering one kernel shares: its names, what is known of it, and what lowering adds to it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tilelang.errors import MisplacedError
from tilelang.identifiers import is_taken, numbered, usable
from tilelang.ir import nodes as ir
from tilelang.ir.access import UPDATE, WRITE
from tilelang.ir.facts import Facts
from tilelang.ir.memory import SHARED, is_shared, lies_in_registers
from tilelang.ir.visit import statement_exprs
from tilelang.layout.digits import Digit, is_power_of_two
from tilelang.layout.fragment import Mode
from tilelang.records import Record
from tilelang.target.cuda.analysis.disjointness import Iterations, communicating_tensors, moved_in_bulk, repeated_tensors
from tilelang.target.cuda.analysis.thread_map import ThreadMaps
from tilelang.target.cuda.analysis.uniformity import Uniformity
from tilelang.target.cuda.arch import WARP, is_whole_warps
from tilelang.target.cuda.codegen.conditions import Conditions
from tilelang.target.cuda.codegen.expr import lower_expr
from tilelang.target.cuda.codegen.places import Places
from tilelang.target.cuda.inference.layouts import Layouts
from tilelang.target.cuda.intrinsics.tensor_maps import TensorMaps
from tilelang.target.cuda.ir.access import Access, Agent, ThreadMap
from tilelang.target.cuda.ir.code import Slot
from tilelang.target.cuda.ir.cpp_types import is_packed
from tilelang.target.cuda.ir.values import Array, Name, Value
from tilelang.target.cuda.tile.program import Kernel, dimension_variables
from tilelang.target.cuda.tile.tree import TileTree

TID, WARP_GROUP_NUMBER = Name("tid"), Name("warp_group_id")
"""The thread's number in the block, and that of its warp group."""


_RESERVED = frozenset(("tid", "tl", "pool", "main", "warp_group_id", "rng_state", "tl_grid_state"))
"""What every kernel has, or may have."""


class Names:
    """Identifiers, each used once in a kernel, and what they stand for.

    Attributes:
        values: what each variable of the program is.
        arrays: the name of each buffer's pointer, array or variable.
    """

    def __init__(self, used: Iterable[str] = _RESERVED) -> None:
        self.used: set[str] = set(used)
        self.kernel_wide: set[str] = set()
        self.values: dict[Any, Value] = {}
        self.arrays: dict[Any, str] = {}

    def take(self, wanted: str) -> Name:
        """``wanted``, made an identifier and numbered where it is taken."""
        base = re.sub(r"\W", "_", wanted) or "v"
        base = usable(f"_{base}" if base[0].isdigit() else base)
        name = next(name for name in numbered(base) if name not in self.used and not is_taken(name))
        self.used.add(name)
        return Name(name)

    def declare(self, wanted: str) -> Name:
        """A name for something that is declared at the kernel's top."""
        name = self.take(wanted)
        self.kernel_wide.add(name.text)
        return name

    @contextmanager
    def block(self) -> Iterator[None]:
        """Names taken inside stand in braces of their own, and are free again afterwards."""
        before = set(self.used)
        yield
        # A scratch array that is declared inside stands at the kernel's top all the same, so its name stays taken.
        self.used = before | self.kernel_wide


class KernelOptions(Record):
    """What pass configurations decide of code generation.

    Attributes:
        guarded: whether accesses that may leave a tensor are guarded.
        fast_math: whether functions may be approximated.
        use_async, wgmma, tma: whether cp.async, warp group products and the tensor memory accelerator may be used.
        swizzle: whether shared tiles may be swizzled against bank conflicts.
        barriers: whether the compiler orders the program's own statements.
        gathers: whether a ``T.Parallel`` may be an asynchronous copy.
        together: whether warps exchange all results of a reduction at once, which takes more shared memory.
    """

    guarded: bool = True
    fast_math: bool = False
    use_async: bool = True
    swizzle: bool = True
    wgmma: bool = True
    tma: bool = True
    barriers: bool = True
    gathers: bool = True
    together: bool = True


@dataclass(eq=False)
class Output:
    """What lowering a kernel adds to it beside its code.

    Attributes:
        scratch: shared buffers that the program does not know of.
        padded: fragments whose registers beyond the edge are read, too; what they hold is not used.
        kept: integers that each thread computes once, at the kernel's top, with their names.
        slot_counts: how many slots a shared buffer has.
        tensor_maps: the kernel's tensor maps so far.
    """

    scratch: list[Any] = field(default_factory=list)
    padded: set[Any] = field(default_factory=set)
    kept: dict[Value, Name] = field(default_factory=dict)
    slot_counts: dict[Any, int] = field(default_factory=dict)
    tensor_maps: TensorMaps = field(default_factory=TensorMaps)


@dataclass(eq=False)
class Emitter:
    """The state of lowering one kernel: what is known of it, its names, its output, and the current position.

    Attributes:
        kernel, target, tree, layouts, facts, options, uniformity: what is known.
        threads: those that run the statements being lowered.
        names: identifiers and what they stand for.
        output: what the kernel gets beside its code.
        slots: the slot in use of each shared buffer that has several: its value, and its number within the step.
        places: where elements are for what is being lowered.
        thread_maps: which threads touch which elements.
        iterations: the kernel's loops.
        conditions: what the program tests around the code being lowered.
        communicating: tensors that the kernel both changes and reads, or changes in several places.
        repeated: tensors that the iterations of one statement change in turn.
        is_counting: whether an index or a bound is lowered: its arithmetic is taken not to overflow.
    """

    kernel: Kernel
    target: Any
    tree: TileTree
    layouts: Layouts
    facts: Facts
    options: KernelOptions
    uniformity: Uniformity
    threads: range
    names: Names = field(default_factory=Names)
    output: Output = field(default_factory=Output)
    slots: dict[Any, tuple[Value, int]] = field(default_factory=dict)
    is_counting: bool = False

    def __post_init__(self) -> None:
        self.places = Places(self)
        self.conditions = Conditions(self.facts)
        self.thread_maps = ThreadMaps(self.tree, dict(self.kernel.threads))
        self.iterations = Iterations(self.tree, self.facts, dict(self.kernel.threads))
        self.communicating = communicating_tensors(self.tree, self.iterations)
        self.repeated = repeated_tensors(self.tree, self.iterations)

    # Expressions -------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def sizes(self) -> frozenset[Any]:
        """The variables of the tensors' shapes and strides."""
        return frozenset(dimension_variables(self.kernel.func))

    @functools.cached_property
    def has_stores_in_use(self) -> bool:
        """Whether bulk stores of the program's write a tensor that other statements use."""
        moved = moved_in_bulk(self.tree)
        return any(WRITE in kinds and tensor in self.communicating for tensor, kinds in moved.items())

    def value(self, expr: Any) -> Value:
        """An expression as a value of the thread."""
        return lower_expr(self, expr)

    def index(self, expr: Any) -> Value:
        """An index expression as a value, simplified first."""
        outer, self.is_counting = self.is_counting, True
        found = lower_expr(self, self.facts.simplify(expr))
        self.is_counting = outer
        return found

    @property
    def thread(self) -> Value:
        """The thread's number in the group that runs the statement."""
        return TID if self.threads.start == 0 else TID - self.threads.start

    @property
    def is_first(self) -> Value:
        """Whether the thread is the first of the group."""
        return self.thread.is_("==", 0)

    def digit(self, mode: Mode | Digit) -> Value:
        """A digit of the thread's number in the group: ``thread // stride % extent``, by shifts and masks where these do."""
        digit, stride, extent = self.thread, mode.stride, mode.extent
        if stride > 1:
            digit = digit >> stride.bit_length() - 1 if is_power_of_two(stride) else digit // stride
        # The highest digit needs no remainder: nothing is above it.
        if stride * extent < len(self.threads):
            digit = digit & extent - 1 if is_power_of_two(extent) else digit % extent
        return digit

    @contextmanager
    def substituting(self, values: Mapping[Any, Value]) -> Iterator[None]:
        """While this lasts, variables are what ``values`` says."""
        outer = {var: self.names.values[var] for var in values}
        self.names.values.update(values)
        yield
        self.names.values.update(outer)

    def named(self, var: Any) -> Name:
        """A fresh name for a variable of the program."""
        name = self.names.values[var] = self.names.take(var.name)
        return name

    def variable(self, name: str, extent: Any, value: Value | None = None) -> Any:
        """A new variable of the IR from 0 to ``extent``, for indices of what is lowered; it has a value, or gets a name."""
        var = ir.Var(name, "int32")
        self.names.values[var] = self.names.take(name) if value is None else value
        self.facts.bind_range(var, extent)
        return var

    def name_of(self, var: Any) -> Name:
        """The name that a variable of the program has."""
        name = self.names.values[var]
        assert isinstance(name, Name), var
        return name

    def keep(self, value: Value, wanted: str) -> Name:
        """The name of an integer that each thread computes once, from its own number only."""
        if value not in self.output.kept:
            self.output.kept[value] = self.names.declare(wanted)
        return self.output.kept[value]

    # Buffers -----------------------------------------------------------------------------------------------------------

    def root(self, buffer: Any) -> Any:
        """The buffer that owns the storage of ``buffer``."""
        return self.tree.root_of(buffer)

    def array(self, buffer: Any) -> Array:
        """The array that a buffer is."""
        try:
            name = self.names.arrays[buffer]
        except KeyError:
            raise MisplacedError(f"{buffer.name} is not defined in this kernel") from None
        return Array(name, str(buffer.dtype), self.storage(buffer))

    def scratch(self, count: int, dtype: str, name: str) -> Array:
        """A new array in shared memory for the code of a statement."""
        buffer = ir.decl_buffer((count,), dtype, name, scope=SHARED, layout=None)
        self.names.arrays[buffer] = self.names.declare(name).text
        self.output.scratch.append(buffer)
        return self.array(buffer)

    def storage(self, buffer: Any) -> Any:
        """The memory that barriers guard: a shared tile (mbarriers order themselves), one slot of it, or a tensor whose accesses
        meet."""
        if lies_in_registers(buffer):
            return None
        root = self.root(buffer)
        if not is_shared(buffer) and root not in self.communicating | self.repeated:
            return None
        return next((Slot(root, number) for ring, (_, number) in self.slots.items() if self.root(ring) == root), root)

    # Accesses ----------------------------------------------------------------------------------------------------------

    def annotated(self, leaf: Any, accesses: Iterable[Any], maps: Callable[[Any], ThreadMap | None]) -> Any:
        """Adds to a leaf which threads access which elements (``maps``, None where unknown), and which storages only one
        commutative atomic operation accesses."""
        touched: dict[Any, list[Any]] = {}
        for access in accesses:
            storage = self.storage(access.buffer)
            if storage is not None:
                touched.setdefault(storage, []).append(access)
        for storage, found in touched.items():
            # Two threads may share a byte of a packed type, whichever elements they touch: no map separates them.
            operations = {access.operation for access in found}
            placed = [None if is_packed(str(access.buffer.dtype)) else maps(access) for access in found]
            known = [each for each in placed if each is not None]
            # One access that is not understood may be anywhere, so nothing is known of the storage as a whole.
            places = frozenset(known) if len(known) == len(placed) else None
            operation = operations.pop() if len(operations) == 1 else ""
            leaf.accesses = tuple(dict.fromkeys(_with(access, storage, operation, places) for access in leaf.accesses))
        return leaf

    def is_by_thread(self, node: Any) -> bool:
        """Whether a statement outside of nests is each thread's: it mentions what differs between threads, or stands below a
        condition that does."""
        return node in self.uniformity.by_thread or self.uniformity.varies(statement_exprs(node.stmt))

    def agrees(self, node: Any) -> bool:
        """Whether the threads of the group agree on how often the body of a loop or branch runs."""
        return self.uniformity.agrees(node, self.threads)

    def warps_agree(self, node: Any) -> bool:
        """Whether the threads of each warp of the group, all of them whole, agree on how often a body runs."""
        return is_whole_warps(self.threads) and self.uniformity.agrees(node, range(WARP))


def _with(access: Access, storage: Any, operation: str, maps: frozenset[ThreadMap] | None) -> Access:
    """An access with what is known of those of its storage; loads of the accelerator are no thread's."""
    if access.buffer != storage or access.agent in (Agent.BULK, Agent.BULK_OF_TENSOR):
        return access
    # One operation alone on a storage, as atomic additions are: in any order they give the same, and need no barrier among each
    # other.
    if operation and access.synchronous:
        return Access(storage, UPDATE, Agent.THREAD, operation, maps)
    return replace(access, maps=maps)
