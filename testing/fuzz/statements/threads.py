"""Programs that name threads: exchanges through shared memory and by shuffles, divergent branches and loops.

Stores that other threads read are between explicit barriers of the program. The variables of these statements
differ between threads, so statements of the block do not see them.
"""

from __future__ import annotations

from testing.fuzz import dtypes
from testing.fuzz.draw import Draw
from testing.fuzz.expressions import condition, small
from testing.fuzz.indices import index
from testing.fuzz.registry import THREAD, draw_body, statement
from testing.fuzz.scope import Axis, Scope, Tile, Variable
from testing.fuzz.tree import Stmt

COUNT = "P"
"""The size that is the number of threads."""

_PLACES = ("tx", "P - 1 - tx", "(tx + 3) % P", "tx ^ 1")
"""Elements of which each thread has one."""


def thread_code(draw: Draw, scope: Scope) -> Stmt:
    """A sequence of statements that each thread executes on its own variables."""
    inner = scope.inside("threads", Axis("tx", COUNT))
    inner.tiles = [tile for tile in inner.tiles if tile.memory == "shared" and not tile.wide]
    inner.variables, inner.values = [], []
    first = Variable(draw.name("v"), "float")
    begin = (f'{first.name} = T.alloc_var("float32")', f"{first.name} = {{0}}")
    start = Stmt("thread_variable", begin, (small(draw, inner, "float"),))
    inner.variables.append(first)
    body = draw_body(draw, inner, draw.random.randint(1, 4), THREAD)
    tensor = draw.output(("G", COUNT), "float32")
    last = Stmt("save", (f"{tensor.name}[bx, tx] = {first.name}", "T.sync_threads()"))
    lines = ("T.sync_threads()", "tx = T.get_thread_binding()", "if True:")
    return Stmt("threads", lines, body=(start, *body, last), without=("tx = T.get_thread_binding()",))


def own_variable(draw: Draw, scope: Scope, kind: str = "float") -> str | None:
    """A variable of the thread."""
    found = [v.name for v in scope.variables if v.type == kind]
    return draw.pick(found) if found else None


@statement("thread_variable", 1, table=THREAD)
def thread_variable(draw: Draw, scope: Scope) -> Stmt | None:
    """A new variable of the thread."""
    kind = draw.pick(["float", "int"])
    name, value = draw.name("v"), small(draw, scope, kind)
    scope.variables.append(Variable(name, kind))
    dtype = {"float": "float32", "int": "int32"}[kind]
    return Stmt("thread_variable", (f'{name} = T.alloc_var("{dtype}")', f"{name} = {{0}}"), (value,))


@statement("thread_assign", 2, table=THREAD)
def thread_assign(draw: Draw, scope: Scope) -> Stmt | None:
    target = draw.pick(scope.variables)
    if target.type == "bool":
        return None
    return Stmt("thread_assign", (f"{target.name} = {{0}}",), (small(draw, scope, target.type),))


@statement("exchange", 3, table=THREAD)
def exchange(draw: Draw, scope: Scope) -> Stmt | None:
    """Each thread stores an element and reads another's."""
    target = own_variable(draw, scope)
    if target is None or scope.apart:
        return None
    value = small(draw, scope, "float")
    tile = draw.declare(scope, (COUNT,), draw.pick(["float32", "float16", "int32"]), "shared")
    lines = (
        "T.sync_threads()",
        f'{tile.name}[{draw.pick(_PLACES)}] = T.cast({{0}}, "{tile.dtype}")', "T.sync_threads()",
        f'{target} = T.cast({tile.name}[{{1}}], "float32")', "T.sync_threads()",
    )  # fmt: skip
    return Stmt("exchange", lines, (value, index(draw, scope, COUNT)), writes=(tile.name,))


@statement("lone_element", 1.5, table=THREAD)
def lone_element(draw: Draw, scope: Scope) -> Stmt | None:
    """One thread, or each for itself, stores an element of a tile of the block."""
    tiles = [tile for tile in draw.declared if tile.dtype in dtypes.COMPUTED and tile.name not in scope.hidden]
    if scope.apart or not tiles:
        return None
    tile = draw.pick(tiles)
    inner = scope.inside("lone_element")
    inner.tiles = [other for other in inner.tiles if other.name != tile.name]  # threads store to it in the same statement
    value = small(draw, inner, "float")
    at = [str(draw.random.randrange(draw.size(size))) for size in tile.shape]
    test = draw.pick(["tx == 3", "tx == P - 1", "tx == 0", "tx == bx"])
    if draw.chance(0.4):
        test, at[-1] = f"tx < {tile.shape[-1]}", "tx"
    assigned = f'    {tile.name}[{", ".join(at)}] = T.cast({{0}}, "{tile.dtype}")'
    lines = ("T.sync_threads()", f"if {test}:", assigned, "T.sync_threads()")
    return Stmt("lone_element", lines, (value,), writes=(tile.name,))


