"""Products with 2:4 sparse operands."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.registry import statement
from testing.fuzz.scope import Scope
from testing.fuzz.statements.regions import operand
from testing.fuzz.tree import Stmt, Tensor

TYPES = {"float16": "float32", "bfloat16": "float32", "int8": "int32", "float32": "float32"}
"""Type of the operands, and of the sums."""

POSITIONS = "489cde"
"""Hexadecimal digits of metadata: two of four positions, the lower one first."""
PAIRS = "4e"
"""The same of one of two float32 elements."""


@statement("gemm_sparse", 0.8)
def gemm_sparse(draw: Draw, scope: Scope) -> Stmt | None:
    """C += A @ B for a 2:4 sparse A, given as its kept elements and their positions."""
    if draw.threads % 32:
        return None
    dtype, width = draw.pick(list(TYPES)), draw.pick([8, 16, 32])
    m, n, k = draw.pick([16, 32, 64]), draw.pick([16, 32, 64]), draw.pick([64, 128])
    columns = k // (width // 4 * (2 if dtype == "float32" else 4))
    ta, tb = draw.chance(0.3), draw.chance(0.5)
    c, of_c = operand(draw, scope, (str(m), str(n)), (TYPES[dtype],), ("fragment",), wide=True, parts=0)
    memories = ("shared",) if ta else ("shared", "shared", "fragment")
    a, _ = operand(draw, scope, _turned((str(m), str(k // 2)), ta), (dtype,), memories, parts=0)
    b, _ = operand(draw, scope, _turned((str(k), str(n)), tb), (dtype,), ("shared",), parts=0)
    places = _metadata(draw, _turned((str(m), str(columns)), ta), f"int{width}", PAIRS if dtype == "float32" else POSITIONS)
    options = f"transpose_A={ta}, transpose_E={ta}, transpose_B={tb}, clear_accum={draw.chance(0.3)}"
    return Stmt("gemm_sparse", (f"T.gemm_sp({a}, {places}, {b}, {c}, {options})",), writes=(of_c.name,))


def _turned(shape: tuple[str, str], transposed: bool) -> tuple[str, str]:
    return shape[::-1] if transposed else shape


def _metadata(draw: Draw, shape: tuple[str, str], dtype: str, digits: str) -> str:
    """The name of a shared tile of metadata, which no other statement writes."""
    tensor, name = Tensor(draw.name("A"), shape, dtype, digits=digits), draw.name("e")
    draw.tensors.append(tensor)
    lines = (f'{name} = T.alloc_shared(({", ".join(shape)}), "{dtype}")', f"T.copy({tensor.name}[0, 0], {name})")
    draw.beginning.append(Stmt("declare", lines, writes=(name,)))
    return name
