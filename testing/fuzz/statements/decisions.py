"""Variables that some threads set for a while, and operators at them: is a statement each thread's, or the block's?"""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.scope import Scope
from testing.fuzz.tree import INDENT, Stmt

_ROWS, _COLUMNS = 4, 8
_TESTS = ("tx == 0", "tx < 32", "tx >= P // 2", "tx == P - 1", "tx % 2 == 0", "tx < 16 and {0} > 0", "{0} > 0", "bx == 0")


def decisions(draw: Draw, scope: Scope) -> Stmt:
    """A loop in which a variable gets values on some paths, and what is at it is changed: once, or once for each thread.

    Updates add small whole numbers, so that their order does not matter and how many there were shows.
    """
    row, step, handed = draw.name("v"), draw.name("k"), draw.name("s")
    memory = draw.pick(["shared", "fragment"])
    tile = draw.declare(scope, (str(_ROWS), str(_COLUMNS)), draw.pick(["float32", "int32"]), memory)
    sums = draw.output(("G", str(4 * _ROWS), str(_COLUMNS)), tile.dtype).name
    given = draw.input(("G", str(_ROWS)), "int32", 0, 3).name
    value = f"{given}[bx, {step} % {_ROWS}]"
    body = []
    for _ in range(draw.random.randint(1, 4)):
        kind = draw.pick(["some", "some", "all", "handed", "grows", "use", "group"])
        if kind == "some":
            body += [f"if {draw.pick(_TESTS).format(value)}:", f"    {row} = {draw.pick([value, '1', f'{row} + 1'])} % 4"]
        elif kind == "all":
            body.append(f"{row} = {value}")
        elif kind == "grows":
            body.append(f"{row} = ({row} + 1) % 4")
        elif kind == "handed":
            body += [
                "if tx == 0:",
                f"    {row} = {value}",
                f"    {handed}[0] = {row}",
                "T.sync_threads()",
                f"{row} = {handed}[0]",
                "T.sync_threads()",
            ]
        elif kind == "group":
            store = draw.pick([[], [f"{row} = {value}"], [f"{row} = ({row} + 1) % 4"]])
            inside = [*store, *_updates(draw, row, sums, tile.name)]
            body += [draw.pick(["if tx < 32:", "if tx >= P - 32:", "with T.ws(0):"]), *(INDENT + line for line in inside)]
        else:
            body += _updates(draw, row, sums, tile.name)
    lines = [
        "T.sync_threads()",
        "tx = T.get_thread_binding()",
        f'{row} = T.alloc_var("int32", init={draw.pick([0, 1])})',
        f'{handed} = T.alloc_shared((1,), "int32")',
        f"for {step} in T.serial({draw.random.randint(1, 3)}):",
        *(INDENT + line for line in (*body, *_updates(draw, row, sums, tile.name))),
    ]
    return Stmt("decisions", tuple(lines))


def _updates(draw: Draw, row: str, sums: str, tile: str) -> list[str]:
    """What is changed at the variable."""
    i, j = draw.name("i"), draw.name("i")
    head = f"for {i}, {j} in T.Parallel({_ROWS}, {_COLUMNS}):"
    place = f"{sums}[bx, {row} * {_ROWS} + {i}, {j}]"
    return draw.pick(
        [
            [f"T.atomic_add({sums}[bx, {row} * {_ROWS}, 0], {tile})"],
            [head, f"    T.atomic_add({place}, {tile}[{i}, {j}])"],
            [head, f"    {place} = {tile}[{i}, {j}]"],
            [f"T.copy({tile}, {sums}[bx, {row} * {_ROWS}, 0])"],
            [f"if {row} > 0:", f"    T.atomic_add({sums}[bx, {row}, 0], 1)"],
        ]
    )