@statement("shuffle", 2, table=THREAD)
def shuffle(draw: Draw, scope: Scope) -> Stmt | None:
    """A value of another lane of the warp."""
    target, source = own_variable(draw, scope), own_variable(draw, scope)
    if target is None or scope.apart:
        return None
    call = draw.pick(["T.shfl_xor({v}, {x})", "T.shfl_sync({v}, {n})", "T.shfl_up({v}, {n})", "T.shfl_down({v}, {n})"])
    text = call.format(v=source, x=draw.pick([1, 2, 4, 8, 16]), n=draw.random.randrange(32))
    return Stmt("shuffle", (f"{target} = {text}",))


@statement("warp_reduce", 1, table=THREAD)
def warp_reduce(draw: Draw, scope: Scope) -> Stmt | None:
    """One value of all lanes of the warp."""
    target = own_variable(draw, scope)
    if target is None or scope.apart:
        return None
    name = draw.pick(["T.warp_reduce_sum", "T.warp_reduce_max", "T.warp_reduce_min"])
    return Stmt("warp_reduce", (f"{target} = T.clamp({name}({target}), T.float32(-4), T.float32(4))",))


@statement("thread_branch", 2, table=THREAD, nests=True)
def thread_branch(draw: Draw, scope: Scope) -> Stmt | None:
    """A branch that some threads of the block take."""
    test = condition(draw, scope, 1)
    inner, otherwise = scope.inside("thread_branch"), scope.inside("thread_branch")
    inner.apart = otherwise.apart = True
    body = draw_body(draw, inner, draw.random.randint(1, 2), THREAD)
    other = draw_body(draw, otherwise, 1, THREAD) if draw.chance(0.4) else ()
    return Stmt("thread_branch", ("if {0}:",), (test,), body, other, without=()) if body else None


@statement("thread_loop", 2, table=THREAD, nests=True)
def thread_loop(draw: Draw, scope: Scope) -> Stmt | None:
    """A loop with the same trip count for all threads, or with one for each thread."""
    apart = draw.chance(0.5)
    axis = Axis(draw.name("k"), "4")
    inner = scope.inside("thread_loop", axis, trips=4)
    inner.apart = scope.apart or apart
    body = draw_body(draw, inner, draw.random.randint(1, 2), THREAD)
    count = draw.pick(["tx % 4", "tx // 32 + 1", "T.min(tx, 3)"]) if apart else draw.pick(["4", "bx + 1"])
    if not body:
        return None
    return Stmt("thread_loop", (f"for {axis.name} in T.serial({count}):",), body=body, without=(f"{axis.name} = 0",))


@statement("own_array", 2, table=THREAD)
def own_array(draw: Draw, scope: Scope) -> Stmt | None:
    """An array of the thread."""
    name, size = draw.name("w"), draw.pick(["2", "3", "4", "6", "8"])
    dtype = draw.pick(["float32", "float16", "int32", "int8"])
    axis = Axis(draw.name("q"), size)
    value = small(draw, scope.inside("own_array", axis), "float")
    loop = draw.pick(["T.serial", "T.unroll", "T.vectorized"])
    scope.tiles.append(Tile(name, "local", (size,), dtype))
    lines = (
        f'{name} = T.alloc_local(({size},), "{dtype}")', f"for {axis.name} in {loop}({size}):",
        f'    {name}[{axis.name}] = T.cast({{0}}, "{dtype}")',
    )  # fmt: skip
    return Stmt("own_array", lines, (value,), writes=(name,))


@statement("wide_load", 1, table=THREAD)
def wide_load(draw: Draw, scope: Scope) -> Stmt | None:
    """Neighbouring elements of a tensor in an array of the thread."""
    name, size = draw.name("w"), draw.pick(["2", "4", "8"])
    dtype = draw.pick(["float32", "float16", "int8", "int32"])
    tensor = draw.input(("G", COUNT, size), dtype)
    scope.tiles.append(Tile(name, "local", (size,), dtype))
    axis = draw.name("q")
    lines = (
        f'{name} = T.alloc_local(({size},), "{dtype}")', f"for {axis} in T.vectorized({size}):",
        f"    {name}[{axis}] = {tensor.name}[bx, tx, {axis}]",
    )  # fmt: skip
    return Stmt("wide_load", lines, writes=(name,))


@statement("thread_atomic", 0.7, table=THREAD)
def thread_atomic(draw: Draw, scope: Scope) -> Stmt | None:
    """Threads add to one element of a tensor."""
    tensor = draw.output(("G", "4"), draw.pick(["float32", "int32"]))
    kind = "float" if tensor.dtype == "float32" else "int"
    parts = small(draw, scope, kind), index(draw, scope, "4")
    return Stmt("thread_atomic", (f"T.atomic_add({tensor.name}[bx, {{1}}], {{0}})",), parts)


