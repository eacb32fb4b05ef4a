"""Programs for sm_90a that issue copies, products and barriers themselves, on the simulator with every checker on."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.hopper import random
from testing.python.target.cuda.support import simulate, source
from tilelang import interpreter
from tilelang.errors import CompileError, SimulatorError


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


@pytest.mark.parametrize("shape", [(1024,), (8, 72)])
def test_a_ring_lies_in_consecutive_parts_of_one_tile(shape: tuple[int, ...]) -> None:
    """Neither of whole axes nor of panels: elements or rows from a multiple of 128 bytes on."""
    part = shape[0] // 4 if len(shape) == 1 else 4
    stages, steps = shape[0] // part, 6

    @T.prim_func
    def main(A: T.Tensor((steps * part, *shape[1:]), "float32"), C: T.Tensor((steps * part, *shape[1:]), "float32")):
        with T.Kernel(1, threads=64):
            ring = T.alloc_shared(shape, "float32")
            full = T.alloc_barrier([1] * stages)
            for step in T.serial(steps):
                low = step % stages * part
                T.tma_copy(A[step * part : (step + 1) * part], ring[low : low + part], barrier=full[step % stages])
                if T.shuffle_elect(64):
                    T.barrier_arrive(full[step % stages])
                T.mbarrier_wait_parity(full[step % stages], step // stages % 2)
                T.tma_copy(ring[low : low + part], C[step * part : (step + 1) * part])
                T.tma_store_arrive()
                T.tma_store_wait()
                T.sync_threads()

    a = torch.randn(steps * part, *shape[1:])
    c = torch.zeros_like(a)
    simulate(main, a, c, arch="sm_90a")
    assert torch.equal(c, a)


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


@pytest.mark.parametrize(
    ("groups", "every", "waits", "races"),
    [(1, 128, True, False), (1, 128, False, True), (2, 128, True, False), (2, 256, True, True)],
    ids=["one thread", "before the wait", "one of each group", "one of two groups"],
)
@pytest.mark.parametrize("config", [{}, {"tl.disable_wgmma": True}], ids=["wgmma", "mma"])
def test_a_thread_hands_back_what_its_warp_group_has_multiplied(
    groups: int, every: int, waits: bool, races: bool, config: dict[str, bool]
) -> None:
    @T.prim_func
    def main(A: T.Tensor((128, 64), "float16"), B: T.Tensor((64, 16), "float16"), C: T.Tensor((64 * groups, 16), "float32")):
        with T.Kernel(1, threads=128 * groups + 32):
            a, b = T.alloc_shared((64 * groups, 32), "float16"), T.alloc_shared((32, 16), "float16")
            c = T.alloc_fragment((64 * groups, 16), "float32")
            full, empty = T.alloc_barrier(32), T.alloc_barrier(128 * groups // every)
            tx = T.get_thread_binding()
            if tx < 128 * groups:
                T.clear(c)
                for k in T.serial(2):
                    T.mbarrier_wait_parity(full, k)
                    T.wgmma_gemm(a, b, c)
                    if waits:
                        T.wait_wgmma(0)
                    if tx % every == 0:
                        T.mbarrier_arrive(empty)
                    if not waits:
                        T.wait_wgmma(0)
                T.copy(c, C)
            else:
                for k in T.serial(2):
                    T.mbarrier_wait_parity(empty, k ^ 1)
                    T.copy(A[0 : 64 * groups, k * 32 : k * 32 + 32], a)
                    T.copy(B[k * 32 : k * 32 + 32, :], b)
                    T.fence_proxy_async()
                    T.mbarrier_arrive(full)

    a, b, c = random(128, 64, seed=1), random(64, 16, seed=2), torch.zeros(64 * groups, 16)
    assert ("race" in [finding.kind for finding in interpreter.run(main, a, b, c.clone())]) == races
    if races and not config:
        with pytest.raises(SimulatorError, match="race"):
            simulate(main, a, b, c, arch="sm_90a", pass_configs=config)
    if races:
        return
    simulate(main, a, b, c, arch="sm_90a", pass_configs=config)
    torch.testing.assert_close(c, a[: 64 * groups].float() @ b.float(), rtol=1e-3, atol=1e-3)


def test_a_product_in_flight_does_not_make_its_threads_forget_what_they_learn_meanwhile() -> None:
    @T.prim_func
    def main(
        A: T.Tensor((2, 64, 64), "float16"),
        B: T.Tensor((64, 16), "float16"),
        C: T.Tensor((64, 16), "float32"),
        D: T.Tensor((64, 64), "float16"),
    ):
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((2, 64, 64), "float16"), T.alloc_shared((64, 16), "float16")
            c = T.alloc_fragment((64, 16), "float32")
            full = T.alloc_barrier([128, 128])
            with T.ws(1):
                T.copy(B, b)
                for k in T.serial(2):
                    T.copy(A[k, :, :], a[k, :, :])
                    T.fence_proxy_async()
                    T.mbarrier_arrive(full[k])
            with T.ws(0):
                T.clear(c)
                T.mbarrier_wait_parity(full[0], 0)
                T.wgmma_gemm(a[0, :, :], b, c)
                T.mbarrier_wait_parity(full[1], 0)
                T.wait_wgmma(0)
                T.async_copy(A[0, :, :], a[1, :, :])
                T.ptx_wait_group(0)
                T.copy(a[1, :, :], D)
                T.copy(c, C)

    a, b = random(2, 64, 64, seed=1), random(64, 16, seed=2)
    assert interpreter.run(main, a, b, torch.zeros(64, 16), torch.zeros(64, 64).half()) == []
