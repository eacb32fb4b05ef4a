"""Elements of less than a byte: tensors, tiles, conversions and products; packed in torch tensors as on a GPU."""

import pytest
import torch

import tilelang
import tilelang.language as T

from .support import build, on_both

BACKENDS = ["tvm_ffi", "ctypes", "cython", "torch"]
E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])


def pack(codes: torch.Tensor) -> torch.Tensor:
    """Two codes a byte along the last axis; an odd row ends with half a byte of zeros."""
    codes = torch.nn.functional.pad(codes.to(torch.int16) & 15, (0, codes.shape[-1] % 2))
    return (codes[..., ::2] | codes[..., 1::2] << 4).to(torch.uint8)


def unpack(packed: torch.Tensor, columns: int, signed: bool = False) -> torch.Tensor:
    """The codes again, as int32."""
    byte = packed.view(torch.uint8).to(torch.int32)
    codes = torch.stack([byte & 15, byte >> 4], -1).flatten(-2)[..., :columns]
    return (codes ^ 8) - 8 if signed else codes


def codes(*shape: int) -> torch.Tensor:
    return torch.randint(0, 16, shape, generator=torch.Generator().manual_seed(0))


def copied(rows, columns, dtype, through):
    @T.prim_func
    def main(A: T.Tensor((rows, columns), dtype), B: T.Tensor((rows, columns), dtype)):
        with T.Kernel(T.ceildiv(rows, 4), threads=32) as by:
            tile = T.alloc_shared((4, columns), dtype)
            part = T.alloc_fragment((4, columns), dtype)
            T.copy(A[by * 4, 0], tile)
            if through:
                T.copy(tile, part)
                T.copy(part, B[by * 4, 0])
            else:
                for i, j in T.Parallel(4, columns):
                    B[by * 4 + i, j] = tile[i, j]

    return main


@on_both
@pytest.mark.parametrize("columns", [16, 7])
@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn"])
def test_a_copy_keeps_every_code(dtype, columns, target):
    kernel, a = build(copied(6, columns, dtype, True), target), pack(codes(6, columns))
    b = torch.zeros_like(a)
    kernel(a, b)
    assert torch.equal(a, b)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_takes_bytes(backend):
    kernel = build(copied(6, 16, "int4", False), out_idx=-1, execution_backend=backend)
    a = pack(codes(6, 16))
    for dtype in (torch.int8, torch.uint8):
        b = kernel(a.view(dtype))
        assert b.dtype == torch.int8 and torch.equal(b.view(torch.uint8), a)
    with pytest.raises(tilelang.errors.ArgumentError, match=r"\(6, 8\)"):
        kernel(torch.zeros(6, 16, dtype=torch.int8))
    with pytest.raises(tilelang.errors.ArgumentError, match="int8 or uint8"):
        kernel(torch.zeros(6, 8, dtype=torch.int32))


@on_both
@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_arithmetic_wraps_to_four_bits(dtype, target):
    @T.prim_func
    def main(A: T.Tensor((64,), dtype), B: T.Tensor((64,), dtype), C: T.Tensor((6, 64), dtype), D: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                a = A[i]
                C[0, i] = a + B[i]
                C[1, i] = a - B[i]
                C[2, i] = a * B[i]
                C[3, i] = T.cast(T.cast(a, "int32") * 5, dtype)
                C[4, i] = T.max(a, B[i])
                C[5, i] = T.cast(T.cast(a, "float32") * 0.5, dtype)
                D[i] = T.cast(a, "int32") * T.cast(B[i], "int32")

    a, b = pack(codes(64)), pack(codes(128)[64:])
    c, d = torch.zeros(6, 32, dtype=torch.uint8), torch.zeros(64, dtype=torch.int32)
    build(main, target)(a, b, c, d)
    signed = dtype == "int4"
    x, y = unpack(a, 64, signed), unpack(b, 64, signed)
    want = [x + y, x - y, x * y, x * 5, torch.maximum(x, y), (x * 0.5).to(torch.int32)]
    assert torch.equal(unpack(c, 64), torch.stack(want) & 15)
    assert torch.equal(d, x * y)


@on_both
def test_one_bit(target):
    @T.prim_func
    def main(A: T.Tensor((32,), "uint1"), B: T.Tensor((32,), "int32"), C: T.Tensor((32,), "uint1")):
        with T.Kernel(1, threads=32):
            held = T.alloc_fragment((32,), "uint1")
            T.copy(A, held)
            for i in T.Parallel(32):
                B[i] = T.cast(held[i], "int32") * 3
                C[i] = held[i] + T.cast(i, "uint1")

    a = codes(32) % 2
    b, c = torch.zeros(32, dtype=torch.int32), torch.zeros(32, dtype=torch.bool)
    build(main, target)(a.bool(), b, c)
    assert torch.equal(b, (a * 3).int()) and torch.equal(c, ((a + torch.arange(32)) % 2).bool())


@on_both
def test_float4_rounds_to_nearest_even_and_saturates(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float4_e2m1fn"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                B[i] = T.cast(A[i], "float4_e2m1fn")
            for i in T.Parallel(64):
                C[i] = T.cast(B[i], "float32")

    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 0.2501, 0.7499, 5.01, 100.0, torch.inf])
    a = torch.cat([E2M1, ties, -ties, torch.linspace(-7, 7, 24)])
    b, c = torch.zeros(32, dtype=torch.uint8), torch.zeros(64)
    build(main, target)(a, b, c)
    distance = (a.clamp(-6, 6).abs()[:, None] - E2M1[:8]).abs()
    # Of two equally near values, the one with an even code.
    nearest = (distance * 16 + torch.arange(8) % 2 * 1e-3).argmin(1)
    assert torch.equal(unpack(b, 64), nearest.to(torch.int32) + 8 * torch.signbit(a))
    assert torch.equal(c, E2M1[unpack(b, 64)])


@on_both
@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_product_of_packed_tiles(dtype, target):
    @T.prim_func
    def main(A: T.Tensor((32, 64), dtype), B: T.Tensor((48, 64), dtype), C: T.Tensor((32, 48), "int32")):
        with T.Kernel(2, threads=128) as bx:
            a = T.alloc_shared((32, 32), dtype)
            b = T.alloc_shared((24, 32), dtype)
            c = T.alloc_fragment((32, 24), "int32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(B[bx * 24, k * 32], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[0, bx * 24])

    a, b, c = pack(codes(32, 64)), pack(codes(48, 64)), torch.zeros(32, 48, dtype=torch.int32)
    build(main, target)(a, b, c)
    signed = dtype == "int4"
    assert torch.equal(c, unpack(a, 64, signed) @ unpack(b, 64, signed).T)


@on_both
def test_blocks_that_share_a_byte(target):
    """Every block writes one half of each byte; none loses what its neighbour wrote."""

    @T.prim_func
    def main(A: T.Tensor((4096, 16), "uint4")):
        with T.Kernel(16, threads=32) as bx:
            for i in T.serial(4096):
                A[i, bx] = T.cast(bx + i, "uint4")

    a = torch.zeros(4096, 8, dtype=torch.uint8)
    build(main, target)(a)
    assert torch.equal(unpack(a, 16), (torch.arange(4096)[:, None] + torch.arange(16)).int() & 15)
