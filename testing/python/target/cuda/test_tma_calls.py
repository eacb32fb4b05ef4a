"""T.create_tma_descriptor, T.tma_load and T.tma_store, with every number written by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from tilelang.errors import CompileError, TileLangError
from tilelang.layout import make_swizzled_layout

FLOAT16 = 6
MODES = (0, 3, 2, 0)  # not interleaved, swizzled by 128 bytes, 128 bytes to the L2 cache, zeros outside


def copy_tile(rows: int, columns: int, at: tuple[int, int], numbers: Any = None, modes: tuple = MODES) -> Any:
    """Copies a tile of 64 x 64 of A to the same place of C, through shared memory."""
    numbers = numbers or (columns, rows, 2, columns * 2, 64, 64, 1, 1)

    @T.prim_func
    def main(A: T.Tensor((rows, columns), "float16"), C: T.Tensor((rows, columns), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            T.annotate_layout({tile: make_swizzled_layout(tile)})
            full = T.alloc_barrier(1)
            source_map = T.create_tma_descriptor(FLOAT16, 2, A, *numbers, *modes)
            if T.get_thread_binding() == 0:
                T.mbarrier_expect_tx(full, 64 * 64 * 2)
                T.tma_load(source_map, full[0], tile[0, 0], at[1], at[0])
                T.mbarrier_arrive(full)
            T.mbarrier_wait_parity(full, 0)
            for i, j in T.Parallel(64, 64):
                tile[i, j] = tile[i, j] + T.float16(1)
            T.fence_proxy_async()
            T.sync_threads()
            if T.get_thread_binding() == 0:
                T.tma_store(T.create_tma_descriptor(FLOAT16, 2, C.data, *numbers, *modes), tile, at[1], at[0])
                T.tma_store_arrive()
                T.tma_store_wait(0)

    return main


@pytest.mark.parametrize(("rows", "columns", "at"), [(64, 64, (0, 0)), (128, 192, (64, 128)), (100, 72, (64, 32))])
def test_a_tile_there_and_back(rows: int, columns: int, at: tuple[int, int]) -> None:
    a, c = torch.randn(rows, columns).half(), torch.zeros(rows, columns, dtype=torch.float16)
    simulate(copy_tile(rows, columns, at), a, c, arch="sm_90a")
    want = torch.zeros_like(a)
    part = (slice(at[0], at[0] + 64), slice(at[1], at[1] + 64))
    want[part] = a[part] + 1
    assert torch.equal(c, want)


def test_equal_descriptors_are_one() -> None:
    text = source(copy_tile(64, 64, (0, 0)), "sm_90a")
    assert text.count("CUtensorMap A_map") == text.count("CUtensorMap C_map") == 1
    assert "tl::tma_load_2d(" in text and "tl::tma_store_2d(C_map" in text


@pytest.mark.parametrize(("numbers", "modes", "message"), [
    ((64, 64, 4, 128, 64, 64, 1, 1), MODES, "the innermost stride must be 2 bytes"),
    ((64, 64, 2, 100, 64, 64, 1, 1), MODES, "strides must be multiples of 16 bytes"),
    ((64, 64, 2, 128, 64, 512, 1, 1), MODES, "extents of the box are 1 to 256"),
    ((64, 64, 2, 128, 128, 64, 1, 1), MODES, "rows of the box are 256 bytes"),
    ((64, 64, 2, 128, 64, 64, 1, 1), (0, 7, 2, 0), "no swizzle 7"),
    ((64, 64, 2, 128, 64, 64, 1), MODES, "do not fit together"),
])  # fmt: skip
def test_numbers_that_the_driver_would_refuse(numbers: tuple, modes: tuple, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        source(copy_tile(64, 64, (0, 0), numbers, modes), "sm_90a")


@pytest.mark.parametrize(("columns", "dtype", "shared", "message"), [
    (64, "float16", "float32", "it does not convert, and A is float16, tile float32"),
    (50, "float16", "float16", "rows of A are 100 bytes apart"),
])  # fmt: skip
def test_names_the_rule_that_a_copy_breaks(columns: int, dtype: str, shared: str, message: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64, columns), dtype), B: T.Tensor((32, 32), shared)):
        with T.Kernel(1, threads=128):
            tile, full = T.alloc_shared((32, 32), shared), T.alloc_barrier(1)
            T.tma_copy(A[0, 0], tile, barrier=full)
            T.barrier_wait(full, 0)
            T.copy(tile, B)

    with pytest.raises(CompileError, match=message):
        source(main, "sm_90a")


def test_other_architectures_have_no_descriptors() -> None:
    with pytest.raises(CompileError, match="needs sm_90"):
        source(copy_tile(64, 64, (0, 0)), "sm_80")


def test_a_tile_is_loaded_again_when_all_threads_have_read_it() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            total = T.alloc_fragment((64, 64), "float32")
            full = T.alloc_barrier(128)
            T.clear(total)
            for k in T.serial(4):
                T.tma_copy(A[k, 0:64, 0:64], tile, barrier=full)
                T.barrier_arrive(full)
                T.barrier_wait(full, k % 2)
                T.gemm(tile, tile, total)
            T.copy(total, C)

    a, c = torch.randn(4, 64, 64).half(), torch.zeros(64, 64)
    simulate(main, a, c, arch="sm_90a")
    torch.testing.assert_close(c, (a.float() @ a.float()).sum(0), rtol=1e-2, atol=1e-2)


def test_a_value_beyond_the_tensor_is_not_for_the_accelerator():
    @T.prim_func
    def main(A: T.Tensor((3, 64), "float32"), B: T.Tensor((4, 64), "float32")):
        with T.Kernel(1, threads=32):
            T.annotate_safe_value({A: 3})
            tile, full = T.alloc_shared((4, 64), "float32"), T.alloc_barrier(32)
            T.tma_copy(A[0:4, 0:64], tile, barrier=full)
            T.barrier_arrive(full)
            T.mbarrier_wait_parity(full, 0)
            T.copy(tile, B)

    with pytest.raises(CompileError, match="puts zeros where A ends, not the value of T.annotate_safe_value") as caught:
        source(main, arch="sm_90a")
    assert "tma_copy(A[0:4, 0:64], tile" in str(caught.value)


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("strided", [False, True])
def test_a_row_stride_that_only_a_call_gives_is_checked_by_the_launch(by_hand: bool, strided: bool) -> None:
    n, pitch = T.dynamic("n"), T.dynamic("pitch")
    rows = T.StridedTensor((64, n), (pitch, 1), "float16") if strided else T.Tensor((64, n), "float16")
    stride = (pitch if strided else n) * 2

    @T.prim_func
    def main(A: rows, C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            T.annotate_layout({tile: make_swizzled_layout(tile)})
            full = T.alloc_barrier(1)
            if T.get_thread_binding() == 0:
                if by_hand:
                    T.mbarrier_expect_tx(full, 64 * 64 * 2)
                    numbers = (n, 64, 2, stride, 64, 64, 1, 1)
                    T.tma_load(T.create_tma_descriptor(FLOAT16, 2, A, *numbers, *MODES), full[0], tile[0, 0], 0, 0)
                else:
                    T.tma_copy(A[0:64, 0:64], tile, barrier=full)
                T.mbarrier_arrive(full)
            T.mbarrier_wait_parity(full, 0)
            T.copy(tile, C)

    a, c = torch.randn(64, 136).half(), torch.zeros(64, 64, dtype=torch.float16)
    simulate(main, a[:, :72] if strided else a, c, arch="sm_90a")
    assert torch.equal(c, a[:, :64])
    with pytest.raises(TileLangError, match="258 must be a multiple of 16 bytes"):
        simulate(main, torch.zeros(64, 129).half(), c, arch="sm_90a")
