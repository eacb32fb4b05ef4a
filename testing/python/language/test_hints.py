"""Hints do not change what a program computes, and say so when they are wrong."""

import pytest
import torch

import tilelang.language as T
from tilelang.errors import CompileError

from ..frontend.support import error_at_mark
from .support import random, run


def test_hints_change_nothing():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(4, 4, threads=128) as (bx, by):
            tile = T.alloc_shared((16, 16), "float32")
            T.use_swizzle(4, order="column")
            T.use_swizzle(panel_size=10, enable=False)
            T.annotate_l2_hit_ratio({A: 0.7})
            T.annotate_restrict_buffers(A, B)
            T.annotate_min_blocks_per_sm(2)
            T.set_max_nreg(240, 1)
            T.dec_max_nreg(24)
            T.annotate_producer_reg_dealloc(24)
            T.annotate_consumer_reg_alloc(240)
            T.no_set_max_nreg()
            T.disable_warp_group_reg_alloc()
            T.assume(bx >= 0)
            T.copy(A[by * 16, bx * 16], tile, coalesced_width=4, disable_tma=True, eviction_policy="evict_last")
            T.copy(tile, B[by * 16, bx * 16])

    a = random((64, 64), torch.float32)
    assert torch.equal(run(main, a, out_idx=-1), a)


def test_columns_of_blocks_have_two_names():
    def program(order):
        @T.prim_func
        def main(A: T.Tensor((64, 64), "float32")):
            with T.Kernel(4, 4, threads=32) as (bx, by):
                T.use_swizzle(4, order=order)
                A[by, bx] = 1.0

        return main.script()

    assert program("col") == program("column") != program("row")


def test_an_assumption_about_a_size_may_stand_before_the_kernel():
    stride = T.dynamic("stride")

    @T.prim_func
    def main(A: T.StridedTensor((4, 8), (stride, 1), "int32"), B: T.Tensor((4, 8), "int32")):
        T.assume(stride % 8 == 0)
        with T.Kernel(1, threads=32):
            T.copy(A, B)

    a = torch.arange(64, dtype=torch.int32).reshape(4, 16)[:, :8]
    assert torch.equal(run(main, a, out_idx=-1), a)


def test_layouts_change_nothing():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            turned = T.alloc_shared((64, 64), "float16")
            T.annotate_layout({tile: T.make_swizzled_layout(tile), turned: T.Layout((64, 64), lambda i, j: (j, i))})
            T.copy(A, tile)
            T.copy(tile, turned)
            T.copy(turned, B)

    a = random((64, 64), torch.float16)
    assert torch.equal(run(main, a, out_idx=-1), a)


@pytest.mark.parametrize(
    "hint,message",
    [
        (lambda A: T.use_swizzle(4, order="diagonal"), "order='diagonal' is neither 'row' nor 'column'"),
        (lambda A: T.use_swizzle(0), "panel_size=0 is not positive"),
        (lambda A: T.annotate_l2_hit_ratio({A: 1.5}), "1.5 is not between 0 and 1"),
        (lambda A: T.set_max_nreg(100, 1), "100 registers; expected a multiple of 8 from 24 to 256"),
        (lambda A: T.annotate_min_blocks_per_sm(0), "0 is not positive"),
        (lambda A: T.annotate_layout({"A": None}), "str is not a buffer"),
        (lambda A: T.annotate_layout({A: 3}), "int is no layout"),
        (lambda A: T.annotate_restrict_buffers(3), "int is not a buffer"),
    ],
)
def test_mistakes(hint, message):
    with pytest.raises(CompileError, match=message):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                hint(A)


def test_layouts_of_tensors_change_nothing():
    """A caller that fills a tensor in row-major order finds it so, whatever layout a kernel names for it."""

    @T.prim_func
    def main(A: T.Tensor((1024, 1024), "float32"), B: T.Tensor((T.dynamic("n"), 8), "float32")):
        with T.Kernel(1, threads=32):
            T.annotate_layout({A: T.Layout(A.shape, lambda i, j: [j, i]), B: T.Layout(B.shape, lambda i, j: [i // 8, j, i % 8])})
            for i in T.Parallel(8):
                B[1, i] = A[0, i]

    a, b = torch.arange(1024.0 * 1024).reshape(1024, 1024), torch.zeros(2, 8)
    run(main, a, b)
    assert b[1].tolist() == list(range(8))


def test_a_layout_with_shared_places_does_not_fit_a_buffer():
    with error_at_mark(match="two elements of tile share a place"):

        @T.prim_func
        def main(A: T.Tensor((4, 4), "float32")):
            with T.Kernel(1, threads=32):
                tile = T.alloc_shared((4, 4), "float32")
                T.annotate_layout({tile: T.Layout((4, 4), lambda i, j: i + j)})  # <- error


def test_a_layout_of_another_shape_does_not_fit_a_buffer():
    with error_at_mark(match=r"a layout of \[64, 4\] for tile of \[32, 8\]"):

        @T.prim_func
        def main(A: T.Tensor((32, 8), "float32")):
            with T.Kernel(1, threads=32):
                tile = T.alloc_shared((32, 8), "float32")
                T.annotate_layout({tile: T.Fragment((64, 4), lambda i, j: (i % 32, i // 32 * 4 + j))})  # <- error


def test_a_layout_has_no_more_threads_than_the_block():
    with error_at_mark(match="the layout of tile has 64 threads, the block has 32"):

        @T.prim_func
        def main(A: T.Tensor((64, 8), "float32")):
            with T.Kernel(1, threads=32):
                tile = T.alloc_fragment((64, 8), "float32")
                T.annotate_layout({tile: T.Fragment((64, 8), lambda i, j: (i, j))})  # <- error


def test_the_layout_of_a_fragment_may_take_its_shape():
    @T.prim_func
    def main(A: T.Tensor((32, 8), "float32"), B: T.Tensor((32, 8), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((32, 8), "float32")
            T.annotate_layout({tile: T.Fragment(tile.shape, forward_fn=lambda i, j: (i, j))})
            T.copy(A, tile)
            T.copy(tile, B)

    a, b = random((32, 8), torch.float32), torch.zeros(32, 8)
    run(main, a, b)
    assert torch.equal(a, b)
