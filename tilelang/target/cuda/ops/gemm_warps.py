"""Matrix products by warps: ``ldmatrix`` and ``mma.sync``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_fragment, lies_in_shared
from tilelang.layout import row_major, swizzled
from tilelang.target.cuda.arch import WARP, arch_of
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.inference.problem import Problem
from tilelang.target.cuda.ir.code import Block, BranchCode, Code, counted, leaf, nested
from tilelang.target.cuda.ir.instructions import Assign, Define, Multiply
from tilelang.target.cuda.ir.values import Array, Convert, Number
from tilelang.target.cuda.operators import TileDemand
from tilelang.target.cuda.ops.gemm_mma import ByWarps, Instruction, instruction, transposed, warp_grid
from tilelang.target.cuda.ops.gemm_operand import Operand
from tilelang.target.cuda.ops.gemm_plan import Product, tiles_fit
from tilelang.target.cuda.ops.gemm_scalar import plan_scalar
from tilelang.target.cuda.ops.gemm_sparse import MetadataLoader
from tilelang.target.cuda.tile.tree import Operator
from tilelang.tileop.gemm import Gemm, GemmSparse


class WarpProduct(Product):
    """A product by ``mma.sync``.

    Attributes:
        way: the instruction, and the warps' shares.
    """

    way: ByWarps

    def tiles(self, op: Any) -> Iterator[TileDemand]:
        """Layouts that are free of bank conflicts when the product reads them."""
        for region, along_k in ((op.a, not op.transpose_a), (op.b, op.transpose_b)):
            if lies_in_shared(region) and region.has_neighbouring_rows:
                yield TileDemand(region.buffer, operand_layout(region.buffer, along_k), (1,))

    def code(self, emitter: Emitter, node: Any) -> list[Code]:
        return MmaProduct(emitter, node, self.way).emit()


def plan_by_warps(node: Any, problem: Problem) -> Product:
    """The plan of a product without warp groups."""
    threads = len(problem.threads_of[node])
    return problem.known(_planned, node.op, threads, _may_pair(node.op, problem), target=problem.target)


def _planned(op: Any, threads: int, pairs: bool, *, target: Any) -> Product:
    """The same; ``pairs`` allows layouts of C that suit an operand read in pairs."""
    m, n, k = (as_int(size) for size in (op.m, op.n, op.k))
    mma = _instruction(op, threads, target)
    obstacle = _obstacle(op, mma, threads, target)
    if mma is None or obstacle:
        return plan_scalar(op, threads, obstacle)
    way = warp_grid(mma, (m, n), threads // WARP, op.policy)
    way = replace(way, pairs=_pairs(op, way)) if pairs else way
    c, fragments = way.c_layout(m, n), []
    for region, layout, transpose in ((op.a, way.a_layout(m, k), op.transpose_a), (op.b, way.b_layout(k, n), op.transpose_b)):
        if is_fragment(region):
            fragments.append((region.buffer, transposed(layout) if transpose else layout))
    return WarpProduct(c, ((op.c.buffer, c), *fragments), way)


def _may_pair(op: Any, problem: Problem) -> bool:
    """Whether a product may choose C's layout to suit its operands: the program does not fix it, and all products into C have
    operands of the same kinds."""
    # All products into C find it in one layout. Were each to choose by its own operands, C would be converted between them.
    others = [other.op for other in problem.operands[op.c.buffer] if isinstance(other.op, (Gemm, GemmSparse))]
    alike = [other for other in others if other.c.buffer == op.c.buffer]
    kinds = {(other.transpose_a, other.transpose_b, other.a.dtype, other.a.scope, other.b.scope) for other in alike}
    return len(kinds) == 1 and op.c.buffer not in {buffer for buffer, _, _ in problem.tree.hints.layouts}


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
    """Whether the tensor cores can use a sparse operand directly; otherwise it is expanded."""
    mma = _instruction(op, threads, target)
    if mma is None or not tiles_fit(op) or is_fragment(op.e):
        return False
    return not (as_int(op.m) % mma.m or as_int(op.n) % mma.n or as_int(op.k) % mma.k)


def _obstacle(op: Any, mma: Instruction | None, threads: int, target: Any) -> str:
    """Why the tensor cores cannot compute a product; empty where they can."""
    if threads % WARP:
        return f"{threads} threads are no whole warps"
    if mma is None:
        return f"the tensor cores of {target.arch} do not multiply {op.a.dtype} by {op.b.dtype} into {op.c.dtype}"
    for name, size, step in (("M", op.m, mma.m), ("N", op.n, mma.n), ("K", op.k, mma.k)):
        if as_int(size) % step:
            return f"{name} = {size} is no multiple of {step}"
    return "" if tiles_fit(op) else "an operand is a part of a fragment, or has elements of 4 bits that do not lie along K"


def operand_layout(buffer: Any, along_k: bool) -> Any:
    """The layout of a shared operand; ``along_k`` where K is its contiguous axis."""
    shape = [as_int(extent) for extent in buffer.shape]
    bits = canonical(str(buffer.dtype)).bits
    # Lanes read these by elements, 32 bytes or more of each row: two chunks stay together.
    if bits == 64 or (bits == 32 and not along_k):
        return swizzled(shape, bits, step=1)
    # Bytes across K are read as two matrices, of even and of odd rows: the rows of an access are two apart.
    return swizzled(shape, bits, row_step=0 if along_k or bits != 8 else 1) if bits >= 4 else row_major(shape)


# Code ------------------------------------------------------------------------------------------------------------------


def _clear_code(e: Emitter, op: Any, count: int) -> list[Any]:
    """Code that zeroes the accumulators of a product with ``clear_accum``.

    Returns:
        Statements; none if the product adds to the old values.
    """
    if op.clear_accum in (False, 0):
        return []
    at = e.names.take("z")
    zero = counted(at, count, [Assign(e.array(op.c.buffer).at(at), Convert(op.c.dtype, Number(0)))])
    return [zero] if op.clear_accum in (True, 1) else [BranchCode(e.value(op.clear_accum), Block([zero]))]


class MmaProduct:
    """A product by ``mma.sync``.

    Attributes:
        e, op, mma: the kernel's emitter, the operator, the instruction.
        lane, warp, step: variables: the thread's number in its warp, the warp's, the step along K.
        i, j, r: names of loops over tiles of A, tiles of B, and registers.
        steps: steps along K.
    """

    def __init__(self, emitter: Emitter, node: Operator, plan: ByWarps):
        self.e, self.op, self.mma = emitter, node.op, plan.mma
        mma, op, names = plan.mma, node.op, emitter.names
        self.steps = as_int(op.k) // mma.k
        self.lane, self.warp = emitter.variable("lane", 32), emitter.variable("warp", max(1, len(emitter.threads) // 32))
        self.step = emitter.variable("k", self.steps)
        # Warps along M come first: warp w is at (w % m, w // m % n).
        warp_m = self.warp % plan.m if plan.m > 1 else 0
        warp_n = self.warp // plan.m % plan.n if plan.n > 1 else 0
        tiles_m, tiles_n = as_int(op.m) // mma.m // plan.m, as_int(op.n) // mma.n // plan.n
        a_registers, b_registers = (
            Array(names.take(name).text, str(mma.operand or region.dtype)) for name, region in (("a", op.a), ("b", op.b))
        )
        self.i, self.j, self.r = names.take("i"), names.take("j"), names.take("r")
        a_paired, b_paired = plan.pairs
        self.a = Operand(self, mma.a, True, op.a, a_registers, tiles_m, warp_m, not op.transpose_a, a_paired)
        self.b = Operand(self, mma.b, False, op.b, b_registers, tiles_n, warp_n, op.transpose_b, b_paired)
        self.metadata = MetadataLoader(self, warp_m, tiles_m) if mma.sparse else None

    def emit(self) -> list[Code]:
        """The code of the whole product."""
        e = self.e
        lane, warp, step = (e.name_of(var) for var in (self.lane, self.warp, self.step))
        sources = [self.a, self.b, *([self.metadata] if self.metadata is not None else [])]
        clear = _clear_code(e, self.op, self.a.count * self.b.count * self.mma.c_elements)
        body = [code for source in sources for code in source.load()] + self._multiply()
        product = [
            Define(lane, "int32", e.thread & 31),
            Define(warp, "int32", e.thread >> 5),
            *(code for source in sources for code in source.prologue()),
            counted(step, self.steps, body),
        ]
        return [leaf([*clear, Block(product, braces=True)])]

    def _multiply(self) -> list[Any]:
        i, j, columns = self.i, self.j, self.b.count
        accumulator = self.e.array(self.op.c.buffer).to((i * columns + j) * self.mma.c_elements)
        metadata = None if self.metadata is None else self.metadata.register(i)
        product = Multiply(self.mma.function, accumulator, self.a.pointer(i), self.b.pointer(j), metadata)
        return nested([(i, self.a.count), (j, columns)], [product])
