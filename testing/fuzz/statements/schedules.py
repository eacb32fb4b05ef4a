"""Pipelined loops whose schedule the program gives: ``order``, ``stage``, ``group``."""

from __future__ import annotations

from collections.abc import Sequence

from testing.fuzz.draw import Draw
from testing.fuzz.registry import statement
from testing.fuzz.scope import Scope, Tile
from testing.fuzz.statements.loops import MOST_TRIPS
from testing.fuzz.statements.regions import a_shape
from testing.fuzz.tree import Stmt


@statement("scheduled_loop", 1)
def scheduled_loop(draw: Draw, scope: Scope) -> Stmt | None:
    """A loop that loads one or two tiles, adds them up and perhaps stores the sums, with a random ``order`` and ``stage``."""
    trips = draw.random.randint(1, 6)
    if trips * scope.trips > MOST_TRIPS:
        return None
    shape, dtype, step = a_shape(draw, 2), draw.pick(["float32", "float16", "int32", "int8"]), draw.name("k")
    # The loop writes only its own tiles: a tile that is also used outside of the loop has one version, which would fix the order.
    tiles = [Tile(draw.name("s"), "shared", shape, dtype) for _ in range(draw.pick([1, 2]))]
    total = draw.tile(scope, shape, ("float32",), ("fragment",), wide=True)
    bodies = [[_load(draw, tile, step, trips)] for tile in tiles] + [_sum(draw, total, tiles)]
    if draw.chance(0.4):
        result = draw.output(("G", str(trips), *shape), "float32")
        bodies.append([f"T.copy({total.name}, {result.name}[bx, {step}, 0, 0])"])
    head = f"for {step} in T.Pipelined({trips}, num_stages={draw.random.randint(1, 3)}, {_lists(draw, len(tiles), len(bodies))}):"
    allocations = [f'{tile.name} = T.alloc_shared(({", ".join(shape)},), "{dtype}")' for tile in tiles]
    lines = (*allocations, head, *(f"    {line}" for body in bodies for line in body))
    return Stmt("scheduled_loop", lines, writes=(total.name,))


def _load(draw: Draw, tile: Tile, step: str, trips: int) -> str:
    tensor = draw.input((str(trips), *tile.shape), tile.dtype)
    return f"T.copy({tensor.name}[{step}, 0, 0], {tile.name})"


def _sum(draw: Draw, total: Tile, tiles: Sequence[Tile]) -> list[str]:
    names = [draw.name("i") for _ in total.shape]
    at = ", ".join(names)
    mirrored = ", ".join(draw.pick([name, f"{size} - 1 - {name}"]) for name, size in zip(names, total.shape))
    terms = " + ".join(f'T.cast({tile.name}[{mirrored}], "float32")' for tile in tiles)
    return [f"for {at} in T.Parallel({', '.join(total.shape)}):", f"    {total.name}[{at}] += {terms}"]


def _lists(draw: Draw, loads: int, count: int) -> str:
    """Stages that do not decrease from the writer of a tile to its readers; within a stage the order of the text."""
    if loads == 2 and draw.chance(0.3):
        groups = [[0, 1], *([number] for number in range(2, count))]
        loads, count = 1, count - 1
        tail = f", group={groups}"
    else:
        tail = ""
    first = [draw.random.randint(0, 1) for _ in range(loads)]
    last = max(first) + draw.random.randint(0, 2)
    stages = first + [last] * (count - loads)
    return f"order={_places(draw, stages)}, stage={stages}{tail}"


def _places(draw: Draw, stages: list[int]) -> list[int]:
    """The position of each statement: random, except that statements of one stage keep their order."""
    shuffled = list(range(len(stages)))
    draw.random.shuffle(shuffled)
    by_stage = {stage: iter(sorted(n for n in shuffled if stages[n] == stage)) for stage in set(stages)}
    sequence = [next(by_stage[stages[number]]) for number in shuffled]
    return [sequence.index(number) for number in range(len(sequence))]
