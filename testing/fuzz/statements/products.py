"""Matrix products: of existing tiles, of tiles that a loop loads, and of the result of another product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testing.fuzz import dtypes
from testing.fuzz.draw import Draw
from testing.fuzz.registry import statement
from testing.fuzz.scope import Scope, Tile
from testing.fuzz.statements.loops import MOST_TRIPS
from testing.fuzz.statements.regions import operand
from testing.fuzz.tree import Stmt

TYPES = {
    "float16": "float32", "bfloat16": "float32", "float8_e4m3fn": "float32", "float8_e5m2": "float32", "int8": "int32",
    "float32": "float32",
}  # fmt: skip
"""Type of the operands, and of the sums."""
_COMMON = ["float16"] * 3 + list(TYPES)
POLICIES = ("Square", "FullRow", "FullCol")


def _sizes(draw: Draw, dtype: str, count: int) -> list[str] | None:
    """Sizes (m, n, k) that tensor cores support; None if the program has none."""
    sizes = [name for name in draw.sizes if draw.sizes[name] % 16 == 0]
    deep = [name for name in sizes if draw.sizes[name] % 32 == 0 or dtype not in ("int8", "float8_e4m3fn", "float8_e5m2")]
    if not deep or draw.threads % 32:
        return None
    return [*(draw.pick(sizes) for _ in range(count - 1)), draw.pick(deep)]


@dataclass(frozen=True)
class _Steps:
    """A loop along an axis of its operands.

    Attributes:
        trips: how many iterations it has.
        length: of the axis, which the last tile may overhang; or there is more of it than the loop reads.
    """

    trips: str
    length: str

    def lines(self, draw: Draw, body: Sequence[str]) -> tuple[str, ...]:
        """The lines of the loop; ``{k}`` in those of its body stands for the counter."""
        name = draw.name("k")
        head = f"for {name} in T.Pipelined({self.trips}, num_stages={draw.pick([0, 1, 2, 3])}):"
        return head, *(f"    {line.format(k=name)}" for line in body)


def _steps(draw: Draw, scope: Scope, size: str) -> _Steps | None:
    """A loop by tiles of a size; None if there are too many iterations around it."""
    most = min(4, MOST_TRIPS // scope.trips)
    if most < 1:
        return None
    trips = draw.random.randint(1, most)
    if draw.chance(0.5):
        return _Steps(str(trips), f"4 * {size}")
    length = draw.shortened(f"{trips} * {size}")
    return _Steps(f"T.ceildiv({length}, {size})" if draw.chance(0.5) else str(trips), length)


def _shape(turned: bool, rows: str, columns: str) -> tuple[str, str]:
    return (columns, rows) if turned else (rows, columns)


def _loaded(
    draw: Draw, scope: Scope, dtype: str, *shapes: tuple[str, str], apart: tuple[str, ...] = ()
) -> tuple[list[Tile], list[str]]:
    """Shared tiles for what a loop loads: often its own, so that loads may run ahead; and the lines that allocate these."""
    if draw.chance(0.7):
        own = [Tile(draw.name("s"), "shared", shape, dtype) for shape in shapes]
        return own, [f'{tile.name} = T.alloc_shared(({", ".join(tile.shape)}), "{dtype}")' for tile in own]
    found: list[Tile] = []
    for shape in shapes:
        found.append(draw.tile(scope, shape, (dtype,), ("shared",), apart=(*apart, *(tile.name for tile in found))))
    return found, []


@statement("matmul", 1)
def matmul(draw: Draw, scope: Scope) -> Stmt | None:
    """A loop that loads both operands, perhaps changes one in registers, and multiplies them."""
    dtype = draw.pick(_COMMON)
    sizes = _sizes(draw, dtype, 3)
    if sizes is None:
        return None
    m, n, k = sizes
    steps = _steps(draw, scope, k)
    if steps is None:
        return None
    ta, tb = draw.chance(0.25), draw.chance(0.4)
    c = draw.tile(scope, (m, n), (TYPES[dtype],), ("fragment",), wide=True)
    (a, b), allocations = _loaded(draw, scope, dtype, _shape(ta, m, k), _shape(tb, k, n))
    changed = draw.tile(scope, a.shape, (dtype,), ("fragment",)) if not ta and draw.chance(0.3) else None
    left = _part(draw, a, 0 if ta else 1, steps)
    right = _part(draw, b, 1 if tb else 0, steps)
    lines = [f"T.copy({left}, {a.name})", f"T.copy({right}, {b.name})"]
    if changed is not None:
        lines += _changed(draw, a, changed)
    options = f"transpose_A={ta}, transpose_B={tb}, policy=T.GemmWarpPolicy.{draw.pick(POLICIES)}"
    loop = steps.lines(draw, [*lines, f"T.gemm({(changed or a).name}, {b.name}, {c.name}, {options})"])
    return Stmt("matmul", (*allocations, *loop), writes=tuple(tile.name for tile in (a, b, c, changed) if tile))


def _part(draw: Draw, tile: Tile, axis: int, steps: _Steps) -> str:
    """The part of a new input that iteration ``{k}`` of a loop along an axis loads; often each block has its own."""
    shape, place = list(tile.shape), ["0", "0"]
    shape[axis], place[axis] = steps.length, f"{{k}} * {tile.shape[axis]}"
    if draw.chance(0.5):
        other = 1 - axis
        shape[other], place[other] = draw.shortened(f"G * {tile.shape[other]}"), f"bx * {tile.shape[other]}"
    return f"{draw.input(shape, tile.dtype).name}[{', '.join(place)}]"


def _changed(draw: Draw, source: Tile, target: Tile) -> list[str]:
    """A nest that computes a new operand from a tile."""
    i, j = draw.name("i"), draw.name("i")
    values = ["{0}", 'T.cast(T.cast({0}, "float32") * T.float32(0.5), {1})'] if target.dtype != "int8" else ["{0}"]
    if target.dtype in dtypes.COMPUTED:
        values += ["T.max({0}, T.cast(0, {1}))", "-{0}"]
    text = draw.pick(values).format(f"{source.name}[{i}, {j}]", f'"{target.dtype}"')
    return [f"for {i}, {j} in T.Parallel({', '.join(target.shape)}):", f"    {target.name}[{i}, {j}] = {text}"]


@statement("chain", 0.7)
def chain(draw: Draw, scope: Scope) -> Stmt | None:
    """A product of products, as in attention: the first one's sums are made small, and multiplied with another operand."""
    dtype = draw.pick(["float16", "float16", "bfloat16"])
    sizes = _sizes(draw, dtype, 4)
    if sizes is None:
        return None
    m, n, d, k = sizes
    steps = _steps(draw, scope, n)
    if steps is None:
        return None
    first = draw.tile(scope, (m, k), (dtype,), ("shared",))
    (keys, others), allocations = _loaded(draw, scope, dtype, (n, k), (n, d), apart=(first.name,))
    sums = draw.tile(scope, (m, n), ("float32",), ("fragment",), wide=True)
    total = draw.tile(scope, (m, d), ("float32",), ("fragment",), wide=True, apart=(sums.name,))
    small = draw.tile(scope, (m, n), (dtype,), ("fragment", "fragment", "shared"), apart=(first.name, keys.name, others.name))
    i, j, policy = draw.name("i"), draw.name("i"), f"policy=T.GemmWarpPolicy.{draw.pick(POLICIES)}"
    loop = steps.lines(draw, [
        f"T.copy({_part(draw, keys, 0, steps)}, {keys.name})",
        f"T.copy({_part(draw, others, 0, steps)}, {others.name})",
        f"T.gemm({first.name}, {keys.name}, {sums.name}, transpose_B=True, clear_accum=True, {policy})",
        f"for {i}, {j} in T.Parallel({m}, {n}):",
        f'    {small.name}[{i}, {j}] = T.cast(T.clamp({sums.name}[{i}, {j}], -4, 4), "{dtype}")',
        f"T.gemm({small.name}, {others.name}, {total.name}, {policy})",
    ])  # fmt: skip
    kept = draw.tile(scope, (m, n), (dtype,), ("shared",), apart=(first.name, keys.name, others.name, small.name))
    after = (f"T.copy({small.name}, {kept.name})",) if draw.chance(0.5) else ()
    return Stmt("chain", (*allocations, *loop, *after), writes=tuple(t.name for t in (keys, others, sums, small, total, kept)))


@statement("gemm", 2.5)
def gemm(draw: Draw, scope: Scope) -> Stmt | None:
    """C += A @ B on sizes that tensor cores take."""
    dtype = draw.pick(_COMMON)
    sizes = _sizes(draw, dtype, 3)
    if sizes is None:
        return None
    m, n, k = sizes
    ta, tb = draw.chance(0.3), draw.chance(0.4)
    c, of_c = operand(draw, scope, (m, n), (TYPES[dtype],), ("fragment",), wide=True, parts=0)
    memories = ("shared",) if ta else ("shared", "shared", "fragment")
    a, _ = operand(draw, scope, _shape(ta, m, k), (dtype,), memories, parts=0.35, matrix=True)
    b, _ = operand(draw, scope, _shape(tb, k, n), (dtype,), ("shared",), parts=0.35, matrix=True)
    options = f"transpose_A={ta}, transpose_B={tb}, clear_accum={draw.chance(0.3)}, policy=T.GemmWarpPolicy.{draw.pick(POLICIES)}"
    return Stmt("gemm", (f"T.gemm({a}, {b}, {c}, {options})",), writes=(of_c.name,))
