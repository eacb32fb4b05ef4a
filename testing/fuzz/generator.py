"""Draws a program from a seed."""

from __future__ import annotations

from collections.abc import Collection

import testing.fuzz.statements  # noqa: F401
from testing.fuzz import dtypes
from testing.fuzz.draw import Draw
from testing.fuzz.registry import draw_body
from testing.fuzz.scope import Axis, Scope, Tile
from testing.fuzz.statements.regions import a_shape
from testing.fuzz.statements.threads import COUNT, thread_code
from testing.fuzz.statements.waits import async_copies
from testing.fuzz.tree import Kernel, Program, Stmt

SIZES = (1, 2, 2, 3, 4, 4, 5, 7, 8, 8, 12, 16, 16, 17, 20, 32, 33)
LARGE = (16, 32, 64, 64, 64, 80, 96, 128)
"""Sizes that the widest instructions need."""
THREADS = (32, 32, 64, 64, 128, 128, 128, 256, 96)
CONFIGS = (
    "tl.disable_warp_specialized", "tl.disable_tma_lower", "tl.disable_vectorize", "tl.disable_shared_swizzle",
    "tl.disable_vectorize_256", "tl.disable_wgmma", "tl.disable_shared_memory_reuse", "tl.disable_loop_unswitching",
    "tl.enable_aggressive_shared_memory_merge", "tl.force_let_inline", "tl.disable_dynamic_tail_split",
)  # fmt: skip
"""Pass configurations that change no result."""
NO_BARRIERS = "tl.disable_thread_storage_sync"
"""For kernels that have all the barriers they need themselves."""

THOROUGH = 8
"""One program in as many meets the compilers as users get them, the others quick ones."""


def draw_program(seed: int, aim: tuple[str, str] | None = None, avoid: Collection[str] = ()) -> Program:
    """The program of a seed, steered to a pair of constructs if one is given."""
    draw = Draw(seed, aim, avoid)
    r = draw.random
    sizes = LARGE if draw.chance(0.15) else SIZES
    for number in range(r.randint(2, 4)):
        draw.sizes[f"D{number}"] = r.choice(sizes)
    threads = "threads" not in avoid and draw.chance(0.15)
    if threads:
        kernels, configs = _with_threads(draw)
    else:
        kernels, configs = tuple(_kernel(draw) for _ in range(2 if draw.chance(0.05) else 1)), {}
    configs |= {name: True for name in CONFIGS if draw.chance(0.04)}
    dynamic = frozenset({"G"}) if draw.dynamic else frozenset()
    name = f"seed {seed}" + (f", {aim[0]} and {aim[1]}" if aim else "")
    return Program(name, draw.sizes, tuple(draw.tensors), kernels, dynamic, configs, threads, seed % THOROUGH == 0)


def _kernel(draw: Draw) -> Kernel:
    """A kernel of statements of the block."""
    draw.threads = draw.pick(THREADS)
    scope = _scope(draw)
    body = draw_body(draw, scope, draw.pick([1, 1, 2, 2, 3, 4]))
    return _finished(draw, body, str(draw.threads))


def _with_threads(draw: Draw) -> tuple[tuple[Kernel, ...], dict]:
    """A kernel that names threads, or waits for its own copies, and perhaps without barriers but those it has itself."""
    draw.threads = draw.sizes[COUNT] = draw.pick([64, 64, 128, 96, 32])
    scope = _scope(draw)
    if draw.chance(0.4):
        return (_finished(draw, (thread_code(draw, scope),), COUNT),), {NO_BARRIERS: True} if draw.chance(0.4) else {}
    before = draw_body(draw, scope, draw.pick([0, 1, 2]))
    middle = thread_code(draw, scope) if draw.chance(0.6) else async_copies(draw, scope)
    after = draw_body(draw, scope, draw.pick([0, 1, 2]))
    return (_finished(draw, (*before, middle, *after), COUNT),), {}


def _scope(draw: Draw) -> Scope:
    """What a kernel begins with."""
    draw.beginning, draw.declared = [], []
    scope = Scope(axes=(Axis("bx", "G"),))
    for _ in range(draw.random.randint(1, 2)):
        draw.declare(scope, a_shape(draw, draw.pick([1, 2, 2, 3])), draw.pick(draw.common), draw.pick(["shared", "fragment"]))
    if draw.results:
        draw.declare_result(scope, draw.pick(["shared", "fragment"]))
    if draw.chance(0.4):
        draw.declare(scope, a_shape(draw, draw.pick([1, 2])), draw.pick(["float32", "int32"]), "fragment", wide=True)
    return scope


def _finished(draw: Draw, body: tuple[Stmt, ...], threads: str) -> Kernel:
    """A kernel that fills its tiles, does something, and stores them."""
    results = tuple(_result(draw, tile) for tile in draw.declared)
    return Kernel("G", threads, (*draw.beginning, *body, *results))


def _result(draw: Draw, tile: Tile) -> Stmt:
    """A tile stored to an output, so that all that was computed is compared."""
    dtype = tile.dtype
    if tile.dtype in dtypes.PACKED and (draw.size(tile.shape[-1]) % 2 or draw.chance(0.5)):
        dtype = "float32"
    tensor = draw.output(("G", *tile.shape), dtype)
    draw.results += [(tensor, tile)] if dtype == tile.dtype else []
    return Stmt("result", (f"T.copy({tile.name}, {tensor.name}[bx{', 0' * len(tile.shape)}])",))
