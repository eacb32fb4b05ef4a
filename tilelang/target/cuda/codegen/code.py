"""Generated code as a tree: text in leaves with the shared memory that each touches, and the structure that barriers need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from tilelang.target.cuda.ir.access import READ, UPDATE, WRITE, Access, ThreadMap, Unit


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot of a shared buffer that has several, in place of the buffer where code says what it touches.

    Slots are numbered within a step of the loop that steps through them: equal numbers are the same memory there.
    """

    buffer: Any
    number: int


def owner(buffer: Any) -> Any:
    """The buffer that a slot belongs to; a buffer is its own."""
    return buffer.buffer if isinstance(buffer, Slot) else buffer


@dataclass(eq=False, slots=True)
class Leaf:
    """Lines without a barrier inside.

    Attributes:
        reads, writes: shared buffers that they touch.
        copies: shared buffers that they write by cp.async, visible after a wait.
        fills: those of the written ones that are overwritten as a whole; a tile that the tensor memory accelerator fills is
            among the read ones too.
        async_reads: those of the read ones that wgmma or the tensor memory accelerator reads.
        detached: whether the program itself waits for the copies.
        hands_over: whether other threads, which these lines tell so, may touch what was written before.
        updates: the atomic operation of those that nothing else is done to.
        maps: which threads touch which elements, where the indices say so.
    """

    lines: list[str]
    reads: frozenset[Any] = frozenset()
    writes: frozenset[Any] = frozenset()
    copies: frozenset[Any] = frozenset()
    fills: frozenset[Any] = frozenset()
    async_reads: frozenset[Any] = frozenset()
    detached: bool = False
    hands_over: bool = False
    updates: Mapping[Any, str] = field(default_factory=dict)
    maps: Mapping[Any, frozenset[ThreadMap]] = field(default_factory=dict)

    @property
    def accesses(self) -> Iterator[Access]:
        """What the lines do to shared buffers; a load of the accelerator has no reader here but the program's own barrier."""
        loaded = self.fills - self.writes - self.copies
        for buffer in self.updates:
            yield Access(buffer, UPDATE, Unit.THREAD, self.updates[buffer], self.maps.get(buffer))
        for buffer in self.reads - loaded - set(self.updates):
            unit = Unit.TENSOR_CORE if buffer in self.async_reads else Unit.THREAD
            yield Access(buffer, READ, unit, maps=self.maps.get(buffer))
        for buffer in self.writes - set(self.updates):
            yield Access(buffer, WRITE, maps=self.maps.get(buffer))
        for buffer in self.copies:
            yield Access(buffer, WRITE, Unit.CP_ASYNC, maps=self.maps.get(buffer))
        for buffer in loaded:
            yield Access(buffer, WRITE, Unit.BULK)


@dataclass(eq=False, slots=True)
class Barrier:
    """Every thread of the scope waits for all others.

    Attributes:
        fence: whether what they wrote is for an asynchronous unit (wgmma, the tensor memory accelerator).
        of_program: whether the program has it.
    """

    fence: bool = False
    of_program: bool = False


@dataclass(eq=False, slots=True)
class Wait:
    """The threads' own asynchronous copies are complete, the newest ``pending`` groups aside.

    Attributes:
        users: the program's own wait, which is taken to cover every copy that is used after it.
        rings: where given, the wait of a pipelined loop for the slots of these buffers that the step uses, and for them only.
    """

    pending: int
    users: bool = False
    rings: frozenset[Any] = frozenset()


@dataclass(eq=False, slots=True)
class Jump:
    """``break`` or ``continue`` of the loop that it stands in."""

    keyword: str


@dataclass(eq=False, slots=True)
class Block:
    """Code in order."""

    items: list[Code] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class LoopCode:
    """A loop.

    Attributes:
        header: ``for (...)`` or ``while (...)`` with any pragma before it.
        carried: shared buffers that the loop manages by itself (the rings of a pipeline); they count as read when it is over.
        divergent: whether threads may leave it at different times, so that no barrier can be inside.
        span: of the statement.
    """

    header: str
    body: Block
    carried: frozenset[Any] = frozenset()
    divergent: bool = False
    span: Any = None


