"""A model of one multiprocessor that runs some copies of a traced block.

Each scheduler issues one instruction a clock, of the warp that is ready first. An instruction waits for the registers that it
reads and for its unit, but not for instructions before it whose results it does not need: the device compiler schedules the code
between two synchronisations. Barriers, mbarriers and waits for asynchronous groups stall a warp until their condition holds.
Units are queues: shared memory (a pass a clock), the path to the L2 cache, the tensor cores of each scheduler.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tilelang.simulator.timing.figures import Figures
from tilelang.simulator.timing.operands import Role
from tilelang.simulator.timing.trace import Step

_BARRIERS = (Role.BARRIER, Role.ARRIVE_AT_BARRIER)


@dataclass(frozen=True, slots=True)
class Slice:
    """Something that took time: on a warp's row, or on a unit's.

    Attributes:
        row: ``"block 0 warp 1"``, or a unit: ``"tensor cores 0"``, ``"asynchronous copies"``.
        name: the statement or what was waited for.
        start, end: in clocks.
        waiting: whether nothing was done.
    """

    row: str
    name: str
    start: float
    end: float
    waiting: bool = False


@dataclass(slots=True)
class _Warp:
    block: int
    number: int
    steps: Sequence[Step]
    scheduler: int
    at: int = 0
    clock: float = 0.0  # from which on its next instruction may issue
    issued: float = 0.0
    ready: dict[str, float] = field(default_factory=dict)  # register -> when its value is there
    copies: deque[float] = field(default_factory=deque)  # ends of committed groups of copies
    open_copies: float = 0.0
    products: deque[float] = field(default_factory=deque)
    open_products: float = 0.0
    barriers: dict[str, int] = field(default_factory=dict)  # how often it has come to each barrier


class Replay:
    """One run of the model.

    Args:
        warps: the steps of each warp of a block.
        blocks: copies of it that are resident.
        figures: of the device.
        tensor_fma: multiply-adds of all tensor cores in a clock.
        keep: whether slices are kept.
    """

    def __init__(self, warps: Sequence[Sequence[Step]], blocks: int, figures: Figures, tensor_fma: int, keep: bool = False):
        self.figures = figures
        self.fma = tensor_fma / figures.schedulers
        self.keep = keep
        self.slices: list[Slice] = []
        self.latest: dict[str, int] = {}  # row -> its last slice that is no wait
        self.shared = self.memory = 0.0  # when these units are free
        self.issue = [0.0] * figures.schedulers
        self.tensor = [0.0] * figures.schedulers
        self.special = [0.0] * figures.schedulers
        self.arrived: dict[tuple[int, str, int], list[tuple[_Warp, float, bool]]] = {}
        self.parties = _parties(warps)
        self.phases: dict[tuple[int, int, int], float] = {}  # block, mbarrier, phase -> its last contribution
        counts = _contributions(warps)
        self.left = {(block, *key): count for block in range(blocks) for key, count in counts.items()}
        self.sleeping: dict[tuple[int, int, int], list[_Warp]] = {}
        self.end = 0.0
        # Order in which warps came to the queue. Of several that are ready at once the one that has waited longest issues.
        self.order = blocks * len(warps)
        self.queue = [(0.0, order, self._warp(order, warps)) for order in range(self.order)]

    def _warp(self, order: int, warps: Sequence[Sequence[Step]]) -> _Warp:
        block, number = divmod(order, len(warps))
        # Warps are dealt to the schedulers in turn, and stay there.
        return _Warp(block, number, warps[number], order % self.figures.schedulers)

    def run(self) -> float:
        """Clocks until the last warp has ended."""
        while self.queue or self.sleeping:
            if not self.queue:  # what they wait for was not traced: a copy without bytes, another cluster
                for warp in self.sleeping.pop(next(iter(self.sleeping))):
                    warp.at += 1
                    self._wake(warp, self.end)
                continue
            _, _, warp = heapq.heappop(self.queue)
            if self._advance(warp):
                self._wake(warp, warp.clock)
        return self.end

    def _wake(self, warp: _Warp, clock: float) -> None:
        warp.clock = max(warp.clock, clock)
        if warp.at < len(warp.steps):
            self.order += 1
            heapq.heappush(self.queue, (warp.clock, self.order, warp))

    def _advance(self, warp: _Warp) -> bool:
        """Issues the next instruction of a warp; False where it waits for others."""
        step = warp.steps[warp.at]
        waited = self._awaited(warp, step)
        # The warp sleeps under the key of its mbarrier phase, and _contribute puts it back into the queue.
        if waited is None:
            return False
        warp.at += 1
        start = max(warp.clock, waited, self.issue[warp.scheduler])
        self._note(warp, step, start, waited)
        # Issuing takes one clock, whether or not the operands are there: the results are late instead. The device compiler moves
        # independent instructions into such a gap, and the trace, which is PTX, does not show where.
        self.issue[warp.scheduler] = warp.clock = start + 1
        operands = max((warp.ready.get(name, 0.0) for name in step.operands.reads), default=0.0)
        done = self._execute(warp, step, max(start, operands))
        for name in step.operands.writes:
            warp.ready[name] = done
        self.end = max(self.end, done, warp.clock)
        return self._meet(warp, step, max(start, operands))

    # Units -----------------------------------------------------------------------------------------------------------

    def _execute(self, warp: _Warp, step: Step, start: float) -> float:
        """When the result of an instruction that starts then is there."""
        figures = self.figures
        if step.multiply_adds:
            return self._multiply(warp, step, start)
        if step.kind == "special function":
            self.special[warp.scheduler] = start = max(start, self.special[warp.scheduler]) + figures.special_interval
            return start + figures.special
        done = start + figures.arithmetic
        if step.bytes:
            # A queue: bytes wait for those before them, then take the latency.
            self.memory = max(self.memory, start) + step.bytes / figures.l2_bytes
            done = self.memory + figures.l2
        if step.passes:
            self.shared = max(self.shared, start) + step.passes
            done = max(done, self.shared + figures.shared)
        if step.operands.role is Role.COPY and step.bytes:
            warp.open_copies = max(warp.open_copies, done)
            self._unit("asynchronous copies", step, start, done)
            if step.barrier:
                self._contribute(warp.block, step, done)
        return done

    def _multiply(self, warp: _Warp, step: Step, start: float) -> float:
        busy = max(self.tensor[warp.scheduler], start)
        self.tensor[warp.scheduler] = busy + step.multiply_adds / self.fma
        self._unit(f"tensor cores {warp.scheduler}", step, busy, self.tensor[warp.scheduler])
        done = self.tensor[warp.scheduler] + self.figures.tensor
        if step.operands.role is Role.PRODUCT:
            warp.open_products = done
        return done

    # Waiting ---------------------------------------------------------------------------------------------------------

    def _awaited(self, warp: _Warp, step: Step) -> float | None:
        """When what an instruction waits for is done; None where that is not known yet."""
        role = step.operands.role
        if role is Role.AWAIT_PHASE and step.phase:
            return self._phase(warp, (warp.block, step.barrier, step.phase))
        if role is Role.COMMIT_COPIES:
            warp.copies.append(warp.open_copies)
        elif role is Role.COMMIT_PRODUCTS:
            warp.products.append(warp.open_products)
        elif role is Role.AWAIT_COPIES:
            return _oldest(warp.copies, step.operands.immediate)
        elif role is Role.AWAIT_PRODUCTS:
            return _oldest(warp.products, step.operands.immediate)
        return warp.clock

    def _phase(self, warp: _Warp, key: tuple[int, int, int]) -> float | None:
        # No contributions left, or none that was traced: a phase that another cluster completes counts as complete.
        if self.left.get(key, 0) == 0:
            return self.phases.get(key, 0.0)
        self.sleeping.setdefault(key, []).append(warp)
        return None

    def _contribute(self, block: int, step: Step, clock: float) -> None:
        key = (block, step.barrier, step.phase)
        self.phases[key] = max(self.phases.get(key, 0.0), clock)
        self.left[key] = self.left.get(key, 0) - 1
        if self.left[key] == 0:
            for warp in self.sleeping.pop(key, ()):
                self._wake(warp, self.phases[key])

    def _meet(self, warp: _Warp, step: Step, clock: float) -> bool:
        """Arrives at barriers; False where the warp has to wait for others."""
        role = step.operands.role
        if role is Role.ARRIVE_AT_PHASE and step.barrier:
            self._contribute(warp.block, step, clock)
        if role not in _BARRIERS:
            return True
        name = _barrier_name(step)
        turn = warp.barriers.get(name, 0)
        warp.barriers[name] = turn + 1
        # A barrier is used again and again: the n-th time that each warp comes is one meeting.
        present = self.arrived.setdefault((warp.block, name, turn), [])
        present.append((warp, clock, role is Role.BARRIER))
        # Who only arrives (`bar.arrive`) goes on; who waits sleeps until the last one is here.
        if len(present) < self.parties[name, turn]:
            return role is Role.ARRIVE_AT_BARRIER
        last = max(clock for _, clock, _ in present) + self.figures.barrier
        for other, _, waits in present:
            if other is not warp and waits:
                self._wake(other, last)
        warp.clock = max(warp.clock, last)
        return True

    # Slices ----------------------------------------------------------------------------------------------------------

    def _note(self, warp: _Warp, step: Step, start: float, waited: float) -> None:
        if not self.keep:
            return
        row = f"block {warp.block} warp {warp.number}"
        if start > warp.issued + 2 * self.figures.arithmetic:
            self.slices.append(Slice(row, f"wait: {step.operands.opcode}", warp.issued, start, True))
        self._add(row, step.statement, start, start + 1)
        warp.issued = start + 1

    def _unit(self, row: str, step: Step, start: float, end: float) -> None:
        if self.keep:
            self._add(row, step.statement or step.operands.opcode, start, end)

    def _add(self, row: str, name: str, start: float, end: float) -> None:
        """A slice, or a longer last one of the row where that has the same name."""
        last = self.latest.get(row)
        near = last is not None and self.slices[last].end >= start - 2 * self.figures.arithmetic
        if last is not None and near and (self.slices[last].name, self.slices[last].waiting) == (name, False):
            self.slices[last] = Slice(row, name, self.slices[last].start, max(end, self.slices[last].end))
            return
        self.latest[row] = len(self.slices)
        self.slices.append(Slice(row, name, start, end))


def _oldest(groups: deque[float], pending: int) -> float:
    """When all groups but the newest ``pending`` are complete; forgets them."""
    # PTX manual, "cp.async.wait_group": at most the `pending` most recent groups may be incomplete, and groups complete in order.
    done = 0.0
    while len(groups) > pending:
        done = max(done, groups.popleft())
    return done


def _barrier_name(step: Step) -> str:
    return "cluster" if ".cluster" in step.operands.opcode else f"{step.operands.immediate}"


def _parties(warps: Sequence[Sequence[Step]]) -> dict[tuple[str, int], int]:
    """How many warps come to each turn of each barrier."""
    found: dict[tuple[str, int], int] = {}
    for steps in warps:
        turns: dict[str, int] = {}
        for step in steps:
            if step.operands.role in _BARRIERS:
                name = _barrier_name(step)
                turn = turns.get(name, 0)
                turns[name] = turn + 1
                found[name, turn] = found.get((name, turn), 0) + 1
    return found


def _contributions(warps: Sequence[Sequence[Step]]) -> dict[tuple[int, int], int]:
    """How many arrivals and copies each phase of each mbarrier gets."""
    found: dict[tuple[int, int], int] = {}
    for steps in warps:
        for step in steps:
            # The transaction count: a phase ends when the arrivals and all bytes that they announced are there, so a copy is a
            # contribution beside the arrival that expects it.
            copies = step.operands.role is Role.COPY and step.bytes
            if step.barrier and (copies or step.operands.role is Role.ARRIVE_AT_PHASE):
                found[step.barrier, step.phase] = found.get((step.barrier, step.phase), 0) + 1
    return found
