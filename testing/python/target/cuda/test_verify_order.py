"""The proof of order: it finds every barrier and wait that is left out, and every barrier that not all threads reach."""

from __future__ import annotations

import pytest

import tilelang.language as T
from testing.python.target.cuda.support import leaf_of
from tilelang.errors import OrderProofError
from tilelang.target.cuda.ir.code import Barrier, Block, BranchCode, GroupCode, LoopCode, Wait, children
from tilelang.target.cuda.ir.values import Name
from tilelang.target.cuda.pipeline import PIPELINE, CudaContext, options_of
from tilelang.target.cuda.schedule.conflicts import Conflicts
from tilelang.target.cuda.schedule.verify import verify_order
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import run


class _Buffer(str):
    @property
    def name(self):
        return str(self)


S, U = _Buffer("s"), _Buffer("u")
WRITE, READ = (lambda: leaf_of(["w"], writes=[S])), (lambda: leaf_of(["r"], reads=[S]))


def _verify(*items):
    verify_order(Block(list(items)), Conflicts(lambda a, b: a == b))


def test_ordered_code_passes():
    _verify(WRITE(), Barrier(), READ(), READ(), Barrier(), WRITE())
    _verify(LoopCode(Name("c"), Block([WRITE(), Barrier(), READ(), Barrier()])))
    _verify(leaf_of(["c"], copies=[S]), Wait(0), Barrier(), READ())
    _verify(leaf_of(["c"], copies=[S]), Wait(1, users=True), Wait(0, users=True), Barrier(), READ())
    _verify(leaf_of(["c"], copies=[S]), leaf_of(["r"], reads=[U]))
    _verify(GroupCode(Name("a"), Block([WRITE(), Barrier(), READ()]), range(64), "b"), Barrier(), WRITE())


@pytest.mark.parametrize(
    "items",
    [
        [WRITE(), READ()],
        [READ(), WRITE()],
        [LoopCode(Name("c"), Block([WRITE(), Barrier(), READ()]))],
        [BranchCode(Name("c"), Block([Barrier()])), WRITE(), BranchCode(Name("c"), Block([Barrier()])), READ()],
        [leaf_of(["c"], copies=[S]), Barrier(), READ()],
        [leaf_of(["c"], copies=[S]), Wait(1), Barrier(), READ()],
        [leaf_of(["c"], copies=[S]), Wait(0), READ()],
        [leaf_of(["c"], copies=[S]), Wait(1, users=True), Barrier(), Wait(0, users=True), READ()],
        [GroupCode(Name("a"), Block([WRITE(), READ()]), range(64), "b")],
        [WRITE(), GroupCode(Name("a"), Block([READ()]), range(64), "b")],
    ],
)
def test_code_without_an_order_fails(items):
    with pytest.raises(OrderProofError, match="internal error in synchronisation: s: "):
        _verify(*items)


@pytest.mark.parametrize("structure", [BranchCode, LoopCode])
def test_barriers_that_not_all_threads_reach_fail(structure):
    with pytest.raises(OrderProofError, match="a barrier: threads disagree on whether they reach it"):
        _verify(structure("c", Block([Barrier()]), divergent=True))


def _pipelined(stages):
    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            c, most = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64,), "float32")
            row = T.alloc_shared((64,), "float32")
            T.clear(c)
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c, policy=T.GemmWarpPolicy.FullCol)
                T.reduce_max(c, most, dim=1)
                for i in T.Parallel(64):
                    row[i] = most[i]
                for i in T.Parallel(64):
                    most[i] = row[63 - i]
            T.copy(most, C)

    return main


def _places(code):
    """(block, position) of each barrier and wait."""
    if isinstance(code, Block):
        yield from ((code, at) for at, item in enumerate(code.items) if isinstance(item, (Barrier, Wait)))
    for child in children(code):
        yield from _places(child)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("stages", [1, 3])
def test_each_barrier_and_wait_of_a_kernel_is_needed(arch, stages):
    """A barrier or wait that is taken away is missed, so none is there in vain and the proof sees all of them."""
    request = CompileRequest(parse_target({"kind": "cuda", "arch": arch}))
    kernels = run(PIPELINE, _pipelined(stages), CudaContext(request, options_of(request)), stop_after="place_barriers").value
    (state,) = kernels.kernels
    places = list(_places(state.code))
    assert len(places) >= 2
    for block, at in places:
        taken = block.items.pop(at)
        with pytest.raises(OrderProofError):
            verify_order(state.code, Conflicts(state.plan.overlap))
        block.items.insert(at, taken)
    verify_order(state.code, Conflicts(state.plan.overlap))
