"""Blocks that use each other's results on CUDA: after all have met, in turns, or in the block that comes last."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.registry import BLOCK, draw_body
from testing.fuzz.scope import Axis, Scope, Tile
from testing.fuzz.statements.regions import a_shape
from testing.fuzz.tree import Stmt

_TYPES = ("float32", "int32", "float16", "int8")
_RELEASES = ("release", "acq_rel", "seq_cst")
_ACQUIRES = ("acquire", "seq_cst")


def _part(tensor: str, tile: Tile, block: str = "") -> str:
    """Where a tile starts in a tensor that has one, or one for each block."""
    return f"{tensor}[{', '.join([block] * bool(block) + ['0'] * len(tile.shape))}]"


def _tile(draw: Draw, scope: Scope, types: tuple[str, ...] = _TYPES) -> Tile:
    shape = a_shape(draw, draw.pick([1, 2, 2]))
    return draw.tile(scope, shape, types)


def _changes(draw: Draw, scope: Scope) -> tuple[Stmt, ...]:
    """Statements on tiles of the block."""
    table = {name: BLOCK[name] for name in ("parallel", "fill", "copy", "reduce")}
    return draw_body(draw, scope.inside("between_blocks"), draw.pick([0, 1, 2]), table)


def meeting(draw: Draw, scope: Scope) -> Stmt:
    """Each block stores a tile; all meet, and each loads what another one has stored; perhaps several times."""
    tile = _tile(draw, scope)
    shared = draw.output(("G", *tile.shape), tile.dtype).name
    step = Axis(draw.name("k"), str(draw.pick([1, 2, 3])))
    other = draw.pick([f"(bx + {step.name} + 1) % G", "G - 1 - bx", "0"])
    own, others = _part(shared, tile, "bx"), _part(shared, tile, other)
    start = Stmt("meeting", (f"T.copy({tile.name}, {own})", "T.sync_grid()"), fixed=True)
    end = Stmt("meeting", (f"T.copy({others}, {tile.name})", "T.sync_grid()"), writes=(tile.name,), fixed=True)
    inner = scope.inside("between_blocks", step, trips=int(step.extent))
    head = f"for {step.name} in T.serial({step.extent}):"
    return Stmt("meeting", (head,), body=(*_changes(draw, inner), start, end))


def turns(draw: Draw, scope: Scope) -> Stmt:
    """Blocks change one tensor in turns; a flag says whose turn it is."""
    tile = _tile(draw, scope)
    flag, shared = draw.output(("1",), "int32").name, draw.output(tile.shape, tile.dtype).name
    place = draw.pick(["bx", "bx", "G - 1 - bx"])
    acquire, added = draw.pick(_ACQUIRES), draw.pick(_RELEASES)
    stored = draw.pick([order for order in _RELEASES if order != "acq_rel"])  # a store acquires nothing
    spin = (f'while T.atomic_load({flag}[0], memory_order="{acquire}") != {place}:', "    pass")
    load = f"T.copy({_part(shared, tile)}, {tile.name})"
    signal = draw.pick([f'T.atomic_store({flag}[0], {place} + 1, memory_order="{stored}")',
                        f'T.atomic_add({flag}[0], 1, memory_order="{added}")'])  # fmt: skip
    start = Stmt("turns", (*spin, load), writes=(tile.name,), fixed=True)
    end = Stmt("turns", (f"T.copy({tile.name}, {_part(shared, tile)})", signal), fixed=True)
    return Stmt("turns", ("if True:",), body=(start, *_changes(draw, scope), end))


def last_comes(draw: Draw, scope: Scope) -> Stmt:
    """Each block stores a tile and counts itself; the one that counts last adds all tiles."""
    tile = _tile(draw, scope, ("float32", "int32"))
    total = draw.declare(scope, tile.shape, tile.dtype, "fragment", wide=True)
    parts = draw.workspace(("G", *tile.shape), tile.dtype).name
    count, result = draw.output(("1",), "int32").name, draw.output(tile.shape, tile.dtype).name
    own = _part(parts, tile, "bx")
    seen, block, axes = draw.name("h"), draw.name("k"), [draw.name("i") for _ in tile.shape]
    at = ", ".join(axes)
    lines = (
        f"T.copy({tile.name}, {own})",
        f'{seen} = T.atomic_add({count}[0], 1, return_prev=True, memory_order="acq_rel")',
        f"if {seen} == G - 1:",
        f"    for {block} in T.serial(G):",
        f"        for {at} in T.Parallel({', '.join(tile.shape)}):",
        f"            {total.name}[{at}] += {parts}[{block}, {at}]",
        f"    T.copy({total.name}, {_part(result, tile)})",
        f"    T.clear({total.name})",
        "else:", f"    T.clear({total.name})",
    )  # fmt: skip
    return Stmt("last_comes", lines, writes=(total.name,))
