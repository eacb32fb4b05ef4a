"""Schedules of ``T.Pipelined`` loops: how many iterations each statement of the body runs behind, and in which order.

In step ``t`` of a scheduled loop a statement of stage ``s`` runs its iteration ``t - s``; the statements of a step are issued by
their ``order``. Without the user's own lists the copies that can run ahead have stage 0 and come first, and all others have stage
``num_stages - 1``. A shared tile that each iteration fills anew gets as many *slots* as the schedule needs; all else exists once.
A schedule of the user's that would change what a statement reads is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tilelang.errors import MisplacedError, PipelineScheduleError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.span import location_of
from tilelang.ir.visit import any_statement
from tilelang.records import Record
from tilelang.target.cuda.analysis.disjointness import Iterations
from tilelang.target.cuda.schedule.dependence import Body, Part, Statement, slots_needed
from tilelang.target.cuda.tile.tree import GROUP, ORDER, STAGE, Loop, TileTree


class Schedule(Record, eq=False):
    """A planned loop.

    Attributes:
        parts: by order of issue.
        replays: bindings that are no statements of their own: each statement that needs them computes them for its own iteration.
        values: variables of the other bindings that stages before the last one define.
        rings: shared tiles with more than one slot -> their slots.
        distance: the fewest steps from a copy to a ring to its use in a later step.
    """

    parts: tuple[Part, ...]
    replays: tuple[Any, ...]
    values: tuple[Any, ...]
    rings: Mapping[Any, int]
    distance: int

    @property
    def depth(self) -> int:
        """Stages before the last one: steps that the loop needs to fill."""
        return max(part.stage for part in self.parts)


def plan_schedule(loop: Loop, tree: TileTree, touches: Counter[Any], iterations: Iterations) -> Schedule | None:
    """The schedule of a loop; None where nothing in it runs ahead of anything else.

    Args:
        touches: how often the kernel touches each buffer.
        iterations: of the kernel's loops.

    Raises:
        PipelineScheduleError: the user's lists do not fit the body, or break a dependence.
    """
    notes = loop.stmt.annotations
    body = Body.of(loop, tree, touches)
    slots = as_int(notes["num_stages"]) if "num_stages" in notes else 0
    order, stage, group = (_list(notes, names) for names in (ORDER, STAGE, GROUP))
    if order is None and stage is None:
        return _implied(body, slots)
    if any_statement(loop.stmt.body, lambda node: isinstance(node, (ir.Break, ir.Continue))):
        raise MisplacedError(
            "T.Pipelined: a loop with order= and stage= cannot be left or continued early", location_of(loop.stmt.span)
        )
    parts = _explicit(body, order, stage, group, slots)
    return _schedule(parts, body, slots_needed(parts, body, iterations))


def _implied(body: Body, slots: int) -> Schedule | None:
    # With num_stages = 3: the copy for iteration k + 2 is issued in the step that uses iteration k. Three slots hold iterations
    # k, k + 1 and k + 2.
    tiles = body.filled_ahead if slots > 1 else {}
    producers = [statement for statement in body.statements if statement in tiles]
    # Nothing can run ahead: the loop stays a plain one, and needs no slots.
    if not producers:
        return None
    others = [statement for statement in body.statements if statement not in producers]
    if not others:
        return None
    stages = [(statement, 0) for statement in producers] + [(statement, slots - 1) for statement in others]
    parts = [Part(statement, stage, place) for place, (statement, stage) in enumerate(stages)]
    return _schedule(parts, body, {tiles[statement]: slots for statement in producers})


def _schedule(parts: list[Part], body: Body, rings: Mapping[Any, int]) -> Schedule:
    depth = max(part.stage for part in parts)
    values = [part.statement.defines for part in parts if part.statement.defines is not None and part.stage < depth]
    distances = [
        user.stage - filler.stage
        for ring in rings
        for filler in parts
        for user in parts
        if user.stage > filler.stage and filler.statement.writes(ring) and user.statement.reads(ring)
    ]
    ordered = tuple(sorted(parts, key=lambda part: part.order))
    return Schedule(ordered, tuple(body.replays), tuple(values), rings, min(distances, default=1))


# The user's lists ----------------------------------------------------------------------------------------------------


def _list(notes: Any, names: tuple[str, ...]) -> list[Any] | None:
    for name in names:
        if name in notes:
            return [as_int(value) if not hasattr(value, "__len__") else [as_int(v) for v in value] for value in notes[name]]
    return None


def _explicit(
    body: Body, order: list[int] | None, stage: list[int] | None, group: list[list[int]] | None, slots: int
) -> list[Part]:
    span = location_of(body.loop.stmt.span)
    groups = _grouped(body, group, len(order or stage or []), span)
    order = order if order is not None else list(range(len(groups)))
    if stage is None:
        stage = [0 if all(one in body.filled_ahead for one in members) else max(slots - 1, 0) for members in groups]
    if len(order) != len(groups) or len(stage) != len(groups):
        raise PipelineScheduleError(
            f"order and stage have {len(order)} and {len(stage)} entries, the body has {len(groups)} "
            + ("groups" if group is not None else "statements"),
            span,
            "count what the body does (copies, products, stores), not names given to values",
        )
    placed = [number for number in order if number >= 0]
    if len(set(placed)) != len(placed):
        raise PipelineScheduleError(f"two statements have the same order: {order}", span, "order is a permutation")
    # Stages are relative: what matters is how far a load is ahead of its use. Afterwards the lowest is 0.
    stage = _with_producers(groups, stage, max(slots, 2))
    low = min(stage)
    parts = []
    width = len(body.statements) + 1
    for at, members in enumerate(groups):
        # Statements of a group stay together, in program order; those that a warp of their own once loaded come first.
        # Groups are `width` apart, so that the statements of one fit between it and the next.
        first = (order[at] + len(groups) if order[at] >= 0 else at) * width
        parts += [Part(statement, stage[at] - low, first + place) for place, statement in enumerate(members)]
    return parts


def _grouped(body: Body, group: Any, count: int, span: Any) -> list[list[Statement]]:
    """The groups of statements that the lists name; bindings of pure values may be counted or not."""
    if group is None:
        # Programs written for other compilers count every statement of the body, bindings included. The number of entries tells
        # which way was meant.
        everything = body.with_replays
        if count == len(everything) != len(body.statements):
            return [[statement] if statement in body.statements else [] for statement in everything]
        return [[statement] for statement in body.statements]
    numbers = sorted(number for members in group for number in members)
    pool = next((pool for pool in (body.statements, body.with_replays) if numbers == list(range(len(pool)))), None)
    if pool is None:
        raise PipelineScheduleError(
            f"group must name each of the {len(body.statements)} statements of the body once, it names {numbers}", span, None
        )
    return [[pool[number] for number in members if pool[number] in body.statements] for members in group]


def _with_producers(groups: list[list[Statement]], stage: list[int], slots: int) -> list[int]:
    """Stages where those of -1 (loads that a producer was to issue) lie ``slots - 1`` before their first use."""
    found = list(stage)
    for at, members in enumerate(groups):
        if stage[at] >= 0:
            continue
        users = [stage[other] for other, them in enumerate(groups) if stage[other] >= 0 and _uses(them, members)]
        found[at] = min(users, default=0) - (slots - 1)
    return found


def _uses(users: list[Statement], writers: list[Statement]) -> bool:
    return any(user.reads(touch.buffer) for user in users for writer in writers for touch in writer.touches if touch.writes)
