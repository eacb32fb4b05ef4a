"""What differs between sm_80, sm_86, sm_89 and sm_90a: float8 products, and how much shared memory a block may have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.programs import matmul
from testing.python.target.cuda.support import cuda, simulate, source
from tilelang.errors import CompileError, SharedMemoryError, UnsupportedError

KIB = 1024


def _mixed(left, right, arch):
    """C = A @ B for operands of two float8 types."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), left), B: T.Tensor((64, 64), right), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_shared = T.alloc_shared((64, 64), left)
            B_shared = T.alloc_shared((64, 64), right)
            C_local = T.alloc_fragment((64, 64), "float32")
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True, clear_accum=True)
            T.copy(C_local, C)

    a, b = (torch.randn(64, 64).to(getattr(torch, dtype)) for dtype in (left, right))
    c = torch.zeros(64, 64)
    simulate(main, a, b, c, arch=arch)
    torch.testing.assert_close(c, a.float() @ b.float().T, rtol=1e-3, atol=1e-3)
    return set(re.findall(r"tl::(mma_m\w+|wgmma_m\w+)", source(main, arch)))


@pytest.mark.parametrize("left", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("right", ["float8_e4m3fn", "float8_e5m2"])
def test_float8_products(left, right):
    names = [name.removeprefix("float8_").removesuffix("fn") for name in (left, right)]
    pair = names[0] if left == right else "_".join(names)
    assert _mixed(left, right, "sm_89") == {f"mma_m16n8k32_f32_{pair}"}
    for arch in ("sm_80", "sm_86"):
        assert _mixed(left, right, arch) == {"mma_m16n8k16_f32_f16"}


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90a"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "float64"])
def test_one_product_on_every_architecture(arch, dtype):
    accumulate = {"int8": "int32", "float64": "float64"}.get(dtype, "float32")
    kind = getattr(torch, dtype)
    a, b = (torch.randint(-4, 5, (96, 96)).to(kind) for _ in range(2))
    c = torch.zeros(96, 96, dtype=getattr(torch, accumulate))
    simulate(matmul(96, 96, 96, (64, 32, 32), dtype=dtype, accumulate=accumulate, stages=3), a, b, c, arch=arch)
    assert torch.equal(c, (a.double() @ b.double()).to(c.dtype))


def _keeps(size):
    """A kernel with one shared tile of ``size`` bytes."""

    @T.prim_func
    def main(A: T.Tensor((size // 4,), "float32"), B: T.Tensor((size // 4,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((size // 4,), "float32")
            T.copy(A, tile)
            for i in T.Parallel(size // 4):
                B[i] = tile[size // 4 - 1 - i]

    return main


@pytest.mark.parametrize("arch, limit", [("sm_80", 163), ("sm_86", 99), ("sm_89", 99), ("sm_90a", 227)])
def test_shared_memory_of_a_block(arch, limit):
    source(_keeps(limit * KIB), arch)
    with pytest.raises(SharedMemoryError) as caught:
        source(_keeps((limit + 1) * KIB), arch)
    text = str(caught.value)
    assert f"needs {(limit + 1) * KIB} bytes" in text and f"{arch} has {limit * KIB}" in text and "tile" in text
    assert len(text.splitlines()) < 15


def test_a_pipeline_that_fits_sm_80_only():
    program = matmul(512, 512, 512, (128, 128, 64), stages=4)
    source(program, "sm_80")
    with pytest.raises(SharedMemoryError, match="fewer pipeline stages"):
        source(program, "sm_86")


@pytest.mark.parametrize("left, right", [("int4", "int4"), ("uint4", "uint4"), ("int4", "uint4")])
def test_four_bit_products(left, right):
    @T.prim_func
    def main(A: T.Tensor((32, 128), "int8"), B: T.Tensor((24, 128), "int8"), C: T.Tensor((32, 24), "int32")):
        with T.Kernel(1, threads=64):
            A_shared = T.alloc_shared((32, 128), left)
            B_shared = T.alloc_shared((24, 128), right)
            C_local = T.alloc_fragment((32, 24), "int32")
            T.copy(A, A_shared)
            for i, j in T.Parallel(24, 128):
                B_shared[i, j] = T.cast(B[i, j], right)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True, clear_accum=True)
            T.copy(C_local, C)

    low = {"int4": -8, "uint4": 0}
    a, b = (torch.randint(low[kind], low[kind] + 16, (rows, 128), dtype=torch.int8) for kind, rows in ((left, 32), (right, 24)))
    expected = (a.long() @ b.long().T).int()
    c = torch.zeros(32, 24, dtype=torch.int32)
    simulate(main, a, b, c)
    assert torch.equal(c, expected)
    short = "s4" if left == right == "int4" else "u4" if left == right else "s4_u4"
    assert f"mma_m16n8k64_s32_{short}" in source(main)


def test_neighbouring_four_bit_elements_of_different_threads():
    """Elements that share a byte keep each other's value, whichever thread stores them; values wrap as in four bits."""

    @T.prim_func
    def main(A: T.Tensor((16, 32), "int32"), B: T.Tensor((16, 32), "int32"), C: T.Tensor((16, 32), "int32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((16, 32), "int4")
            local = T.alloc_fragment((16, 32), "int4")
            T.clear(tile)
            for i, j in T.Parallel(16, 32):
                tile[i, 31 - j] = T.cast(A[i, j], "int4")
                local[i, j] = T.cast(A[i, j] + 1, "int4")
            for i, j in T.Parallel(16, 32):
                B[i, j] = T.cast(tile[i, j], "int32")
                C[i, j] = T.cast(local[i, j], "int32")

    a, b, c = torch.randint(-40, 40, (16, 32), dtype=torch.int32), *(torch.zeros(16, 32, dtype=torch.int32) for _ in range(2))
    simulate(main, a, b, c)
    assert torch.equal(b, ((a.flip(1) + 8) % 16 - 8).int()) and torch.equal(c, ((a + 9) % 16 - 8).int())


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90a"])
def test_barriers_in_shared_memory(arch):
    """Two warps store what two others read after an mbarrier's phase; the fence for clusters exists from sm_90 on only."""

    @T.prim_func
    def main(A: T.Tensor((2, 64), "float32"), B: T.Tensor((2, 64), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding(0)
            tile = T.alloc_shared((2, 64), "float32")
            ready = T.alloc_barrier([64, 64])
            if tx < 64:
                for k in T.serial(2):
                    tile[k, tx] = A[k, tx]
                    T.barrier_arrive(ready[k])
            else:
                for k in T.serial(2):
                    T.barrier_wait(ready[k], 0)
                    B[k, tx - 64] = tile[k, 127 - tx]

    a, b = torch.randn(2, 64), torch.zeros(2, 64)
    simulate(main, a, b, arch=arch)
    assert torch.equal(b, a.flip(1))


def test_a_scalar_of_eight_bits_is_refused_by_name():
    @T.prim_func
    def main(scale: T.float8_e4m3fn, B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = scale

    with pytest.raises(CompileError, match="cannot pass argument scale, a scalar of float8_e4m3fn"):
        tilelang.compile(main, target=cuda("sm_80"))


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_fused_products_of_bfloat16_are_rounded_once(arch):
    """The product of the first three is half way between two bfloat16; a float32 drops the rest of the sum, which decides."""

    @T.prim_func
    def main(A: T.Tensor((32, 3), "bfloat16"), B: T.Tensor((32,), "bfloat16")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = T.fma(A[i, 0], A[i, 1], A[i, 2])

    ulp, infinity = 2.0**-7, float("inf")
    rows = [
        ((1.5, 1 + ulp, -(2.0**-40)), 1.5 + ulp),
        ((1.5, 1 + ulp, 2.0**-40), 1.5 + 2 * ulp),
        ((1.5, 1 + ulp, 0), 1.5 + 2 * ulp),
        ((1.5, 2, -3), 0),
        ((3e38, 2, 1), infinity),
        ((infinity, 1, -1), infinity),
        ((2.0**-100, 2.0**-30, 2.0**-133), 2.0**-130 + 2.0**-133),
    ]
    a, b = torch.zeros(32, 3).bfloat16(), torch.zeros(32).bfloat16()
    a[: len(rows)] = torch.tensor([row for row, _ in rows]).bfloat16()
    simulate(main, a, b, arch=arch)
    assert b[: len(rows)].tolist() == [expected for _, expected in rows]


@T.macro
def _tensor_memory():
    T.clear(T.alloc_tmem((128, 128), "float32"))


@T.macro
def _product(start):
    a, b, c = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16"), T.alloc_fragment((128, 128), "float32")
    T.clear(a)
    T.clear(b)
    T.clear(c)
    start(a, b, c)


_NEEDS = {
    # words of the message -> (architectures without it, what asks for it)
    "T.alloc_tmem needs sm_100a": ("cpu sm_80 sm_90a sm_120a", _tensor_memory),
    "T.alloc_tmem is of sm_100a, sm_103a, sm_110a, for which nothing is generated": ("sm_100a", _tensor_memory),
    "T.tcgen05_gemm needs sm_100a": ("cpu sm_80 sm_90a", lambda: _product(T.tcgen05_gemm)),
    "T.tcgen05_gemm is of sm_100a": ("sm_100a sm_103a", lambda: _product(T.tcgen05_gemm)),
    "T.wgmma_gemm needs sm_90a": ("sm_80 sm_100a", lambda: _product(T.wgmma_gemm)),
    "T.alloc_cluster_barrier needs sm_90": ("cpu sm_75 sm_89", lambda: T.alloc_cluster_barrier([1])),
    "T.alloc_barrier needs sm_80": ("cpu sm_75", lambda: T.alloc_barrier(1)),
    "T.cluster_sync needs sm_90": ("cpu sm_80", T.cluster_sync),
    "T.fence_proxy_async needs sm_90": ("sm_80", T.fence_proxy_async),
    "T.warpgroup_arrive needs sm_90a": ("sm_80 sm_100a", T.warpgroup_arrive),
    "T.ptx_commit_group needs sm_80": ("sm_75", T.ptx_commit_group),
}


@pytest.mark.parametrize("arch, words", [(arch, words) for words, (archs, _) in _NEEDS.items() for arch in archs.split()])
def test_what_an_architecture_does_not_have_is_refused_at_its_line(arch, words):
    ask = _NEEDS[words][1]

    @T.prim_func
    def main(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            ask()

    with pytest.raises(UnsupportedError) as caught:
        tilelang.lower(main, target="cpu" if arch == "cpu" else cuda(arch))
    assert (words.partition(" ")[0] + " names threads" if arch == "cpu" else words) in str(caught.value)
    assert f"{Path(__file__).name}:" in str(caught.value)


@pytest.mark.parametrize(
    "arch, words",
    [
        ("sm_80", "needs sm_90 or later, the target is sm_80"),
        ("sm_100a", "needs the tensor memory accelerator, for which nothing is generated on sm_100a yet"),
    ],
)
def test_copies_by_the_accelerator_need_one_that_is_generated_for(arch, words):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            T.clear(tile)
            T.tma_copy(tile, A)

    with pytest.raises(UnsupportedError) as caught:
        tilelang.lower(main, target=cuda(arch))
    assert f"T.tma_copy {words}" in str(caught.value)


def test_clusters_need_an_architecture_that_has_them():
    def program(cluster):
        @T.prim_func
        def main(A: T.Tensor((128,), "float32")):
            with T.Kernel(2, threads=128, cluster_dims=cluster) as block:
                A[block] = 1.0

        return main

    source(program((2, 1, 1)), "sm_90a")
    source(program((1, 1, 1)), "sm_80")
    with pytest.raises(UnsupportedError, match=r"T.Kernel\(cluster_dims=\) needs sm_90 or later, the target is sm_80"):
        source(program((2, 1, 1)), "sm_80")
