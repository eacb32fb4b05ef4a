"""The device IR as a tree: leaves of statements with the memory that they touch, and the structure around them.

Barriers are placed between leaves, never inside of one. So a leaf has the accesses of all its statements together, and the
structure says where threads may take different paths and thus cannot meet at a barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, TypeVar, Union

from tilelang.ir.access import READ
from tilelang.records import Record
from tilelang.target.cuda.ir.access import Access, Agent
from tilelang.target.cuda.ir.instructions import Instruction
from tilelang.target.cuda.ir.values import Binary, Name, Number, Value, value_accesses

Found = TypeVar("Found")


class Slot(Record):
    """One slot of a multi-buffered shared tile; accesses name it in place of the buffer.

    Numbers are relative to the iteration of the pipelined loop: within one iteration, equal numbers are the same memory.
    """

    buffer: Any
    number: int


def owner(buffer: Any) -> Any:
    """The buffer that a slot belongs to; a buffer is its own."""
    return buffer.buffer if isinstance(buffer, Slot) else buffer


@dataclass(eq=False, slots=True)
class Leaf:
    """Statements without a barrier inside.

    Attributes:
        body: instructions, and loops and branches over such.
        accesses: their accesses of memory that barriers order, without duplicates.
        fills: the storages that they overwrite as a whole, so that no old content is needed.
        detached: whether the program waits for their asynchronous copies by statements of its own.
        hands_over: whether the statements signal other threads that they may access what was written before, as an arrival does.
        synchronises: whether the program itself orders its threads here.
        arrives: whether the statements only signal others, and wait for none.
        acquires: whether some threads see from here on what other blocks have written; the other threads do after a barrier.
        waits: whether the threads that come here wait for others of the block or for an asynchronous copy.
        uniform: whether the statements compute the same in all threads, so that threads that do not need the result may run them.
        span: of the statement.
    """

    body: list[Any]
    accesses: tuple[Access, ...] = ()
    fills: frozenset[Any] = frozenset()
    detached: bool = False
    hands_over: bool = False
    synchronises: bool = False
    arrives: bool = False
    acquires: bool = False
    waits: bool = False
    uniform: bool = False
    span: Any = None

    def storages(self, *kinds: str) -> set[Any]:
        """The storages that the statements access, of these kinds where any are given."""
        return {access.buffer for access in self.accesses if not kinds or access.kind in kinds}


@dataclass(eq=False, slots=True)
class Barrier:
    """Every thread of the group waits for all others.

    Attributes:
        fence: whether an asynchronous agent (wgmma, the tensor memory accelerator) will read what they wrote: it accesses memory
            through another proxy, which needs a proxy fence first (PTX manual, "Async proxy").
        of_tensors: whether that holds of tensors, too.
        of_program: whether the program asked for it.
        after_exit: whether threads that have returned may come, too.
    """

    fence: bool = False
    of_tensors: bool = False
    of_program: bool = False
    after_exit: bool = False


@dataclass(eq=False, slots=True)
class Wait:
    """Waits until the threads' own asynchronous copies are complete, except the newest ``pending`` groups.

    Attributes:
        users: whether the program wrote it; it is then taken to cover every copy that is used after it.
        rings: of a wait of a pipelined loop, the buffers whose slots it waits for; it covers no other copies.
    """

    pending: int
    users: bool = False
    rings: frozenset[Any] = frozenset()

    def completed(self, copies: Collection[Access]) -> set[Access]:
        """Those of the accesses of copies in flight that are certainly complete afterwards."""
        # That the wait of a pipeline leaves the newest groups in flight needs no count here: their slots are others
        # (`Slot.number`) than those that the step reads.
        if self.rings:
            return {copy for copy in copies if owner(copy.buffer) in self.rings}
        return set() if self.pending and not self.users else set(copies)


@dataclass(eq=False, slots=True)
class Jump:
    """``break`` or ``continue`` of the loop that it stands in."""

    keyword: str


@dataclass(eq=False, slots=True)
class Block:
    """Code in order; with ``braces`` its definitions are not visible outside."""

    items: list[Any] = field(default_factory=list)
    braces: bool = False


@dataclass(eq=False, slots=True)
class LoopCode:
    """A loop.

    Attributes:
        condition: under which another iteration runs.
        counters: variables with their first values; a loop without any is a ``while``.
        advance: what the variables become after an iteration.
        unroll: number of iterations to unroll: 0 for all of them, None to leave it to the device compiler.
        dtype: of the counters.
        carried: shared buffers whose slots the loop itself keeps apart (the rings of a pipeline); they count as read after it.
        divergent: whether threads may leave it at different times, so that no barrier can be inside.
        by_warps: of a divergent loop, whether the threads of a warp leave it together.
        span: of the statement.
    """

    condition: Value
    body: Block
    counters: tuple[tuple[Name, Value], ...] = ()
    advance: tuple[tuple[Name, Value], ...] = ()
    unroll: int | None = None
    dtype: str = "int32"
    carried: frozenset[Any] = frozenset()
    divergent: bool = False
    by_warps: bool = False
    span: Any = None


@dataclass(eq=False, slots=True)
class BranchCode:
    """An ``if``.

    Attributes:
        divergent: whether threads may disagree on its condition, so that no barrier can be inside.
        threads: those that take a divergent branch, where they are known to be a range.
        takers: the threads that take a divergent branch, where their numbers tell.
        by_warps: of a divergent branch, whether the threads of a warp agree.
        span: of the statement.
    """

    condition: Value
    then: Block
    otherwise: Block | None = None
    divergent: bool = False
    threads: range | None = None
    takers: frozenset[int] | None = None
    by_warps: bool = False
    span: Any = None


@dataclass(eq=False, slots=True)
class GroupCode:
    """Code for some neighbouring threads of the block.

    Attributes:
        condition: whether a thread is one of them; None where all threads around run it, but with a barrier of another kind.
        barrier: the barrier of these threads; None where the program orders them itself.
        in_order: whether it is ordered with the code before and after it, although other threads run that.
        takes_part: whether its threads wait for others, or signal to them, by barriers of the program: the groups behind it are
            in no order with it but by these.
        keeps_turns: whether it is a role of the compiler's, in which all that one writes another reads.
        scattered: whether it is a branch that threads here and there take, in no order with groups before or behind it.
        takers: the threads that take a scattered branch, where their numbers tell; they have no barrier.
        tests_memory: whether it is a branch whose condition reads memory, in order with what stands before it.
    """

    condition: Value | None
    body: Block
    threads: range
    barrier: Instruction | None
    in_order: bool = False
    takes_part: bool = False
    keeps_turns: bool = False
    scattered: bool = False
    takers: frozenset[int] | None = None
    tests_memory: bool = False


Code = Union[Leaf, Barrier, Wait, Jump, Block, LoopCode, BranchCode, GroupCode]


def leaf(body: list[Any], fills: Any = (), detached: bool = False, hands_over: bool = False) -> Leaf:
    """A leaf with the accesses of its statements.

    Args:
        body: instructions and loops.
        fills: written storages that are overwritten as a whole.
        detached: as in :class:`Leaf`.
        hands_over: as in :class:`Leaf`.
    """
    touched = dict.fromkeys(access for item in body for access in accesses(item))
    return Leaf(body, tuple(touched), frozenset(fills), detached, hands_over)


def made_by(agent: Agent, code: Leaf) -> Leaf:
    """A leaf whose accesses are those of an agent."""
    code.accesses = tuple(replace(access, agent=agent) for access in code.accesses)
    return code


def accesses(code: Any) -> Iterator[Access]:
    """The accesses of memory that barriers order, in program order."""
    if isinstance(code, Instruction):
        yield from code.accesses()
    else:
        yield from _own_control_accesses(code)
    for part in contents(code):
        yield from accesses(part)


def control_accesses(code: Any) -> Iterator[Access]:
    """The accesses by conditions and bounds, of code and of what is inside."""
    yield from _own_control_accesses(code)
    for part in children(code):
        yield from control_accesses(part)


def _own_control_accesses(code: Any) -> Iterator[Access]:
    if isinstance(code, LoopCode):
        for value in (code.condition, *(value for _, value in (*code.counters, *code.advance))):
            yield from value_accesses(value)
    elif isinstance(code, (BranchCode, GroupCode)) and code.condition is not None:
        yield from value_accesses(code.condition)


def find(code: Any, kind: type[Found]) -> Iterator[Found]:
    """Code and instructions of a class, in program order."""
    if isinstance(code, kind):
        yield code
    for part in contents(code):
        yield from find(part, kind)


def counted(name: Name, extent: Any, body: list[Any], unroll: int | None = 0) -> LoopCode:
    """A counting loop.

    Args:
        name: of the counter, which starts at 0.
        extent: the exclusive end.
        body: statements.
        unroll: as in :class:`LoopCode`.
    """
    return LoopCode(name.is_("<", extent), Block(body), ((name, Number(0)),), ((name, name + 1),), unroll)


def nested(loops: Sequence[tuple[Name, Any]], body: list[Any]) -> list[Any]:
    """Unrolled loops of names over extents, the outermost first, around some statements."""
    for name, extent in reversed(loops):
        body = [counted(name, extent, body)]
    return body


def scoped(loops: Sequence[tuple[Name, Any]], body: list[Any]) -> list[Any]:
    """The same, in braces of their own where there is no loop: what the statements define is not visible outside."""
    return nested(loops, body) if loops else [Block(body, braces=True)]


def partly_unrolled(loops: Sequence[tuple[Name, int]], body: list[Any], limit: int, whole: Collection[Name] = ()) -> list[Any]:
    """Nested loops whose innermost ones are unrolled, up to a number of iterations.

    Args:
        loops: counters with their extents, outermost first.
        body: statements.
        limit: number of iterations to unroll, approximately.
        whole: counters of loops that are always unrolled completely.
    """
    # What is written out multiplies: loops that must be unrolled take their share of the limit first, the innermost of the others
    # next.
    limit //= prod(extent for name, extent in loops if name in whole)
    for name, extent in reversed(loops):
        if name in whole:
            body = [counted(name, extent, body)]
            continue
        body = [counted(name, extent, body, 0 if extent <= limit else max(limit, 1))]
        limit //= extent
    return body


def under(condition: Value | None, body: list[Any]) -> list[Any]:
    """Some statements under a condition, where there is one."""
    return body if condition is None else [BranchCode(condition, Block(body))]


def leaves(code: Code) -> Iterator[Leaf]:
    """The leaves in program order."""
    if isinstance(code, Leaf):
        yield code
    for child in children(code):
        yield from leaves(child)


def children(code: Any) -> list[Code]:
    """The code directly inside."""
    if isinstance(code, Block):
        return code.items
    if isinstance(code, (LoopCode, GroupCode)):
        return [code.body]
    if isinstance(code, BranchCode):
        return [code.then] if code.otherwise is None else [code.then, code.otherwise]
    return []


def contents(code: Any) -> list[Any]:
    """The code, or the statements of a leaf, directly inside."""
    return code.body if isinstance(code, Leaf) else children(code)


def rebuilt(code: Code, of: Callable[[Any], Any]) -> Code:
    """New code of the same structure, with ``of`` applied to the code directly inside; statements are as they are."""
    if isinstance(code, Block):
        return replace(code, items=list(map(of, code.items)))
    if isinstance(code, (LoopCode, GroupCode)):
        return replace(code, body=of(code.body))
    if isinstance(code, BranchCode):
        return replace(code, then=of(code.then), otherwise=None if code.otherwise is None else of(code.otherwise))
    return code


def with_span(items: list[Code], span: Any) -> list[Code]:
    """The same code; whatever in it has no span yet gets this one."""
    for code in items:
        if isinstance(code, (Leaf, LoopCode, BranchCode, Instruction)) and getattr(code, "span", None) is None:
            object.__setattr__(code, "span", span)  # instructions are frozen; their span takes no part in comparisons
        with_span(children(code), span)
    return items


def is_run(code: Code) -> bool:
    """Whether code is a loop that certainly has an iteration: one that counts up to a limit."""
    if not isinstance(code, LoopCode) or not code.counters:
        return False
    (_, first), limit = code.counters[0], code.condition.right if isinstance(code.condition, Binary) else None
    return isinstance(first, Number) and isinstance(limit, Number) and first.value < limit.value


def may_jump(code: Code) -> bool:
    """Whether code may leave the iteration that it is in; a jump inside of an inner loop leaves that one only."""
    return isinstance(code, Jump) or not isinstance(code, LoopCode) and any(map(may_jump, children(code)))


def roles_at(items: list[Code], position: int) -> list[GroupCode]:
    """The longest run of groups from a position on that run concurrently, such as the roles of a warp-specialised kernel: no
    barrier can order one after the other. They have no thread in common, and those of the first take part in barriers, or all are
    of one branch, whose barrier they have together. Or they are branches that scattered threads take.
    """
    found: list[GroupCode] = []
    for code in items[position:]:
        if not isinstance(code, GroupCode) or any(code.in_order or _share_threads(code, other) for other in found):
            break
        if found and not (found[0].takes_part or (code.barrier is not None and code.barrier is found[0].barrier)):
            break
        found.append(code)
        if code.in_order:
            break
    return found


def combined_accesses(code: Code) -> list[Access]:
    """The accesses of code that has no place for barriers inside, as those of one leaf.

    Where it reads what it loads by bulk copies it waits for these itself (:attr:`Access.awaited`).
    """
    found = dict.fromkeys(access for leaf in leaves(code) for access in leaf.accesses)
    loading = {access.buffer: leaf for leaf in leaves(code) for access in leaf.accesses if access.is_bulk_load}
    if not loading:
        return [*found]
    read = {access.buffer for access in found if access.kind == READ}
    awaited = {buffer: leaf for buffer, leaf in loading.items() if buffer in read}

    def is_ordered_inside(access: Access) -> bool:
        return access.buffer in awaited and (access.kind == READ or access.is_bulk_load)

    return [replace(access, awaited=awaited[access.buffer]) if is_ordered_inside(access) else access for access in found]


def _share_threads(a: GroupCode, b: GroupCode) -> bool:
    if a.scattered and b.scattered:
        return False
    one, other = (a.takers or a.threads), (b.takers or b.threads)
    return not frozenset(one).isdisjoint(other)
