"""Explicit asynchrony on CUDA: rings between warp groups, bulk copies, products in flight, copies between blocks of a cluster.

A kernel has at most one of them, at its top level between statements of the block. Tiles in flight are not used before the
wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from testing.fuzz.draw import Draw
from testing.fuzz.registry import BLOCK, draw_body
from testing.fuzz.scope import Scope, Tile
from testing.fuzz.statements import between_blocks, decisions, groups, protocols, roles, stages
from testing.fuzz.statements.regions import a_shape
from testing.fuzz.statements.threads import thread_code
from testing.fuzz.statements.waits import async_copies
from testing.fuzz.tree import Stmt

CUDA, HOPPER = "threads", "sm_90a"
"""What a program may need: threads in a block, or this architecture."""


@dataclass(frozen=True)
class Skill:
    """One generator of explicitly synchronised code.

    Attributes:
        rule: generates the statement.
        needs: the target feature that it requires.
        threads: supported numbers of threads per block.
        cluster: blocks of a cluster, 0 for none.
        weight: relative frequency.
    """

    rule: Callable[[Draw, Scope], Stmt]
    needs: str = HOPPER
    threads: tuple[int, ...] = (128,)
    cluster: int = 0
    weight: float = 1

    @property
    def kind(self) -> str:
        """The kind of its statements."""
        return {"thread_code": "threads", "async_copies": "async"}.get(self.rule.__name__, self.rule.__name__)


def _zeros(shape: tuple[str, ...]) -> str:
    return ", 0" * len(shape)


def _between(draw: Draw, scope: Scope, *tiles: Tile) -> tuple[Stmt, ...]:
    """Statements that do not use tiles that are in flight."""
    names = {tile.name for tile in tiles}
    inner = scope.inside("by_hand")
    inner.tiles = [tile for tile in inner.tiles if tile.name not in names]
    inner.hidden = inner.hidden | names
    return draw_body(draw, inner, draw.pick([0, 1, 2]), {name: BLOCK[name] for name in ("parallel", "fill", "reduce")})


def _box(draw: Draw, dtype: str) -> tuple[str, str]:
    """A shape that the bulk copies take: rows of whole 16 bytes."""
    return draw.pick(["1", "2", "5", "8", "16", "32"]), draw.pick(["16", "32", "64"] if dtype == "float16" else ["8", "16", "32"])


def _wrapped(kind: str, body: tuple[Stmt, ...]) -> Stmt:
    return Stmt(kind, ("if True:",), body=body)


def ring(draw: Draw, scope: Scope, bulk: bool = False) -> Stmt:
    """One warp group loads tiles into slots, another uses them and gives the slots back."""
    dtype = draw.pick(["float32", "float16"])
    shape = (draw.pick(["8", "16", "32"]), _box(draw, dtype)[1])
    slots, steps = draw.random.randint(1, 3), draw.random.randint(1, 5)
    name, full, empty, total, step = (draw.name(base) for base in ("ring", "full", "empty", "f", "k"))
    producer = draw.random.randrange(2)
    source, result = draw.input(("G", str(steps), *shape), dtype), draw.output(("G", *shape), "float32")
    slot = f"{name}[{step} % {slots}, :, :]"
    if bulk:
        load = f"T.tma_copy({source.name}[bx, {step}, 0:{shape[0]}, 0:{shape[1]}], {slot}, barrier={full}[{step} % {slots}])"
    else:
        load = f"T.copy({source.name}[bx, {step}, 0, 0], {slot})"
    i, j = draw.name("i"), draw.name("i")
    place = draw.pick([f"{i}, {j}", f"{shape[0]} - 1 - {i}, {j}", f"{i}, ({j} + 1) % {shape[1]}"])
    lines = (
        f'{name} = T.alloc_shared(({slots}, {", ".join(shape)}), "{dtype}")',
        f'{total} = T.alloc_fragment(({", ".join(shape)}), "float32")',
        f"{full}, {empty} = T.alloc_barrier([128] * {slots}), T.alloc_barrier([128] * {slots})",
        f"with T.ws({producer}):",
        f"    for {step} in T.serial({steps}):",
        f"        T.mbarrier_wait_parity({empty}[{step} % {slots}], ({step} // {slots} + 1) % 2)",
        f"        {load}",
        f"        T.barrier_arrive({full}[{step} % {slots}])",
        f"with T.ws({1 - producer}):",
        f"    T.clear({total})",
        f"    for {step} in T.serial({steps}):",
        f"        T.mbarrier_wait_parity({full}[{step} % {slots}], {step} // {slots} % 2)",
        f"        for {i}, {j} in T.Parallel({', '.join(shape)}):",
        f'            {total}[{i}, {j}] += T.cast({name}[{step} % {slots}, {place}], "float32")',
        f"        T.barrier_arrive({empty}[{step} % {slots}])",
        f"    T.copy({total}, {result.name}[bx, 0, 0])",
    )
    return Stmt("bulk_ring" if bulk else "ring", ("T.sync_threads()", *lines))


def bulk_ring(draw: Draw, scope: Scope) -> Stmt:
    """A ring whose slots are loaded by the tensor memory accelerator."""
    return ring(draw, scope, bulk=True)


def bulk_load(draw: Draw, scope: Scope) -> Stmt:
    """A tile loaded by the tensor memory accelerator, once or step by step."""
    dtype = draw.pick(["float32", "float16"])
    shape = _box(draw, dtype)
    tile, full = draw.declare(scope, shape, dtype, "shared"), draw.name("full")
    source = draw.input(("G", *shape), dtype)
    load = f"T.tma_copy({source.name}[bx, 0:{shape[0]}, 0:{shape[1]}], {tile.name}, barrier={full})"
    start = Stmt("bulk_load", (f"{full} = T.alloc_barrier({draw.threads})", load), writes=(tile.name,), fixed=True)
    wait = Stmt("wait", (f"T.barrier_arrive({full})", f"T.mbarrier_wait_parity({full}, 0)"), fixed=True)
    return _wrapped("bulk_load", (start, *_between(draw, scope, tile), wait))


def bulk_store(draw: Draw, scope: Scope) -> Stmt:
    """A tile stored by the tensor memory accelerator."""
    dtype = draw.pick(["float32", "float16"])
    tile = draw.declare(scope, _box(draw, dtype), dtype, "shared")
    result = draw.output(("G", *tile.shape), dtype)
    target = f"{result.name}[bx, 0:{tile.shape[0]}, 0:{tile.shape[1]}]"
    before = draw_body(draw, scope.inside("by_hand"), 1, {"parallel": BLOCK["parallel"]})
    start = Stmt("bulk_store", (f"T.tma_copy({tile.name}, {target})", "T.tma_store_arrive()"), fixed=True)
    wait = Stmt("wait", ("T.tma_store_wait(0)",), fixed=True)
    return _wrapped("bulk_store", (*before, start, *_between(draw, scope, tile), wait))


def product(draw: Draw, scope: Scope) -> Stmt:
    """Asynchronous products of a warp group, overlapped with other statements of the block."""
    m, n, k = draw.pick(["64", "128"]), draw.pick(["16", "32", "64"]), draw.pick(["16", "32", "64"])
    turned = draw.chance(0.4)
    a = draw.declare(scope, (m, k), "float16", "shared")
    b = draw.declare(scope, (n, k) if turned else (k, n), "float16", "shared")
    c = draw.declare(scope, (m, n), "float32", "fragment", wide=True)
    calls = [
        f"T.wgmma_gemm({a.name}, {b.name}, {c.name}, transpose_B={turned}, clear_accum={draw.chance(0.4)})"
        for _ in range(draw.random.randint(1, 2))
    ]
    start = Stmt("product", tuple(calls), writes=(c.name,), fixed=True)
    wait = Stmt("wait", ("T.wait_wgmma(0)",), fixed=True)
    return _wrapped("product", (start, *_between(draw, scope, a, b, c), wait))


def push(draw: Draw, scope: Scope) -> Stmt:
    """A copy of a tile to the other block of the cluster."""
    shape = a_shape(draw, draw.pick([1, 2]))
    dtype = draw.pick(["float32", "float16", "int32", "int8"])
    source, target = draw.declare(scope, shape, dtype, "shared"), draw.declare(scope, shape, dtype, "shared")
    before = draw_body(draw, scope.inside("by_hand"), 1, {"parallel": BLOCK["parallel"]})
    lines = (
        "T.cluster_sync()",
        f"T.copy_cluster({source.name}, {target.name}, dst_block=1 - T.block_rank_in_cluster())",
        "T.cluster_sync()",
    )
    return _wrapped("push", (*before, Stmt("push", lines, writes=(target.name,), fixed=True)))


def multicast(draw: Draw, scope: Scope) -> Stmt:
    """A multicast load of one tile of an input to all or some blocks of the cluster."""
    shape = a_shape(draw, draw.pick([1, 2]))
    tile = draw.declare(scope, shape, draw.pick(["float32", "float16", "int32", "int8"]), "shared")
    source = draw.input(("G", *shape), tile.dtype)
    text = f"T.copy_cluster({source.name}[bx{_zeros(shape)}], {tile.name}, cluster_mask={draw.pick([1, 2, 3, 3])})"
    return Stmt("multicast", (text,), writes=(tile.name,))


def halves(draw: Draw, scope: Scope) -> Stmt:
    """Block statements below a condition on the thread: different ones for each half of the threads, on separate tiles."""
    bodies, names = [], set()
    for _ in range(2):
        tile = draw.declare(scope, a_shape(draw, 2), draw.pick(["float32", "float16", "int32"]), "shared")
        inner = scope.inside("halves")
        inner.tiles, inner.hidden = [tile], inner.hidden | names | {other.name for other in draw.declared if other != tile}
        inner.variables, inner.values = [], []
        names.add(tile.name)
        found = (BLOCK["parallel"].rule(draw, inner) for _ in range(draw.random.randint(1, 2)))
        bodies.append(tuple(statement for statement in found if statement is not None))
    test = draw.pick([f"tx < {draw.threads // 2}", f"tx >= {draw.threads // 2}"])
    return Stmt("halves", ("tx = T.get_thread_binding()", f"if {test}:"), body=bodies[0], other=bodies[1], without=())


SKILLS = (
    Skill(thread_code, CUDA, (64, 64, 128, 96, 32), weight=6),
    Skill(async_copies, CUDA, (64, 64, 128, 96, 32), weight=3),
    Skill(ring, CUDA, (256,)),
    Skill(halves, CUDA, (64, 128, 256)),
    Skill(protocols.named_ring, CUDA, (256,)),
    Skill(roles.roles, CUDA, (256, 256, 384), weight=2),
    Skill(decisions.decisions, CUDA, (32, 64, 128, 96)),
    Skill(stages.stages, CUDA, (128, 192, 256)),
    Skill(groups.groups, CUDA, (256,), weight=2),
    Skill(groups.lanes, CUDA, (32, 64, 128, 96)),
    Skill(groups.exits, CUDA, (32, 64, 128, 96)),
    Skill(between_blocks.meeting, CUDA, (32, 64, 128, 96)),
    Skill(between_blocks.turns, CUDA, (32, 64, 128, 96)),
    Skill(between_blocks.last_comes, CUDA, (32, 64, 128, 96)),
    Skill(bulk_ring, threads=(256,)),
    Skill(roles.bulk_roles, threads=(256, 384, 384), weight=3),
    Skill(bulk_load, threads=(32, 64, 128, 256)),
    Skill(bulk_store, threads=(32, 64, 128, 256)),
    Skill(product, threads=(128, 128, 256)),
    Skill(push, threads=(32, 64, 128, 96), cluster=2),
    Skill(multicast, threads=(32, 64, 128, 96), cluster=2),
)  # fmt: skip
