"""Matrix products."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.registry import statement
from testing.fuzz.scope import Scope
from testing.fuzz.statements.regions import operand
from testing.fuzz.tree import Stmt

TYPES = {"float16": "float32", "bfloat16": "float32", "float8_e4m3fn": "float32", "int8": "int32", "float32": "float32"}
"""Type of the operands, and of the sums."""


@statement("matmul", 1)
def matmul(draw: Draw, scope: Scope) -> Stmt | None:
    """A loop that loads both operands and multiplies them."""
    sizes = [name for name in draw.sizes if draw.sizes[name] % 16 == 0]
    if not sizes or draw.threads % 32:
        return None
    m, n, k = (draw.pick(sizes) for _ in range(3))
    dtype = draw.pick(["float16", "bfloat16", "float32"])
    c = draw.tile(scope, (m, n), ("float32",), ("fragment",), wide=True)
    a = draw.tile(scope, (m, k), (dtype,), ("shared",))
    b = draw.tile(scope, (k, n), (dtype,), ("shared",), apart=(a.name,))
    trips, name = draw.random.randint(1, 4), draw.name("k")
    left, right = draw.input((m, f"{trips} * {k}"), dtype), draw.input((f"{trips} * {k}", n), dtype)
    lines = (
        f"for {name} in T.Pipelined({trips}, num_stages={draw.pick([0, 1, 2, 3])}):",
        f"    T.copy({left.name}[0, {name} * {k}], {a.name})",
        f"    T.copy({right.name}[{name} * {k}, 0], {b.name})",
        f"    T.gemm({a.name}, {b.name}, {c.name})",
    )
    return Stmt("matmul", lines, writes=(a.name, b.name, c.name))


@statement("gemm", 2.5)
def gemm(draw: Draw, scope: Scope) -> Stmt | None:
    """C += A @ B on sizes that tensor cores take."""
    sizes = [name for name in draw.sizes if draw.sizes[name] % 16 == 0]
    if not sizes or draw.threads % 32:
        return None
    dtype = draw.pick(["float16"] * 3 + list(TYPES))
    m, n, k = (draw.pick(sizes) for _ in range(3))
    if dtype in ("int8", "float8_e4m3fn"):
        deep = [size for size in sizes if draw.sizes[size] % 32 == 0]
        if not deep:
            return None
        k = draw.pick(deep)
    ta, tb = draw.chance(0.3), draw.chance(0.4)
    c, of_c = operand(draw, scope, (m, n), (TYPES[dtype],), ("fragment",), wide=True, parts=0)
    memories = ("shared",) if ta else ("shared", "shared", "fragment")
    a, _ = operand(draw, scope, (k, m) if ta else (m, k), (dtype,), memories, parts=0.2)
    b, _ = operand(draw, scope, (n, k) if tb else (k, n), (dtype,), ("shared",), parts=0.2)
    policy = draw.pick(["Square", "FullRow", "FullCol"])
    options = f"transpose_A={ta}, transpose_B={tb}, clear_accum={draw.chance(0.3)}, policy=T.GemmWarpPolicy.{policy}"
    return Stmt("gemm", (f"T.gemm({a}, {b}, {c}, {options})",), writes=(of_c.name,))
