"""Neighbouring branches for different groups of threads become one branch for each group, its *role*.

Behind a branch in which threads wait for others, or signal to them, groups are in no order among each other but by barriers of
the program, so that what two branches of a group do may run while another group is still in the branch between them:

    with T.ws(0): T.clear(acc)            with T.ws(0): T.clear(acc); T.barrier_wait(full, 0); T.gemm(A, B, acc)
    with T.ws(1): load(); arrive(full) -> with T.ws(1): load(); arrive(full)
    with T.ws(0): T.barrier_wait(full, 0); T.gemm(A, B, acc)

A barrier of the block in front of the third branch could wait for ever: the second one may wait for what the third does. And what
follows a branch that gives registers away is reached with few of them, so that code of the other groups must not stand there.
A branch that threads here and there take (``if tx % 2 == 0``) is, among others, a part of each role.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, pairwise

from tilelang.target.cuda.analysis.groups import are_separate, contains
from tilelang.target.cuda.arch import WARP
from tilelang.target.cuda.codegen.signals import may_be_signalled
from tilelang.target.cuda.codegen.structure import RANKS, membership
from tilelang.target.cuda.ir.access import Access
from tilelang.target.cuda.ir.code import Block, Code, GroupCode, Leaf, combined_accesses, control_accesses, leaves, owner
from tilelang.target.cuda.schedule.conflicts import Conflicts

_CONFLICTS = Conflicts(lambda one, other: owner(one) == owner(other))
"""Before buffers have places: each has bytes of its own."""


def joined_roles(items: list[Code]) -> list[Code]:
    """Code in which each group of threads has one branch among neighbouring branches of groups."""
    runs = [list(run) for _, run in groupby(items, key=lambda code: isinstance(code, GroupCode))]
    return [*chain.from_iterable(map(_joined, runs))]


def are_concurrent(made: Sequence[Code], behind: bool) -> bool:
    """Whether branches behind some code, that of one statement, are in no order with it; ``behind``: it is itself behind such."""
    groups = [code for code in made if isinstance(code, GroupCode)]
    return len(groups) == len(made) and (behind or any(group.takes_part for group in groups))


def _joined(run: list[Code]) -> list[Code]:
    """A run of branches of groups, or of other code.

    A branch on data is in order with what stands before it, as the statements of all threads are, where it touches what that
    touches, and behind the last branch that takes part in barriers: nothing before it waits for what comes behind it.
    """
    groups = [code for code in run if isinstance(code, GroupCode)]
    if len(groups) < len(run):
        return run
    last = max((place for place, group in enumerate(groups, 1) if group.takes_part), default=len(run))
    ordered = [place >= last and _is_on_data(group) or _is_behind(groups, place) for place, group in enumerate(groups)]
    parts = groupby(zip(ordered, groups), key=lambda each: each[0])
    made = ((in_order, [group for _, group in part]) for in_order, part in parts)
    return [*chain.from_iterable(_bodies(part) if in_order else _roles(part) for in_order, part in made)]


def _bodies(branches: list[GroupCode]) -> Iterator[Code]:
    """The code of branches on data, in order: those that scattered threads take without their groups."""
    for branch in branches:
        # A leaf parts a branch of neighbours from the one before it, beside which it would be.
        yield from branch.body.items if branch.scattered else [_test(branch), branch]


def _test(branch: GroupCode) -> Leaf:
    """A leaf that stands for the memory which the condition of a branch reads."""
    tests = (code for code in branch.body.items if isinstance(code, Leaf) and not code.body)
    return Leaf([], tuple(chain.from_iterable(code.accesses for code in tests)))


def _is_on_data(group: GroupCode) -> bool:
    """Whether scattered threads take a branch by more than their numbers, and none waits or signals in it."""
    return group.scattered and group.takers is None and not group.takes_part


def _is_behind(groups: list[GroupCode], place: int) -> bool:
    """Whether a branch on data comes after what it touches of groups before it, which come to their end without it."""
    branch, before = groups[place], groups[:place]
    if not (branch.tests_memory or _is_on_data(branch)) or not _meets(branch, before):
        return False
    # Those that wait in turns come to their end as those of a ring do that begins empty, unless all have waited for each other.
    waiting = [group.threads for group in before if any(leaf.waits for leaf in leaves(group))]
    return not may_be_signalled(before, groups[place:], in_turns={*branch.threads}.issubset(chain.from_iterable(waiting)))


def _meets(branch: GroupCode, earlier: Iterable[Code]) -> bool:
    """Whether threads of a branch may touch what others do in code before, or what copies do that the code starts."""
    found = _accesses(branch)
    for made in map(_accesses, earlier):
        copies = [access for access in made if not access.synchronous]
        if _CONFLICTS.between(found, made, threads=branch.threads) or _CONFLICTS.with_copies(found, copies):
            return True
    return False


def _accesses(code: Code) -> list[Access]:
    return [*combined_accesses(code), *control_accesses(code)]


def _roles(found: list[GroupCode]) -> Sequence[Code]:
    """Branches of groups; from the first that takes part in barriers on no two neighbours have threads in common where one is
    inside of the other."""
    named = [group.threads for group in found if not group.scattered]
    if not named:
        return _beside(found)
    # Groups of whole warps can have barriers.
    bounds = {end // WARP * WARP for threads in named for end in (threads.start, threads.stop + WARP - 1)}
    groups = [*chain.from_iterable(_in_groups(group, bounds) if group.scattered else [group] for group in found)]
    if len(groups) < 2:
        return found
    roles: list[GroupCode] = []
    ended = 0  # the roles before this one stay as they are
    for group in groups:
        if not any(role.takes_part for role in roles):
            ended = len(roles)
        sharing = [role for role in roles[ended:] if not are_separate((role.threads, group.threads))]
        if not sharing:
            roles.append(group)
        elif len(sharing) == 1 and contains(sharing[0].threads, group.threads):
            roles[roles.index(sharing[0])] = _with(sharing[0], group)
        elif all(contains(group.threads, role.threads) for role in sharing):
            roles[ended:] = [role for role in roles[ended:] if role not in sharing]
            roles.append(replace(group, body=Block([*sharing, *_parts(group)]), takes_part=True))
        else:
            ended = len(roles)
            roles.append(group)
    return roles


def _beside(branches: list[GroupCode]) -> list[Code]:
    """Branches that scattered threads take; from the first that takes part in barriers on, they run beside each other."""
    first = next((place for place, branch in enumerate(branches) if branch.takes_part), len(branches))
    return [*chain.from_iterable(branch.body.items for branch in branches[:first]), *branches[first:]]


def _in_groups(branch: GroupCode, bounds: Collection[int]) -> list[GroupCode]:
    """A branch that scattered threads take, as one of each group between some bounds."""
    around = branch.threads
    ends = sorted({around.start, around.stop, *(bound for bound in bounds if around.start < bound < around.stop)})
    parts = [range(*part) for part in pairwise(ends)]
    made = []
    for part in parts:
        takers = None if branch.takers is None else branch.takers.intersection(part)
        body = Block([replace(branch, threads=part, takers=takers)])
        condition = membership(part, around, RANKS[-1:])
        made.append(replace(branch, condition=condition, body=body, threads=part, scattered=False, takers=None))
    return made


def _with(role: GroupCode, group: GroupCode) -> GroupCode:
    """The branch of a role with a later one of its threads, or of some of them."""
    taking_part = role.takes_part or group.takes_part
    if role.threads != group.threads:
        return replace(role, body=Block([*role.body.items, group]), takes_part=taking_part)
    body = Block([*_parts(role), *_parts(group)])
    return replace(role, body=body, barrier=role.barrier or group.barrier, takes_part=taking_part)


def _parts(group: GroupCode) -> Sequence[Code]:
    """The body of a branch as parts next to each other: branches that scattered threads take have to see their neighbours."""
    items = group.body.items
    scattered = all(part.scattered if isinstance(part, GroupCode) else isinstance(part, Block) and part.braces for part in items)
    return items if scattered else [_part(group)]


def _part(group: GroupCode) -> Block:
    """The body of a branch, in which names may be defined that another one defines, too."""
    return replace(group.body, braces=True)
