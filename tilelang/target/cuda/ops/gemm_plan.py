"""What the ways to compute a matrix product have in common: by warp groups, by warps, or by single threads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir.memory import is_fragment
from tilelang.layout.fragment import FragmentLayout
from tilelang.records import Record
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.ir.code import Code, leaf
from tilelang.target.cuda.operators import TileDemand

IN_FLIGHT = -1
"""``wg_wait`` of a product that a later statement waits for."""

FOLLOWS = 1
"""``wg_wait`` of a product that is complete at its end, and counts as the newest one: all those before it are complete, too."""

COMPLETE = -2
"""``wg_wait`` of a product that is not started again: the statement waits for it and C is valid after it; ``COMPLETE - n`` where
``n`` newer products may stay in flight."""


class Product(Record, eq=False):
    """One planned product; each way to compute one is a subclass.

    Attributes:
        c: the layout of the fragment that holds C while it is computed.
        fragments: (buffer, layout) that the product demands of the program's own fragments.
    """

    c: FragmentLayout
    fragments: tuple[tuple[Any, FragmentLayout], ...]

    def tiles(self, op: Any) -> Iterable[TileDemand]:
        """The layouts that it demands of shared operands."""
        return ()

    def misfits(self, op: Any) -> Iterable[tuple[Any, str]]:
        """The fragments that it cannot read, and why."""
        return ()

    def pinned(self, node: Any, emitter: Emitter) -> list[Any]:
        """The instructions after a wait that keep C from being read before."""
        return []

    def lower(self, node: Any, generator: Any) -> list[Code]:
        """Its device code."""
        if node.op.wg_wait <= COMPLETE:
            return []  # only warp groups leave products in flight
        # A wait counts this product as the newest one, and it is complete: so must be those before it.
        code = generator.in_flight.complete() if is_counted(node.op) else []
        with generator.emitter.names.block():
            code += self.code(generator.emitter, node)
        if is_asynchronous(node.op):
            # After the program's own wait any thread may hand the operands back for its whole warp group.
            code.append(leaf([generator.barriers.of(generator.emitter.threads)]))
        return code

    def code(self, emitter: Emitter, node: Any) -> list[Code]:
        """The code of a product that is complete at its end."""
        raise NotImplementedError


def is_asynchronous(op: Any) -> bool:
    """Whether a later statement of the program waits for a product."""
    return op.wg_wait == IN_FLIGHT or getattr(op, "kind", "gemm") != "gemm"


def is_counted(op: Any) -> bool:
    """Whether the program's waits count a product among those in flight."""
    return is_asynchronous(op) or op.wg_wait > 0


def tiles_fit(op: Any) -> bool:
    """Whether operands in fragments are whole buffers, and 4-bit ones contiguous along K."""
    for region in (op.a, op.b, op.c):
        if is_fragment(region) and (not region.is_whole or len(region.buffer.shape) != 2):
            return False
    return canonical(op.a.dtype).bits >= 8 or not op.transpose_a and op.transpose_b
