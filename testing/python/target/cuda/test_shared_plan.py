"""The plan of shared memory: what is alive together, on hand-made code trees."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import leaf_of, simulate, source
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
        GroupCode(Name("a"), Block([leaf_of(["x"], writes="s")]), range(128), "barrier();", takes_part=True),
        GroupCode(Name("b"), Block([leaf_of(["y"], writes="t")]), range(128, 256), "barrier();", takes_part=True),
    ]
    sizes = {_Buffer(name): (2048, 128) for name in "st"}
    s, t = sizes
    for group, buffer in zip(groups, sizes):
        group.body.items[0].accesses = (Access(buffer, WRITE),)
    assert not plan_shared(Block(groups), sizes, "kernel", TARGET, 256).overlap(s, t)
    later = Block([groups[0], leaf_of(["z"]), groups[1]])
    assert plan_shared(later, sizes, "kernel", TARGET, 256).overlap(s, t)


def test_a_ring_ends_where_its_only_reader_ends():
    ring, epilogue, other = (_Buffer(name) for name in ("ring", "epilogue", "other"))
    producer = Block([leaf_of(["load"], loads=[ring])])
    consumer = Block([leaf_of(["multiply"], reads=[ring]), leaf_of(["store"], writes=[epilogue])])
    groups = [
        GroupCode(Name("c"), consumer, range(128), "b();", takes_part=True),
        GroupCode(Name("p"), producer, range(128, 256), ""),
    ]
    sizes = {ring: (4096, 128), epilogue: (4096, 128), other: (4096, 128)}
    assert plan_shared(Block(groups), sizes, "kernel", TARGET, 256).overlap(ring, epilogue)
    third = GroupCode(Name("o"), Block([leaf_of(["also"], reads=[ring])]), range(256, 384), "b();")
    assert not plan_shared(Block([*groups, third]), sizes, "kernel", TARGET, 256).overlap(ring, epilogue)


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


@pytest.mark.parametrize("tile, threads, shares", [(4096, 256, False), (227 * 1024, 256, True), (114 * 1024, 512, False)])
def test_small_buffers_share_no_bytes_where_that_costs_no_block(tile, threads, shares):
    """Where another block of 512 threads would not fit anyway, and not where the memory is full."""
    large, small = _Buffer("large"), _Buffer("small")
    code = Block([leaf_of(["x"], writes=[large]), leaf_of(["y"], writes=[small])])
    plan = plan_shared(code, {large: (tile, 128), small: (128, 16)}, "kernel", TARGET, threads)
    assert plan.overlap(large, small) == shares


def test_a_block_that_small_buffers_would_cost():
    large, small = _Buffer("large"), _Buffer("small")
    code = Block([leaf_of(["x"], writes=[large]), leaf_of(["y"], writes=[small])])
    # Two blocks fit exactly: half of 228 KiB each, of which the system takes 1 KiB.
    for size, shares in ((113 * 1024, True), (113 * 1024 - 128, False)):
        plan = plan_shared(code, {large: (size, 128), small: (128, 16)}, "kernel", TARGET, 256)
        assert plan.overlap(large, small) == shares


def test_two_reductions_of_a_loop_take_two_barriers():
    """One each, between what warps store and what they read: the other one's orders the next use of the scratch."""

    @T.prim_func
    def main(A: T.Tensor((8, 1024), "float32"), B: T.Tensor((8, 2), "float32")):
        with T.Kernel(1, threads=128):
            row = T.alloc_fragment((1024,), "float32")
            largest, total = T.alloc_fragment((1,), "float32"), T.alloc_fragment((1,), "float32")
            for k in T.serial(8):
                T.copy(A[k, :], row)
                T.reduce_max(row, largest, dim=0)
                for i in T.Parallel(1024):
                    row[i] = row[i] - largest[0]
                T.reduce_sum(row, total, dim=0)
                B[k, 0] = largest[0]
                B[k, 1] = total[0]

    assert source(main).count("__syncthreads()") == 2
    a, b = torch.randint(-8, 9, (8, 1024)).float(), torch.zeros(8, 2)
    simulate(main, a, b)
    top = a.max(dim=1).values
    assert torch.equal(b, torch.stack([top, a.sum(dim=1) - 1024 * top], dim=1))
