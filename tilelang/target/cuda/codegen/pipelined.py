"""``T.Pipelined`` loops as code: steps that issue each statement for its own iteration.

The last stage runs unguarded, once an iteration; an earlier stage runs ahead while there is an iteration left. Before the loop
as many steps as there are earlier stages run without the last one. Every step commits one group of asynchronous copies, empty or
not, so the wait is the same constant in all of them and any trip count is right. The barrier at the top of a step shows that its
data has arrived, and that every thread is done with the slots to be overwritten: no other is needed
where the copies come right after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from tilelang.target.cuda.codegen.code import Barrier, Block, BranchCode, Code, LoopCode, Slot, Wait, leaf_of, leaves
from tilelang.target.cuda.codegen.element_types import c_type
from tilelang.target.cuda.codegen.statements import statement
from tilelang.target.cuda.reading.tree import Loop
from tilelang.target.cuda.schedule.plan import Part, Schedule

_COMMIT = "tl::cp_async_commit();"


def emit_pipeline(generator: Any, loop: Loop, schedule: Schedule) -> list[Code]:
    """The code of a scheduled loop."""
    return _PipelineText(generator, loop, schedule).emit()


class _PipelineText:
    def __init__(self, generator: Any, loop: Loop, schedule: Schedule):
        self.g, self.e, self.schedule, self.stmt = generator, generator.emitter, schedule, loop.stmt
        facts = self.e.facts
        self.low, self.extent = facts.simplify(loop.stmt.min), facts.simplify(loop.stmt.extent)
        facts.bind_range(loop.stmt.loop_var, loop.stmt.extent, loop.stmt.min)
        self.count = self.e.text(self.extent)
        self.asynchronous = False
        self.runs = [(stage, list(parts)) for stage, parts in groupby(schedule.parts, key=lambda part: part.stage)]

    def emit(self) -> list[Code]:
        e = self.e
        e.version_count.update(self.schedule.rings)
        code: list[Code] = []
        for var in self.schedule.values:
            e.var_text[var] = e.names.take(var.name)
            code.append(leaf_of([f"{c_type(str(var.ty))} {e.var_text[var]};"]))
        loop = self._loop()
        for step in range(self.schedule.depth):
            code += self._filling_step(step)
        return [*code, loop]

    # Steps -------------------------------------------------------------------------------------------------------------

    def _filling_step(self, step: int) -> Iterator[Code]:
        """A step before the loop: what of it there is, and its group of copies."""
        for stage, parts in self.runs:
            iteration = step - stage
            if iteration < 0 or (isinstance(self.extent, int) and iteration >= self.extent):
                continue
            slots = {ring: (str(iteration % count), iteration % count) for ring, count in self.schedule.rings.items()}
            block = self._run(parts, str(iteration), slots)
            yield block if isinstance(self.extent, int) else BranchCode(f"{iteration} < {self.count}", block, None, False)
        if self.asynchronous:
            yield leaf_of([_COMMIT])

    def _loop(self) -> LoopCode:
        e, rings = self.e, frozenset(map(self.e.root, self.schedule.rings))
        name = e.names.take(self.stmt.loop_var.name)
        counters = self._counters()
        items: list[Code] = []
        commit_at = None
        for stage, parts in self.runs:
            ahead = self.schedule.depth - stage
            slots = {ring: (counters[count, ahead % count], ahead % count) for ring, count in self._touched(parts).items()}
            block = self._run(parts, f"{name} + {ahead}" if ahead else name, slots)
            if ahead:
                items.append(BranchCode(f"{name} + {ahead} < {self.count}", block, None, False))
            else:
                items += block.items
            if _copies_to(block, self.schedule.rings):
                commit_at = len(items)
        self.asynchronous = commit_at is not None
        if commit_at is not None:
            items.insert(commit_at, leaf_of([_COMMIT]))
        if rings:
            wait = [Wait(self.schedule.distance - 1, rings=rings)] if commit_at is not None else []
            items = [*wait, Barrier(), *items]
        first = ", ".join([f"{name} = 0", *(f"{text} = {offset}" for (_, offset), text in counters.items())])
        advance = ", ".join([f"++{name}", *_advance(counters)])
        header = f"#pragma unroll 1\nfor (int {first}; {name} < {self.count}; {advance})"
        return LoopCode(header, Block(items), rings)

    # Parts -------------------------------------------------------------------------------------------------------------

    def _run(self, parts: list[Part], iteration: str, slots: Mapping[Any, tuple[str, int]]) -> Block:
        """Neighbouring statements of one stage, for one iteration, in the given slots (text and number) of the rings."""
        e = self.e
        e.var_text[self.stmt.loop_var] = self._value(iteration)
        e.versions.update({ring: text for ring, (text, _) in slots.items()})
        block = Block([leaf_of(statement(e, replay.stmt), *e.accesses(replay.stmt)) for replay in self.schedule.replays])
        for part in parts:
            block.items += self._statement(part)
        for ring in slots:
            del e.versions[ring]
        named = {e.root(ring): Slot(e.root(ring), number) for ring, (_, number) in slots.items()}
        for leaf in leaves(block):
            for kind in ("reads", "writes", "copies", "fills", "async_reads"):
                setattr(leaf, kind, frozenset(named.get(buffer, buffer) for buffer in getattr(leaf, kind)))
        return block

    def _value(self, iteration: str) -> str:
        if isinstance(self.low, int) and self.low == 0:
            return iteration if iteration.isidentifier() else f"({iteration})"
        return f"({iteration} + {self.e.text(self.low)})"

    def _statement(self, part: Part) -> list[Code]:
        if part.statement.defines not in self.schedule.values:
            return [code for node in part.statement.nodes for code in self.g.node(node)]
        stmt = part.statement.stmt
        reads, writes = self.e.accesses(stmt)
        return [leaf_of([f"{self.e.var_text[stmt.var]} = {self.e.text(stmt.value)};"], reads, writes)]

    # Slots -------------------------------------------------------------------------------------------------------------

    def _touched(self, parts: list[Part]) -> dict[Any, int]:
        """The rings that statements touch, with their slots."""
        touched = {touch.buffer for part in parts for touch in part.statement.touches}
        return {ring: count for ring, count in self.schedule.rings.items() if self.e.root(ring) in touched}

    def _counters(self) -> dict[tuple[int, int], str]:
        """Names of the slots in use: (slots of a ring, how far ahead) -> name."""
        wanted = {
            (count, (self.schedule.depth - stage) % count)
            for stage, parts in self.runs
            for count in self._touched(parts).values()
        }
        return {key: self.e.names.take("slot" if key[1] == 0 else "ahead_slot") for key in sorted(wanted)}


def _advance(counters: Mapping[tuple[int, int], str]) -> Iterator[str]:
    """Assignments that step the slots: where another name holds the next slot that is a move, which is cheaper than counting."""
    for count, named in groupby(sorted(counters), key=lambda key: key[0]):
        offsets = [offset for _, offset in named]
        for offset in [*offsets[1:], offsets[0]]:
            name, following = counters[count, offset], counters.get((count, (offset + 1) % count))
            if count == 2:
                yield f"{name} ^= 1"
            elif offset == offsets[0] or following is None:
                yield f"{name} = {name} == {count - 1} ? 0 : {name} + 1"
            else:
                yield f"{name} = {following}"


def _copies_to(block: Block, rings: Mapping[Any, int]) -> bool:
    """Whether asynchronous copies in the block fill a ring."""
    return bool(rings) and any(isinstance(buffer, Slot) for leaf in leaves(block) for buffer in leaf.copies)
