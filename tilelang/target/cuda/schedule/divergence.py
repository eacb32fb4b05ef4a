"""Order inside of code that only some threads run, where no barrier of all threads can stand.

Where the threads of a warp agree and have to wait for each other only, they get barriers of the warp. What threads exchange
there through memory still keeps its order. Where the threads that take a branch are known, they get a barrier of their own. Any
other branch becomes a sequence of branches on the same condition, which is evaluated once, so that barriers of all threads fit
between them (so does one in which those that do not end here wait for each other by a barrier of the program):

    if (c) {            const bool taken = c;
      s[tid] = a;       if (taken) { s[tid] = a; }
      b = s[63 - tid];  __syncthreads();
    }                   if (taken) { b = s[63 - tid]; }

Nothing can order the iterations of a loop that threads leave at different times, unless the program does by itself. There an
element whose index is computed from data, or by the same expression in both statements, is taken to be the thread's own; where
indices show that two threads may meet, the program is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tilelang.errors import DivergenceError
from tilelang.ir.span import location_of
from tilelang.records import Record
from tilelang.target.cuda.arch import WARP
from tilelang.target.cuda.ir.access import Access
from tilelang.target.cuda.ir.code import (
    Barrier,
    Block,
    BranchCode,
    Code,
    GroupCode,
    Leaf,
    LoopCode,
    children,
    combined_accesses,
    may_jump,
    owner,
    rebuilt,
)
from tilelang.target.cuda.ir.instructions import Assign, Declare, Define, DefinePointer, Instruction, Return, WarpBarrier
from tilelang.target.cuda.ir.values import Binary, Name, Unary, Value

Conflict = Callable[..., "tuple[Access, Access] | None"]
Found = Iterator["Access | None"]
Takers = frozenset[int] | None
"""The threads that take a branch, where their numbers tell."""


class _Inseparable(Exception):
    """Code that is no sequence of branches: it may be left in its middle."""


class Divergence(Record):
    """How the code of a kernel may be rewritten.

    Attributes:
        conflict: two accesses of two collections whose order matters between threads, or groups of so many threads.
        barrier: a barrier of neighbouring threads.
        name: an identifier that is not used yet, like a wanted one.
    """

    conflict: Conflict
    barrier: Callable[[range], Instruction]
    name: Callable[[str], Name]

    def ordered(self, code: BranchCode | LoopCode) -> list[Code]:
        """Divergent code so that barriers can stand wherever its threads have to wait for each other.

        Raises:
            CompileError: nothing can order what they do.
        """
        group = isinstance(code, BranchCode) and code.threads is not None
        # Cheapest first: the warp converges on its own, without any other warp.
        if code.by_warps and self._is_order_of_warps(code, group):
            return [GroupCode(None, Block([_of_warps(code)]), range(WARP), WarpBarrier((1 << WARP) - 1), in_order=True)]
        if isinstance(code, LoopCode):
            _check_loop(code, self.conflict)
            return [code]
        # What a single thread does is in order; the others may have to wait for each other.
        single = code.threads is not None and len(code.threads) == 1
        ordered = code.otherwise if single else code
        # What one side's threads do is in order with what they do; which these are is told of the first side.
        takers = code.takers if code.otherwise is None else None
        if ordered is None or not self.has_order(ordered, group and not single, takers):
            return [code]
        if code.threads is not None:
            return self._group(code, code.threads)
        try:
            return self._branches(code, takers)
        except _Inseparable:
            _check_loop(code, self.conflict)
            return [code]

    def _is_order_of_warps(self, code: BranchCode | LoopCode, group: bool) -> bool:
        """Whether threads have to wait for others of their warp in some code, and for none else."""
        # No conflict at all needs no order; one between groups of 32 threads needs more than barriers of warps.
        accesses = combined_accesses(code)
        if self.conflict(accesses, accesses) is None or self.conflict(accesses, accesses, WARP) is not None:
            return False
        return self.has_order(_of_warps(code), group)

    def has_order(self, code: Code, group: bool, takers: Takers = None) -> bool:
        """Whether two accesses inside of some code have an order among threads; ``group``: a known group runs it; ``takers``: the
        threads here and there that do."""
        conflict = self.conflict if takers is None else partial(self.conflict, threads=takers)
        return any(True for _ in _Order(conflict, by_program=not group, by_arrivals=takers is None).of(code, set()))

    # A barrier of the threads that take a branch -----------------------------------------------------------------------

    def _group(self, code: BranchCode, threads: range) -> list[Code]:
        barrier = self.barrier(threads)
        if code.otherwise is None:
            return [GroupCode(code.condition, code.then, threads, barrier, in_order=True)]
        # Evaluated once, as below: the first side may change what the condition reads.
        taken = self.name("taken")
        otherwise = BranchCode(Unary("!", taken), code.otherwise, divergent=True, span=code.span)
        return [
            Leaf([Define(taken, "bool", code.condition)]),
            GroupCode(taken, code.then, threads, barrier, in_order=True),
            *self.ordered(otherwise),
        ]

    # A sequence of branches --------------------------------------------------------------------------------------------

    def _branches(self, code: BranchCode, takers: Takers) -> list[Code]:
        taken = self.name("taken")
        # Evaluated once: statements of the branch may change what the condition reads.
        made: list[Code] = [Leaf([Define(taken, "bool", code.condition)]), *self._guarded(taken, code.then, takers)]
        return made + (self._guarded(Unary("!", taken), code.otherwise, takers) if code.otherwise is not None else [])

    def _guarded(self, condition: Value, block: Block, takers: Takers) -> list[Code]:
        """The statements of a block one by one under a condition; what they define is declared outside."""
        made: list[Code] = []
        for item in block.items:
            if isinstance(item, Block):
                made += self._guarded(condition, item, takers)
            elif isinstance(item, GroupCode) and item.scattered:
                made += self._guarded(condition, item.body, takers)
            elif isinstance(item, Leaf) and any(isinstance(each, (Define, DefinePointer)) for each in item.body):
                made += [item] if item.uniform else self._defining(condition, item)
            elif isinstance(item, Barrier) and item.after_exit:
                made.append(item)
            elif isinstance(item, (Leaf, BranchCode, LoopCode)) and not self.has_order(item, False, takers):
                made.append(_part(condition, item))
            else:
                made += self._parts(condition, item, takers)
        return made

    def _defining(self, condition: Value, leaf: Leaf) -> list[Code]:
        """Variables that threads outside of the branch have, too, without a value."""
        declared, body = [], []
        for each in leaf.body:
            if isinstance(each, DefinePointer):
                raise _Inseparable
            if isinstance(each, Define):
                # Statements after the branch may name it: it is declared for all threads and assigned by those that
                # take the branch.
                declared.append(Declare(each.name, each.dtype))
                each = Assign(each.name, each.value)
            body.append(each)
        return [Leaf(declared), _part(condition, replace(leaf, body=body))]

    def _parts(self, condition: Value, item: Code, takers: Takers) -> list[Code]:
        """A statement with an order inside, under a condition."""
        if may_jump(item):
            raise _Inseparable
        if isinstance(item, LoopCode) and not item.divergent:
            return [replace(item, body=Block(self._guarded(condition, item.body, takers)))]
        if not isinstance(item, BranchCode):
            raise _Inseparable
        taken = self.name("taken")
        # `&&` evaluates the inner condition only where the outer one holds, which may be what makes it safe: if (i < n) if (x[i]
        # > 0).
        made: list[Code] = [Leaf([Define(taken, "bool", Binary("&&", condition, item.condition))])]
        made += self._guarded(taken, item.then, takers)
        if item.otherwise is not None:
            made += self._guarded(Binary("&&", condition, Unary("!", taken)), item.otherwise, takers)
        return made


class _Order(Record):
    """A walk through code for the accesses that have to wait for others.

    Attributes:
        conflict: as in :class:`Divergence`.
        certain: whether only the conflicts count that indices show; barriers of all threads, and that threads leave a loop at
            different times, then make no difference.
        by_program: whether signals and waits of the program order its threads. In a known group of threads they do not: each
            statement sees what the one before it stored, whichever others the program signals to between the two.
        by_arrivals: whether a signal alone does.
    """

    conflict: Conflict
    certain: bool = False
    by_program: bool = True
    by_arrivals: bool = True

    def of(self, code: Code, pending: set[Access]) -> Found:
        """The accesses of code that have to wait for those since the program itself last ordered its threads (``pending``), and
        None for each barrier of all threads."""
        step = _STEPS.get(type(code))
        if step is not None:
            yield from step(self, code, pending)

    def block(self, code: Block, pending: set[Access]) -> Found:
        for item in code.items:
            yield from self.of(item, pending)

    def branch(self, code: BranchCode, pending: set[Access]) -> Found:
        # Each thread takes one of the branches, so that the accesses of one are not pending in the other.
        other = set(pending)
        yield from self.of(code.then, pending)
        if code.otherwise is not None:
            yield from self.of(code.otherwise, other)
        pending |= other

    def barrier(self, code: Barrier, pending: set[Access]) -> Found:
        if code.after_exit and not self.certain:
            yield None
        pending.clear()

    def group(self, code: GroupCode, pending: set[Access]) -> Found:
        if code.barrier is None:
            yield from self.of(code.body, set())
        yield from self.accesses(combined_accesses(code), pending)

    def loop(self, code: LoopCode, pending: set[Access]) -> Found:
        # Threads are in different iterations at the same time, so that no place in the loop is the same moment for all: it is one
        # access of everything in it.
        if code.divergent and not self.certain:
            _check_loop(code, self.conflict)
            yield from self.accesses(combined_accesses(code), pending)
            return
        # Twice, so that the accesses of an iteration meet those of the next one.
        for _ in range(2):
            yield from self.of(code.body, pending)

    def leaf(self, leaf: Leaf, pending: set[Access]) -> Found:
        # A statement that signals and waits is a hardware barrier of whole warps.
        by_program = self.by_program and (self.by_arrivals or not leaf.arrives)
        if (leaf.hands_over or leaf.synchronises) and (by_program or (leaf.hands_over and leaf.waits)):
            pending.clear()
        yield from self.accesses(leaf.accesses, pending)

    def accesses(self, accesses: Sequence[Access], pending: set[Access]) -> Found:
        found = self._certain(accesses, pending) if self.certain else self.conflict(accesses, pending)
        if found is not None:
            yield found[0]
        pending.update(accesses)

    def _certain(self, accesses: Sequence[Access], pending: set[Access]) -> tuple[Access, Access] | None:
        """A conflict between elements that indices show to differ."""
        pairs = ((one, [other for other in pending if _may_meet(one, other)]) for one in accesses)
        return next(filter(None, (self.conflict([one], others) for one, others in pairs)), None)


_STEPS: Mapping[type, Callable[..., Found]] = {
    Leaf: _Order.leaf,
    Barrier: _Order.barrier,
    BranchCode: _Order.branch,
    LoopCode: _Order.loop,
    GroupCode: _Order.group,
    Block: _Order.block,
}
"""How the walk goes on from each kind of code."""


def _check_loop(code: BranchCode | LoopCode, conflict: Conflict) -> None:
    for access in _Order(conflict, certain=True).of(code, set()):
        assert access is not None
        raise DivergenceError(
            f"threads run this at different times, and one may touch an element of {owner(access.buffer).name} that another "
            "writes",
            location_of(code.span),
            "no barrier can stand here: let all threads run the same iterations, with conditions inside, or order them by "
            "T.sync_warp, mbarriers or atomics",
        )


def _of_warps(code: Code) -> Code:
    """Code for a single warp: conditions on which its threads agree are not divergent."""
    if isinstance(code, GroupCode):
        return code
    new = rebuilt(code, _of_warps)
    if isinstance(new, (LoopCode, BranchCode)):
        new.divergent = new.divergent and not new.by_warps
    return new


def _part(condition: Value, item: Code) -> BranchCode:
    """One statement of what was one branch."""
    if may_jump(item):
        raise _Inseparable
    return BranchCode(condition, Block([item]), divergent=True)


def _may_meet(one: Access, other: Access) -> bool:
    """Whether the indices of two accesses show that two threads may touch one element."""
    if one.maps is None or other.maps is None:
        return False
    return any(a.place is not None and b.place is not None and a.place != b.place for a in one.maps for b in other.maps)


def check_returns(code: Code, gone: Any = None, span: Any = None, divergent: bool = False) -> Any:
    """Checks that no thread of a barrier may have returned before it.

    Args:
        gone: location of a statement at which threads may have returned so far.
        span: location of the enclosing statement.
        divergent: whether threads may disagree on whether they run the code.

    Returns:
        ``gone`` after the code.

    Raises:
        DivergenceError: a barrier follows such a statement.
    """
    if isinstance(code, Barrier) and gone is not None:
        raise DivergenceError(
            "some threads return here, and the others of their block have to wait for each other afterwards",
            location_of(gone),
            "let the threads skip what follows by a condition, or return at the end of the kernel or of a branch",
        )
    if isinstance(code, Leaf) and any(isinstance(each, Return) for each in code.body):
        return span if divergent else gone
    if isinstance(code, (LoopCode, BranchCode)):
        divergent, span = divergent or code.divergent, code.span or span
    # A return in one iteration comes before the barriers of the next.
    for _ in range(2 if isinstance(code, LoopCode) else 1):
        for child in children(code):
            gone = check_returns(child, gone, span, divergent)
    return gone