@statement("thread_vote", 1, table=THREAD)
def thread_vote(draw: Draw, scope: Scope) -> Stmt | None:
    """A vote of the lanes of a warp or of the threads of the block."""
    target = own_variable(draw, scope)
    if target is None or scope.apart:
        return None
    call = draw.pick([
        "T.any_sync({0}) != 0", "T.all_sync({0}) != 0", "T.popcount(T.ballot_sync({0})) > 16", "T.ballot({0}) % 5 == 0",
        "T.syncthreads_count({0}) > P // 2", "T.syncthreads_and({0}) != 0", "T.syncthreads_or({0}) != 0",
        'T.popcount(T.match_any_sync(T.cast({0}, "int32"))) > 16', 'T.match_all_sync(T.cast({0}, "int32")) == 0',
    ])  # fmt: skip
    lines = ("T.sync_warp()", f"{target} = T.if_then_else({call}, T.float32(3), {target})")
    return Stmt("thread_vote", lines, (condition(draw, scope, 1),))


@statement("thread_place", 0.7, table=THREAD)
def thread_place(draw: Draw, scope: Scope) -> Stmt | None:
    """The number of the thread's lane, warp or warp group."""
    target = own_variable(draw, scope)
    places = ["T.get_lane_idx()", "T.get_warp_idx()", "T.get_warp_group_idx()"] + ["T.get_warp_idx_sync()"] * (not scope.apart)
    return target and Stmt("thread_place", (f'{target} = T.cast({draw.pick(places)} % 5, "float32")',))


@statement("warp_bits", 0.5, table=THREAD)
def warp_bits(draw: Draw, scope: Scope) -> Stmt | None:
    """A bitwise reduction over the lanes of the warp."""
    target = own_variable(draw, scope, "int")
    if target is None or scope.apart:
        return None
    return Stmt("warp_bits", (f"{target} = {draw.pick(['T.warp_reduce_bitand', 'T.warp_reduce_bitor'])}({target}) & 3",))


_MOVES = {
    4: ("T.ldg32", "T.stg32", "T.lds32", "T.sts32"),
    8: ("T.ldg64", "T.stg64", "T.lds64", "T.sts64"),
    16: ("T.ldg128", "T.stg128", "T.lds128", "T.sts128"),
}
"""Bytes -> loads and stores of so many: of tensors, of shared tiles."""


@statement("wide_move", 0.7, table=THREAD)
def wide_move(draw: Draw, scope: Scope) -> Stmt | None:
    """4 to 16 bytes from tensor to tensor, perhaps through a shared tile."""
    width, dtype = draw.pick(list(_MOVES)), draw.pick(["float32", "float16", "int8"])
    load, store, load_shared, store_shared = _MOVES[width]
    count = str(width * 8 // dtypes.bits(dtype))
    source, target = draw.input(("G", COUNT, count), dtype), draw.output(("G", COUNT, count), dtype)
    value, place = f"{load}({source.name}[bx, tx, 0])", f"{target.name}[bx, tx, 0]"
    if scope.apart or draw.chance(0.5):
        return Stmt("wide_move", (f"{store}({place}, {value})",))
    tile = draw.declare(scope, (COUNT, count), dtype, "shared")
    own = f"{tile.name}[tx, 0]"
    lines = ("T.sync_threads()", f"{store_shared}({own}, {value})", f"{store}({place}, {load_shared}({own}))", "T.sync_threads()")
    return Stmt("wide_move", lines, writes=(tile.name,))


@statement("packed", 1.4, table=THREAD)
def packed(draw: Draw, scope: Scope) -> Stmt | None:
    """Arithmetic on packed pairs of numbers."""
    target = own_variable(draw, scope)
    if target is None:
        return None
    dtype = draw.pick(["float16", "bfloat16", "float32"])
    a, b, lane = draw.name("x"), draw.name("x"), draw.random.randrange(2)
    call = draw.pick(["T.add2({a}, {b})", "T.sub2({a}, {b})", "T.mul2({a}, {b})", "T.max2({a}, {b})", "T.min2({a}, {b})",
                      "T.abs2({a})", "T.fma2({a}, {b}, {b})"]).format(a=a, b=b)  # fmt: skip
    lines = (
        f'{a} = T.{dtype}x2(T.cast({{0}}, "{dtype}"), T.cast({{1}}, "{dtype}"))',
        f'{b} = T.{dtype}x2(T.cast({{1}}, "{dtype}"), T.cast({target}, "{dtype}"))',
        f'{target} = T.clamp(T.cast(T.extract_lane({call}, {lane}), "float32"), T.float32(-4), T.float32(4))',
    )
    return Stmt("packed", lines, (small(draw, scope, "float"), small(draw, scope, "float")))


@statement("dot_of_bytes", 0.5, table=THREAD)
def dot_of_bytes(draw: Draw, scope: Scope) -> Stmt | None:
    """Four products of bytes added to a number."""
    target, name, total, axis = own_variable(draw, scope), draw.name("w"), draw.name("w"), Axis(draw.name("q"), "4")
    if target is None:
        return None
    lines = (
        f'{name}, {total} = T.alloc_local((4,), "int8"), T.alloc_local((1,), "int32")',
        f"{total}[0] = -3", f"for {axis.name} in T.serial(4):", f"    {name}[{axis.name}] = {{0}}",
        f"T.dp4a({name}, {name}, {total})", f'{target} = T.cast({total}[0] % 5, "float32")',
    )  # fmt: skip
    return Stmt("dot_of_bytes", lines, (small(draw, scope.inside("dot_of_bytes", axis), "int"),))
