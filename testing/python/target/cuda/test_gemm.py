"""Products on the tensor cores of sm_80 and sm_89, against torch, on the simulator."""

from __future__ import annotations

import warnings

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.programs import matmul
from testing.python.target.cuda.support import simulate, source
from tilelang.errors import PerformanceWarning


def _random(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    if dtype.startswith("float8"):
        return torch.randn(shape, generator=generator).to(getattr(torch, dtype))
    if dtype.startswith(("int", "uint")):
        low = -16 if dtype.startswith("int") else 0
        return torch.randint(low, 16, shape, generator=generator, dtype=getattr(torch, dtype))
    return torch.randn(shape, generator=generator).to(getattr(torch, dtype))


def _check(m, n, k, tile, arch="sm_80", program=None, **options):
    dtype, accumulate = options.get("dtype", "float16"), options.get("accumulate", "float32")
    out = options.get("out") or accumulate
    ta, tb = options.get("transpose_a", False), options.get("transpose_b", False)
    a, b = _random((k, m) if ta else (m, k), dtype, 1), _random((n, k) if tb else (k, n), dtype, 2)
    c = torch.zeros((m, n), dtype=getattr(torch, out))
    simulate(program or matmul(m, n, k, tile, **options), a, b, c, arch=arch)
    wide = torch.float64 if c.is_floating_point() else torch.int64
    left, right = (
        (a.float() if dtype.startswith("float8") else a).to(wide),
        (b.float() if dtype.startswith("float8") else b).to(wide),
    )
    expected = (left.T if ta else left) @ (right.T if tb else right)
    expected = expected.relu() if options.get("relu") else expected
    if wide == torch.int64:
        assert torch.equal(c.to(wide), expected)
    else:
        loose = {"float32": 2e-3, "float64": 1e-9}.get(dtype, 2e-3) * k**0.5
        loose = max(loose, 2e-1 if accumulate == "float16" else 0)
        torch.testing.assert_close(c.double(), expected, rtol=1e-2 if out != "float64" else 1e-9, atol=loose)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(
    "dtype, accumulate, arch",
    [
        ("float16", "float32", "sm_80"), ("float16", "float16", "sm_80"), ("bfloat16", "float32", "sm_80"),
        ("float32", "float32", "sm_80"), ("float64", "float64", "sm_80"), ("int8", "int32", "sm_80"), ("uint8", "int32", "sm_80"),
        ("float8_e4m3fn", "float32", "sm_89"), ("float8_e5m2", "float32", "sm_89"), ("float8_e4m3fn", "float32", "sm_80"),
    ],
)  # fmt: skip
def test_types_and_orders(dtype, accumulate, arch, transpose_a, transpose_b):
    _check(
        64, 64, 64, (32, 32, 32), arch, dtype=dtype, accumulate=accumulate, transpose_a=transpose_a, transpose_b=transpose_b,
        threads=64,
    )  # fmt: skip


@pytest.mark.parametrize("stages", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("k", [32, 64, 160])
def test_stages_and_short_loops(stages, k):
    _check(64, 64, k, (64, 64, 32), stages=stages)


@pytest.mark.parametrize("shape", [(100, 90, 70), (64, 72, 40), (33, 65, 129)])
def test_ragged(shape):
    _check(*shape, (64, 64, 32), stages=3)


@pytest.mark.parametrize(
    "tile, threads",
    [
        ((96, 48, 32), 128), ((16, 8, 16), 32), ((16, 192, 32), 128), ((128, 40, 48), 128), ((64, 64, 32), 256),
        ((48, 24, 16), 64), ((32, 32, 16), 96),
    ],
)  # fmt: skip
@pytest.mark.parametrize("policy", [0, 1, 2])
def test_tiles_threads_policies(tile, threads, policy):
    _check(tile[0] + 8, 2 * tile[1], 2 * tile[2], tile, threads=threads, policy=policy)


@pytest.mark.parametrize("tile", [(8, 64, 32), (20, 20, 20), (16, 12, 7), (5, 3, 2)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_shapes_that_tensor_cores_do_not_have(tile, dtype):
    _check(tile[0] * 2 + 1, tile[1] * 2, tile[2] * 3, tile, dtype=dtype, accumulate="int32" if dtype == "int8" else "float32")


def test_epilogue_through_shared():
    _check(128, 128, 64, (128, 64, 32), out="float16", relu=True, through_shared=True, stages=3)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_tfloat32_tiles_are_float32_operands(arch):
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float32"), B: T.Tensor((32, 64), T.tfloat32), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_fragment((64, 32), "tf32"), T.alloc_shared((32, 64), "tfloat32")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            for i, j in T.Parallel(64, 32):
                a[i, j] = a[i, j] * 2
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    a, b, c = _random((64, 32), "float32", 1), _random((32, 64), "float32", 2), torch.zeros(64, 64)
    simulate(main, a, b, c, arch=arch)
    torch.testing.assert_close(c, 2 * a @ b, rtol=1e-2, atol=5e-2)


@pytest.mark.parametrize("fragment", [False, True])
def test_float32_is_rounded_to_tf32(fragment):
    """tf32 keeps the upper 10 of the 23 bits of a fraction."""

    @T.prim_func
    def main(A: T.Tensor((16, 32), "float32"), B: T.Tensor((32, 32), "float32"), C: T.Tensor((16, 32), "float32")):
        with T.Kernel(1, threads=32):
            A_shared = T.alloc_shared((16, 32), "float32")
            A_local = T.alloc_fragment((16, 32), "float32")
            B_shared = T.alloc_shared((32, 32), "float32")
            C_local = T.alloc_fragment((16, 32), "float32")
            T.copy(A, A_shared)
            T.copy(A, A_local)
            T.copy(B, B_shared)
            T.gemm(A_local if fragment else A_shared, B_shared, C_local, clear_accum=True)
            T.copy(C_local, C)

    a, c = torch.full((16, 32), 1 + 0.75 / 1024), torch.zeros(16, 32)
    a[1, 5] = -1 - 0.25 / 1024
    simulate(main, a, torch.eye(32), c)
    expected = torch.full_like(c, 1 + 1 / 1024)
    expected[1, 5] = -1
    torch.testing.assert_close(c, expected, rtol=0, atol=0)


@pytest.mark.parametrize("dtype, arch", [("int8", "sm_80"), ("float32", "sm_80"), ("float8_e4m3fn", "sm_89"), ("int8", "sm_90a")])
@pytest.mark.parametrize("transpose_a, transpose_b", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(
    "shape, tile", [((128, 128, 96), (64, 128, 64)), ((70, 100, 40), (48, 24, 32)), ((64, 80, 64), (32, 40, 32))]
)
def test_operands_contiguous_along_m_or_n(dtype, arch, transpose_a, transpose_b, shape, tile):
    """They are read in pairs where the warps' tiles have pairs, whatever the layout of the shared tile."""
    accumulate = "int32" if dtype == "int8" else "float32"
    _check(*shape, tile, arch, dtype=dtype, accumulate=accumulate, transpose_a=transpose_a, transpose_b=transpose_b, relu=True)


def test_products_of_both_orders_into_one_tile():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "int8"), B: T.Tensor((64, 64), "int8"), C: T.Tensor((64, 64), "int32")):
        with T.Kernel(1, threads=128):
            A_shared = T.alloc_shared((64, 64), "int8")
            B_shared = T.alloc_shared((64, 64), "int8")
            C_local = T.alloc_fragment((64, 64), "int32")
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            T.clear(C_local)
            T.gemm(A_shared, B_shared, C_local)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.gemm(A_shared, B_shared, C_local, transpose_A=True)
            T.copy(C_local, C)

    a, b, c = _random((64, 64), "int8", 1), _random((64, 64), "int8", 2), torch.zeros(64, 64, dtype=torch.int32)
    simulate(main, a, b, c)
    x, y = a.long(), b.long()
    assert torch.equal(c.long(), x @ y + x @ y.T + x.T @ y)
    assert "exchange" not in source(main)


@pytest.mark.parametrize(
    ("tile", "types", "threads", "obstacle"),
    [
        ((64, 64, 48), ("int8", "int32"), 128, "K = 48 is no multiple of 32"),
        ((100, 64, 32), ("float16", "float32"), 128, "M = 100 is no multiple of 16"),
        ((64, 60, 32), ("float16", "float32"), 128, "N = 60 is no multiple of 8"),
        ((64, 64, 32), ("float16", "float64"), 128, "the tensor cores of sm_80 do not multiply float16 by float16 into float64"),
        ((64, 64, 32), ("float16", "float32"), 48, "48 threads are no whole warps"),
    ],
)
def test_scalar_products_say_why(tile, types, threads, obstacle):
    dtype, accumulate = types
    program = matmul(tile[0], tile[1], 2 * tile[2], tile, dtype=dtype, accumulate=accumulate, threads=threads)
    with pytest.warns(PerformanceWarning, match=f"T.gemm becomes scalar code, .*: {obstacle}") as said:
        source(program)
    assert said[0].filename == matmul.__code__.co_filename  # the line of the product itself
    with warnings.catch_warnings():
        warnings.simplefilter("error", PerformanceWarning)
        source(matmul(64, 64, 64, (64, 64, 32)))


@pytest.mark.parametrize("accumulate", ["float32", "float16"])
def test_scalar_products_are_loops_along_k(accumulate):
    program = matmul(64, 64, 80, (64, 64, 40), accumulate=accumulate)
    ptx = tilelang.compile(program, target={"kind": "cuda", "arch": "sm_80"}).artifact.files["kernel.ptx"].decode()
    products = ptx.count("fma.rn.f32")
    assert products == 64 * 64 // 128  # one for each element of a thread, whatever K is


@pytest.mark.parametrize("transposed", ["a", "b", "ab"])
def test_operands_in_fragments_may_be_transposed(transposed):
    flip_a, flip_b = "a" in transposed, "b" in transposed

    @T.prim_func
    def main(A: T.Tensor((32, 32), "float16"), B: T.Tensor((32, 32), "float16"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=64):
            a, b = T.alloc_fragment((32, 32), "float16"), T.alloc_fragment((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_A=flip_a, transpose_B=flip_b, clear_accum=True)
            T.copy(c, C)

    a, b, c = _random((32, 32), "float16", 1), _random((32, 32), "float16", 2), torch.zeros(32, 32)
    simulate(main, a, b, c)
    left, right = a.T if flip_a else a, b.T if flip_b else b
    torch.testing.assert_close(c, left.float() @ right.float(), rtol=1e-3, atol=1e-3)
