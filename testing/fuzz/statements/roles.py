"""Warp-specialised kernels by hand, as published ones are written: one warp group loads, one or two others multiply.

The groups hand tiles over in slots of a ring, which mbarriers count as full and empty, perhaps through several results in a row.
"""

from __future__ import annotations

from dataclasses import dataclass

from testing.fuzz.draw import Draw
from testing.fuzz.scope import Scope
from testing.fuzz.tree import Stmt

WARP, GROUP = 32, 128
"""Threads of a warp, and of a warp group."""


@dataclass(frozen=True)
class Plan:
    """What was drawn for one kernel.

    Attributes:
        dtype, total: element types of the tiles and of the sums.
        m, n, k: rows of one consumer, columns, and depth of a product.
        slots, steps, rounds: of the ring; products of one result; results.
        consumers: how many groups multiply.
        producer: the group that loads.
        how: ``"copy"``, ``"async"`` or ``"bulk"``.
        turned: whether the second operand is transposed.
        attention: whether a second product uses the first.
        late: whether a slot is given back one product later, while the next one runs.
        by: of how many threads one gives a slot back: 1, those of a warp, or, after a wait for its products, those of a group.
        registers: whether the groups move registers.
        staged: whether results pass through shared memory.
        exchanges: whether the consumers exchange sums of rows in the end.
        counter: whether a variable counts the slots.
        chain: whether the groups are an ``if`` chain over the thread.
        parts: whether what a group does before and after its loops are branches of their own.
        nested: whether the consumers are branches below one for all of them.
    """

    dtype: str
    total: str
    m: int
    n: int
    k: int
    slots: int
    steps: int
    rounds: int
    consumers: int
    producer: int
    how: str
    turned: bool
    attention: bool
    late: bool
    by: int
    registers: bool
    staged: bool
    exchanges: bool
    counter: bool
    chain: bool
    parts: bool
    nested: bool


class Names:
    """Fresh names, by what they mean."""

    def __init__(self, draw: Draw):
        self._draw, self._found = draw, {}

    def __getattr__(self, base: str) -> str:
        return self._found.setdefault(base, self._draw.name(base))


def roles(draw: Draw, scope: Scope, bulk: bool = False) -> Stmt:
    """A producer and its consumers."""
    plan, names = _plan(draw, bulk), Names(draw)
    bodies = {plan.producer: _producer(draw, plan, names)}
    others = [group for group in range(plan.consumers + 1) if group != plan.producer]
    bodies |= {group: _consumer(draw, plan, names, number) for number, group in enumerate(others)}
    binding = ["tx = T.get_thread_binding()"] if plan.chain or plan.by > 1 else []
    lines = ["T.sync_threads()", *_declarations(plan, names), *binding, *_branches(draw, plan, bodies)]
    return Stmt("bulk_roles" if bulk else "roles", tuple(lines))


def _branches(draw: Draw, plan: Plan, bodies: dict[int, list[list[str]]]) -> list[str]:
    """The branches of the groups, each of which has a list of parts."""
    if plan.chain:
        whole = [[line for part in bodies[group] for line in part] for group in sorted(bodies)]
        return [line for group, body in enumerate(whole) for line in [_head(plan, group), *_indented(body)]]
    left = {group: list(parts if plan.parts else [[line for part in parts for line in part]]) for group, parts in bodies.items()}
    found: list[tuple[int, list[str]]] = []
    while any(left.values()):
        group = draw.random.choice([group for group, parts in left.items() if parts])
        found.append((group, [f"with T.ws({group}):", *_indented(left[group].pop(0))]))
    if not plan.nested:
        return [line for _, branch in found for line in branch]
    consumers = [line for group, branch in found if group != plan.producer for line in branch]
    inside = [f"with T.ws({', '.join(str(group) for group in sorted(bodies) if group != plan.producer)}):", *_indented(consumers)]
    producer = [line for group, branch in found if group == plan.producer for line in branch]
    return [*producer, *inside] if draw.chance(0.5) else [*inside, *producer]


def bulk_roles(draw: Draw, scope: Scope) -> Stmt:
    """The same with loads by the tensor memory accelerator."""
    return roles(draw, scope, bulk=True)


def _plan(draw: Draw, bulk: bool) -> Plan:
    r = draw.random
    dtype = draw.pick(["float16", "float16", "bfloat16", "int8"])
    attention = dtype != "int8" and draw.chance(0.4)
    consumers = draw.threads // GROUP - 1
    m = draw.pick([64, 64, 128]) if bulk else draw.pick([16, 32, 64])
    slots = r.randint(1, 3)
    late = bulk and not attention and dtype != "int8" and slots > 1 and draw.chance(0.5)
    by = draw.pick([1, WARP, GROUP, GROUP]) if late else draw.pick([1, 1, WARP])
    return Plan(
        dtype, "int32" if dtype == "int8" else "float32", m, draw.pick([16, 32, 64]), draw.pick([32, 64]), slots,
        r.randint(1, 4), draw.pick([1, 1, 2]), consumers, r.randint(0, consumers),
        "bulk" if bulk else draw.pick(["copy", "async"]), dtype == "int8" or draw.chance(0.5), attention,
        late, by, bulk and draw.chance(0.5), draw.chance(0.4), consumers == 2 and draw.chance(0.4),
        draw.chance(0.3), draw.chance(0.4), draw.chance(0.4), draw.chance(0.3),
    )  # fmt: skip


