"""The interface of operators: a made-up one is a record, a rule, and nothing else."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

import pytest
import torch

import tilelang.language as T
import tilelang.target.cuda.operators
from testing.python.target.cuda.support import simulate
from tilelang.frontend.access import as_region
from tilelang.frontend.builder import require_kernel
from tilelang.ir.region import Region
from tilelang.target.cuda.ir.code import counted, leaf
from tilelang.target.cuda.ir.instructions import Assign, Define
from tilelang.target.cuda.operators import OperatorRule, implements, is_implemented
from tilelang.tileop.base import OPERATORS, TileOp, reads, tile_operator, updates
from tilelang.tileop.copy import Copy

CUDA_FOLDER = Path(tilelang.target.cuda.operators.__file__).parent


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
            with e.names.block():
                step = e.names.take("step")
                at = step * len(e.threads) + e.thread
                move = Assign(tile.at(at), other.at((at + 1) % extent))
                return [leaf([counted(step, extent // len(e.threads), [move])], fills={tile.storage})]

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


@pytest.fixture
def exchange():
    """A made-up operator that decides layouts: it exchanges two fragments register by register."""

    @tile_operator("tl.test_exchange")
    class Exchange(TileOp):
        """``one, other = other, one``."""

        one: Region = updates()
        other: Region = updates()

    @implements(Exchange)
    class ExchangeRule(OperatorRule):
        """Both fragments lie alike: the second one is given the layout of the first."""

        def offer(self, op: Any, fragments: Any) -> Any:
            layout = fragments.get(op.one.buffer)
            return None if layout is None else (op.other.buffer, layout)

        def misfits(self, op: Any, plan: Any, fragments: Any) -> Any:
            one, other = (fragments.get(region.buffer) for region in (op.one, op.other))
            return [] if one == other else [(op.other.buffer, "it is exchanged with another layout")]

        def proofs(self, op: Any, fragments: Any, threads: int) -> Any:
            yield fragments[op.one.buffer] == fragments[op.other.buffer], op.other.buffer, "the other registers are elsewhere"

        def lower(self, node: Any, generator: Any) -> list[Any]:
            e, op = generator.emitter, node.op
            one, other = (e.array(region.buffer) for region in (op.one, op.other))
            with e.names.block():
                at, kept = e.names.take("at"), e.names.take("kept")
                moves = [Define(kept, one.dtype, one.at(at)), Assign(one.at(at), other.at(at)), Assign(other.at(at), kept)]
                return [leaf([counted(at, e.layouts.fragments[op.one.buffer].registers, moves)])]

    yield lambda one, other: require_kernel("exchange").perform(Exchange(as_region(one, "one"), as_region(other, "other")))
    del OPERATORS[Exchange.op_name]


@pytest.mark.parametrize("annotated", [False, True])
def test_a_new_operator_takes_part_in_layout_inference(exchange, annotated):
    """An offer gives a fragment its layout; where the user gave it another, a conversion stands between."""

    @T.prim_func
    def main(A: T.Tensor((16, 64), "float32"), B: T.Tensor((64, 16), "float32"), C: T.Tensor((16, 64), "float32")):
        with T.Kernel(1, threads=64):
            one, other = T.alloc_fragment((16, 64), "float32"), T.alloc_fragment((16, 64), "float32")
            if annotated:
                T.annotate_layout({other: T.Fragment((16, 64), lambda i, j: (i * 4 + j % 4, j // 4))})
            T.copy(A, one)
            for i, j in T.Parallel(16, 64):
                other[i, j] = B[j, i]
            exchange(one, other)
            for i, j in T.Parallel(16, 64):
                C[i, j] = one[i, j] - 2 * other[i, j]

    a, b, c = torch.arange(1024.0).view(16, 64), torch.arange(1024.0, 2048.0).view(64, 16), torch.zeros(16, 64)
    simulate(main, a, b, c)
    assert torch.equal(c, b.T - 2 * a)


def test_every_operator_has_a_rule_in_the_file_of_its_family():
    declared = [op for op in OPERATORS.values() if op.__module__.startswith("tilelang.tileop.")]
    assert declared and all(is_implemented(object.__new__(op)) for op in declared)


def test_no_other_module_names_an_operator():
    """All that other modules need to know of an operator is in its rule."""
    shared = {f"tilelang.tileop{module}" for module in ("", ".base", ".carried", ".thread")}
    files = [path for path in CUDA_FOLDER.rglob("*.py") if path.parent.name != "ops"]
    assert len(files) > 90
    for path in files:
        imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom) and node.module]
        operators = [node for node in imports if node.module.startswith("tilelang.tileop") and node.module not in shared]
        assert not operators, path
        assert not any(node.module.startswith("tilelang.target.cuda.ops") for node in imports), path


def test_no_module_compares_architectures():
    """What an architecture can do is a feature of its record; its name and number are for messages and the toolchain."""
    for path in CUDA_FOLDER.rglob("*.py"):
        if path.name != "arch.py" and path.parent.name not in ("toolchain", "host"):
            compared = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Compare)]
            sides = [side for node in compared for side in (node.left, *node.comparators)]
            assert not any(isinstance(side, ast.Attribute) and side.attr in ("sm", "arch") for side in sides), path


def test_two_rules_for_one_operator_are_refused():
    with pytest.raises(ValueError, match="Copy is implemented by tilelang.target.cuda.ops.copy and by testing"):
        importlib.import_module("tilelang.target.cuda.ops.copy")
        implements(Copy)(type("Other", (OperatorRule,), {"__module__": __name__}))
