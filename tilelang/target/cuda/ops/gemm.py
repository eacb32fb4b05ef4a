"""Matrix products as code: ``ldmatrix`` and ``mma.sync``, or scalar loops where no instruction fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.target.cuda.codegen.code import Code, leaf_of
from tilelang.target.cuda.codegen.element_types import c_type
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.hopper.wgmma import COMPLETE
from tilelang.target.cuda.inference.products import Product
from tilelang.target.cuda.operators import OperatorRule, implements
from tilelang.target.cuda.ops.gemm_metadata import MetadataText
from tilelang.target.cuda.ops.gemm_operand import Operand, OperandText
from tilelang.target.cuda.ops.gemm_scalar import emit_scalar
from tilelang.target.cuda.reading.tree import Operator
from tilelang.tileop.gemm import Gemm, GemmSparse


def emit_product(emitter: Emitter, node: Operator, plan: Product) -> list[Code]:
    """The code of a product."""
    with emitter.names.scope():
        return PRODUCTS[plan.kind](emitter, node, plan)


def shared_operands(emitter: Emitter, op: Any) -> set[Any]:
    """Shared storage that a product reads."""
    return {emitter.root(region.buffer) for region, access in op.regions() if access == "r" and region.scope.startswith("shared")}


def clear_lines(emitter: Emitter, op: Any, count: int) -> list[str]:
    """Lines that zero the accumulators where the product does not use their old values."""
    if op.clear_accum in (False, 0):
        return []
    at = emitter.names.take("z")
    zero = f"for (int {at} = 0; {at} < {count}; ++{at}) {emitter.name(op.c.buffer)}[{at}] = {c_type(op.c.dtype)}(0);"
    if op.clear_accum in (True, 1):
        return ["#pragma unroll", zero]
    return [f"if ({emitter.text(op.clear_accum)}) {{", "  #pragma unroll", "  " + zero, "}"]


# Tensor cores --------------------------------------------------------------------------------------------------------


def _emit_mma(emitter: Emitter, node: Operator, plan: Product) -> list[Code]:
    return _MmaText(emitter, node, plan).emit()


class _MmaText:
    def __init__(self, emitter: Emitter, node: Operator, plan: Product):
        self.e, self.op, self.unit = emitter, node.op, plan.unit
        self.lane, self.warp = ir.Var("lane", "int32"), ir.Var("warp", "int32")
        self.step = ir.Var("k", "int32")
        unit, grid, op, names = plan.unit, plan.grid, node.op, emitter.names
        warp_m = self.warp % grid.m if grid.m > 1 else 0
        warp_n = self.warp // grid.m % grid.n if grid.n > 1 else 0
        tiles_m, tiles_n = as_int(op.m) // unit.m // grid.m, as_int(op.n) // unit.n // grid.n
        a_name, b_name = names.take("a"), names.take("b")
        self.steps = as_int(op.k) // unit.k
        self.i, self.j, self.r = names.take("i"), names.take("j"), names.take("r")
        a_paired, b_paired = plan.pairs
        a = Operand(
            op.a,
            a_name,
            tiles_m,
            unit.m,
            warp_m,
            not op.transpose_a,
            unit.a_halves,
            unit.a_depth,
            unit.a_elements,
            True,
            a_paired,
        )
        b = Operand(op.b, b_name, tiles_n, unit.n, warp_n, op.transpose_b, unit.halves, unit.k, unit.b_elements, False, b_paired)
        self.a, self.b = OperandText(self, a), OperandText(self, b)
        self.metadata = MetadataText(self, warp_m, tiles_m) if unit.sparse else None

    def emit(self) -> list[Code]:
        """The code of the whole product."""
        e = self.e
        lane, warp, step = (e.names.take(name) for name in ("lane", "warp", "k"))
        e.var_text.update({self.lane: lane, self.warp: warp, self.step: step})
        e.facts.bind_range(self.lane, 32)
        e.facts.bind_range(self.warp, max(1, e.scope.count // 32))
        e.facts.bind_range(self.step, self.steps)
        sources = [self.a, self.b, *([self.metadata] if self.metadata is not None else [])]
        lines = clear_lines(e, self.op, self.a.o.count * self.b.o.count * self.unit.c_elements)
        body = [line for source in sources for line in source.load()] + self._multiply()
        lines += [
            "{",
            f"  const int {lane} = {e.thread} & 31, {warp} = {e.thread} >> 5;",
            *("  " + line for source in sources for line in source.prologue()),
            "  #pragma unroll",
            f"  for (int {step} = 0; {step} < {self.steps}; ++{step}) {{",
            *("    " + line for line in body),
            "  }",
            "}",
        ]
        return [leaf_of(lines, shared_operands(e, self.op))]

    def _multiply(self) -> list[str]:
        i, j, columns = self.i, self.j, self.b.o.count
        accumulator = f"&{self.e.name(self.op.c.buffer)}[({i} * {columns} + {j}) * {self.unit.c_elements}]"
        arguments = [accumulator, self.a.pointer(i), self.b.pointer(j)]
        if self.metadata is not None:
            arguments.append(self.metadata.register(i))
        return [
            "#pragma unroll",
            f"for (int {i} = 0; {i} < {self.a.o.count}; ++{i}) {{",
            "  #pragma unroll",
            f"  for (int {j} = 0; {j} < {columns}; ++{j})",
            f"    {self.unit.function}({', '.join(arguments)});",
            "}",
        ]


PRODUCTS: Mapping[str, Callable[[Emitter, Operator, Product], list[Code]]] = {"mma": _emit_mma, "scalar": emit_scalar}
"""Rules by the kind of plan."""


@implements(Gemm, GemmSparse)
class ProductRule(OperatorRule):
    """``T.gemm``, ``T.gemm_sp`` and their forms for warp groups."""

    in_warps = True

    def lower(self, node: Any, generator: Any) -> list[Code]:
        plan = generator.emitter.layouts.products[node]
        if plan.wgmma is not None:
            return generator.hopper.product(generator, node)
        if node.op.wg_wait <= COMPLETE:
            return []  # only warp groups leave products in flight
        return emit_product(generator.emitter, node, plan)
