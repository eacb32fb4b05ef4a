"""Generates a random program from a seed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import testing.fuzz.statements  # noqa: F401
from testing.fuzz import dtypes
from testing.fuzz.draw import Draw
from testing.fuzz.hosts import Surroundings, surroundings
from testing.fuzz.registry import draw_body
from testing.fuzz.scope import Axis, Scope, Tile
from testing.fuzz.statements.by_hand import SKILLS
from testing.fuzz.statements.groups import exits
from testing.fuzz.statements.regions import a_shape
from testing.fuzz.statements.scalars import variable
from testing.fuzz.statements.threads import COUNT, thread_code
from testing.fuzz.tree import Kernel, Program, Stmt, Tensor

SIZES = (1, 2, 2, 3, 4, 4, 5, 7, 8, 8, 12, 16, 16, 17, 20, 32, 33)
LARGE = (16, 32, 64, 64, 64, 80, 96, 128)
"""Sizes that the widest instructions need."""
PRODUCTS = ("gemm", "matmul", "chain")
"""Statements that need these."""
THREADS = (32, 32, 64, 64, 128, 128, 128, 256, 96, 48, 100)
FAST_MATH = "tl.enable_fast_math"
"""It changes no result of small numbers."""
CONFIGS = (
    "tl.disable_warp_specialized", "tl.disable_tma_lower", "tl.disable_vectorize", "tl.disable_shared_swizzle",
    "tl.disable_vectorize_256", "tl.disable_wgmma", "tl.disable_shared_memory_reuse", "tl.disable_loop_unswitching",
    "tl.enable_aggressive_shared_memory_merge", "tl.force_let_inline", "tl.disable_dynamic_tail_split", FAST_MATH,
    "tl.disable_shuffle_elect", "tl.enable_lower_ldgstg", "tl.reducer_force_baseline", "tl.enable_fp32x2_reduction",
    "tl.storage_rewrite_detect_inplace", "tl.emit_line_directives", "tir.disable_vectorize", "tir.merge_static_smem",
    "tir.noalias", "tl.dynamic_alignment",
)  # fmt: skip
"""Pass configurations that change no result."""
SETTINGS = {"tl.enable_async_copy": False, "tl.config_index_bitwidth": 64, "tl.Simplify": False}
"""The same, with the value that is not the usual one."""
NO_BARRIERS = "tl.disable_thread_storage_sync"
"""For kernels that have all the barriers they need themselves."""

THOROUGH = 8
"""One program in as many meets the compilers as users get them, the others quick ones."""


def draw_program(seed: int, aim: tuple[str, str] | None = None, avoid: Collection[str] = ()) -> Program:
    """The program of a seed; with a pair of constructs, one that tries to combine them."""
    draw = Draw(seed, aim, avoid)
    r = draw.random
    large = draw.chance(0.25) or not set(aim or ()).isdisjoint(PRODUCTS)
    sizes = LARGE if large else SIZES
    if large and aim is None and draw.chance(0.8):
        draw.aim = draw.pick([*PRODUCTS, "reduce"]), draw.pick(["parallel", "reduce", "copy", "gemm", "reducer"])
    for number in range(r.randint(2, 4)):
        draw.sizes[f"D{number}"] = r.choice(sizes)
    aimed = not {skill.kind for skill in SKILLS}.isdisjoint(aim or ())
    if "threads" not in avoid and (aimed or draw.chance(0.2)):
        kernels, configs, needs = _by_hand(draw)
        kernels += _kernels(draw, 1) if draw.chance(0.1) and not configs else ()
    else:
        kernels, configs, needs = _kernels(draw, draw.pick([1, 1, 1, 1, 1, 1, 2, 2, 3])), {}, ""
    settings = dict.fromkeys(CONFIGS, True) | SETTINGS
    configs |= {name: value for name, value in settings.items() if draw.chance(0.02)}
    if draw.exact:
        configs.pop(FAST_MATH, None)
    dynamic = frozenset({"G"} if draw.dynamic else ()) | draw.lengths.keys()
    name = f"seed {seed}" + (f", {aim[0]} and {aim[1]}" if aim else "")
    thorough = seed % THOROUGH == 0
    return Program(
        name, draw.sizes | draw.lengths, tuple(draw.tensors), kernels, dynamic, configs, needs, thorough, draw.scalars,
        tuple(draw.promises),
    )  # fmt: skip


def _kernels(draw: Draw, count: int) -> tuple[Kernel, ...]:
    """Kernels of block statements. They may read what earlier kernels, or an earlier iteration of a host loop, have stored."""
    around = surroundings(draw, count)
    kept = _kept(draw) if count > 1 or around[0].trips > 1 else None
    return tuple(_kernel(draw, place, kept) for place in around)


def _kept(draw: Draw) -> Tensor | None:
    """Declares a tensor that several kernels modify."""
    shape, dtype = a_shape(draw, draw.pick([1, 2])), draw.pick(["float32", "float32", "int32", "float16", "int8"])
    return draw.output(("G", *shape), dtype) if draw.chance(0.6) else None


def _kernel(draw: Draw, around: Surroundings, kept: Tensor | None) -> Kernel:
    draw.threads = draw.pick(THREADS)
    scope = _scope(draw)
    scope.axes, scope.trips = (*scope.axes, *around.axes), around.trips
    scope.values += [(value, "int") for value in around.values]
    if kept is not None and draw.chance(0.8):
        draw.declare_kept(scope, kept, draw.pick(["shared", "fragment"]))
    body = draw_body(draw, scope, draw.pick([1, 1, 2, 2, 3, 4]))
    return replace(_finished(draw, body, str(draw.threads)), around=around.lines)


def _by_hand(draw: Draw) -> tuple[tuple[Kernel, ...], dict, str]:
    """A kernel with explicit synchronisation, perhaps without compiler-placed barriers; and the targets that it needs."""
    skills = [skill for skill in SKILLS if skill.kind in (draw.aim or ())] or SKILLS
    skill = draw.random.choices(skills, [skill.weight for skill in skills])[0]
    draw.threads = draw.sizes[COUNT] = draw.pick(skill.threads)
    draw.padded = False  # bulk copies and vectors need rows at whole 16 bytes
    if skill.cluster:
        draw.sizes["G"], draw.dynamic = draw.pick([1, 2]) * skill.cluster, False
    scope = _scope(draw)
    if skill.rule is thread_code and draw.chance(0.4):
        kernel = _finished(draw, (thread_code(draw, scope),), COUNT)
        return (kernel,), {NO_BARRIERS: True} if draw.chance(0.4) else {}, skill.needs
    before = draw_body(draw, scope, draw.pick([0, 1, 2]))
    if skill.rule is exits:  # nothing is done by all threads after it
        kernel = _finished(draw, before, COUNT)
        return (replace(kernel, body=(*kernel.body, exits(draw, scope))),), {}, skill.needs
    middle = skill.rule(draw, scope)
    scope.previous = skill.kind
    after = draw_body(draw, scope, draw.pick([0, 1, 2]))
    return (_finished(draw, (*before, middle, *after), COUNT, skill.cluster),), {}, skill.needs


def _scope(draw: Draw) -> Scope:
    """The scope at the start of a kernel."""
    draw.beginning, draw.declared = [], []
    scope = Scope(axes=(Axis("bx", "G"),))
    for _ in range(draw.random.randint(1, 2)):
        draw.declare(scope, a_shape(draw, draw.pick([1, 2, 2, 3])), draw.pick(draw.common), draw.pick(["shared", "fragment"]))
    if draw.results:
        draw.declare_result(scope, draw.pick(["shared", "fragment"]))
    if draw.chance(0.4):
        draw.declare(scope, a_shape(draw, draw.pick([1, 2])), draw.pick(["float32", "int32"]), "fragment", wide=True)
    if draw.chance(0.25):
        draw.beginning.append(variable(draw, scope))
    return scope


def _finished(draw: Draw, body: tuple[Stmt, ...], threads: str, cluster: int = 0) -> Kernel:
    """A kernel that fills its tiles, runs the statements, and stores the tiles."""
    results = tuple(_result(draw, tile) for tile in draw.declared)
    grid = "G // 2, 2" if not cluster and draw.sizes["G"] % 2 == 0 and draw.chance(0.3) else "G"
    return Kernel(grid, threads, (*draw.beginning, *body, *results), cluster)


def _result(draw: Draw, tile: Tile) -> Stmt:
    """Stores a tile to an output, so that its elements are compared."""
    dtype = tile.dtype
    if tile.dtype in dtypes.PACKED and draw.chance(0.5):
        dtype = "float32"
    if tile.name in draw.kept:
        return Stmt("result", (f"T.copy({tile.name}, {draw.kept[tile.name].name}[bx{', 0' * len(tile.shape)}])",))
    if dtype == tile.dtype and dtype not in dtypes.PACKED and draw.chance(0.2):
        return Stmt("result", (f"T.copy({tile.name}, {draw.overhanging(tile, draw.output)})",))
    tensor = draw.output(("G", *tile.shape), dtype)
    draw.results += [(tensor, tile)] if dtype == tile.dtype else []
    return Stmt("result", (f"T.copy({tile.name}, {tensor.name}[bx{', 0' * len(tile.shape)}])",))
