"""Matrix products as code: ``ldmatrix`` and ``mma.sync``, or scalar loops where no instruction fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_fragment
from tilelang.ir.span import warn_slow
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.codegen.nest_loops import NestLoops
from tilelang.target.cuda.inference.loop_layout import register_form, whole_loop
from tilelang.target.cuda.ir.code import Block, BranchCode, Code, counted, leaf, nested, under
from tilelang.target.cuda.ir.conversions import converted
from tilelang.target.cuda.ir.instructions import Assign, DeclareArray, Define, Multiply
from tilelang.target.cuda.ir.values import Array, Convert, Number, Select, Value, both
from tilelang.target.cuda.operators import OperatorRule, TileDemand, implements
from tilelang.target.cuda.ops.gemm_mma import ByWarps
from tilelang.target.cuda.ops.gemm_operand import Operand, OperandLoader, matrix_index
from tilelang.target.cuda.ops.gemm_plan import Product, plan_product, shared_demands, takes_sparse
from tilelang.target.cuda.ops.gemm_sparse import MetadataLoader, expansion_nest
from tilelang.target.cuda.ops.gemm_wgmma import COMPLETE, IN_FLIGHT, WgmmaPlan, emit_warp_group_product, pinned, plan_gemm
from tilelang.target.cuda.tile.build import block
from tilelang.target.cuda.tile.nest import Axis, Nest
from tilelang.target.cuda.tile.tree import Operator, is_matrix
from tilelang.tileop.gemm import Gemm, GemmSparse


def clear_code(e: Emitter, op: Any, count: int) -> list[Any]:
    """Code that zeroes the accumulators of a product with ``clear_accum``.

    Args:
        e: the emitter of the kernel.
        op: the product.
        count: accumulators of a thread.

    Returns:
        Statements; none if the product adds to the old values.
    """
    if op.clear_accum in (False, 0):
        return []
    at = e.names.take("z")
    zero = counted(at, count, [Assign(e.array(op.c.buffer).at(at), Convert(op.c.dtype, Number(0)))])
    return [zero] if op.clear_accum in (True, 1) else [BranchCode(e.value(op.clear_accum), Block([zero]))]


# Tensor cores --------------------------------------------------------------------------------------------------------


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
        self.lane, self.warp = ir.Var("lane", "int32"), ir.Var("warp", "int32")
        self.step = ir.Var("k", "int32")
        mma, op, names = plan.mma, node.op, emitter.names
        # Warps along M come first: warp w is at (w % m, w // m % n).
        warp_m = self.warp % plan.m if plan.m > 1 else 0
        warp_n = self.warp // plan.m % plan.n if plan.n > 1 else 0
        tiles_m, tiles_n = as_int(op.m) // mma.m // plan.m, as_int(op.n) // mma.n // plan.n
        a_registers, b_registers = (
            Array(names.take(name).text, str(mma.operand or region.dtype)) for name, region in (("a", op.a), ("b", op.b))
        )
        self.steps = as_int(op.k) // mma.k
        self.i, self.j, self.r = names.take("i"), names.take("j"), names.take("r")
        a_paired, b_paired = plan.pairs
        a = Operand(mma, True, op.a, a_registers, tiles_m, warp_m, not op.transpose_a, a_paired)
        b = Operand(mma, False, op.b, b_registers, tiles_n, warp_n, op.transpose_b, b_paired)
        self.a, self.b = OperandLoader(self, a), OperandLoader(self, b)
        self.metadata = MetadataLoader(self, warp_m, tiles_m) if mma.sparse else None

    def emit(self) -> list[Code]:
        """The code of the whole product."""
        e = self.e
        lane, warp, step = (e.named(var) for var in (self.lane, self.warp, self.step))
        e.facts.bind_range(self.lane, 32)
        e.facts.bind_range(self.warp, max(1, len(e.threads) // 32))
        e.facts.bind_range(self.step, self.steps)
        sources = [self.a, self.b, *([self.metadata] if self.metadata is not None else [])]
        clear = clear_code(e, self.op, self.a.o.count * self.b.o.count * self.mma.c_elements)
        body = [code for source in sources for code in source.load()] + self._multiply()
        product = [
            Define(lane, "int32", e.thread & 31),
            Define(warp, "int32", e.thread >> 5),
            *(code for source in sources for code in source.prologue()),
            counted(step, self.steps, body),
        ]
        return [leaf([*clear, Block(product, braces=True)])]

    def _multiply(self) -> list[Any]:
        i, j, columns = self.i, self.j, self.b.o.count
        accumulator = self.e.array(self.op.c.buffer).to((i * columns + j) * self.mma.c_elements)
        metadata = None if self.metadata is None else self.metadata.register(i)
        product = Multiply(self.mma.function, accumulator, self.a.pointer(i), self.b.pointer(j), metadata)
        return nested([(i, self.a.o.count), (j, columns)], [product])


# Scalar loops, for shapes and types that no instruction has -----------------------------------------------------------


def _emit_scalar(emitter: Emitter, node: Operator, plan: Product) -> list[Code]:
    """Each thread sums its own elements of C, all of them in each step along K.

    The loop along K stays a loop: written out for every element it would be most of a kernel, and minutes of compilation.
    """
    e, op = emitter, node.op
    warn_slow(f"T.gemm becomes scalar code, which is many times slower than tensor cores: {plan.way}", node.span)
    dtype = canonical(op.c.dtype)
    wide = "float32" if dtype.is_float and dtype.bits < 32 else str(dtype)
    row, column, inner = (ir.Var(name, "int32") for name in ("m", "n", "k"))
    axes = (Axis(row, as_int(op.m)), Axis(column, as_int(op.n)))
    share = NestLoops(e, Nest.build(axes, block([]), node.span, "T.gemm"), whole_loop(axes, [row, column], plan.c))
    share.open()
    step = e.named(inner)
    e.facts.bind_range(inner, op.k)
    a = _element(e, op.a, row, inner, op.transpose_a, wide)
    b = _element(e, op.b, inner, column, op.transpose_b, wide)
    own = e.array(op.c.buffer)
    # Narrow floats are summed in float32 and rounded once, at the end.
    sums = own if wide == str(dtype) else Array(e.names.take("sums").text, wide)
    form = register_form([row, column], plan.c, share.layout)
    assert form is not None
    place, result = own.at(share.register(form)), sums.at(share.register(form))
    add = [*share.definitions, *under(both(share.guards), [Assign(result, result + a * b)])]
    code = counted(step, e.index(op.k), nested(share.loops, add), unroll=1)
    start = nested(share.loops, [Assign(result, _start(e, op, converted(place, dtype, wide), wide))])
    if sums is own:
        return [leaf([Block([*start, code], braces=True)])]
    end = nested(share.loops, [Assign(place, converted(result, wide, dtype))])
    return [leaf([Block([DeclareArray(sums, plan.c.registers), *start, code, *end], braces=True)])]


def _start(e: Emitter, op: Any, old: Value, wide: str) -> Value:
    """What a sum starts with: zero, or the old value of C."""
    zero, clear = Convert(wide, Number(0)), op.clear_accum
    if isinstance(clear, (bool, int)):
        return zero if clear else old
    return Select(e.value(clear), zero, old)


def _element(e: Emitter, region: Any, row: Any, column: Any, transposed: bool, wide: str) -> Value:
    return converted(e.places.element(region.buffer, matrix_index(region, row, column, transposed)), region.dtype, wide)


# The operators ---------------------------------------------------------------------------------------------------------


class ProductRule(OperatorRule):
    """``T.gemm``, ``T.gemm_sp`` and their forms for warp groups."""

    in_warps = True

    def overwritten(self, op: Any) -> Any:
        return op.c if op.clear_accum in (True, 1) and op.c.is_whole else None

    def plan(self, node: Any, problem: Any, memory: Mapping[Any, Any]) -> Product:
        return plan_product(node, problem, memory)

    def demands(self, op: Any, plan: Product) -> Iterable[tuple[Any, Any]]:
        return plan.fragments

    def tiles(self, op: Any, plan: Product) -> Iterable[TileDemand]:
        return shared_demands(op, plan)

    def misfits(self, op: Any, plan: Product, fragments: Mapping[Any, Any]) -> Iterable[tuple[Any, str]]:
        spread = [region.buffer for region in (op.a, op.b) if isinstance(plan.way, str) and is_fragment(region)]
        return [(buffer, "each thread needs whole rows and columns of it") for buffer in spread]

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        """The product on whole matrices: operands and results that are parts of fragments get fragments of their own.

        Args:
            op: the product.
            span: of its statement.
            reader: the builder of the tile tree.
        """
        # The program waits for this product itself: a copy of the result placed here would read C before it is complete.
        if getattr(op, "kind", "gemm") != "gemm" and is_fragment(op.c):
            return [reader.operator(op, span)]
        before, after = [], []
        for name, region in (("a", op.a), ("b", op.b)):
            if is_fragment(region) and not is_matrix(region):
                part = reader.temporary(region, "part", matrix=True)
                before.append(reader.copy(region, part, span))
                op = op.replace(**{name: part})
        if not is_matrix(op.c):
            wide = reader.temporary(op.c, "accum", matrix=True)
            # The accumulators start with the old values of C. Where they are certainly cleared, nothing of C is read.
            if op.clear_accum not in (True, 1):
                before.append(reader.copy(op.c, wide, span))
            after.append(reader.copy(wide, op.c, span))
            op = op.replace(c=wide)
        return [*before, reader.operator(op, span), *after]

    def lower(self, node: Any, generator: Any) -> list[Code]:
        e, plan = generator.emitter, generator.emitter.layouts.plans[node]
        if isinstance(plan.way, WgmmaPlan):
            generator.in_flight.start(node)
            return [emit_warp_group_product(e, node)]
        if node.op.wg_wait <= COMPLETE:
            return []  # only warp groups leave products in flight
        with e.names.block():
            return MmaProduct(e, node, plan.way).emit() if isinstance(plan.way, ByWarps) else _emit_scalar(e, node, plan)


@implements(Gemm)
class DenseProduct(ProductRule):
    """``T.gemm``, which warp groups may leave in flight."""

    local = True

    def takes_shared(self, op: Any, buffers: set[Any]) -> bool:
        return op.c.buffer not in buffers

    def is_asynchronous(self, op: Any) -> bool:
        return op.wg_wait == IN_FLIGHT or op.kind != "gemm"

    def may_be_asynchronous(self, op: Any) -> bool:
        return op.wg_wait == 0 and op.kind == "gemm"

    def may_stay_in_flight(self, op: Any, threads: int) -> bool:
        return plan_gemm(op, threads) is not None

    def accumulates(self, op: Any) -> bool:
        return op.clear_accum in (False, 0)

    def started(self, op: Any) -> Any:
        return op.replace(wg_wait=IN_FLIGHT)

    def awaited(self, op: Any, pending: int) -> Any:
        return op.replace(wg_wait=COMPLETE - pending)

    def pinned(self, node: Any, emitter: Emitter) -> list[Any]:
        way = emitter.layouts.plans[node].way
        return pinned(way, emitter.array(node.op.c.buffer), None) if isinstance(way, WgmmaPlan) else []


@implements(GemmSparse)
class SparseProduct(ProductRule):
    """``T.gemm_sp``, by ``mma.sp`` where the tensor cores read the operand as it is."""

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        if reader.target is not None and takes_sparse(op, reader.threads, reader.target):
            return super().read(op, span, reader)
        dense = reader.shared([as_int(op.m), as_int(op.k)], op.a.dtype, f"{op.a.buffer.name}_dense")
        product = Gemm(dense, op.b, op.c, op.clear_accum, transpose_b=op.transpose_b, policy=op.policy, wg_wait=op.wg_wait)
        expansion = expansion_nest(op, dense.buffer, span)
        return [reader.parallel(expansion), *super().read(product, span, reader)]
