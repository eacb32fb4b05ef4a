"""Products that a program leaves in flight, where they need registers of their own or are complete at their end."""

from __future__ import annotations

import itertools

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from testing.python.target.definition import meaning


def on_hopper(program, *tensors) -> None:
    """Checks a program of sm_90a beside the interpreter."""
    wanted, found = meaning(program, *tensors), [tensor.clone() for tensor in tensors]
    simulate(program, *found, arch="sm_90a")
    assert all(map(torch.equal, wanted, found))


def some(*shape) -> torch.Tensor:
    return torch.randint(-2, 3, shape).half()


def copies_in_flight(program) -> list[str]:
    """The lines between a product that is started and its wait that mention its accumulator."""
    text = source(program, "sm_90a")
    _, *started = text.split("tl::wgmma_commit();")
    return [line for part in started for line in part.split("tl::wgmma_wait<")[0].splitlines() if "C_local" in line]


@pytest.mark.parametrize("left", ["shared", "part"])
@pytest.mark.parametrize("rows", [64, 48])
@pytest.mark.parametrize("product", [T.wgmma_gemm, lambda a, b, c: T.gemm(a, b, c, wg_wait=-1)], ids=["wgmma_gemm", "wg_wait"])
def test_parts_of_fragments_are_copied_when_the_product_is_complete(product, rows, left):
    @T.prim_func
    def main(A: T.Tensor((rows, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((rows, 128), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((rows, 64), "float16"), T.alloc_shared((64, 64), "float16")
            wide = T.alloc_fragment((rows, 128), "float16")
            C_local = T.alloc_fragment((rows, 128), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(A, wide[:, 64:128])
            T.fill(C_local, 2)
            product(wide[:, 64:128] if left == "part" else a, b, C_local[:, 64:128])
            T.wait_wgmma(0)
            T.copy(C_local, C)

    on_hopper(main, some(rows, 64), some(64, 64), torch.zeros(rows, 128))
    assert not copies_in_flight(main)


def test_a_pipelined_product_into_a_part_of_a_fragment_is_not_deferred():
    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 128), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            C_local = T.alloc_fragment((64, 128), "float32")
            T.fill(C_local, 2)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, C_local[:, 64:128])
            T.copy(C_local, C)

    on_hopper(main, some(64, 256), some(256, 64), torch.zeros(64, 128))
    assert not copies_in_flight(main)


@pytest.mark.parametrize("wait", [-1, 1])
def test_a_product_that_is_complete_at_its_end_is_the_newest_one(wait):
    """Warp groups multiply 64 rows, so that the second product is one of warps: it is counted, and nothing waits for it."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((96, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            first, second = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((32, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.wgmma_gemm(a, b, first, clear_accum=True)
            T.gemm(a[0:32, :], b, second, clear_accum=True, wg_wait=wait)
            T.wait_wgmma(1)
            for i, j in T.Parallel(64, 64):
                first[i, j] = first[i, j] * 2
            T.copy(first, C[0:64, :])
            T.wait_wgmma(0)
            T.copy(second, C[64:96, :])

    on_hopper(main, some(64, 64), some(64, 64), torch.zeros(96, 64))


def test_a_sparse_product_is_complete_at_its_end():
    """K = 16 is no multiple of what `mma.sp` takes, so that warp groups multiply the expanded operand."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 8), "float16"), E: T.Tensor((64, 1), "int16"),
        B: T.Tensor((16, 64), "float16"), C: T.Tensor((64, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            a, e = T.alloc_shared((64, 8), "float16"), T.alloc_shared((64, 1), "int16")
            b, c = T.alloc_shared((16, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(E, e)
            T.copy(B, b)
            T.gemm_sp(a, e, b, c, clear_accum=True, wg_wait=-1)
            for i, j in T.Parallel(64, 64):
                c[i, j] = c[i, j] * 2
            T.copy(c, C)

    on_hopper(main, some(64, 8), torch.full((64, 1), 0x4444, dtype=torch.int16), some(16, 64), torch.zeros(64, 64))


COLUMNS = T.Fragment((64, 64), forward_fn=lambda i, j: (i % 32 * 4 + j % 4, i // 32 * 16 + j // 4))


@pytest.mark.parametrize("where", ["part", "annotated"])
def test_a_product_that_the_compiler_leaves_in_flight_is_complete_where_layouts_conflict(where):
    """Warps multiply a part that begins within eight rows, and leave their result in other threads than warp groups do."""

    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            if where == "annotated":
                T.annotate_layout({c: COLUMNS})
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                if where == "part":
                    T.gemm(a[:, 8:40], b[16:48, :], c)
                T.gemm(a, b, c)
            T.copy(c, C)

    on_hopper(main, some(64, 256), some(256, 64), torch.zeros(64, 64))


@pytest.mark.parametrize("operand", ["left", "result"])
def test_a_product_of_the_program_is_complete_where_layouts_conflict(operand):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_fragment((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.annotate_layout({a if operand == "left" else c: COLUMNS})
            T.copy(A, a)
            T.copy(B, b)
            T.wgmma_gemm(a, b, c, clear_accum=True)
            T.wait_wgmma(0)
            T.copy(c, C)

    on_hopper(main, some(64, 64), some(64, 64), torch.zeros(64, 64))


def test_a_result_in_flight_is_not_converted_before_a_loop_that_waits_for_it():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c, turned = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(turned)
            T.wgmma_gemm(a, b, c, clear_accum=True)
            for _k in T.serial(3):
                T.wait_wgmma(0)
                for i, j in T.Parallel(64, 64):
                    turned[j, i] += c[i, j]
            T.gemm(a, b, turned)
            T.copy(turned, C)

    on_hopper(main, some(64, 64), some(64, 64), torch.zeros(64, 64))


@pytest.mark.parametrize("group", [0, 1])
@pytest.mark.parametrize("waiting", ["all", "group"])
def test_a_product_that_a_branch_would_leave_in_flight_is_complete_at_its_end(waiting, group):
    """Where branches meet, accumulators are moved to other registers, or to the fragment of the block."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.fill(c, 1)
            with T.ws(group):
                T.wgmma_gemm(a, b, c)
            T.sync_threads()
            if waiting == "all":
                T.wait_wgmma(0)
            else:
                with T.ws(group):
                    T.wait_wgmma(0)
            for i, j in T.Parallel(64, 64):
                c[i, j] = c[i, j] * 2
            T.copy(c, C)

    on_hopper(main, some(64, 64), some(64, 64), torch.zeros(64, 64))


def pins_behind(program, wait: str) -> list[str]:
    """The accumulators that are kept from being read before the last such wait."""
    _, behind = source(program, "sm_90a").rsplit(wait, 1)
    lines = itertools.takewhile(lambda line: "fence_operand" in line, behind.strip().splitlines())
    return [line.split("(")[1].rstrip(");") for line in lines]


def test_registers_of_a_product_in_flight_are_left_alone_by_a_wait_for_one_before():
    """Both loops add to one accumulator; the wait in the second one leaves its own product in flight."""

    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            a2, b2 = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, 128 + k * 64], a2)
                T.copy(B[128 + k * 64, 0], b2)
                T.gemm(a2, b2, c)
            T.copy(c, C)

    on_hopper(main, some(64, 256), some(256, 64), torch.zeros(64, 64))
    assert pins_behind(main, "tl::wgmma_wait<1>();") == []


def test_results_of_older_products_are_not_read_before_one_that_completes_them():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            first, second = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.wgmma_gemm(a, b, first, clear_accum=True)
            T.gemm(b, a, second, clear_accum=True, wg_wait=1)
            T.copy(first, C[0:64, :])
            T.wait_wgmma(0)
            T.copy(second, C[64:128, :])

    on_hopper(main, some(64, 64), some(64, 64), torch.zeros(128, 64))
    text = source(main, "sm_90a")
    wait, read = text.index("tl::wgmma_wait<0>();"), text.index("*>(C ")
    assert "fence_operand<32>(first)" in text[wait:read]
