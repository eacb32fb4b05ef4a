"""``T.Pipelined`` loops as code: steps that issue each statement for its own iteration.

The last stage runs unguarded, once an iteration; an earlier stage runs ahead while there is an iteration left. Before the loop
as many steps as there are earlier stages run without the last one. Every step commits one group of asynchronous copies, empty or
not, so the wait is the same constant in all of them and any trip count is right. The barrier at the top of a step shows that its
data has arrived, and that every thread is done with the slots to be overwritten: no other is needed where the copies come right
after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from tilelang.target.cuda.codegen.statements import statement
from tilelang.target.cuda.ir.access import Agent
from tilelang.target.cuda.ir.code import Barrier, Block, BranchCode, Code, LoopCode, Slot, Wait, leaf, leaves
from tilelang.target.cuda.ir.instructions import Assign, CommitCopies, Declare
from tilelang.target.cuda.ir.values import Name, Number, Select, Value
from tilelang.target.cuda.schedule.dependence import Part
from tilelang.target.cuda.schedule.plan import Schedule, plan_schedule
from tilelang.target.cuda.tile.tree import Loop


def emit_pipeline(generator: Any, loop: Loop) -> list[Code] | None:
    """The code of a ``T.Pipelined`` loop; None where nothing in it runs ahead of anything else.

    Raises:
        PipelineScheduleError: the schedule that the program gives is not possible.
    """
    e = generator.emitter
    schedule = plan_schedule(loop, e.tree, generator.touches, e.iterations)
    return None if schedule is None else _Pipeline(generator, loop, schedule).emit()


class _Pipeline:
    def __init__(self, generator: Any, loop: Loop, schedule: Schedule):
        self.g, self.e, self.schedule, self.stmt = generator, generator.emitter, schedule, loop.stmt
        facts = self.e.facts
        self.low, self.extent = facts.simplify(loop.stmt.min), facts.simplify(loop.stmt.extent)
        facts.bind_range(loop.stmt.loop_var, loop.stmt.extent, loop.stmt.min)
        self.count = self.e.value(self.extent)
        self.asynchronous = False
        self.runs = [(stage, list(parts)) for stage, parts in groupby(schedule.parts, key=lambda part: part.stage)]

    def emit(self) -> list[Code]:
        e = self.e
        e.output.slot_counts.update(self.schedule.rings)
        code: list[Code] = [leaf([Declare(e.named(var), str(var.ty))]) for var in self.schedule.values]
        loop = self._loop()
        for step in range(self.schedule.depth):
            code += self._filling_step(step)
        return [*code, loop]

    # Steps -------------------------------------------------------------------------------------------------------------

    def _filling_step(self, step: int) -> Iterator[Code]:
        """A step before the loop: what of it there is, and its group of copies."""
        for stage, parts in self.runs:
            # Before the loop it is known at compile time which stage has an iteration in which step: iteration 0 of stage s in
            # step s.
            iteration = step - stage
            # A short loop of known length fills only the steps that it has.
            if iteration < 0 or (isinstance(self.extent, int) and iteration >= self.extent):
                continue
            slots = {ring: (Number(iteration % count), iteration % count) for ring, count in self.schedule.rings.items()}
            block = self._run(parts, Number(iteration), slots)
            yield block if isinstance(self.extent, int) else BranchCode(Number(iteration).is_("<", self.count), block)
        if self.asynchronous:
            # Also where the step copies nothing: the constant of the wait counts groups, so that every step must have one.
            yield leaf([CommitCopies()])

    def _loop(self) -> LoopCode:
        e, rings = self.e, frozenset(map(self.e.root, self.schedule.rings))
        name = e.names.take(self.stmt.loop_var.name)
        counters = self._counters()
        items: list[Code] = []
        commit_at = None
        for stage, parts in self.runs:
            # The loop counts iterations of the last stage; an earlier stage is at an iteration that is `ahead` later.
            ahead = self.schedule.depth - stage
            slots = {ring: (counters[count, ahead % count], ahead % count) for ring, count in self._touched(parts).items()}
            block = self._run(parts, name + ahead, slots)
            if ahead:
                items.append(BranchCode((name + ahead).is_("<", self.count), block))
            else:
                items += block.items
            copied = (each.buffer for leaf in leaves(block) for each in leaf.accesses if each.agent is Agent.CP_ASYNC)
            if any(isinstance(storage, Slot) for storage in copied):
                # After the last copies of the step, and not at its end: products behind them need not be passed before the group
                # is closed.
                commit_at = len(items)
        self.asynchronous = commit_at is not None
        if commit_at is not None:
            items.insert(commit_at, leaf([CommitCopies()]))
        if rings:
            # A copy is used `distance` steps after it was issued, and each step since has committed one group: so many may still
            # be in flight, less the one that is needed now.
            wait = [Wait(self.schedule.distance - 1, rings=rings)] if commit_at is not None else []
            items = [*wait, Barrier(), *items]
        first = [(name, Number(0)), *((slot, Number(offset)) for (_, offset), slot in counters.items())]
        advance = [(name, name + 1), *_advance(counters)]
        return LoopCode(name.is_("<", self.count), Block(items), tuple(first), tuple(advance), 1, carried=rings)

    # Parts -------------------------------------------------------------------------------------------------------------

    def _run(self, parts: list[Part], iteration: Value, slots: Mapping[Any, tuple[Value, int]]) -> Block:
        """Neighbouring statements of one stage, for one iteration, in the given slots (value and number) of the rings."""
        e = self.e
        e.names.values[self.stmt.loop_var] = iteration + e.value(self.low)
        e.slots.update(slots)
        block = Block([leaf(statement(e, replay.stmt)) for replay in self.schedule.replays])
        for part in parts:
            block.items += self._statement(part)
        for ring in slots:
            del e.slots[ring]
        return block

    def _statement(self, part: Part) -> list[Code]:
        if part.statement.defines not in self.schedule.values:
            return [code for node in part.statement.nodes for code in self.g.node(node)]
        stmt = part.statement.stmt
        return [leaf([Assign(self.e.names.values[stmt.var], self.e.value(stmt.value))])]

    # Slots -------------------------------------------------------------------------------------------------------------

    def _touched(self, parts: list[Part]) -> dict[Any, int]:
        """The rings that statements touch, with their slots."""
        touched = set().union(*(part.statement.buffers for part in parts))
        return {ring: count for ring, count in self.schedule.rings.items() if self.e.root(ring) in touched}

    def _counters(self) -> dict[tuple[int, int], Name]:
        """Names of the slots in use: (slots of a ring, how far ahead) -> name."""
        wanted = {
            (count, (self.schedule.depth - stage) % count)
            for stage, parts in self.runs
            for count in self._touched(parts).values()
        }
        return {key: self.e.names.take("slot" if key[1] == 0 else "ahead_slot") for key in sorted(wanted)}


def _advance(counters: Mapping[tuple[int, int], Name]) -> Iterator[tuple[Name, Value]]:
    """What the slots become: where another name holds the next slot that is a move, which is cheaper than counting."""
    for count, named in groupby(sorted(counters), key=lambda key: key[0]):
        offsets = [offset for _, offset in named]
        for offset in [*offsets[1:], offsets[0]]:
            name, following = counters[count, offset], counters.get((count, (offset + 1) % count))
            # Of two slots the next one is the other.
            if count == 2:
                yield name, name ^ 1
            # The names are updated one after the other. A move needs the old value of the name that it takes from, so the lowest
            # one, from which the last takes around the ring, is counted, and last.
            elif offset == offsets[0] or following is None:
                yield name, Select(name.is_("==", count - 1), Number(0), name + 1)
            else:
                yield name, following
