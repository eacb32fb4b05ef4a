"""Threads that hand rows on to other threads, stage by stage, each its own element: no tile operators, and branches of any form.

A stage has two warps, neighbours or not. Its code may stand in several branches, between those of the other stages.
"""

from __future__ import annotations

from dataclasses import dataclass

from testing.fuzz.draw import Draw
from testing.fuzz.scope import Scope
from testing.fuzz.tree import INDENT, Stmt

WARP, ROW = 32, 64
"""Threads of a warp; elements of a row, one for each thread of a stage."""


@dataclass(frozen=True)
class Chain:
    """What was drawn for one statement.

    Attributes:
        warps: of each stage.
        slots, steps: of the rings between stages; rows.
        source, result: the tensors at both ends.
        tiles, full, empty: names of the ring and its barriers behind each stage but the last.
        scratch: name of a tile in which the threads of a stage exchange elements.
        notes: name of the tensor in which each thread notes its stage.
    """

    warps: list[tuple[int, int]]
    slots: int
    steps: int
    source: str
    result: str
    tiles: list[str]
    full: list[str]
    empty: list[str]
    scratch: str
    notes: str


def stages(draw: Draw, scope: Scope) -> Stmt:
    """Rows that two or three stages pass on through rings of slots, with mbarriers for full and empty ones."""
    chain = _chain(draw)
    rings = range(len(chain.tiles))
    declared = [
        "T.sync_threads()",
        "tx = T.get_thread_binding()",
        f'{chain.scratch} = T.alloc_shared(({len(chain.warps)}, {ROW}), "float32")',
        *(f'{chain.tiles[ring]} = T.alloc_shared(({chain.slots}, {ROW}), "float32")' for ring in rings),
        *(
            f"{name} = T.alloc_barrier([{ROW}] * {chain.slots})"
            for ring in rings
            for name in (chain.full[ring], chain.empty[ring])
        ),
    ]
    branches = [_branches(draw, chain, stage) for stage in range(len(chain.warps))]
    order = [stage for stage, parts in enumerate(branches) for _ in parts]
    draw.random.shuffle(order)
    return Stmt("stages", (*declared, *(line for stage in order for line in branches[stage].pop(0))))


def _chain(draw: Draw) -> Chain:
    count, slots, steps = draw.random.randint(2, draw.threads // ROW), draw.random.randint(1, 3), draw.random.randint(1, 5)
    warps = [*range(draw.threads // WARP)]
    if draw.chance(0.5):
        draw.random.shuffle(warps)
    pairs = [(min(pair), max(pair)) for pair in zip(warps[::2], warps[1::2])]
    names = {base: [draw.name(base) for _ in range(count - 1)] for base in ("s", "full", "empty")}
    source = draw.input(("G", str(steps), str(ROW)), "float32").name
    result = draw.output(("G", str(steps), str(ROW)), "float32").name
    notes = draw.output(("G", str(draw.threads)), "int32").name
    return Chain(pairs[:count], slots, steps, source, result, *names.values(), draw.name("s"), notes)


def _branches(draw: Draw, chain: Chain, stage: int) -> list[list[str]]:
    """The lines of each branch of a stage."""
    note = [f"{chain.notes}[bx, tx] = {stage + 1}"]
    bodies = [*([note] if draw.chance(0.3) else []), _loop(draw, chain, stage), *([note] if draw.chance(0.3) else [])]
    return [[_test(draw, chain.warps[stage]), *(INDENT + line for line in body)] for body in bodies]


def _loop(draw: Draw, chain: Chain, stage: int) -> list[str]:
    """The loop in which a stage takes rows and passes them on."""
    step, first, last = draw.name("k"), stage == 0, stage == len(chain.warps) - 1
    slot, lap, lane = f"{step} % {chain.slots}", f"{step} // {chain.slots} % 2", _lane(chain.warps[stage])
    place = draw.pick([lane, f"{ROW - 1} - ({lane})", f"({lane} + {WARP}) % {ROW}"])
    row = f"{chain.source}[bx, {step}, " if first else f"{chain.tiles[stage - 1]}[{slot}, "
    passed = f"{chain.result}[bx, {step}, {lane}]" if last else f"{chain.tiles[stage]}[{slot}, {lane}]"
    work = [f"{passed} = {row}{place}] + T.float32({stage})"]
    if draw.chance(0.4):
        work = [f"{chain.scratch}[{stage}, {lane}] = {row}{lane}]", f"{passed} = {chain.scratch}[{stage}, {place}]"]
    body = [
        *([] if first else [f"T.mbarrier_wait_parity({chain.full[stage - 1]}[{slot}], {lap})"]),
        *([] if last else [f"T.mbarrier_wait_parity({chain.empty[stage]}[{slot}], ({step} // {chain.slots} + 1) % 2)"]),
        *work,
        *([] if first else [f"T.mbarrier_arrive({chain.empty[stage - 1]}[{slot}])"]),
        *([] if last else [f"T.mbarrier_arrive({chain.full[stage]}[{slot}])"]),
    ]
    return [f"for {step} in T.serial({chain.steps}):", *(INDENT + line for line in body)]


def _lane(warps: tuple[int, int]) -> str:
    """A thread's number in its stage."""
    first, second = warps
    if second == first + 1:
        return f"tx - {first * WARP}"
    return f"T.if_then_else(tx // {WARP} == {second}, {WARP}, 0) + tx % {WARP}"


def _test(draw: Draw, warps: tuple[int, int]) -> str:
    """A branch for the threads of a stage."""
    first, second = warps
    either = [
        f"if tx // {WARP} == {first} or tx // {WARP} == {second}:",
        f"if T.get_warp_idx() == {first} or tx // {WARP} == {second}:",
    ]
    if second != first + 1:
        return draw.pick(either)
    start, stop = first * WARP, (second + 1) * WARP
    return draw.pick(
        [*either, f"if tx >= {start} and tx < {stop}:", f"if tx // {ROW} == {first // 2}:" if first % 2 == 0 else either[0]]
    )