def _declarations(plan: Plan, names: Names) -> list[str]:
    s, m, n, k = plan.slots, plan.m, plan.n, plan.k
    arrivals = plan.consumers * GROUP // plan.by
    second = (n, k) if plan.turned else (k, n)
    found = [
        f'{names.sa} = T.alloc_shared(({s}, {plan.consumers * m}, {k}), "{plan.dtype}")',
        f'{names.sb} = T.alloc_shared(({s}, {second[0]}, {second[1]}), "{plan.dtype}")',
        f'{names.acc} = T.alloc_fragment(({m}, {n}), "{plan.total}")',
        f"{names.full} = T.alloc_barrier([{GROUP}] * {s})",
        f"{names.empty} = T.alloc_barrier([{arrivals}] * {s})",
    ]
    if plan.attention:
        found += [
            f'{names.sv} = T.alloc_shared(({s}, {n}, 32), "{plan.dtype}")',
            f'{names.p} = T.alloc_fragment(({m}, {n}), "{plan.dtype}")',
            f'{names.out} = T.alloc_fragment(({m}, 32), "float32")',
            f'{names.top}, {names.prev} = T.alloc_fragment(({m},), "float32"), T.alloc_fragment(({m},), "float32")',
        ]
    if plan.staged:
        found.append(f'{names.so} = T.alloc_shared(({plan.consumers * m}, {32 if plan.attention else n}), "{plan.total}")')
    if plan.exchanges:
        found += [
            f'{names.row} = T.alloc_fragment(({m},), "{plan.total}")',
            f'{names.other} = T.alloc_fragment(({m},), "{plan.total}")',
            f'{names.ex} = T.alloc_shared((2, {m}), "{plan.total}")',
        ]
    return found


def _head(plan: Plan, group: int) -> str:
    return "else:" if group == plan.consumers else f"{'el' if group else ''}if tx < {(group + 1) * GROUP}:"


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _loops(
    plan: Plan, names: Names, base: str, registers: str, inside: list[str], before: list[str], after: list[str]
) -> list[list[str]]:
    """The loops of one group, with ``{c}`` in the lines for the number of the product, ``{k}`` and ``{t}`` for its places.

    They are one of three parts where it has a single result; ``registers`` are the arguments of ``T.set_max_nreg``."""
    t, step, count = (getattr(names, base + part) for part in ("t", "k", "c"))
    number = count if plan.counter else (f"({t} * {plan.steps} + {step})" if plan.rounds > 1 else step)
    begin = [f'{count} = T.alloc_var("int32", init=0)'] if plan.counter else []
    advance = [f"{count} += 1"] if plan.counter else []
    loop = [f"for {step} in T.serial({plan.steps}):", *_indented([*inside, *advance])]
    move = [f"T.set_max_nreg({registers})"] if plan.registers else []
    several = [*move, *begin, f"for {t} in T.serial({plan.rounds}):", *_indented([*before, *loop, *after])]
    parts = [several] if plan.rounds > 1 else [[*move, *before], [*begin, *loop], after]
    values = {"{c}": number, "{k}": step, "{t}": t if plan.rounds > 1 else "0"}
    return [[_replaced(line, values) for line in part] for part in parts if part]


