"""Both program styles, arguments of every kind, compile-time Python, macros, mutable scalars."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentError, CompileError

from .support import name_of, random, run


def test_eager_style():
    @tilelang.jit(target="cpu")
    def scale(A, factor: float = 2.0, block: int = 16):
        M, N = T.const("M, N")
        A: T.Tensor((M, N), "float32")
        B = T.empty((M, N), "float32")
        row = T.empty((M,), "float32")
        with T.Kernel(M, threads=32) as by:
            total = T.alloc_fragment((1,), "float32")
            tile = T.alloc_fragment((N,), "float32")
            T.copy(A[by, :], tile)
            T.reduce_sum(tile, total)
            row[by] = total[0]
            for j in T.Parallel(N):
                B[by, j] = tile[j] * factor
        return row, B

    for shape in ((3, 8), (5, 12)):
        a = random(shape, torch.float32)
        row, b = scale(a)
        torch.testing.assert_close(row, a.sum(1), rtol=1e-5, atol=1e-5)
        assert torch.equal(b, a * 2)
    assert torch.equal(scale(a, factor=0.5)[1], a * 0.5)


def test_the_only_block_index_may_be_unpacked():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(8, threads=32) as (bx,):
            A[bx] = bx

    assert torch.equal(run(main, out_idx=-1), torch.arange(8, dtype=torch.int32))


def test_errors_derive_from_pythons_errors():
    with pytest.raises(ValueError, match="unknown dtype"):
        T.cast(1, "float33")
    assert issubclass(CompileError, ValueError) and issubclass(ArgumentError, RuntimeError)


def test_factory_style_with_several_outputs():
    @tilelang.jit(out_idx=[1, -1], target="cpu")
    def split(N, dtype):
        @T.prim_func
        def main(A: T.Tensor((N,), dtype), positive: T.Tensor((N,), dtype), negative: T.Tensor((N,), dtype)):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(N):
                    positive[i] = T.max(A[i], 0)
                    negative[i] = T.min(A[i], 0)

        return main

    a = random((40,), torch.float32)
    positive, negative = split(40, "float32")(a)
    assert torch.equal(positive, a.clamp(min=0)) and torch.equal(negative, a.clamp(max=0))


@pytest.mark.parametrize("dtype", ["float16", T.float16, torch.float16, "half"])
def test_ways_to_name_a_dtype(dtype):
    @T.prim_func
    def main(A: T.Tensor((8,), dtype), B: T.Tensor[(8,), dtype]):
        with T.Kernel(1, threads=32):
            T.copy(A, B)

    a = random((8,), torch.float16)
    assert torch.equal(run(main, a, out_idx=-1), a)


SCALARS = [
    (torch.float64, 0.1), (torch.float32, -1.5), (torch.float16, 0.25), (torch.bfloat16, 3.0), (torch.int64, 2**40 + 1),
    (torch.int32, -7), (torch.int16, -300), (torch.int8, -5), (torch.uint8, 200), (torch.bool, True),
]  # fmt: skip


@pytest.mark.parametrize("dtype,value", SCALARS, ids=lambda value: name_of(value) if isinstance(value, torch.dtype) else "")
def test_scalar_arguments(dtype, value):
    @T.prim_func
    def main(A: T.Tensor((4,), name_of(dtype)), x: name_of(dtype)):
        with T.Kernel(1, threads=1):
            for i in T.serial(4):
                A[i] = x

    a = torch.zeros(4, dtype=dtype)
    run(main, a, value)
    assert torch.equal(a, torch.full((4,), value, dtype=dtype))


def test_dynamic_sizes_serve_every_shape():
    m, n = T.dynamic("m, n")

    @T.prim_func
    def main(A: T.Tensor((m, n), "float32"), B: T.Tensor((n, m), "float32"), sizes: T.Tensor((2,), "int32")):
        with T.Kernel(T.ceildiv(n, 16), T.ceildiv(m, 16), threads=32) as (bx, by):
            for i, j in T.Parallel(16, 16):
                if by * 16 + i < m and bx * 16 + j < n:
                    B[bx * 16 + j, by * 16 + i] = A[by * 16 + i, bx * 16 + j]
            sizes[0] = m
            sizes[1] = n

    kernel = tilelang.compile(main, out_idx=[1, 2], target="cpu")
    for shape in ((1, 1), (17, 40), (32, 16)):
        a = random(shape, torch.float32)
        b, sizes = kernel(a)
        assert torch.equal(b, a.T) and tuple(sizes.tolist()) == shape


def test_arithmetic_of_dynamic_sizes():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((2 * n + 1,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(2 * n + 1):
                B[i] = A[i // 2 % n] + i

    a = random((5,), torch.float32)
    b = tilelang.compile(main, out_idx=-1, target="cpu")(a)
    assert torch.equal(b, a[torch.arange(11) // 2 % 5] + torch.arange(11))


def test_host_statements_around_kernels():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), twice: T.int32):
        with T.Kernel(n, threads=1) as bx:
            A[bx] = A[bx] + 1
        if twice > 0:
            with T.Kernel(n, threads=1) as bx:
                A[bx] = A[bx] * 2
        for step in T.serial(3):
            with T.Kernel(n, threads=1) as bx:
                A[bx] = A[bx] + step

    kernel = tilelang.compile(main, target="cpu")
    for twice in (0, 1):
        a = torch.arange(4, dtype=torch.int32)
        kernel(a, twice)
        assert a.tolist() == [(x + 1) * (1 + twice) + 3 for x in range(4)]


def test_pointer_argument():
    @T.prim_func
    def main(address: T.ptr("float32"), n: T.int32, out: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            A = T.make_tensor(address, (n,), "float32")
            for i in T.Parallel(8):
                out[i] = A[i] * 2

    a = random((8,), torch.float32)
    out = torch.empty(8)
    run(main, a.data_ptr(), 8, out)
    assert torch.equal(out, a * 2)


def test_const_must_be_a_size():
    @tilelang.jit(target="cpu")
    def bad(A):
        M, N = T.const("M, N")
        A: T.Tensor((M,), "float32")
        B = T.empty((M,), "float32")
        with T.Kernel(M, threads=1) as bx:
            B[bx] = A[bx] * N
        return B

    with pytest.raises((CompileError, ArgumentError), match="N"):
        bad(torch.zeros(4))


def test_shapes_of_eager_arguments_must_agree():
    @tilelang.jit(target="cpu")
    def add(A, B):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        B: T.Tensor((N,), "float32")
        C = T.empty((N,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                C[i] = A[i] + B[i]
        return C

    with pytest.raises(ArgumentError, match="B: axis 0 is 5, but N is 4 in A"):
        add(torch.zeros(4), torch.zeros(5))


def test_a_program_may_declare_its_arguments_in_its_body():
    @T.prim_func
    def main(A, B):
        m = T.dynamic("m")
        A: T.Tensor((m,), "float32")
        B: T.Tensor((m,), "float32")
        with T.Kernel(m, threads=32) as i:
            B[i] = A[i] + 1

    a = random((5,), torch.float32)
    assert torch.equal(run(main, a, out_idx=-1), a + 1)


def test_a_declared_program_returns_what_it_allocates():
    @T.prim_func
    def main(A):
        m = T.dynamic("m")
        A: T.Tensor((m,), "float32")
        B = T.empty((m * 2 + 1,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.serial(m * 2 + 1):
                B[i] = A[i % m]
        return B

    a = random((5,), torch.float32)
    assert torch.equal(tilelang.compile(main, target="cpu")(a), a.repeat(3)[:11])


def test_an_eager_program_is_compiled_for_declarations_of_its_tensors():
    @tilelang.jit(target="cpu")
    def double(A, B):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        B: T.Tensor((N,), "float32")
        with T.Kernel(N, threads=32) as i:
            B[i] = A[i] * 2

    kernel = double.compile(T.Tensor((6,)), T.Tensor((6,)))
    a, b = random((6,), torch.float32), torch.zeros(6)
    kernel(a, b)
    assert torch.equal(b, a * 2)


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_tables_of_addresses(target):
    @T.prim_func
    def gather(table: T.Tensor((2,), T.ptr), out: T.Tensor((2, 8), "float16")):
        with T.Kernel(2, threads=1) as i:
            row = T.make_tensor(table[i], (8,), "float16")
            for j in T.serial(8):
                out[i, j] = row[j]

    rows = [random((8,), torch.float16) for _ in range(2)]
    table = torch.tensor([row.data_ptr() for row in rows])
    assert torch.equal(tilelang.compile(gather, out_idx=-1, target=target)(table), torch.stack(rows))


def test_tensors_at_pointer_arguments_are_declared_before_the_kernel():
    @T.prim_func
    def copied(a: T.ptr, b: T.ptr, n: T.int32):
        A = T.make_tensor(a, (n,), "float16")
        B = T.make_tensor(b, (n,), "float16")
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((64,), "float16")
            T.copy(A[0:64], tile)
            T.copy(tile, B[0])

    a, b = random((40,), torch.float16), torch.zeros(40, dtype=torch.float16)
    tilelang.compile(copied, target="cpu")(a, b, 40)
    assert torch.equal(a, b)
    c = torch.zeros_like(a)
    with tilelang.simulator():
        tilelang.compile(copied, target={"kind": "cuda", "arch": "sm_80"})(a, c, 40)
    assert torch.equal(a, c)


@pytest.mark.parametrize("pointer", [T.Ptr, T.Ptr["float16"], T.Ptr["float16", "global"], T.Ptr("float16")])
def test_pointers_in_the_older_spelling(pointer):
    @T.prim_func
    def doubled(a: pointer, n: T.int32):
        with T.Kernel(1, threads=32):
            A = T.make_tensor(a, (n,), "float16")
            for i in T.Parallel(n):
                A[i] = A[i] * 2

    a = random((40,), torch.float16)
    expected = a * 2
    tilelang.compile(doubled, target="cpu")(a, 40)
    assert torch.equal(a, expected)


def test_an_eager_program_may_declare_arguments_after_its_outputs():
    @tilelang.jit(target="cpu")
    def add(A, B, block=32):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        C = T.empty((N,), "float32")
        B: T.Tensor((N,), "float32")
        assert int(N) > 0
        with T.Kernel(1, threads=block):
            for i in T.Parallel(N):
                C[i] = A[i] + B[i]
        return C

    a = random((5,), torch.float32)
    assert torch.equal(add(a, a), a + a)


def test_variables_and_loops_spelled_as_calls():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            start = T.int32()
            T.let(start, A[0] + 5)
            A[0] = 0
            A[1] = start
            state = T.alloc_var("int32", init=0)
            with T.While(state < 4):
                state += 3
            A[2] = state
            A[3] = T.align_up(start, 4) * 10 + T.__ffs(start)

    a = torch.tensor([1, 0, 0, 0], dtype=torch.int32)
    run(main, a)
    assert a.tolist() == [0, 6, 6, 82]
    assert (T.align_up(5, 4), T.__ffs(12), T.__ffs(0)) == (8, 3, 0)


def test_vectors_of_given_elements_and_their_lanes():
    @T.prim_func
    def main(A: T.Tensor((4,), "float16"), B: T.Tensor((2,), "float16"), C: T.Tensor((4,), "float16")):
        with T.Kernel(1, threads=1):
            back = T.float16x4(A[3], A[2], A[1], A[0])
            C[T.Ramp(0, 1, 4)] = back
            B[0] = T.extract_lane(back, 0)
            B[1] = T.extract_lane(back, 3)

    a = random((4,), torch.float16)
    for target in ("cpu", "c", {"kind": "cuda", "arch": "sm_80"}):
        b, c = torch.zeros(2).half(), torch.zeros(4).half()
        with tilelang.simulator():
            tilelang.compile(main, target=target)(a, b, c)
        assert torch.equal(c, a.flip(0))
        assert torch.equal(b, a[[3, 0]])


def test_eager_programs_take_packed_tensors():
    @tilelang.jit(target="cpu")
    def unpacked(A, B):
        M, N = T.const("M, N")
        A: T.Tensor((M, N), "int4")
        B: T.Tensor((M, N), "int32")
        with T.Kernel(M, threads=32) as i:
            for j in T.Parallel(N):
                B[i, j] = A[i, j]

    b = torch.zeros(1, 4, dtype=torch.int32)
    unpacked(torch.tensor([[0x21, 0x43]], dtype=torch.int8), b)
    assert b.tolist() == [[1, 2, 3, 4]]


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_size_that_no_argument_gives_is_an_error(target):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n // 4,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.serial(n // 4):
                A[i] = 0

    with pytest.raises(CompileError, match="no argument gives the size n"):
        tilelang.compile(main, target=target)
