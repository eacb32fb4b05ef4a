"""How each matrix product is computed: the instruction, the warps' shares, the layouts that it demands of its operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_fragment, lies_in_shared
from tilelang.layout import panel_layout, row_major, swizzled
from tilelang.layout.fragment import FragmentLayout
from tilelang.target.cuda.arch import WARP, WARP_GROUP, Feature, arch_of
from tilelang.target.cuda.inference.loop_layout import free_loop
from tilelang.target.cuda.inference.problem import Problem
from tilelang.target.cuda.inference.shared_layouts import is_panels
from tilelang.target.cuda.operators import TileDemand
from tilelang.target.cuda.ops.gemm_mma import ByWarps, Instruction, instruction, transposed, warp_grid
from tilelang.target.cuda.ops.gemm_wgmma import WgmmaPlan, plan_gemm
from tilelang.target.cuda.tile.nest import Axis
from tilelang.tileop.gemm import Gemm, GemmSparse

_PRODUCT_TILE = 64
"""Elements; the instructions of a warp group read operands from multiples of this."""


@dataclass(frozen=True, eq=False)
class Product:
    """One planned product.

    Attributes:
        c: the layout of the fragment that holds C while it is computed.
        fragments: (buffer, layout) that the product demands of the program's own fragments.
        way: how warps or warp groups compute it; where no tensor-core instruction fits the shape or types, why.
    """

    c: FragmentLayout
    fragments: tuple[tuple[Any, FragmentLayout], ...]
    way: ByWarps | WgmmaPlan | str


def plan_product(node: Any, problem: Problem, memory: Mapping[Any, Any]) -> Product:
    """How the threads of a product's group compute it.

    Args:
        node: the product in the tile tree.
        problem: the kernel, its target and the threads of its statements.
        memory: layouts of shared tiles that the user fixed.
    """
    threads, op = problem.threads_of[node], node.op
    # The hardware's warp groups begin at multiples of four warps.
    in_groups = problem.wgmma and threads.start % WARP_GROUP == 0 and _allows_panels(op, memory, problem)
    return problem.known(_product, op, len(threads), in_groups, _may_pair(op, problem), target=problem.target)


def _may_pair(op: Any, problem: Problem) -> bool:
    """Whether a product may choose C's layout to suit its operands: the program does not fix it, and all products into C have
    operands of the same kinds."""
    # All products into C find it in one layout. Were each to choose by its own operands, C would be converted between them.
    others = [other.op for other in problem.operands[op.c.buffer] if isinstance(other.op, (Gemm, GemmSparse))]
    alike = [other for other in others if other.c.buffer == op.c.buffer]
    kinds = {(other.transpose_a, other.transpose_b, other.a.dtype, other.a.scope, other.b.scope) for other in alike}
    return len(kinds) == 1 and op.c.buffer not in {buffer for buffer, _, _ in problem.tree.hints.layouts}


def _allows_panels(op: Any, chosen: Mapping[Any, Any], problem: Problem) -> bool:
    """Whether nothing keeps the shared operands of a product from lying as warp group instructions want them."""
    for region in (op.a, op.b):
        buffer = region.buffer
        if not lies_in_shared(region):
            continue
        if buffer in problem.aliased or (buffer in chosen and not is_panels(chosen[buffer], buffer)):
            return False
        # A panel holds consecutive rows.
        if not region.has_neighbouring_rows:
            return False
        if not all(problem.facts.divisible(low, _PRODUCT_TILE) for low in region.mins[-2:]):
            return False
    return True


def _product(op: Any, threads: int, wgmma: bool, pairs: bool, *, target: Any) -> Product:
    """The way to compute a product.

    Args:
        threads: that share it.
        wgmma: allows warp group instructions where there are any.
        pairs: allows layouts of C that suit an operand read in pairs.
    """
    if wgmma and arch_of(target).uses(Feature.WGMMA) and isinstance(op, Gemm) and _tiles_fit(op):
        plan = plan_gemm(op, threads)
        if plan is not None:
            own = [(op.c.buffer, plan.c_layout), *([(op.a.buffer, plan.a_layout)] if plan.a_layout is not None else [])]
            return Product(plan.c_layout, tuple(own), plan)
    m, n, k = (as_int(size) for size in (op.m, op.n, op.k))
    mma = _instruction(op, threads, target)
    obstacle = _obstacle(op, mma, threads, target)
    if mma is None or obstacle:
        return _scalar_product(op, m, n, threads, obstacle)
    way = warp_grid(mma, (m, n), threads // WARP, op.policy)
    way = replace(way, pairs=_pairs(op, way)) if pairs else way
    c, fragments = way.c_layout(m, n), []
    for region, layout, transpose in ((op.a, way.a_layout(m, k), op.transpose_a), (op.b, way.b_layout(k, n), op.transpose_b)):
        if is_fragment(region):
            fragments.append((region.buffer, transposed(layout) if transpose else layout))
    return Product(c, ((op.c.buffer, c), *fragments), way)


def _pairs(op: Any, way: ByWarps) -> tuple[bool, bool]:
    """Which operands are read in pairs."""
    found = [
        lies_in_shared(region) and way.mma.reads_pairs(canonical(region.dtype).bits, along_k)
        for region, along_k in ((op.a, not op.transpose_a), (op.b, op.transpose_b))
    ]
    # A pair of columns belongs to two instructions side by side, so that a warp needs an even number of them.
    return found[0], found[1] and as_int(op.n) // way.mma.n // way.n % 2 == 0


def _instruction(op: Any, threads: int, target: Any) -> Instruction | None:
    is_sparse = isinstance(op, GemmSparse)
    return None if threads % WARP else instruction(op.a.dtype, op.b.dtype, op.c.dtype, arch_of(target), is_sparse)


def takes_sparse(op: GemmSparse, threads: int, target: Any) -> bool:
    """Whether the tensor cores can use a sparse operand directly; otherwise it is expanded.

    Args:
        op: the sparse product.
        threads: that compute it.
        target: a CUDA target.
    """
    mma = _instruction(op, threads, target)
    if mma is None or not _tiles_fit(op) or is_fragment(op.e):
        return False
    return not (as_int(op.m) % mma.m or as_int(op.n) % mma.n or as_int(op.k) % mma.k)


def _tiles_fit(op: Any) -> bool:
    """Whether operands in fragments are whole buffers, and 4-bit ones contiguous along K."""
    for region in (op.a, op.b, op.c):
        if is_fragment(region) and (not region.is_whole or len(region.buffer.shape) != 2):
            return False
    return canonical(op.a.dtype).bits >= 8 or not op.transpose_a and op.transpose_b


def _obstacle(op: Any, mma: Instruction | None, threads: int, target: Any) -> str:
    """Why the tensor cores cannot compute a product; empty where they can."""
    if threads % WARP:
        return f"{threads} threads are no whole warps"
    if mma is None:
        return f"the tensor cores of {target.arch} do not multiply {op.a.dtype} by {op.b.dtype} into {op.c.dtype}"
    for name, size, step in (("M", op.m, mma.m), ("N", op.n, mma.n), ("K", op.k, mma.k)):
        if as_int(size) % step:
            return f"{name} = {size} is no multiple of {step}"
    return "" if _tiles_fit(op) else "an operand is a part of a fragment, or has elements of 4 bits that do not lie along K"


def _scalar_product(op: Any, m: int, n: int, threads: int, obstacle: str) -> Product:
    """C spread over the threads; each of them sums its own elements."""
    loop = free_loop((Axis(None, m), Axis(None, n)), threads, 1)
    modes = tuple(dim.modes for dim in loop.dims)
    layout = FragmentLayout((m, n), modes, loop.replicas).compact()
    fragments = ((op.c.buffer, layout),) if op.c.is_whole and len(op.c.buffer.shape) == 2 else ()
    return Product(layout, fragments, obstacle)


def shared_demands(op: Any, plan: Product) -> Iterator[TileDemand]:
    """Layouts of shared operands that are free of bank conflicts when a product reads them; panels as narrow as the pickiest of
    the products of warp groups that share a tile needs go before all others."""
    if isinstance(plan.way, WgmmaPlan):
        for region, width in ((op.a, plan.way.a_panel), (op.b, plan.way.b_panel)):
            if width is not None:
                shape = [as_int(extent) for extent in region.buffer.shape]
                layout = panel_layout(shape, canonical(str(region.buffer.dtype)).bits, width)
                yield TileDemand(region.buffer, layout, (0, width))
    elif isinstance(plan.way, ByWarps):
        for region, along_k in ((op.a, not op.transpose_a), (op.b, op.transpose_b)):
            if lies_in_shared(region) and region.has_neighbouring_rows:
                yield TileDemand(region.buffer, operand_layout(region.buffer, along_k), (1,))


def operand_layout(buffer: Any, along_k: bool) -> Any:
    """The layout of a shared operand; ``along_k`` where K is its contiguous axis."""
    shape = [as_int(extent) for extent in buffer.shape]
    bits = canonical(str(buffer.dtype)).bits
    # Lanes read these by elements, 32 bytes or more of each row: two chunks stay together.
    if bits == 64 or (bits == 32 and not along_k):
        return swizzled(shape, bits, step=1)
    # Bytes across K are read as two matrices, of even and of odd rows: the rows of an access are two apart.
    return swizzled(shape, bits, row_step=0 if along_k or bits != 8 else 1) if bits >= 4 else row_major(shape)
