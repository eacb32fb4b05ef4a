"""Barriers, waits and the plan of shared memory, on hand-made code trees."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import tilelang.language as T
from testing.python.target.cuda.support import source
from tilelang.errors import LayoutConflictError, SharedMemoryError
from tilelang.target.cuda.code import Barrier, Block, BranchCode, LoopCode, ScopeCode, Wait, leaf_of
from tilelang.target.cuda.shared_plan import plan_shared
from tilelang.target.cuda.sync import insert_barriers
from tilelang.target.info import parse_target


@dataclass(frozen=True)
class _Buffer:
    name: str


def _kinds(block):
    return [type(item).__name__ for item in block.items]


def _same(a, b):
    return a == b


def test_read_after_write_gets_one_barrier():
    block = Block([leaf_of(["w"], writes="s"), leaf_of(["r"], reads="s"), leaf_of(["r"], reads="s")])
    insert_barriers(block, _same)
    assert _kinds(block) == ["Leaf", "Barrier", "Leaf", "Leaf"]


def test_independent_buffers_get_none():
    block = Block([leaf_of(["w"], writes="s"), leaf_of(["r"], reads="t"), leaf_of(["w"], writes="u")])
    insert_barriers(block, _same)
    assert "Barrier" not in _kinds(block)


def test_write_after_read_across_iterations():
    body = Block([leaf_of(["w"], writes="s"), leaf_of(["r"], reads="s")])
    insert_barriers(Block([LoopCode("for (;;)", body)]), _same)
    assert _kinds(body) == ["Barrier", "Leaf", "Barrier", "Leaf"]


def test_asynchronous_copy_gets_a_wait():
    block = Block([leaf_of(["c"], copies="s"), leaf_of(["r"], reads="s")])
    insert_barriers(block, _same)
    assert [type(item) for item in block.items if not hasattr(item, "lines")] == [Wait, Barrier]


def test_no_barrier_inside_a_divergent_branch():
    inner = Block([leaf_of(["w"], writes="s"), leaf_of(["r"], reads="s")])
    block = Block([BranchCode("tid < 5", inner, None, True), leaf_of(["r"], reads="s")])
    insert_barriers(block, _same)
    assert _kinds(inner) == ["Leaf", "Leaf"]
    assert _kinds(block) == ["BranchCode", "Barrier", "Leaf"]


def test_too_much_shared_memory_is_an_error():
    @T.prim_func
    def main(A: T.Tensor((512, 512), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((512, 512), "float32")
            T.copy(A, tile)
            T.copy(tile, A)

    with pytest.raises(SharedMemoryError, match="needs 1048576 bytes of shared memory a block, sm_80 has 166912.*tile 1048576"):
        source(main)


def test_tiles_that_are_never_alive_together_share_memory():
    @T.prim_func
    def main(A: T.Tensor((128, 128), "float32"), B: T.Tensor((128, 128), "float32")):
        with T.Kernel(1):
            first = T.alloc_shared((128, 128), "float32")
            second = T.alloc_shared((128, 128), "float32")
            T.copy(A, first)
            T.copy(first, B)
            T.copy(A, second)
            T.copy(second, B)

    text = source(main)
    assert text.count("(pool + 0)") == 2


def test_conflicting_fragments_where_threads_part_name_both_statements():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            d = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.gemm(a, a, c, clear_accum=True)
            T.gemm(a, a, d, clear_accum=True)
            if T.get_thread_binding() < 64:
                for i, j in T.Parallel(64, 64):
                    c[i, j] = c[i, j] + d[j, i]
            T.copy(c, B)

    with pytest.raises(LayoutConflictError, match=r"no layout of fragment \w+ suits every statement: threads 0 to 63 run this"):
        source(main)


def test_what_threads_side_by_side_use_does_not_share_memory():
    scopes = [
        ScopeCode("a", Block([leaf_of(["x"], writes="s")]), 0, 128, "barrier();"),
        ScopeCode("b", Block([leaf_of(["y"], writes="t")]), 128, 128, "barrier();"),
    ]
    sizes = {_Buffer(name): (1024, 128) for name in "st"}
    s, t = sizes
    for scope, buffer in zip(scopes, sizes):
        scope.body.items[0].writes = frozenset([buffer])
    assert not plan_shared(Block(scopes), sizes, "kernel", parse_target({"kind": "cuda", "arch": "sm_80"})).overlap(s, t)
    later = Block([scopes[0], leaf_of(["z"]), scopes[1]])
    assert plan_shared(later, sizes, "kernel", parse_target({"kind": "cuda", "arch": "sm_80"})).overlap(s, t)
