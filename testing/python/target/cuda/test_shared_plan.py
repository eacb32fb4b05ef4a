"""The plan of shared memory: what is alive together, on hand-made code trees."""

from __future__ import annotations

from dataclasses import dataclass

import tilelang.language as T
from testing.python.target.cuda.support import leaf_of, source
from tilelang.ir.access import WRITE
from tilelang.target.cuda.ir.access import Access
from tilelang.target.cuda.ir.code import Block, GroupCode
from tilelang.target.cuda.ir.values import Name
from tilelang.target.cuda.schedule.shared_plan import plan_shared
from tilelang.target.info import parse_target

TARGET = parse_target({"kind": "cuda", "arch": "sm_90a"})


@dataclass(frozen=True)
class _Buffer:
    name: str


def test_buffers_of_concurrent_groups_share_no_memory():
    groups = [
        GroupCode(Name("a"), Block([leaf_of(["x"], writes="s")]), range(128), "barrier();"),
        GroupCode(Name("b"), Block([leaf_of(["y"], writes="t")]), range(128, 256), "barrier();"),
    ]
    sizes = {_Buffer(name): (1024, 128) for name in "st"}
    s, t = sizes
    for group, buffer in zip(groups, sizes):
        group.body.items[0].accesses = (Access(buffer, WRITE),)
    assert not plan_shared(Block(groups), sizes, "kernel", TARGET).overlap(s, t)
    later = Block([groups[0], leaf_of(["z"]), groups[1]])
    assert plan_shared(later, sizes, "kernel", TARGET).overlap(s, t)


def test_a_ring_ends_where_its_only_reader_ends():
    ring, epilogue, other = (_Buffer(name) for name in ("ring", "epilogue", "other"))
    producer = Block([leaf_of(["load"], loads=[ring])])
    consumer = Block([leaf_of(["multiply"], reads=[ring]), leaf_of(["store"], writes=[epilogue])])
    groups = [GroupCode(Name("c"), consumer, range(128), "b();"), GroupCode(Name("p"), producer, range(128, 256), "")]
    sizes = {ring: (4096, 128), epilogue: (4096, 128), other: (4096, 128)}
    assert plan_shared(Block(groups), sizes, "kernel", TARGET).overlap(ring, epilogue)
    third = GroupCode(Name("o"), Block([leaf_of(["also"], reads=[ring])]), range(256, 384), "b();")
    assert not plan_shared(Block([*groups, third]), sizes, "kernel", TARGET).overlap(ring, epilogue)


def test_the_scratch_of_a_reduction_in_a_loop_is_free_after_it():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((8, 64, 64), "float32")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_shared((64, 64), "float16")
            later = T.alloc_shared((64, 64), "float32")
            scores = T.alloc_fragment((64, 64), "float32")
            largest = T.alloc_fragment((64,), "float32")
            T.copy(A, tile)
            for k in T.serial(8):
                T.gemm(tile, tile, scores, policy=T.GemmWarpPolicy.FullCol, clear_accum=True)
                T.reduce_max(scores, largest, dim=1)
                for i, j in T.Parallel(64, 64):
                    scores[i, j] = scores[i, j] - largest[i]
                T.copy(scores, later)
                T.copy(later, B[k, :, :])

    text = source(main)
    assert "reduce_scratch" in text and text.count("(pool + 0)") == 2
