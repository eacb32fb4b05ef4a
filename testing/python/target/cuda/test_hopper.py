"""Kernels for sm_90a against torch, on the simulator with every checker on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.hopper import attention, check_matmul, random
from testing.python.target.cuda.programs import matmul
from testing.python.target.cuda.support import simulate, source
from tilelang.layout import make_swizzled_layout
from tilelang.target.cuda.toolchain import sass
from tilelang.target.cuda.toolchain.compile import compile_device

pytestmark = pytest.mark.assembled


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_every_order_of_operands(transpose_a: bool, transpose_b: bool) -> None:
    text = check_matmul(128, 128, 128, (64, 64, 64), stages=3, transpose_a=transpose_a, transpose_b=transpose_b)
    assert "tl::tma_load_2d" in text and "tl::wgmma_m64" in text and "set_max_nreg" in text


@pytest.mark.parametrize(("dtype", "accumulate"), [
    ("bfloat16", "float32"), ("float16", "float16"), ("float32", "float32"), ("int8", "int32"), ("uint8", "int32"),
    ("float8_e4m3fn", "float32"), ("float8_e5m2", "float32"),
])  # fmt: skip
def test_types(dtype: str, accumulate: str) -> None:
    assert "tl::wgmma_m64" in check_matmul(64, 64, 128, (64, 64, 64), dtype=dtype, accumulate=accumulate, transpose_b=True)


@pytest.mark.parametrize(("m", "n", "k"), [(200, 136, 72), (70, 72, 40), (64, 8, 8), (1, 64, 64)])
def test_ragged_sizes_are_cut_by_the_accelerator(m: int, n: int, k: int) -> None:
    assert "tl::tma_load_2d" in check_matmul(m, n, k, (64, 64, 32), stages=3)


@pytest.mark.parametrize("n", [65, 68, 71])
def test_rows_that_are_not_multiples_of_16_bytes_are_copied_by_threads(n: int) -> None:
    text = check_matmul(64, n, 64, (64, 64, 32), stages=2, out="float16")
    assert text.count("tl::tma_load_2d(") <= 1 + text.count("A_map,")


def test_run_time_sizes() -> None:
    m, n, k = (T.dynamic(name) for name in "mnk")
    check_matmul(100, 72, 40, (64, 64, 32), sizes=(m, n, k))
    assert "tma_load" in check_matmul(100, 72, 64, (64, 64, 32), sizes=(m, 72, 64))


@pytest.mark.parametrize("threads", [128, 256, 384])
@pytest.mark.parametrize("policy", [0, 1, 2])
def test_warp_groups_share_the_tile(threads: int, policy: int) -> None:
    check_matmul(128, 192, 64, (128, 192, 32), threads=threads, policy=policy)


@pytest.mark.parametrize("stages", [0, 1, 2, 4])
def test_stages(stages: int) -> None:
    check_matmul(64, 64, 192, (64, 64, 32), stages=stages)


@pytest.mark.parametrize("key", ["tl.disable_warp_specialized", "tl.disable_tma_lower", "tl.disable_wgmma"])
@pytest.mark.parametrize("stages", [2, 3])
def test_parts_that_are_switched_off(key: str, stages: int) -> None:
    text = check_matmul(128, 64, 128, (64, 64, 32), stages=stages, pass_configs={key: True})
    absent = {
        "tl.disable_warp_specialized": "set_max_nreg", "tl.disable_tma_lower": "tma_load", "tl.disable_wgmma": "wgmma_m64",
    }  # fmt: skip
    assert absent[key] not in text


@pytest.mark.parametrize(("n", "width", "accelerated"), [(64, 64, True), (128, 128, True), (136, 128, True), (68, 64, False)])
def test_an_epilogue_through_shared_memory_is_stored_by_tma(n: int, width: int, accelerated: bool) -> None:
    text = check_matmul(128, n, 64, (64, width, 32), out="float16", through_shared=True)
    assert ("tl::tma_store_2d" in text) == accelerated


def test_narrow_tiles_are_multiplied_by_mma_sync() -> None:
    assert "tl::mma_m16n8k16" in check_matmul(32, 64, 64, (32, 64, 32))


def test_the_main_loop_is_lean() -> None:
    text = source(matmul(512, 512, 512, (128, 128, 64), stages=3), "sm_90a")
    binary = compile_device(text, "sm_90a")
    (function,) = sass.functions(binary.cubin).values()
    (used,) = binary.resources.values()
    assert used.stack_bytes == used.spill_store_bytes == 0
    assert "setmaxnreg" not in binary.log and "serialized" not in binary.log
    assert function.counts()["UTMALDG"] == 3
    loop = function.main_loop("HGMMA")
    assert sum(i.family == "HGMMA" for i in loop) == 8
    assert len(loop) <= 80


@pytest.mark.parametrize(("length", "dim", "options"), [
    (128, 64, {}), (128, 64, {"causal": True}), (256, 64, {"block": (128, 64), "threads": 256}), (128, 128, {"stages": 3}),
    (100, 64, {}), (100, 64, {"causal": True}),
])  # fmt: skip
def test_flash_attention(length: int, dim: int, options: dict) -> None:
    q, k, v = (random(1, length, 2, dim, seed=seed) for seed in range(3))
    o = torch.zeros_like(q)
    program = attention(2, length, dim, **options)
    simulate(program, q, k, v, o, arch="sm_90a")
    heads_first = [x.transpose(1, 2).float() for x in (q, k, v)]
    want = torch.nn.functional.scaled_dot_product_attention(*heads_first, is_causal=options.get("causal", False)).transpose(1, 2)
    torch.testing.assert_close(o.float(), want, rtol=1e-2, atol=2e-3)
    text = source(program, "sm_90a")
    assert "tl::tma_load_4d" in text and "_rs_tb" in text and "set_max_nreg" in text


def test_a_persistent_kernel_goes_on_with_its_barriers() -> None:
    @T.prim_func
    def main(A: T.Tensor((256, 128), "float16"), B: T.Tensor((128, 128), "float16"), C: T.Tensor((256, 128), "float32")):
        with T.Kernel(2, threads=128) as bx:
            A_shared = T.alloc_shared((64, 32), "float16")
            B_shared = T.alloc_shared((32, 64), "float16")
            C_local = T.alloc_fragment((64, 64), "float32")
            for tile in T.serial(4):
                T.clear(C_local)
                for ko in T.Pipelined(4, num_stages=3):
                    T.copy(A[tile * 64, ko * 32], A_shared)
                    T.copy(B[ko * 32, bx * 64], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
                T.copy(C_local, C[tile * 64, bx * 64])

    a, b, c = random(256, 128, seed=1), random(128, 128, seed=2), torch.zeros(256, 128)
    simulate(main, a, b, c, arch="sm_90a")
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-3)


def test_views_of_arguments_are_moved_by_the_accelerator() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 32, 64), "float16"), B: T.Tensor((128, 64), "float16")):
        with T.Kernel(1, threads=128):
            rows = T.Tensor((128, 64), "float16", A.data)
            target = T.view(B, (2, 64, 64))
            tile = T.alloc_shared((128, 64), "float16")
            T.copy(rows, tile)
            for half in T.serial(2):
                T.copy(tile[half * 64 : half * 64 + 64, :], target[half, :, :])

    a, b = torch.randn(4, 32, 64).half(), torch.zeros(128, 64).half()
    simulate(main, a, b, arch="sm_90a")
    assert torch.equal(b, a.view(128, 64)) and "tma_store" in source(main, arch="sm_90a")


def test_a_reduction_into_global_memory_by_the_accelerator() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 64, 64), "float32"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(4, threads=128) as bx:
            A_shared = T.alloc_shared((64, 64), "float32")
            T.copy(A[bx, :, :], A_shared)
            T.atomic_add(C, A_shared, use_tma=True)

    a, c = random(4, 64, 64, dtype="float32"), torch.zeros(64, 64)
    simulate(main, a, c, arch="sm_90a")
    torch.testing.assert_close(c, a.sum(0))
    assert "tl::tma_reduce_add_2d" in source(main, "sm_90a")


def test_a_product_is_reduced_into_global_memory_by_tma() -> None:
    """The tile that takes the results lies in panels, as the accelerator reads them."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c, tile = T.alloc_fragment((64, 64), "float32"), T.alloc_shared((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, tile)
            T.atomic_add(C, tile, use_tma=True)

    a, b, c = random(64, 64), random(64, 64), torch.ones(64, 64)
    simulate(main, a, b, c, arch="sm_90a")
    torch.testing.assert_close(c, 1 + a.float() @ b.float(), rtol=1e-2, atol=1e-2)
    assert "tl::tma_reduce_add_2d" in source(main, "sm_90a")


