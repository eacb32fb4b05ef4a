"""Kernels for sm_90a against torch, on the simulator with every checker on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.programs import matmul
from testing.python.target.cuda.support import simulate, source
from tilelang.errors import CompileError
from tilelang.layout import make_swizzled_layout
from tilelang.target.cuda.toolchain import compile_device, sass


def random(*shape: int, dtype: str = "float16", seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype in ("int8", "uint8"):
        return torch.randint(0, 8, shape, generator=generator).to(getattr(torch, dtype))
    return torch.rand(shape, generator=generator).sub(0.5).to(getattr(torch, dtype))


def check_matmul(m: int, n: int, k: int, tile: tuple[int, int, int], *, pass_configs: dict | None = None,
                 sizes: tuple[Any, Any, Any] | None = None, **options: Any) -> str:  # fmt: skip
    """Runs a product; gives its CUDA text."""
    dtype, out = options.get("dtype", "float16"), options.get("out") or options.get("accumulate", "float32")
    ta, tb = options.get("transpose_a", False), options.get("transpose_b", False)
    a = random(*((k, m) if ta else (m, k)), dtype=dtype, seed=1)
    b = random(*((n, k) if tb else (k, n)), dtype=dtype, seed=2)
    c = torch.zeros(m, n, dtype=getattr(torch, out))
    program = matmul(*(sizes or (m, n, k)), tile, **options)
    simulate(program, a, b, c, arch="sm_90a", pass_configs=pass_configs)
    want = (a.T if ta else a).double() @ (b.T if tb else b).double()
    torch.testing.assert_close(c.double(), want, rtol=1e-2, atol=2e-3 * k**0.5)
    return source(program, "sm_90a", pass_configs)


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


def attention(heads: int, length: Any, dim: int, *, block: tuple[int, int] = (64, 64), threads: int = 128, causal: bool = False,
              stages: int = 2) -> Any:  # fmt: skip
    bm, bn = block
    scale = 1.44269504 / dim**0.5
    shape = (1, length, heads, dim)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "float16"), K: T.Tensor(shape, "float16"), V: T.Tensor(shape, "float16"),
        Out: T.Tensor(shape, "float16"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(length, bm), heads, 1, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((bm, dim), "float16")
            K_shared = T.alloc_shared((bn, dim), "float16")
            V_shared = T.alloc_shared((bn, dim), "float16")
            O_shared = T.alloc_shared((bm, dim), "float16")
            scores = T.alloc_fragment((bm, bn), "float32")
            weights = T.alloc_fragment((bm, bn), "float16")
            out = T.alloc_fragment((bm, dim), "float32")
            top = T.alloc_fragment((bm,), "float32")
            before = T.alloc_fragment((bm,), "float32")
            shrink = T.alloc_fragment((bm,), "float32")
            row_sum = T.alloc_fragment((bm,), "float32")
            total = T.alloc_fragment((bm,), "float32")
            T.copy(Q[bz, bx * bm : (bx + 1) * bm, by, :], Q_shared)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            steps = T.ceildiv((bx + 1) * bm, bn) if causal else T.ceildiv(length, bn)
            for k in T.Pipelined(steps, num_stages=stages):
                T.copy(K[bz, k * bn : (k + 1) * bn, by, :], K_shared)
                if causal or not isinstance(length, int) or length % bn:
                    for i, j in T.Parallel(bm, bn):
                        hidden = (k * bn + j > bx * bm + i) if causal else (k * bn + j >= length)
                        scores[i, j] = T.if_then_else(hidden, -T.infinity("float32"), 0)
                else:
                    T.clear(scores)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(bm):
                    shrink[i] = T.exp2(before[i] * scale - top[i] * scale)
                for i, j in T.Parallel(bm, bn):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, row_sum, dim=1)
                for i in T.Parallel(bm):
                    total[i] = total[i] * shrink[i] + row_sum[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(bm, dim):
                    out[i, j] *= shrink[i]
                T.copy(V[bz, k * bn : (k + 1) * bn, by, :], V_shared)
                T.gemm(weights, V_shared, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bm, dim):
                out[i, j] /= total[i]
            T.copy(out, O_shared)
            T.copy(O_shared, Out[bz, bx * bm : (bx + 1) * bm, by, :])

    return main


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


def test_roles_and_barriers_by_hand() -> None:
    """A ring of the program's own: T.ws, T.tma_copy, T.barrier_arrive, T.mbarrier_wait_parity, T.set_max_nreg."""

    @T.prim_func
    def main(A: T.Tensor((128, 256), "float16"), B: T.Tensor((256, 128), "float16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=256):
            A_shared = T.alloc_shared((2, 128, 64), "float16")
            B_shared = T.alloc_shared((2, 64, 128), "float16")
            C_local = T.alloc_fragment((128, 128), "float32")
            full = T.alloc_barrier([128, 128])
            empty = T.alloc_barrier([128, 128])
            with T.ws(1):
                T.set_max_nreg(24, 0)
                for ko in T.serial(4):
                    T.mbarrier_wait_parity(empty[ko % 2], (ko // 2 + 1) % 2)
                    T.tma_copy(A[0:128, ko * 64 : ko * 64 + 64], A_shared[ko % 2, :, :], barrier=full[ko % 2])
                    T.tma_copy(B[ko * 64 : ko * 64 + 64, 0:128], B_shared[ko % 2, :, :], barrier=full[ko % 2])
                    T.barrier_arrive(full[ko % 2])
            with T.ws(0):
                T.set_max_nreg(240, 1)
                T.clear(C_local)
                for ko in T.serial(4):
                    T.mbarrier_wait_parity(full[ko % 2], ko // 2 % 2)
                    T.gemm(A_shared[ko % 2, :, :], B_shared[ko % 2, :, :], C_local)
                    T.barrier_arrive(empty[ko % 2])
                T.copy(C_local, C)

    a, b, c = random(128, 256, seed=1), random(256, 128, seed=2), torch.zeros(128, 128)
    simulate(main, a, b, c, arch="sm_90a")
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_tile_loaded_by_cp_async_may_be_stored_by_tma(arch: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 64), "float16"), B: T.Tensor((4, 64), "float16")):
        with T.Kernel(1, threads=32):
            row, column = T.get_thread_binding(0) // 8, T.get_thread_binding(0) % 8 * 8
            tile = T.alloc_shared((4, 64), "float16")
            T.ptx_cp_async(T.access_ptr(tile[row, column], "w", 8), T.access_ptr(A[row, column], "r", 8), 8)
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.sync_threads()
            T.copy(tile, B)

    a, b = torch.randn(4, 64).half(), torch.zeros(4, 64).half()
    simulate(main, a, b, arch=arch)
    assert torch.equal(a, b)


def test_products_left_in_flight_by_hand() -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_shared = T.alloc_shared((64, 64), "float16")
            B_shared = T.alloc_shared((64, 64), "float16")
            C_local = T.alloc_fragment((64, 64), "float32")
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            T.wgmma_gemm(A_shared, B_shared, C_local, clear_accum=True)
            T.wait_wgmma(0)
            T.copy(C_local, C)

    a, b, c = random(64, 64, seed=1), random(64, 64, seed=2), torch.zeros(64, 64)
    simulate(main, a, b, c, arch="sm_90a")
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-3)


def test_what_a_wait_completes_is_not_read_before_it() -> None:
    @T.prim_func
    def main(A: T.Tensor((128, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_shared = T.alloc_shared((128, 64), "float16")
            B_shared = T.alloc_shared((64, 64), "float16")
            first = T.alloc_fragment((64, 64), "float32")
            second = T.alloc_fragment((64, 64), "float32")
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            for _i in T.serial(2):
                T.wgmma_gemm(A_shared[0:64, :], B_shared, first, clear_accum=True)
                T.gemm(A_shared[64:128, :], B_shared, second, clear_accum=True, wg_wait=-1)
                T.wait_wgmma(1)
                for r, c in T.Parallel(64, 64):
                    first[r, c] = first[r, c] * 2
                T.wait_wgmma(0)
            T.copy(first, C[0:64, :])
            T.copy(second, C[64:128, :])

    a, b, c = random(128, 64, seed=1), random(64, 64, seed=2), torch.zeros(128, 64)
    simulate(main, a, b, c, arch="sm_90a")
    want = a.float() @ b.float()
    want[:64] *= 2
    torch.testing.assert_close(c, want, rtol=1e-3, atol=1e-3)
    lines = [line.strip() for line in source(main, "sm_90a").splitlines()]
    fences = [f"tl::wgmma_fence_operand<32>({name});" for name in ("first", "second")]
    one, both = lines.index("tl::wgmma_wait<1>();"), lines.index("tl::wgmma_wait<0>();")
    assert lines[one + 1] == fences[0] and lines[one + 2] != fences[1]
    assert lines[both + 1 : both + 3] == fences


def test_a_tile_for_every_block_of_a_cluster() -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((2, 64, 64), "float16")):
        with T.ClusterKernel(2, cluster_dims=2, threads=128) as bx:
            A_shared = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(128)
            T.tma_copy(A, A_shared, barrier=full, cluster_mask=3)
            T.barrier_arrive(full)
            T.mbarrier_wait_parity(full, 0)
            for i, j in T.Parallel(64, 64):
                C[bx, i, j] = A_shared[i, j] + T.float16(1)
            T.cluster_sync()

    a, c = random(64, 64), torch.zeros(2, 64, 64, dtype=torch.float16)
    simulate(main, a, c, arch="sm_90a")
    assert torch.equal(c, (a + 1).expand(2, 64, 64))
    assert "tl::tma_load_2d_multicast" in source(main, "sm_90a")


def test_a_block_knows_its_place_in_the_cluster() -> None:
    @T.prim_func
    def main(C: T.Tensor((4, 128), "int32")):
        with T.ClusterKernel(4, cluster_dims=2, threads=128) as bx:
            for i in T.Parallel(128):
                C[bx, i] = T.block_rank_in_cluster() + i

    c = torch.zeros(4, 128, dtype=torch.int32)
    simulate(main, c, arch="sm_90a")
    assert c[:, 0].tolist() == [0, 1, 0, 1]


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


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_dependent_launch(arch: str) -> None:
    """Launches do not overlap before sm_90, so nothing is to wait for."""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), C: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            T.pdl_sync()
            for i in T.Parallel(128):
                C[i] = A[i] * 2
            T.pdl_trigger()

    a, c = random(128, dtype="float32"), torch.zeros(128)
    simulate(main, a, c, arch=arch)
    assert torch.equal(c, a * 2)


@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (32, 128), (8, 64), (64, 192)])
def test_a_part_of_a_tile_is_loaded_and_stored_by_hand(rows: int, columns: int) -> None:
    """Whole panels, from a multiple of eight rows on."""

    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), C: T.Tensor((64, 256), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 256), "float16")
            full = T.alloc_barrier([128] * 2)
            T.clear(tile)
            T.fence_proxy_async()
            T.sync_threads()
            for j in T.unroll(256 // columns if 256 % columns == 0 else 1):
                T.tma_copy(
                    A[64 - rows : 64, j * columns : (j + 1) * columns],
                    tile[64 - rows : 64, j * columns : (j + 1) * columns],
                    barrier=full[0],
                )
            T.barrier_arrive(full[0])
            T.barrier_wait(full[0], 0)
            T.tma_copy(tile[0:64, 64:256], C[0:64, 64:256])
            T.tma_store_arrive()
            T.tma_store_wait()

    a, c = random(64, 256), torch.zeros(64, 256, dtype=torch.float16)
    simulate(main, a, c, arch="sm_90a")
    want = torch.zeros_like(a)
    loaded = 256 if 256 % columns == 0 else columns
    want[64 - rows :, 64:loaded] = a[64 - rows :, 64:loaded]
    assert torch.equal(c, want)


def test_a_part_of_a_panel_cannot_be_loaded() -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(128)
            T.tma_copy(A[0:64, 0:24], tile[0:64, 0:24], barrier=full)
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            T.copy(tile, C)

    with pytest.raises(CompileError, match="T.tma_copy"):
        source(main, "sm_90a")


def test_addresses_from_variables_that_a_loop_computes():
    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "float16"), B: T.Tensor((2, 64, 64), "float16"), G: T.Tensor((2,), "int32"),
        C: T.Tensor((128, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(2, threads=128) as bx:
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            group = T.alloc_var("int32", init=0)
            for i in range(2):
                group = T.if_then_else(bx * 64 >= G[i], i, group)
            start = G[group] + bx * 64 - G[group]
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[start : start + 64, k * 32 : (k + 1) * 32], a)
                T.copy(B[group, k * 32 : (k + 1) * 32, :], b)
                T.gemm(a, b, c)
            T.copy(c, C[start : start + 64, :])

    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(128, 64, generator=generator).half(), torch.randn(2, 64, 64, generator=generator).half()
    c = torch.zeros(128, 64)
    simulate(main, a, b, torch.tensor([0, 64], dtype=torch.int32), c, arch="sm_90a")
    torch.testing.assert_close(c, torch.cat([a[:64].float() @ b[0].float(), a[64:].float() @ b[1].float()]), rtol=1e-3, atol=1e-2)
    assert source(main, "sm_90a").count("tl::tma_load") == 2


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
