"""Copies and fills of tiles and parts of them."""

from __future__ import annotations

from testing.fuzz import dtypes
from testing.fuzz.draw import Draw
from testing.fuzz.indices import index
from testing.fuzz.registry import statement
from testing.fuzz.scope import Scope
from testing.fuzz.statements.regions import a_shape, block, operand
from testing.fuzz.tree import Stmt


def some_shape(draw: Draw, scope: Scope) -> tuple[str, ...]:
    """Usually the shape of an existing tile."""
    if scope.tiles and draw.chance(0.8):
        tile = draw.pick(scope.tiles)
        if tile.memory != "local":
            return tile.shape
    return a_shape(draw, draw.pick([1, 2, 2, 3]))


@statement("copy", 4)
def copy(draw: Draw, scope: Scope) -> Stmt | None:
    """A copy from tile to tile."""
    shape = some_shape(draw, scope)
    wide = draw.chance(0.2)
    types = ("float32", "int32") if wide else ()
    target, to = operand(draw, scope, shape, types, wide=wide)
    sources = ("float32", "int32") if wide else ()
    source, of = operand(draw, scope, shape, fitting(to.dtype) or sources, wide=wide, apart=(to.name,))
    return Stmt("copy", (f"T.copy({source}, {target})",), writes=(to.name,))


def fitting(dtype: str) -> tuple[str, ...]:
    """Types whose small values ``dtype`` represents exactly; empty means all."""
    if not dtypes.is_unsigned(dtype):
        return ()
    return ("bool",) if dtype == "bool" else ("uint8", "uint4", "uint16", "uint32", "bool")


@statement("load", 3)
def load(draw: Draw, scope: Scope) -> Stmt | None:
    """A copy from an input, perhaps at an offset that depends on loop variables, to a tile."""
    shape = some_shape(draw, scope)
    target, to = operand(draw, scope, shape)
    if scope.axes and draw.chance(0.6):
        axis = draw.pick(scope.axes)
        lead = axis.extent
        tensor = draw.input((lead, *shape), to.dtype)
        source = block(tensor.name, axis.name, shape, target)
    else:
        tensor = draw.input((f"{shape[0]} * 2 - 1", *shape[1:]), to.dtype)
        start = index(draw, scope, shape[0])
        source = f"{tensor.name}[{start}{', 0' * (len(shape) - 1)}]"
    return Stmt("load", (f"T.copy({source}, {target})",), writes=(to.name,))


@statement("save", 1.5)
def save(draw: Draw, scope: Scope) -> Stmt | None:
    """A copy from a tile to a new output."""
    shape = some_shape(draw, scope)
    source, of = operand(draw, scope, shape, wide=None)
    dtype = of.dtype if draw.chance(0.7) else "float32"
    tensor = draw.output(("G", *shape), dtype)
    return Stmt("save", (f"T.copy({source}, {block(tensor.name, 'bx', shape, source)})",))


@statement("read_back", 0.8)
def read_back(draw: Draw, scope: Scope) -> Stmt | None:
    """A tile stored to a tensor, and read again by other threads."""
    shape = some_shape(draw, scope)
    source, of = operand(draw, scope, shape, ("float32", "float16", "int32"), parts=0.1)
    target, to = operand(draw, scope, shape, parts=0.1, types=("float32", "float16", "int32"))
    tensor = draw.output(("G", *shape), of.dtype)
    place = block(tensor.name, "bx", shape, source, target)
    lines = [f"T.copy({source}, {place})"]
    if to.name == target and draw.chance(0.6):
        axes = [draw.name("i") for _ in shape]
        mirrored = ", ".join(draw.pick([axis, f"{size} - 1 - {axis}"]) for axis, size in zip(axes, shape))
        lines += [f"for {', '.join(axes)} in T.Parallel({', '.join(shape)}):"]
        lines += [f"    {target}[{', '.join(axes)}] = {tensor.name}[bx, {mirrored}]"]
    else:
        lines += [f"T.copy({place}, {target})"]
    return Stmt("read_back", tuple(lines), writes=(to.name,))


@statement("fill", 2)
def fill(draw: Draw, scope: Scope) -> Stmt | None:
    shape = some_shape(draw, scope)
    target, to = operand(draw, scope, shape, wide=draw.chance(0.2))
    low = 0 if dtypes.is_unsigned(to.dtype) else -3
    high = 1 if to.dtype == "bool" else 3
    text = draw.pick([f"T.fill({target}, {draw.random.randint(low, high)})", f"T.clear({target})"])
    return Stmt("fill", (text,), writes=(to.name,))


@statement("hint", 0.4)
def hint(draw: Draw, scope: Scope) -> Stmt | None:
    """A hint, which must not change results."""
    if scope.depth:
        return None
    tiles = [tile for tile in scope.tiles if tile.memory == "shared" and len(tile.shape) == 2]
    whole = [tile for tile in tiles if tile.dtype == "float16" and draw.size(tile.shape[1]) % 8 == 0]
    if whole and draw.chance(0.4):
        name = draw.pick(whole).name
        return Stmt("hint", (f"T.annotate_layout({{{name}: T.make_swizzled_layout({name})}})",))
    texts = [f'T.use_swizzle({draw.random.randint(1, 8)}, order="{draw.pick(["row", "column"])}")']
    texts += [f"T.annotate_min_blocks_per_sm({draw.pick([1, 2])})"]
    texts += ["T.no_set_max_nreg()", "T.disable_warp_group_reg_alloc()", "T.annotate_producer_reg_dealloc(24)"]
    inputs = [tensor.name for tensor in draw.tensors if tensor.role == "in"]
    if inputs:
        name = draw.pick(inputs)
        texts += [f"T.annotate_l2_hit_ratio({{{name}: 0.5}})", f"T.annotate_restrict_buffers({name})"]
    return Stmt("hint", (draw.pick(texts),))


@statement("safe_value", 0.5)
def safe_value(draw: Draw, scope: Scope) -> Stmt | None:
    """A copy that reads past the end of an input with a ``T.annotate_safe_value``."""
    shape = some_shape(draw, scope)
    target, to = operand(draw, scope, shape)
    if to.dtype in dtypes.PACKED or dtypes.is_unsigned(to.dtype) or scope.depth:
        return None
    tensor = draw.input((f"({shape[0]} + 1) // 2", *shape[1:]), to.dtype, low=-3)
    lines = (f"T.annotate_safe_value({{{tensor.name}: {draw.random.randint(-4, 4)}}})",)
    return Stmt("safe_value", (*lines, f"T.copy({tensor.name}[0{', 0' * (len(shape) - 1)}], {target})"), writes=(to.name,))


@statement("transpose", 1)
def transpose(draw: Draw, scope: Scope) -> Stmt | None:
    a, b = a_shape(draw, 2)
    source, of = operand(draw, scope, (a, b), memories=("shared",))
    target, to = operand(draw, scope, (b, a), (of.dtype,), memories=("shared",), apart=(of.name,))
    if of.dtype != to.dtype:
        return None
    return Stmt("transpose", (f"T.transpose({source}, {target})",), writes=(to.name,))
