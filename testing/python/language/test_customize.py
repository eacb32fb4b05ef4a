"""Views, questions about buffers, dot products, index helpers."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import CompileError

from .support import random, run


def test_reshape_and_view_of_arguments():
    @T.prim_func
    def main(A: T.Tensor((4, 6), "float32"), B: T.Tensor((24,), "float32"), bits: T.Tensor((4, 6), "int32")):
        with T.Kernel(1, threads=32):
            flat = T.reshape(A, (24,))
            raw = T.view(A, dtype="int32")
            for i in T.Parallel(24):
                B[i] = flat[i] * 2
            for i, j in T.Parallel(4, 6):
                bits[i, j] = raw[i, j]

    a = random((4, 6), torch.float32)
    b, bits = run(main, a, out_idx=[1, 2])
    assert torch.equal(b, a.flatten() * 2) and torch.equal(bits, a.view(torch.int32))


def test_view_of_a_shared_tile():
    @T.prim_func
    def main(A: T.Tensor((8, 8), "float16"), B: T.Tensor((4, 16), "float16"), words: T.Tensor((8, 4), "uint32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 8), "float16")
            wide = T.reshape(tile, (4, 16))
            packed = T.view(tile, dtype="uint32")
            T.copy(A, tile)
            T.copy(wide, B)
            T.copy(packed, words)

    a = random((8, 8), torch.float16)
    b, words = run(main, a, out_idx=[1, 2])
    assert torch.equal(b, a.view(4, 16)) and torch.equal(words.view(torch.int32), a.view(torch.int32))


def test_view_with_strides():
    @T.prim_func
    def main(A: T.Tensor((24,), "int32"), B: T.Tensor((3, 4), "int32")):
        with T.Kernel(1, threads=32):
            diagonal = T.view(A, (3, 4), strides=(5, 2))
            for i, j in T.Parallel(3, 4):
                B[i, j] = diagonal[i, j]

    a = torch.arange(24, dtype=torch.int32)
    assert torch.equal(run(main, a, out_idx=-1), a.as_strided((3, 4), (5, 2)))


def test_a_view_may_multiply_sizes_that_are_computed_from_dynamic_ones():
    n, h, w = T.dynamic("n, h, w")
    rows, columns = (h - 3) // 2 + 1, w + 2 - 3 + 1

    @T.prim_func
    def main(A: T.Tensor((n, h, w), "float32"), B: T.Tensor((n, rows, columns, 4), "float32")):
        with T.Kernel(T.ceildiv(n * rows * columns, 32), threads=32) as block:
            flat = T.reshape(B, (n * rows * columns, 4))
            wide = T.reshape(B, (n, columns * 2, rows * 2))
            for i, j in T.Parallel(32, 4):
                flat[block * 32 + i, j] = A[0, 0, 0]
            wide[0, 0, 0] = 1

    b = torch.zeros(2, 3, 4, 4)
    run(main, torch.full((2, 7, 4), 5.0), b)
    assert b.flatten()[0] == 1 and (b.flatten()[1:] == 5).all()


def test_a_tensor_declared_over_the_data_of_another_is_a_view_of_it():
    @T.prim_func
    def main(A: T.Tensor((4, 6), "float32"), B: T.Tensor((2, 3, 4), "float32")):
        with T.Kernel(1, threads=32):
            flat = T.Tensor((24,), "float32", A.data)
            rows = T.make_tensor(B.data, (6, 4), "float32")
            for i, j in T.Parallel(6, 4):
                rows[i, j] = flat[i * 4 + j] + 1

    a = random((4, 6), torch.float32)
    assert torch.equal(run(main, a, out_idx=-1), (a + 1).view(2, 3, 4))


def test_a_tensor_at_the_address_of_the_first_element_is_a_view():
    @T.prim_func
    def main(A: T.Tensor((4, 6), "float32"), B: T.Tensor((24,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((24,), "float32")
            T.copy(T.make_tensor(T.access_ptr(A, "r"), (24,), "float32"), tile)
            words = T.make_tensor(T.address_of(tile[0]), (24,), "int32")
            for i in T.Parallel(24):
                B[i] = T.cast(words[i] & 0x7F800000, "float32")

    a = random((4, 6), torch.float32)
    assert torch.equal(run(main, a, out_idx=-1), (a.flatten().view(torch.int32) & 0x7F800000).float())


@pytest.mark.parametrize("pointer", [lambda A: T.address_of(A[1]), lambda A: A[0]], ids=["element", "float"])
def test_a_tensor_is_not_declared_at_what_is_no_address(pointer):
    with pytest.raises(CompileError, match="takes a T.ptr argument, an integer address or tensor.data, got"):

        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=32):
                T.clear(T.make_tensor(pointer(A), (8,), "float32"))


def test_an_annotation_over_the_data_of_another_declares_a_view():
    @T.prim_func
    def main(A: T.Tensor((4, 6), "float32"), B: T.Tensor((24,), "float32")):
        flat: T.Tensor((24,), "float32", A.data)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(24):
                B[i] = flat[23 - i]  # noqa: F821 (declared above, without a value)

    a = random((4, 6), torch.float32)
    assert torch.equal(run(main, a, out_idx=-1), a.flatten().flip(0))


def test_views_must_fit():
    with pytest.raises(CompileError, match=r"A is \(4, 6\) of float32, which does not fill \(5, 5\) of float32"):

        @T.prim_func
        def main(A: T.Tensor((4, 6), "float32")):
            with T.Kernel(1):
                T.reshape(A, (5, 5))

    with pytest.raises(CompileError, match=r"A is \(4, 6\) of float32, which does not fill \(5, 5\) of float32"):

        @T.prim_func
        def other(A: T.Tensor((4, 6), "float32")):
            with T.Kernel(1):
                T.Tensor((5, 5), "float32", A.data)


def test_memory_of_any_scope():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        workspace = T.alloc_buffer((64,), "float32")
        with T.Kernel(1, threads=32):
            tile = T.alloc_buffer((64,), "float32", scope="shared")
            T.copy(A, tile)
            T.copy(tile, workspace)
        with T.Kernel(1, threads=32):
            part = T.alloc_buffer((64,), "float32", scope="local.fragment")
            T.copy(workspace, part)
            for i in T.Parallel(64):
                B[i] = part[i] * 2

    a = random((64,), torch.float32)
    assert torch.equal(run(main, a, out_idx=[1]), a * 2)


def test_a_scope_decides_the_memory_whatever_the_function():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((64,), "float32", scope="shared")
            part = T.alloc_shared((64,), "float32", scope="local.fragment")
            assert (tile.scope(), part.scope()) == ("shared", "local.fragment")
            T.copy(A, tile)
            for i in T.Parallel(64):
                part[i] = tile[63 - i]
            T.copy(part, B)

    a = random((64,), torch.float32)
    assert torch.equal(run(main, a, out_idx=[1]), a.flip(0))


def test_any_of_and_all_of():
    @T.prim_func
    def main(A: T.Tensor((4, 8), "int32"), out: T.Tensor((4, 2), "int32")):
        with T.Kernel(4, threads=1) as bx:
            if T.any_of(A[bx, :]):
                out[bx, 0] = 1
            if T.all_of(A[bx, 0:8]):
                out[bx, 1] = 1

    a = torch.zeros(4, 8, dtype=torch.int32)
    a[1, 5], a[2], a[3, 1:] = 7, 1, 2
    out = torch.zeros(4, 2, dtype=torch.int32)
    run(main, a, out)
    assert out.tolist() == [[0, 0], [1, 0], [1, 1], [1, 0]]


def test_dp4a():
    @T.prim_func
    def main(A: T.Tensor((16,), "int8"), B: T.Tensor((16,), "int8"), C: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(4):
                C[i] = 10
                T.dp4a(A[i * 4], B[i * 4], C[i])

    a, b = random((16,), torch.int8, 1), random((16,), torch.int8, 2)
    expected = (a.int() * b.int()).view(4, 4).sum(1) + 10
    assert torch.equal(run(main, a, b, out_idx=-1).long(), expected)


def test_dp4a_types():
    with pytest.raises(CompileError, match="T.dp4a takes int8, int8 and int32, got int32, int32, int32"):

        @T.prim_func
        def main(A: T.Tensor((16,), "int32")):
            with T.Kernel(1):
                T.dp4a(A[0], A[4], A[8])


def test_index_helpers():
    assert T.linear_index(2, 3, 4, 10, 100) == (2 * 10 + 3) * 100 + 4
    assert T.index_to_coordinates(2345, (4, 10, 100)) == [2, 3, 45]
    with pytest.raises(CompileError, match="n indices and n - 1 sizes, got 2 arguments"):
        T.linear_index(1, 2)


def test_call_extern_takes_its_type_first_or_by_keyword():
    def program(call):
        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[0] = call(A)

        return main.script()

    by_keyword = program(lambda A: T.call_extern("f", T.address_of(A[1]), 2, dtype="float32"))
    assert program(lambda A: T.call_extern("float32", "f", T.address_of(A[1]), 2)) == by_keyword


def test_names_and_lists_hold_addresses():
    def named(A, i):
        place = T.address_of(A[i])
        both = [place, T.address_of(A[2])]
        A[0] = T.call_extern("float32", "f", *both)

    def direct(A, i):
        A[0] = T.call_extern("float32", "f", T.address_of(A[i]), T.address_of(A[2]))

    def program(body):
        step = T.macro(body)

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(4) as bx:
                step(A, bx)

        return main.script()

    assert program(named) == program(direct)
    with pytest.raises(CompileError, match="place is an address whose index is read from memory"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                place = T.address_of(A[T.Cast("int32", A[3])])
                A[0] = T.call_extern("float32", "f", place)


def test_what_is_no_variable_gets_no_value():
    with pytest.raises(CompileError, match="to variables of T.int32.. and its like, not to PointerSpec"):

        @T.prim_func
        def main(A: T.Tensor((8,), "uint64")):
            with T.Kernel(1):
                T.let(T.ptr("float32"), A[0])


@pytest.mark.parametrize("spelling", ["variable", "bound", "direct"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_tensor_at_the_address_that_a_foreign_function_returns(spelling, arch):
    source = "__device__ void* place(unsigned long long address) { return reinterpret_cast<void*>(address); }"

    @T.prim_func
    def main(Addresses: T.Tensor((2,), "uint64")):
        with T.Kernel(2, threads=32) as block:
            T.import_source(source)
            call = T.call_extern("handle", "place", Addresses[block])
            data = call
            if spelling == "variable":
                data = T.bind(call, var=T.ptr("float32"))
            elif spelling == "bound":
                data = T.bind(call)
            row = T.decl_buffer((32,), "float32", data=data)
            for i in T.Parallel(32):
                row[i] = row[i] * 2 + block

    with tilelang.simulator.virtual_device("h100" if arch == "sm_90a" else "a100"):
        rows = [torch.arange(32.0, device="cuda") for _ in range(2)]
        addresses = torch.tensor([row.data_ptr() for row in rows], dtype=torch.int64).cuda().view(torch.uint64)
        tilelang.compile(main, target={"kind": "cuda", "arch": arch})(addresses)
        assert [row.cpu().tolist() for row in rows] == [[i * 2 + block for i in range(32)] for block in range(2)]


@pytest.mark.parametrize(("shape", "view"), [((2, 3), (6,)), ((2, 3), (3, 2)), ((3, 2), (2, 3)), ((2, 3, 5), (5, 6))])
def test_other_rows_over_rows_of_half_bytes_are_refused(shape, view):
    """Each row of an odd number of 4-bit elements ends with half a byte; a view would have it in it, or not, by the target."""
    with pytest.raises(CompileError, match="end with half a byte, which other rows do not"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int8")):
            with T.Kernel(1, threads=32):
                T.reshape(T.alloc_shared(shape, "int4"), view)


def test_rows_of_half_bytes_may_be_counted_in_another_way():
    @T.prim_func
    def main(A: T.Tensor((2, 3, 5), "int4"), B: T.Tensor((6, 5), "int8")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((2, 3, 5), "int4")
            T.copy(A, tile)
            T.copy(T.reshape(tile, (6, 5)), B)

    a = torch.arange(18, dtype=torch.uint8).reshape(2, 3, 3) * 5
    low, high = a & 15, a >> 4
    codes = torch.stack([low, high], -1).reshape(6, 6)[:, :5].to(torch.int8)
    for target in ("cpu", {"kind": "cuda", "arch": "sm_80"}, "interpret"):
        with tilelang.simulator():
            assert torch.equal(tilelang.compile(main, target=target, out_idx=-1)(a), (codes ^ 8) - 8)
