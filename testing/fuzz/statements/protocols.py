"""Protocols of producers and consumers by hand on CUDA: named barriers between warp groups, mbarriers of single threads."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.expressions import small
from testing.fuzz.indices import index
from testing.fuzz.registry import THREAD, statement
from testing.fuzz.scope import Axis, Scope
from testing.fuzz.statements.threads import own_variable
from testing.fuzz.tree import Stmt


def named_ring(draw: Draw, scope: Scope) -> Stmt:
    """One warp group loads tiles into slots, another uses them; named barriers say that a slot is full or empty."""
    dtype = draw.pick(["float32", "float16", "int32"])
    shape = (draw.pick(["4", "8", "16"]), draw.pick(["8", "16", "20", "32"]))
    slots, steps, producer = draw.random.randint(1, 3), draw.random.randint(1, 5), draw.random.randrange(2)
    name, total, step, i, j = (draw.name(base) for base in ("ring", "f", "k", "i", "i"))
    source, result = draw.input(("G", str(steps), *shape), dtype), draw.output(("G", *shape), "float32")
    slot = f"{step} % {slots}"
    full, empty = f"1 + {slot}", f"{1 + slots} + {slot}"
    place = draw.pick([f"{i}, {j}", f"{shape[0]} - 1 - {i}, {j}", f"{i}, ({j} + 1) % {shape[1]}"])
    lines = (
        "T.sync_threads()",
        f'{name} = T.alloc_shared(({slots}, {", ".join(shape)}), "{dtype}")',
        f'{total} = T.alloc_fragment(({", ".join(shape)}), "float32")',
        f"with T.ws({producer}):",
        f"    for {step} in T.serial({steps}):",
        f"        if {step} >= {slots}:",
        f"            T.sync_threads({empty}, 256)",
        f"        T.copy({source.name}[bx, {step}, 0, 0], {name}[{slot}, :, :])",
        f"        T.named_barrier_arrive({full}, 256)",
        f"with T.ws({1 - producer}):",
        f"    T.clear({total})",
        f"    for {step} in T.serial({steps}):",
        f"        T.sync_threads({full}, 256)",
        f"        for {i}, {j} in T.Parallel({', '.join(shape)}):",
        f'            {total}[{i}, {j}] += T.cast({name}[{slot}, {place}], "float32")',
        f"        if {step} + {slots} < {steps}:",
        f"            T.named_barrier_arrive({empty}, 256)",
        f"    T.copy({total}, {result.name}[bx, 0, 0])",
    )
    return Stmt("named_ring", lines)


@statement("leader", 1, table=THREAD)
def leader(draw: Draw, scope: Scope) -> Stmt | None:
    """One thread fills a tile, step by step; all wait for it at an mbarrier, and it waits until all have read."""
    target = own_variable(draw, scope)
    if target is None or scope.apart:
        return None
    # The phases of a barrier go on where the statement is repeated: after an even number of steps they are where they began.
    size, steps = draw.pick(["2", "4", "5"]), draw.random.randint(1, 3) if scope.trips == 1 else 2
    full, empty, tile = draw.name("full"), draw.name("empty"), draw.name("s")
    step, axis = Axis(draw.name("k"), str(steps)), Axis(draw.name("q"), size)
    value = small(draw, scope.inside("leader", step, axis), "float")
    lines = (
        f"{full}, {empty} = T.alloc_barrier(1), T.alloc_barrier(P)",
        f'{tile} = T.alloc_shared(({size},), "float32")',
        f"for {step.name} in T.serial({steps}):",
        f"    if tx == {draw.pick(['0', 'P - 1', 'P // 2'])}:",
        f"        T.mbarrier_wait_parity({empty}, ({step.name} + 1) % 2)",
        f"        for {axis.name} in T.serial({size}):",
        f"            {tile}[{axis.name}] = {{0}}",
        f"        T.mbarrier_arrive({full})",
        f"    T.mbarrier_wait_parity({full}, {step.name} % 2)",
        f"    {target} = T.max({target}, {tile}[{{1}}])",
        f"    T.mbarrier_arrive({empty})",
    )
    return Stmt("leader", lines, (value, index(draw, scope, size)))
