"""Products of warp groups that programs write themselves: descriptors, single instructions, and their emitter."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda, simulate
from tilelang.cuda.intrinsics.warp_group import WGMMATensorCoreIntrinEmitter, compute_gmma_descriptor, select_wgmma_inst_n
from tilelang.dtypes import canonical
from tilelang.errors import CompileError
from tilelang.ir import nodes as ir
from tilelang.layout import SwizzleMode, make_full_bank_swizzled_layout, make_half_bank_swizzled_layout, make_linear_layout
from tilelang.layout.panels import panel_layout, panel_widths


def by_hand(layout=make_half_bank_swizzled_layout, second=False, scale=1, offset=0):
    """A 64 x 64 x 32 product by T.ptx_wgmma_ss, its accumulators in an array of each thread."""

    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            c = T.alloc_local((32,), "float32")
            if layout is not None:
                T.annotate_layout({a: layout(a), b: make_full_bank_swizzled_layout(b)})
            T.copy(A, a)
            T.copy(B, b)
            left, right = T.alloc_wgmma_desc(), T.alloc_descriptor("wgmma")
            T.initialize_wgmma_descriptor(left, T.access_ptr(a[0, 0], "r"), 2, 1, 32)
            if second:
                T.initialize_wgmma_descriptor(left, b[0, 0], 1, 256, 64)
            T.initialize_wgmma_descriptor(right, T.address_of(b[16, 0]), 1, 256, 64)
            T.increase_descriptor_offset(right, -16 * 64 * 2)
            T.warpgroup_fence_operand(c, num_regs=32)
            T.warpgroup_arrive()
            for k in T.unroll(2):
                T.ptx_wgmma_ss(
                    "float32", "m64n64k16", True, False, "fp16", "fp16", "fp32",
                    left.data, k * 2, right.data, k * 128, c.data, offset, k != 0, scale, 1,
                )  # fmt: skip
            T.warpgroup_commit_batch()
            T.warpgroup_wait(0)
            for r in T.unroll(32):
                row = T.get_warp_idx() * 16 + T.get_lane_idx() // 4 + r // 2 % 2 * 8
                C[row, r // 4 * 8 + T.get_lane_idx() % 4 * 2 + r % 2] = c[r]

    return main


def test_descriptors_and_instructions():
    torch.manual_seed(0)
    a, b, c = torch.randint(-3, 4, (64, 32)).half(), torch.randint(-3, 4, (32, 64)).half(), torch.zeros(64, 64)
    simulate(by_hand(), a, b, c, arch="sm_90a")
    assert torch.equal(c, a.float() @ b.float())


@pytest.mark.parametrize(
    ("program", "target", "message"),
    [
        (lambda: by_hand(layout=None), cuda("sm_90a"), "T.ptx_wgmma_ss: the program does not fix the layout of a"),
        (lambda: by_hand(second=True), cuda("sm_90a"), "T.initialize_wgmma_descriptor: the descriptor is of a already"),
        (lambda: by_hand(scale=-1), cuda("sm_90a"), "products are not negated"),
        (by_hand, cuda(), "T.initialize_wgmma_descriptor needs sm_90a, the target is sm_80"),
        (by_hand, "cpu", "T.initialize_wgmma_descriptor"),
    ],
)
def test_errors(program, target, message):
    with pytest.raises(CompileError, match=message):
        tilelang.compile(program(), target=target)


def test_the_interpreter_has_no_addresses():
    with pytest.raises(CompileError, match="works on addresses, which the interpreter does not have"):
        with tilelang.interpret():
            tilelang.compile(by_hand())


def panels(tile):
    bits, shape = canonical(str(tile.dtype)).bits, [int(size) for size in tile.shape]
    return panel_layout(shape, bits, panel_widths(shape, bits)[0])


def product(e, m, n, steps, held, whole):
    """C (m, n) over ``steps`` tiles along K; A in registers with ``held``, single instructions without ``whole``."""
    a_shape = (e.chunk, m) if e.a_transposed else (m, e.chunk)
    b_shape = (n, e.chunk) if e.b_transposed else (e.chunk, n)

    @T.prim_func
    def main(
        A: T.Tensor((steps, *a_shape), e.a_dtype), B: T.Tensor((steps, *b_shape), e.b_dtype), C: T.Tensor((m, n), e.accum_dtype)
    ):
        with T.Kernel(1, threads=e.threads):
            a, b = T.alloc_shared(a_shape, e.a_dtype), T.alloc_shared(b_shape, e.b_dtype)
            x, c = T.alloc_fragment(a_shape, e.a_dtype), T.alloc_fragment((m, n), e.accum_dtype)
            T.annotate_layout({a: panels(a), b: panels(b), c: e.make_mma_store_layout(c)})
            e._assign_a_shared_layout(panels(a))._assign_b_shared_layout(panels(b))
            if held:
                T.annotate_layout({x: e.make_mma_load_layout(x)})
            for ko in T.serial(steps):
                T.copy(A[ko, 0, 0], a)
                T.copy(B[ko, 0, 0], b)
                if held:
                    T.copy(a, x)
                if whole:
                    e.wgmma(x if held else a, b, c, ko == 0)
                else:
                    left, right = T.alloc_wgmma_desc(), T.alloc_wgmma_desc()
                    a_params, b_params = e.compute_wgmma_a_desc_params(a), e.compute_wgmma_b_desc_params(b)
                    e.init_wgmma_a_desc(left, a, a_params)
                    e.init_wgmma_b_desc(right, b, b_params)
                    e.wgmma_fence_c(c)
                    e.wgmma_arrive()
                    for i, j, k in T.grid(e.wgmma_num_inst_m, e.wgmma_num_inst_n, e.wgmma_num_k_atoms):
                        if held:
                            e.wgmma_rs_atom(x, right, c, i, j, k, b_params, ko == 0)
                        else:
                            e.wgmma_ss_atom(left, right, c, i, j, k, a_params, b_params, ko == 0)
                    e.wgmma_commit()
                    e.wgmma_wait(0)
                    e.wgmma_fence_c(c)
            T.copy(c, C)

    return main


@pytest.mark.parametrize(
    ("kind", "accumulator", "transposed", "sizes", "warps", "held", "whole"),
    [
        ("float16", "float32", (False, False), (128, 96, 64), (4, 1), False, True),
        ("bfloat16", "float32", (True, True), (128, 64, 64), (4, 1), False, False),
        ("float16", "float16", (False, True), (256, 64, 32), (8, 1), False, True),
        ("float16", "float32", (False, True), (128, 64, 64), (4, 2), True, False),
        ("int8", "int32", (False, True), (64, 64, 64), (4, 1), False, False),
        ("float32", "float32", (False, True), (64, 64, 32), (4, 1), True, True),
    ],
)
def test_an_emitter_multiplies(kind, accumulator, transposed, sizes, warps, held, whole):
    (m, n, k), (rows, columns), steps = sizes, warps, 2
    e = WGMMATensorCoreIntrinEmitter(
        kind, kind, accumulator, *transposed, rows, columns, warp_row_tiles=m // rows, warp_col_tiles=n // columns, chunk=k
    )
    torch.manual_seed(0)
    a, b = torch.randint(-3, 4, (steps, m, k)), torch.randint(-3, 4, (steps, k, n))
    left, right = (each.mT.contiguous() if t else each for each, t in zip((a, b), transposed))
    c = torch.zeros(m, n, dtype=getattr(torch, accumulator))
    simulate(
        product(e, m, n, steps, held, whole), left.to(getattr(torch, kind)), right.to(getattr(torch, kind)), c, arch="sm_90a"
    )
    assert torch.equal(c.double(), (a.double() @ b.double()).sum(0))


def test_unsupported_arguments_of_an_emitter_are_refused():
    with pytest.raises(CompileError, match="four warps along m"):
        WGMMATensorCoreIntrinEmitter(block_row_warps=2, warp_row_tiles=16)
    e = WGMMATensorCoreIntrinEmitter(block_row_warps=4, warp_row_tiles=16, warp_col_tiles=96)
    assert (e.wgmma_prefix, e.wgmma_num_inst_n, e.wgmma_accum_regs, e.wgmma_a_regs) == ("m64n96k16", 1, 24, 4)
    tile = ir.decl_buffer((64, 16), "float16", scope="shared.dyn", layout=None)
    with pytest.raises(CompileError, match="is not in panels"):
        compute_gmma_descriptor(make_linear_layout(tile), tile, False)


def test_widths_and_modes():
    assert [select_wgmma_inst_n(columns) for columns in (8, 24, 96, 160, 256, 320, 512)] == [8, 8, 96, 160, 256, 160, 256]
    assert [mode.wgmma_layout_type() for mode in SwizzleMode] == [0, 3, 2, 1]
    assert [mode.smem_alignment() for mode in SwizzleMode] == [128, 256, 512, 1024]