def _replaced(line: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        line = line.replace(name, value)
    return line


def _producer(draw: Draw, plan: Plan, names: Names) -> list[list[str]]:
    shapes = {names.sa: (plan.consumers * plan.m, plan.k), names.sb: (plan.n, plan.k) if plan.turned else (plan.k, plan.n)}
    shapes |= {names.sv: (plan.n, 32)} if plan.attention else {}
    slot = f"{{c}} % {plan.slots}"
    inside = [f"T.mbarrier_wait_parity({names.empty}[{slot}], ({{c}} // {plan.slots} + 1) % 2)"]
    for tile, shape in shapes.items():
        source = draw.input(("G", str(plan.rounds), str(plan.steps), *map(str, shape)), plan.dtype)
        place = f"{source.name}[bx, {{t}}, {{k}}, 0:{shape[0]}, 0:{shape[1]}]"
        target = f"{tile}[{slot}, :, :]"
        inside.append({
            "copy": f"T.copy({place}, {target})",
            "async": f"T.async_copy({place}, {target})",
            "bulk": f"T.tma_copy({place}, {target}, barrier={names.full}[{slot}])",
        }[plan.how])  # fmt: skip
    done = "T.cp_async_barrier_noinc" if plan.how == "async" else "T.barrier_arrive"
    inside.append(f"{done}({names.full}[{slot}])")
    return _loops(plan, names, "p", "24, 0", inside, [], [])


def _consumer(draw: Draw, plan: Plan, names: Names, number: int) -> list[list[str]]:
    m, slot = plan.m, f"{{c}} % {plan.slots}"
    rows = f"{number * m}:{number * m + m}"
    operands = f"{names.sa}[{slot}, {rows}, :], {names.sb}[{slot}, :, :], {names.acc}, transpose_B={plan.turned}"
    wait = f"T.mbarrier_wait_parity({names.full}[{slot}], {{c}} // {plan.slots} % 2)"
    if plan.late:
        inside = [
            wait,
            f"T.wgmma_gemm({operands}, clear_accum={{k}} == 0)",
            "if {k} > 0:",
            "    T.wait_wgmma(1)",
            *_indented(_give_back(plan, names, f"({{c}} - 1) % {plan.slots}")),
        ]
        last = f"({{c}} - 1) % {plan.slots}" if plan.counter else f"({{t}} * {plan.steps} + {plan.steps - 1}) % {plan.slots}"
        after = ["T.wait_wgmma(0)", *_give_back(plan, names, last)]
        before: list[str] = []
    elif plan.attention:
        inside = [
            wait,
            f"T.gemm({operands}, clear_accum=True)",
            *_softmax(draw, plan),
            f"T.gemm({names.p}, {names.sv}[{slot}, :, :], {names.out})",
            *_give_back(plan, names, slot),
        ]
        inside = [line.format_map({"c": "{c}", "k": "{k}", "t": "{t}"} | _tiles(names)) for line in inside]
        before, after = [f"T.clear({names.out})", f"T.fill({names.top}, -1000)"], []
    else:
        once = draw.chance(0.4)
        clear = ", clear_accum={k} == 0" if once else ""
        inside = [wait, f"T.gemm({operands}{clear})", *_give_back(plan, names, slot)]
        before, after = [] if once else [f"T.clear({names.acc})"], []
    after += _epilogue(draw, plan, names, number)
    return _loops(plan, names, f"q{number}", "160, 1", inside, before, after)


def _tiles(names: Names) -> dict[str, str]:
    return {base: getattr(names, base) for base in ("acc", "p", "out", "top", "prev")}


def _softmax(draw: Draw, plan: Plan) -> list[str]:
    """The statements between the products of attention, with numbers that stay exact in place of exponentials."""
    keep = draw.pick(["{acc}[i, j]", "T.if_then_else({acc}[i, j] * 2 >= {top}[i], {acc}[i, j], 0)"])
    return [
        "T.copy({top}, {prev})",
        "T.reduce_max({acc}, {top}, dim=1, clear=False)",
        f"for i, j in T.Parallel({plan.m}, {plan.n}):",
        f'    {{p}}[i, j] = T.cast(T.clamp({keep}, T.float32(-4), T.float32(4)), "{plan.dtype}")',
        f"for i, j in T.Parallel({plan.m}, 32):",
        "    {out}[i, j] *= T.if_then_else({top}[i] > {prev}[i], T.float32(0.5), T.float32(1))",
    ]


def _give_back(plan: Plan, names: Names, slot: str) -> list[str]:
    arrive = f"T.barrier_arrive({names.empty}[{slot}])"
    if plan.by == 1:
        return [arrive]
    return [*(["T.sync_warp()"] if plan.by == WARP else []), f"if tx % {plan.by} == 0:", f"    {arrive}"]


def _epilogue(draw: Draw, plan: Plan, names: Names, number: int) -> list[str]:
    """What a consumer does with a result."""
    m, columns = plan.m, 32 if plan.attention else plan.n
    result = names.out if plan.attention else names.acc
    output = draw.output(("G", str(plan.rounds), str(m), str(columns)), plan.total)
    target = f"{output.name}[bx, {{t}}, 0:{m}, 0:{columns}]"
    found = []
    if plan.exchanges:
        found += [
            f"T.reduce_sum({result}, {names.row}, dim=1)",
            f"T.copy({names.row}, {names.ex}[{number}, :])",
            f"T.sync_threads(3, {2 * GROUP})",
            f"T.copy({names.ex}[{1 - number}, :], {names.other})",
            f"T.sync_threads(3, {2 * GROUP})",
            f"for i, j in T.Parallel({m}, {columns}):",
            f"    {result}[i, j] += {names.other}[i]",
        ]
    if not plan.staged:
        return [*found, f"T.copy({result}, {target})"]
    staged = f"{names.so}[{number * m}:{number * m + m}, :]"
    found.append(f"T.copy({result}, {staged})")
    if plan.how != "bulk":
        return [*found, f"T.copy({staged}, {target})"]
    return [*found, f"T.tma_copy({staged}, {target})", "T.tma_store_arrive()", "T.tma_store_wait(0)"]