@pytest.mark.parametrize(("block_k", "transposed"), [(32, True), (64, False), (128, False), (128, True)])
def test_a_request_for_swizzled_tiles_is_accepted_without_effect(block_k: int, transposed: bool) -> None:
    """``make_swizzled_layout`` asks for a layout without bank conflicts; those of TMA and wgmma have none."""

    def gemm(annotated: bool) -> Any:
        @T.prim_func
        def main(
            A: T.Tensor((128, 256), "float16"),
            B: T.Tensor((128, 256) if transposed else (256, 128), "float16"),
            C: T.Tensor((128, 128), "float16"),
        ):
            with T.Kernel(1, threads=128):
                a = T.alloc_shared((128, block_k), "float16")
                b = T.alloc_shared((128, block_k) if transposed else (block_k, 128), "float16")
                c, out = T.alloc_fragment((128, 128), "float32"), T.alloc_shared((128, 128), "float16")
                if annotated:
                    T.annotate_layout({tile: make_swizzled_layout(tile) for tile in (a, b, out)})
                T.clear(c)
                for k in T.Pipelined(256 // block_k, num_stages=2):
                    T.copy(A[0, k * block_k], a)
                    if transposed:
                        T.copy(B[0, k * block_k], b)
                    else:
                        T.copy(B[k * block_k, 0], b)
                    T.gemm(a, b, c, transpose_B=transposed)
                T.copy(c, out)
                T.copy(out, C)

        return main

    assert source(gemm(True), "sm_90a") == source(gemm(False), "sm_90a")
    a, b = random(128, 256), random(*((128, 256) if transposed else (256, 128)))
    c = torch.zeros(128, 128, dtype=torch.float16)
    simulate(gemm(True), a, b, c, arch="sm_90a")
    torch.testing.assert_close(c.float(), a.float() @ (b.T if transposed else b).float(), rtol=1e-2, atol=1e-2)


def test_operands_that_are_written_after_a_wait_wait_for_the_other_warps():
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16"), B: T.Tensor((16, 32), "float16"), C: T.Tensor((64, 16), "float32")):
        with T.Kernel(1, threads=128):
            left, right = T.alloc_shared((64, 32), "float16"), T.alloc_shared((16, 32), "float16")
            turned, result = T.alloc_shared((64, 16), "float32"), T.alloc_fragment((64, 16), "float32")
            T.copy(A, left)
            T.copy(B, right)
            T.clear(result)
            T.wgmma_gemm(left, right, result, transpose_B=True)
            T.fill(turned, 1)
            T.sync_threads()
            T.wait_wgmma(0)
            T.clear(right)
            T.copy(right[0:16, 0:16], turned[0:16, :])
            for i, j in T.Parallel(64, 16):
                C[i, j] = result[i, j] + turned[i, j]

    a, b, c = torch.randn(64, 32).half(), torch.randn(16, 32).half(), torch.zeros(64, 16)
    simulate(main, a, b, c, arch="sm_90a")
    wanted = a.float() @ b.float().T
    wanted[16:] += 1
    torch.testing.assert_close(c, wanted, rtol=1e-3, atol=1e-3)
