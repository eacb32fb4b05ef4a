"""How each matrix product is computed: the instruction, the warps' shares, the layouts that it demands of its operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir.expr import as_int
from tilelang.layout import row_major, swizzled
from tilelang.layout.fragment import FragmentLayout
from tilelang.target.cuda.arch import Feature, arch_of
from tilelang.target.cuda.hopper.wgmma import WgmmaPlan, plan_gemm
from tilelang.target.cuda.hopper.wgmma_layout import panel_layout
from tilelang.target.cuda.inference.loop_layout import free_loop
from tilelang.target.cuda.inference.mma import (
    Instruction,
    WarpGrid,
    a_layout,
    accumulator_layout,
    b_layout,
    instruction,
    reads_pairs,
    sparse_instruction,
    transposed,
    warp_grid,
)
from tilelang.target.cuda.tile.nest import Axis
from tilelang.tileop.gemm import Gemm, GemmSparse

_WARP = 32


@dataclass(frozen=True, eq=False)
class Product:
    """One planned product.

    Attributes:
        kind: ``"wgmma"``, ``"mma"``, or ``"scalar"`` where no tensor-core instruction fits the shape or types.
        unit, grid: of the tensor cores.
        a, b, c: layouts of the fragments that hold A as (M, K), B as (K, N) and C while they are multiplied.
        fragments: (buffer, layout) that the product demands of the program's own fragments.
        wgmma: how warp groups compute it, where they do.
        pairs: whether A (B) is read two neighbours along M (N) at a time.
    """

    kind: str
    unit: Instruction | None
    grid: WarpGrid | None
    a: FragmentLayout | None
    b: FragmentLayout | None
    c: FragmentLayout
    fragments: tuple[tuple[Any, FragmentLayout], ...]
    wgmma: WgmmaPlan | None = None
    pairs: tuple[bool, bool] = (False, False)


def plan_product(op: Any, threads: int, target: Any, wgmma: bool = True, pairs: bool = True) -> Product:
    """The way to compute ``op`` with the threads of its scope.

    Args:
        wgmma: allows warp group instructions where there are any.
        pairs: allows layouts of C that suit an operand read in pairs.
    """
    if wgmma and arch_of(target).uses(Feature.WGMMA) and isinstance(op, Gemm) and _tiles_fit(op):
        plan = plan_gemm(op, threads)
        if plan is not None:
            return _warp_group_product(op, plan)
    m, n, k = (as_int(size) for size in (op.m, op.n, op.k))
    unit = _unit(op, threads, target)
    if unit is None or k % unit.k or not _tiles_fit(op):
        return _scalar_product(op, m, n, threads)
    warps = threads // _WARP
    grid = warp_grid(m, n, unit, warps, op.policy)
    if grid is None:
        return _scalar_product(op, m, n, threads)
    a, b = a_layout(m, k // unit.k * unit.a_depth, unit, grid, warps), b_layout(k, n, unit, grid, warps)
    paired = _pairs(op, unit, grid) if pairs else (False, False)
    c = accumulator_layout(m, n, unit, grid, warps, paired)
    fragments = [(op.c.buffer, c)]
    if op.a.scope == "local.fragment":
        fragments.append((op.a.buffer, transposed(a) if op.transpose_a else a))
    if op.b.scope == "local.fragment":
        fragments.append((op.b.buffer, transposed(b) if op.transpose_b else b))
    return Product("mma", unit, grid, a, b, c, tuple(fragments), pairs=paired)


def _pairs(op: Any, unit: Instruction, grid: WarpGrid) -> tuple[bool, bool]:
    """Which operands are read in pairs."""
    found = [
        region.scope.startswith("shared") and reads_pairs(canonical(region.dtype).bits, along_k, unit)
        for region, along_k in ((op.a, not op.transpose_a), (op.b, op.transpose_b))
    ]
    return found[0], found[1] and as_int(op.n) // unit.n // grid.n % 2 == 0


def _unit(op: Any, threads: int, target: Any) -> Instruction | None:
    if threads % _WARP:
        return None
    choose = sparse_instruction if isinstance(op, GemmSparse) else instruction
    return choose(op.a.dtype, op.b.dtype, op.c.dtype, target.sm)


def takes_sparse(op: GemmSparse, threads: int, target: Any) -> bool:
    """Whether the tensor cores read a sparse operand as it is; otherwise it has to be expanded."""
    unit = _unit(op, threads, target)
    if unit is None or not _tiles_fit(op) or op.e.scope == "local.fragment":
        return False
    return not (as_int(op.m) % unit.m or as_int(op.n) % unit.n or as_int(op.k) % unit.k)


def _warp_group_product(op: Any, plan: WgmmaPlan) -> Product:
    fragments = [(op.c.buffer, plan.c_layout)]
    if plan.a_layout is not None:
        fragments.append((op.a.buffer, plan.a_layout))
    return Product("wgmma", None, None, plan.a_layout, None, plan.c_layout, tuple(fragments), plan)


def _tiles_fit(op: Any) -> bool:
    """Whether operands in fragments are whole buffers, and 4-bit ones contiguous along K."""
    for region in (op.a, op.b, op.c):
        if region.scope == "local.fragment" and (not region.is_whole or len(region.buffer.shape) != 2):
            return False
    return canonical(op.a.dtype).bits >= 8 or not op.transpose_a and op.transpose_b


def _scalar_product(op: Any, m: int, n: int, threads: int) -> Product:
    """C spread over the threads; each of them sums its own elements."""
    loop = free_loop((Axis(None, m), Axis(None, n)), threads, 1)
    modes = tuple(dim.modes for dim in loop.dims)
    layout = FragmentLayout((m, n), modes, loop.replicas).compact()
    fragments = ((op.c.buffer, layout),) if op.c.is_whole and len(op.c.buffer.shape) == 2 else ()
    return Product("scalar", None, None, None, None, layout, fragments)


def shared_operand_layouts(products: Mapping[Any, Product]) -> dict[Any, Any]:
    """Layouts of shared operands that are free of bank conflicts when a product reads them."""
    found: dict[Any, Any] = _panels(products)
    for node, plan in products.items():
        if plan.kind != "mma":
            continue
        op = node.op
        for region, along_k in ((op.a, not op.transpose_a), (op.b, op.transpose_b)):
            if region.scope.startswith("shared") and region.buffer not in found:
                found[region.buffer] = operand_layout(region.buffer, along_k)
    return found


def _panels(products: Mapping[Any, Product]) -> dict[Any, Any]:
    """Layouts of what warp group products read: panels as narrow as the pickiest of them needs."""
    widths: dict[Any, int] = {}
    for node, plan in products.items():
        if plan.wgmma is None:
            continue
        for region, width in ((node.op.a, plan.wgmma.a_panel), (node.op.b, plan.wgmma.b_panel)):
            if width is not None:
                widths[region.buffer] = min(width, widths.get(region.buffer, width))
    found = {}
    for buffer, width in widths.items():
        shape = [as_int(extent) for extent in buffer.shape]
        found[buffer] = panel_layout(shape, canonical(str(buffer.dtype)).bits, width)
    return found


def operand_layout(buffer: Any, along_k: bool) -> Any:
    """The layout of a shared operand; ``along_k`` where K is its contiguous axis."""
    shape = [as_int(extent) for extent in buffer.shape]
    bits = canonical(str(buffer.dtype)).bits
    if bits == 64 or (bits == 32 and not along_k):
        return swizzled(shape, bits, step=1)
    return swizzled(shape, bits, row_step=0 if along_k or bits != 8 else 1) if bits >= 4 else row_major(shape)