@dataclass(eq=False, slots=True)
class BranchCode:
    """An ``if``.

    Attributes:
        divergent: whether threads may disagree on its condition, so that no barrier can be inside.
        span: of the statement.
    """

    condition: str
    then: Block
    otherwise: Block | None = None
    divergent: bool = False
    span: Any = None


@dataclass(eq=False, slots=True)
class ScopeCode:
    """Code for some threads of the block, ``count`` from ``first``.

    Attributes:
        barrier: the text of a barrier of these threads; empty where they order what they do by themselves.
    """

    condition: str
    body: Block
    first: int
    count: int
    barrier: str


Code = Union[Leaf, Barrier, Wait, Jump, Block, LoopCode, BranchCode, ScopeCode]


def leaf_of(lines: list[str], reads: Any = (), writes: Any = (), copies: Any = (), fills: Any = ()) -> Leaf:
    """A leaf from any collections of buffers."""
    return Leaf(lines, frozenset(reads), frozenset(writes), frozenset(copies), frozenset(fills))


def leaves(code: Code) -> Iterator[Leaf]:
    """The leaves in program order."""
    if isinstance(code, Leaf):
        yield code
    for child in children(code):
        yield from leaves(child)


def children(code: Code) -> list[Code]:
    """The code directly inside."""
    if isinstance(code, Block):
        return code.items
    if isinstance(code, (LoopCode, ScopeCode)):
        return [code.body]
    if isinstance(code, BranchCode):
        return [code.then] + ([code.otherwise] if code.otherwise is not None else [])
    return []


def may_jump(code: Code) -> bool:
    """Whether code may leave the iteration that it stands in."""
    return isinstance(code, Jump) or not isinstance(code, LoopCode) and any(map(may_jump, children(code)))


def roles_at(items: list[Code], position: int) -> list[ScopeCode]:
    """The longest run of scopes from a position on that have no thread in common: they run side by side."""
    found: list[ScopeCode] = []
    for code in items[position:]:
        if not isinstance(code, ScopeCode) or any(_share_threads(code, other) for other in found):
            break
        found.append(code)
    return found


def _share_threads(a: ScopeCode, b: ScopeCode) -> bool:
    return a.first < b.first + b.count and b.first < a.first + a.count


def render(code: Code, indent: int = 1, barrier: str = "__syncthreads();") -> list[str]:
    """The lines of some code."""
    return list(_render(code, indent, barrier))


def _render(code: Code, indent: int, barrier: str) -> Iterator[str]:
    pad = "  " * indent
    if isinstance(code, Leaf):
        yield from (pad + line for line in code.lines)
    elif isinstance(code, Barrier):
        yield from [pad + "tl::fence_proxy_async();"] * code.fence
        yield pad + barrier
    elif isinstance(code, Wait):
        yield f"{pad}tl::cp_async_wait<{code.pending}>();"
    elif isinstance(code, Jump):
        yield f"{pad}{code.keyword};"
    elif isinstance(code, Block):
        for item in code.items:
            yield from _render(item, indent, barrier)
    elif isinstance(code, LoopCode):
        *pragmas, header = code.header.split("\n")
        yield from (pad + pragma for pragma in pragmas)
        yield f"{pad}{header} {{"
        yield from _render(code.body, indent + 1, barrier)
        yield pad + "}"
    elif isinstance(code, BranchCode):
        yield f"{pad}if ({code.condition}) {{"
        yield from _render(code.then, indent + 1, barrier)
        if code.otherwise is not None:
            yield pad + "} else {"
            yield from _render(code.otherwise, indent + 1, barrier)
        yield pad + "}"
    elif isinstance(code, ScopeCode):
        yield f"{pad}if ({code.condition}) {{"
        yield from _render(code.body, indent + 1, code.barrier)
        yield pad + "}"
