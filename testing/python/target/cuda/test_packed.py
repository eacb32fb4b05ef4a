"""Elements of four bits, two in a byte: in fragments, in reductions, converted, and in tensors with strides."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate
from tilelang import compile as compile_kernel
from tilelang.errors import CompileError

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
TIES = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 0.2501, 0.7499, 5.01, 100.0, torch.inf, torch.nan])


def codes(rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random codes, one an element and packed."""
    torch.manual_seed(0)
    code = torch.randint(0, 16, (rows, columns))
    return code, (code[:, ::2] | code[:, 1::2] << 4).to(torch.uint8)


def test_a_register_of_a_fragment_is_half_a_byte():
    @T.prim_func
    def main(X: T.Tensor((8, 64), "uint4"), Y: T.Tensor((8, 64), "uint4")):
        with T.Kernel(1, threads=32):
            x, y = T.alloc_fragment((8, 64), "uint4"), T.alloc_fragment((8, 64), "uint4")
            T.copy(X, x)
            T.copy(x, y)
            T.copy(y, Y)

    _, packed = codes(8, 64)
    y = torch.zeros_like(packed)
    simulate(main, packed, y)
    assert torch.equal(y, packed)


def test_sums_of_packed_elements_are_computed_in_words():
    @T.prim_func
    def main(X: T.Tensor((8, 64), "uint4"), Y: T.Tensor((8,), "uint4")):
        with T.Kernel(1, threads=64):
            x, y = T.alloc_fragment((8, 64), "uint4"), T.alloc_fragment((8,), "uint4")
            T.copy(X, x)
            T.reduce_max(x, y, dim=1)
            T.copy(y, Y)

    code, packed = codes(8, 64)
    y = torch.zeros(4, dtype=torch.uint8)
    simulate(main, packed, y)
    want = code.amax(1)
    assert torch.equal(y, (want[::2] | want[1::2] << 4).to(torch.uint8))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_float4_is_rounded_to_the_nearest_even_code(dtype: str):
    @T.prim_func
    def main(X: T.Tensor((64,), dtype), Y: T.Tensor((64,), "float4_e2m1fn"), Z: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            y = T.alloc_shared((64,), "float4_e2m1fn")
            for i in T.Parallel(64):
                y[i] = X[i] * T.cast(1, dtype)
            T.copy(y, Y)
            for i in T.Parallel(64):
                Z[i] = y[i]

    x = torch.cat([E2M1, TIES, -TIES, torch.linspace(-7, 7, 22)]).to(getattr(torch, dtype))
    y, z = torch.zeros(32, dtype=torch.uint8), torch.zeros(64)
    simulate(main, x, y, z)
    size = torch.nan_to_num(x.float().abs(), 6.0).clamp(max=6)
    # Of two equally near values, the one with an even code.
    nearest = ((size[:, None] - E2M1[:8]).abs() * 16 + torch.arange(8) % 2 * 1e-3).argmin(1)
    got = torch.stack([y & 15, y >> 4], 1).reshape(-1)
    assert torch.equal(got & 7, nearest.to(torch.uint8)) and torch.equal(got[:29] >> 3, torch.signbit(x)[:29].to(torch.uint8))
    assert torch.equal(z, E2M1[got.long()])


def test_rows_of_packed_elements_begin_with_a_byte():
    def declared():
        @T.prim_func
        def main(X: T.StridedTensor((8, 64), (129, 1), "uint4"), Y: T.Tensor((8, 64), "int32")):
            with T.Kernel(1, threads=64):
                for i, j in T.Parallel(8, 64):
                    Y[i, j] = T.cast(X[i, j], "int32")

    def viewed():
        @T.prim_func
        def main(X: T.Tensor((8, 128), "uint4"), Y: T.Tensor((8, 64), "int32")):
            with T.Kernel(1, threads=64):
                part = T.view(X, (8, 64), strides=(129, 1))
                for i, j in T.Parallel(8, 64):
                    Y[i, j] = T.cast(part[i, j], "int32")

    for program in (declared, viewed):
        with pytest.raises(CompileError, match="the last stride must be 1 and the others even") as caught:
            program()
        assert caught.value.location is not None and caught.value.location.file == __file__


def test_strides_of_a_compact_packed_tensor_are_those_of_any_tensor():
    rows = T.dynamic("rows")

    @T.prim_func
    def main(X: T.StridedTensor((rows, 64), (64, 1), "uint4"), Y: T.Tensor((rows, 64), "int32")):
        with T.Kernel(rows, threads=64) as row:
            for j in T.Parallel(64):
                Y[row, j] = T.cast(X[row, j], "int32")

    code, packed = codes(3, 64)
    y, z = torch.zeros(3, 64, dtype=torch.int32), torch.zeros(3, 64, dtype=torch.int32)
    simulate(main, packed, y)
    compile_kernel(main, target="cpu")(packed, z)
    assert torch.equal(y, code.int()) and torch.equal(z, code.int())


@pytest.mark.parametrize("through", ["nothing", "shared", "fragment"])
def test_rows_of_an_odd_length_end_with_half_a_byte(through: str):
    """Also where the size is an argument: the rows of the torch tensor are whole bytes."""
    columns = T.dynamic("columns")

    def moved(width):
        @T.prim_func
        def main(X: T.Tensor((3, width), "int4"), Y: T.Tensor((3, width), "int32"), Z: T.Tensor((3, 5), "int4")):
            with T.Kernel(1, threads=32):
                for i, j in T.Parallel(3, width):
                    Y[i, j] = X[i, j]
                if through == "nothing":
                    T.copy(X[0, 0], Z)
                else:
                    tile = (T.alloc_shared if through == "shared" else T.alloc_fragment)((3, 5), "int4")
                    T.copy(X[0, 0], tile)
                    T.copy(tile, Z)

        return main

    packed = (torch.arange(9, dtype=torch.uint8) * 17 + 16).reshape(3, 3)
    code = torch.stack([packed & 15, packed >> 4], -1).reshape(3, 6)[:, :5].int()
    for width in (5, columns):
        y, z = torch.zeros(3, 5, dtype=torch.int32), torch.zeros_like(packed)
        simulate(moved(width), packed, y, z)
        assert torch.equal(y, (code ^ 8) - 8) and torch.equal(z, packed & torch.tensor([255, 255, 15], dtype=torch.uint8))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_negative_bounds_of_packed_integers(arch):
    """Stored to int4, the choices are computed in it: -4 is no byte of 252."""

    @T.prim_func
    def main(A: T.Tensor((16,), "int4"), B: T.Tensor((16,), "int4")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((16,), "int4")
            T.copy(A, tile)
            for i in T.Parallel(16):
                tile[i] = T.clamp(T.cast(tile[i], "int32"), -4, 4)
            T.copy(tile, B)

    values = torch.arange(-8, 8).int()

    def packed(numbers):
        return ((numbers[0::2] & 15) | (numbers[1::2] << 4)).to(torch.int8)

    b = torch.zeros(8, dtype=torch.int8)
    simulate(main, packed(values), b, arch=arch)
    assert torch.equal(b, packed(values.clamp(-4, 4)))


@pytest.mark.parametrize("fast_math", [False, True])
def test_every_code_of_float4_is_its_number(fast_math):
    """With fast math, too, which takes subnormal numbers of float32 for 0."""

    @T.prim_func
    def main(A: T.Tensor((32,), "float4_e2m1fn"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = T.cast(A[i], "float32")

    codes, b = torch.arange(16), torch.zeros(32)
    simulate(main, (codes * 17).to(torch.uint8).view(torch.int8), b, pass_configs={"tl.enable_fast_math": fast_math})
    sizes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    expected = torch.cat([sizes, -sizes]).repeat_interleave(2)
    assert torch.equal(b.view(torch.int32), expected.view(torch.int32))


@pytest.mark.parametrize("kind", ["beside vectors", "threads", "blocks"])
def test_elements_of_one_byte_that_different_threads_store(kind):
    @T.prim_func
    def main(A: T.Tensor((16, 32), "int4"), B: T.Tensor((16, 32), "int4"), C: T.Tensor((16,), "int4")):
        with T.Kernel(16 if kind == "blocks" else 1, threads=16) as bx:
            if kind == "beside vectors":
                for j, i in T.Parallel(16, 32):
                    B[j, i] = A[j, i]
                    C[j] = -3
            elif kind == "threads":
                tx = T.get_thread_binding()
                C[tx] = -4
                C[tx] = C[tx] + 1
            else:
                C[bx] = -4
                C[bx] += 1

    _, a = codes(16, 32)
    b, c = torch.zeros((16, 16), dtype=torch.int8), torch.zeros(8, dtype=torch.int8)
    simulate(main, a.view(torch.int8), b, c)
    assert torch.equal(b.view(torch.uint8), a if kind == "beside vectors" else torch.zeros_like(a))
    assert torch.equal(c.view(torch.uint8), torch.full((8,), 0xDD, dtype=torch.uint8))
