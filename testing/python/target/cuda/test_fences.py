"""Fences between what threads write and what an asynchronous unit reads, on hand-made code trees."""

from __future__ import annotations

from testing.python.target.cuda.support import leaf_of
from tilelang.target.cuda.ir.code import Barrier, Block
from tilelang.target.cuda.schedule.barriers import with_barriers
from tilelang.target.cuda.schedule.conflicts import Conflicts


def _kinds(block):
    return [type(item).__name__ for item in block.items]


_SAME = Conflicts(lambda a, b: a == b)


def test_a_fence_shares_the_next_barrier():
    products = [leaf_of(["product"], products="s") for _ in range(2)]
    block = Block([leaf_of(["w"], writes="s"), Barrier(), *products])
    block = with_barriers(block, _SAME)
    assert _kinds(block) == ["Leaf", "Barrier", "Leaf", "Leaf"]
    assert block.items[1].fence


def test_a_fence_gets_a_barrier_where_none_follows():
    product = leaf_of(["product"], products="s")
    block = Block([leaf_of(["w"], writes="s"), leaf_of(["w"], writes="t"), product])
    block = with_barriers(block, _SAME)
    assert _kinds(block) == ["Leaf", "Leaf", "Barrier", "Leaf"]
    assert block.items[2].fence


def test_writes_read_by_threads_only_get_no_proxy_fence():
    block = Block([leaf_of(["w"], writes="s"), leaf_of(["r"], reads="s")])
    block = with_barriers(block, _SAME)
    assert not block.items[1].fence


def _load(buffer):
    return leaf_of(["tma"], loads=buffer)


def test_a_tma_load_waits_for_the_readers_of_the_tile():
    block = Block([_load("s"), leaf_of(["wait"]), leaf_of(["r"], reads="s"), _load("s")])
    block = with_barriers(block, _SAME)
    assert _kinds(block) == ["Leaf", "Leaf", "Leaf", "Barrier", "Leaf"]
    assert not block.items[3].fence


def test_loads_by_the_accelerator_are_not_ordered_among_themselves():
    block = Block([_load("s"), _load("s"), _load("t")])
    block = with_barriers(block, _SAME)
    assert "Barrier" not in _kinds(block)


def test_a_tma_load_over_thread_writes_follows_a_proxy_fence():
    block = Block([leaf_of(["w"], writes="s"), _load("s")])
    block = with_barriers(block, _SAME)
    assert _kinds(block) == ["Leaf", "Barrier", "Leaf"]
    assert block.items[1].fence
