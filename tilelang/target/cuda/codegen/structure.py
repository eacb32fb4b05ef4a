"""Control structure as code: loops, branches, and groups of threads, each with what the threads around it agree on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import compress, groupby
from typing import Any

from tilelang.errors import UnsupportedError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.visit import walk_expr
from tilelang.target.cuda.analysis.groups import ThreadConditions
from tilelang.target.cuda.analysis.waiting import acquires, orders_threads, takes_part, tests_memory
from tilelang.target.cuda.arch import WARP, in_one_warp, is_whole_warps
from tilelang.target.cuda.codegen.emitter import TID, WARP_GROUP_NUMBER
from tilelang.target.cuda.codegen.statements import loop_of
from tilelang.target.cuda.intrinsics.table import intrinsic, is_atomic
from tilelang.target.cuda.ir.code import Block, BranchCode, Code, GroupCode, Jump, Leaf, LoopCode, leaf
from tilelang.target.cuda.ir.instructions import Evaluate, Instruction, NamedBarrier, WarpBarrier
from tilelang.target.cuda.ir.values import Binary, Call, Literal, Unary, Value, both
from tilelang.target.cuda.tile.tree import (
    WARP_ROLE,
    Branch,
    Loop,
    Operator,
    Parallel,
    Repeat,
    Scalar,
    Sequence,
    ThreadGroup,
    walk,
)

HARDWARE_BARRIERS = 16

RANKS = ((128, WARP_GROUP_NUMBER), (32, Call("tl::warp_rank")), (1, TID))
"""Threads of a warp group, a warp and a thread, with its number in the block."""

_GROUPS_OF_A_BRANCH = 4
"""As many groups as a branch may be repeated for, one after the other, where its threads are no neighbours."""


def emit_loop(generator: Any, node: Loop) -> list[Code]:
    """A ``for`` loop, pipelined where its schedule says so."""
    e = generator.emitter
    if node.is_pipelined:
        from tilelang.target.cuda.codegen.pipelined import emit_pipeline  # warp groups that load tiles leave no such loop

        pipelined = emit_pipeline(generator, node)
        if pipelined is not None:
            return pipelined
    if int(node.stmt.kind) == int(ir.ForKind.VECTORIZED):
        from tilelang.target.cuda.codegen.thread_copies import vector_loop  # few programs vectorise by hand

        vectors = vector_loop(generator, node)
        if vectors is not None:
            return [vectors]
    loop = loop_of(e, node.stmt)
    # `#pragma unroll 1`: a loop that the program does not unroll stays one, which the device compiler would unroll as it likes.
    loop.unroll, loop.span = 1 if loop.unroll is None else loop.unroll, node.stmt.span
    loop.divergent, loop.body = generator.below(node, node.body)
    loop.by_warps = e.warps_agree(node)
    return [*_guarded_reads(*(first for _, first in loop.counters), loop.condition), loop]


def emit_repeat(generator: Any, node: Repeat) -> list[Code]:
    """A ``while`` loop; what the block decides by an atomic access is decided once, for all its threads."""
    e, condition = generator.emitter, node.stmt.condition
    decided = bool(node.body.items) and e.uniformity.is_done_once([condition], node)
    tests, value = decide_once(generator, condition) if decided else ([], e.value(condition))
    with e.conditions.assuming(condition):
        divergent, body = generator.below(node, node.body)
    if decided:
        # `while True`: the one thread decides at the start of each iteration, and all leave together.
        leave = BranchCode(Unary("!", value), Block([Jump("break")]))
        return [LoopCode(Literal(1, "bool"), Block([*tests, leave, *body.items]), span=node.stmt.span)]
    # while (atomic_load(flag) == 0): a condition by which the program waits for other threads is evaluated again after each
    # iteration, and so orders what stands before and after.
    waits = orders_threads([condition]) or any(map(is_atomic, walk_expr(condition)))
    body.items += _guarded_reads(value)
    if waits:
        body.items.append(Leaf([], synchronises=True, acquires=acquires([condition]), waits=True))
    return [*_guarded_reads(value), LoopCode(value, body, divergent=divergent, by_warps=e.warps_agree(node), span=node.stmt.span)]


def emit_branch(generator: Any, node: Branch) -> list[Code]:
    """An ``if``."""
    e, condition = generator.emitter, node.stmt.condition
    if e.uniformity.is_done_once([condition], node):
        before, value = decide_once(generator, condition)
    else:
        value = e.value(condition)
        before = _guarded_reads(value)
    otherwise = None
    with e.conditions.assuming(condition):
        divergent, then = generator.below(node, node.then)
    if node.otherwise is not None:
        with e.conditions.assuming(condition, holds=False):
            otherwise = generator.below(node, node.otherwise)[1]
    groups, takers = _takers(e, node) if divergent else ([], None)
    taking_part, tests = takes_part(node), tests_memory(condition)
    # Its threads may wait for what others do behind the branch, or others wait in front of it for what these do behind: no
    # barrier of the block may stand there.
    beside = divergent and (taking_part or generator.behind)
    if groups and otherwise is None and beside:
        whole = len(groups) == 1
        with e.conditions.assuming(condition):
            bodies = [then, *(generator.below(node, node.then)[1] for _ in groups[1:])]
        # Groups of the same branch wait for each other where one uses what another has stored.
        barrier = None if whole else generator.barriers.of_all(tuple(groups))
        among = [membership(group, e.threads, RANKS[-1:]) for group in groups]
        if takers is None:
            # What else it tests is for this branch alone: branches of one group become one.
            bodies = [Block([*before, BranchCode(value, body, span=node.stmt.span)]) for body in bodies]
        else:
            among = [value] if whole else [both([value, each]) for each in among]
        made = zip(among, bodies, groups)
        return [
            GroupCode(member, body, group, barrier, takes_part=taking_part, tests_memory=tests) for member, body, group in made
        ]
    threads = groups[0] if len(groups) == 1 else None
    branch = [*before, BranchCode(value, then, otherwise, divergent, threads, takers, e.warps_agree(node), node.stmt.span)]
    scattered = GroupCode(None, Block(branch), e.threads, None, scattered=True, takers=takers)
    return [replace(scattered, takes_part=taking_part, tests_memory=tests)] if beside else branch


def _takers(emitter: Any, node: Branch) -> tuple[list[range], frozenset[int] | None]:
    """The threads that take a branch, in groups of neighbours, none where they are not known or can have no barrier; and one by
    one, where their numbers alone tell."""
    uniformity = emitter.uniformity
    around, conditions = uniformity.active_threads(node), ThreadConditions(emitter.kernel.threads, uniformity.definitions)
    members, rest = conditions.members(node.stmt.condition, around)
    if members is None:
        return [], None
    takers = frozenset(compress(around, members)) if rest is None else None
    runs = [list(run) for takes, run in groupby(around, key=lambda thread: members[thread - around.start]) if takes]
    groups = [range(run[0], run[-1] + 1) for run in runs]
    # `barrier.sync` with a number of threads counts whole warps (PTX manual, "barrier"); those of one warp have one of the warp.
    if not all(map(is_whole_warps, groups)) and not (len(groups) == 1 and in_one_warp(groups[0])):
        return [], takers
    agree = all(uniformity.agree([rest], group) and uniformity.arrive_together(node, group) for group in groups)
    return groups if agree and len(groups) <= _GROUPS_OF_A_BRANCH else [], takers


def decide_once(generator: Any, condition: Any) -> tuple[list[Code], Value]:
    """The code in which one thread evaluates a condition for all, and its value."""
    var = ir.Var("decided", "bool")
    return generator.broadcast(ir.Bind(var, condition)), generator.emitter.names.values[var]


def emit_group(generator: Any, node: ThreadGroup) -> list[Code]:
    """Statements of some threads of the block."""
    e = generator.emitter
    outer, e.threads = e.threads, e.layouts.threads_of[node]
    body = generator.block(node.body)
    threads, e.threads = e.threads, outer
    # What threads perform together they wait for, where one uses what another has stored.
    by_thread = e.uniformity.by_thread
    shared = (isinstance(each, (Parallel, Operator)) or isinstance(each, Scalar) and each not in by_thread for each in walk(node))
    barrier = None if node.by_thread and not any(shared) else generator.barriers.of(threads)
    # The rank of a warp is computed by all of its threads together; below a branch that some of them take, each asks for itself.
    ranks = RANKS[-1:] if generator.divergent else RANKS
    role = getattr(node.stmt, "attr_key", None) == WARP_ROLE
    member, concurrent = membership(threads, outer, ranks), role or takes_part(node)
    tests = isinstance(node.stmt, ir.IfThenElse) and tests_memory(node.stmt.condition)
    return [GroupCode(member, body, threads, barrier, takes_part=concurrent, keeps_turns=role, tests_memory=tests)]


def emit_single_thread(generator: Any, node: ThreadGroup) -> list[Code]:
    """The statements of one thread of the group."""
    outer, generator.single = generator.single, True
    body = generator.block(node.body)
    generator.single = outer
    threads = generator.emitter.threads
    return [BranchCode(_elected_in(threads), body, divergent=True, threads=threads[:1])]


def elected(threads: range, code: list[Any]) -> list[Any]:
    """Code that one thread of a group runs."""
    return [BranchCode(TID.is_("==", threads.start) if len(threads) % WARP else _elected_in(threads), Block(code))]


def elected_in_each(threads: range, size: int, code: list[Any]) -> list[Any]:
    """Code that one thread of each ``size`` neighbouring ones of a group runs: a power of two of at least a warp."""
    if size >= len(threads):
        return elected(threads, code)
    leads = (Call("tl::warp_rank") & size // WARP - 1).is_("==", 0)
    one = Call("tl::elect_one")
    return [BranchCode(one if size == WARP else Binary("&&", leads, one), Block(code))]


def _elected_in(threads: range) -> Value:
    """Whether this is the one thread that the hardware elects in the first warp of a group."""
    return Binary("&&", Call("tl::warp_rank").is_("==", threads.start // WARP), Call("tl::elect_one"))


class NamedBarriers:
    """The hardware barriers of a kernel: a number for each group of threads that needs one, distinct from those of the program.

    Attributes:
        numbers: those given so far, by the groups of threads.
    """

    def __init__(self, root: Sequence, numbers: Mapping[tuple[range, ...], int]):
        self._root = root
        self.numbers = dict(numbers)

    def of(self, threads: range) -> Instruction:
        """A barrier of neighbouring threads: of the warp where one warp holds them, else one of the block's hardware barriers."""
        if in_one_warp(threads):
            # Threads 40 to 47 are lanes 8 to 15: the mask is eight ones, moved up by eight.
            return WarpBarrier((1 << len(threads)) - 1 << threads.start % WARP)
        return self.of_all((threads,))

    def of_all(self, groups: tuple[range, ...]) -> Instruction:
        """A hardware barrier of the block for the threads of several groups of whole warps."""
        if groups not in self.numbers:
            # Number 0 is that of __syncthreads(). Others are taken from above, since programs take theirs from below.
            free = set(range(1, HARDWARE_BARRIERS)) - self._of_program - set(self.numbers.values())
            if not free:
                raise UnsupportedError(f"more than {HARDWARE_BARRIERS} groups of threads of a block have barriers of their own")
            self.numbers[groups] = max(free)
        return NamedBarrier(self.numbers[groups], sum(map(len, groups)))

    @cached_property
    def _of_program(self) -> set[Any]:
        """The numbers that the program uses itself."""
        stmts = (node.stmt for node in walk(self._root) if isinstance(node, Scalar))
        calls = ((intrinsic(stmt.value), stmt.value) for stmt in stmts if isinstance(stmt, ir.Evaluate))
        return {as_int(call.args[0]) for known, call in calls if known is not None and known.numbered and call.args}


def _guarded_reads(*values: Value) -> list[Code]:
    """A leaf with the memory that conditions read, so that barriers are placed before them."""
    touched = leaf([Evaluate(value) for value in values])
    return [replace(touched, body=[])] if touched.accesses else []


def membership(threads: range, outer: range, ranks: Iterable[tuple[int, Value]]) -> Value:
    """Whether a thread of ``outer`` is one of ``threads``, by the number of its warp group or warp where both consist of such."""
    # The number of the warp or warp group is in a uniform register: a condition on it is one branch for the whole warp, where one
    # on the thread's number is evaluated by each thread.
    start, stop = threads.start, threads.stop
    size, rank = next((n, rank) for n, rank in ranks if start % n == 0 and (stop % n == 0 or stop == outer.stop))
    first, last = start // size, -(-stop // size)
    if last - first == 1 and stop != outer.stop:
        return rank.is_("==", first)
    above = rank.is_(">=", first) if start > outer.start else None
    below = rank.is_("<", last) if stop < outer.stop else None
    return both([above, below]) or Literal(1, "bool")
