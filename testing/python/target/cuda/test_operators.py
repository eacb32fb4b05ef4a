"""The interface of operators: a made-up one is a record, a rule, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate
from tilelang.frontend.access import as_region
from tilelang.frontend.builder import require_kernel
from tilelang.ir.region import Region
from tilelang.target.cuda.ir.code import counted, leaf
from tilelang.target.cuda.ir.instructions import Assign
from tilelang.target.cuda.operators import OperatorRule, implements, rule_of
from tilelang.tileop.base import OPERATORS, TileOp, reads, tile_operator, updates
from tilelang.tileop.copy import Copy


@pytest.fixture
def rotate():
    """A made-up operator as programs call it; it is gone afterwards."""

    @tile_operator("tl.test_rotate")
    class Rotate(TileOp):
        """``tile[i] = other[i + 1]``, the last one ``other[0]``, of tiles of one axis."""

        other: Region = reads()
        tile: Region = updates()

    @implements(Rotate)
    class RotateRule(OperatorRule):
        """The source goes through shared memory; each thread takes every so-manieth element."""

        def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
            source = reader.shared(list(op.other.extents), op.other.dtype, "rotated")
            return [reader.copy(op.other, source, span), reader.operator(op.replace(other=source), span)]

        def lower(self, node: Any, generator: Any) -> list[Any]:
            e, op = generator.emitter, node.op
            tile, other, extent = e.array(op.tile.buffer), e.array(op.other.buffer), op.tile.extents[0]
            with e.names.scope():
                step = e.names.take("step")
                at = step * e.scope.count + e.thread
                move = Assign(tile.at(at), other.at((at + 1) % extent))
                return [leaf([counted(step, extent // e.scope.count, [move])], fills={tile.storage})]

    yield lambda other, tile: require_kernel("rotate").perform(Rotate(as_region(other, "rotate"), as_region(tile, "rotate")))
    del OPERATORS[Rotate.op_name]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_new_operator_is_one_record_and_one_rule(rotate, arch):
    @T.prim_func
    def main(A: T.Tensor((4, 256), "float32"), B: T.Tensor((4, 256), "float32")):
        with T.Kernel(4, threads=64) as bx:
            held, tile = T.alloc_fragment((256,), "float32"), T.alloc_shared((256,), "float32")
            T.copy(A[bx, 0], held)
            rotate(held, tile)
            T.copy(tile, B[bx, 0])

    a, b = torch.arange(1024.0).view(4, 256), torch.zeros(4, 256)
    simulate(main, a, b, arch=arch)
    assert torch.equal(b, a.roll(-1, 1))


def test_two_rules_for_one_operator_are_refused():
    with pytest.raises(ValueError, match="Copy is implemented by tilelang.target.cuda.ops.copy and by testing"):
        rule_of(Copy)
        implements(Copy)(type("Other", (OperatorRule,), {"__module__": __name__}))
