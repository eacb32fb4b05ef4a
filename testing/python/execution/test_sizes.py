"""Sizes that stand only inside arithmetic: solved at the call, under every backend, and errors where they have no solution."""

from __future__ import annotations

import contextlib

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.artifact import KernelParam
from tilelang.errors import ArgumentError, CompileError
from tilelang.execution import supported
from tilelang.sizes import AXIS, Binding, bindings, solved

TARGETS = {"cpu": "cpu", "c": "c", "interpret": "interpret", "cuda": {"kind": "cuda", "arch": "sm_80"}}
PLACES = [(target, backend) for target in TARGETS for backend in (supported(target) if target != "interpret" else ["auto"])]
everywhere = pytest.mark.parametrize("place", PLACES, ids="-".join)


@contextlib.contextmanager
def kernel(place, program, **options):
    """The kernel of ``program`` for a place; CUDA runs on the simulator."""
    target, backend = place
    made = tilelang.compile(program, target=TARGETS[target], execution_backend=backend, **options)
    with tilelang.simulator() if target == "cuda" else contextlib.nullcontext():
        yield made


def fours_and_their_number():
    """The sum of each four elements, and after them how many there are."""
    n = T.dynamic("n")

    @T.prim_func
    def program(A: T.Tensor((n * 4,), "float32"), B: T.Tensor((n + 1,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i * 4] + A[i * 4 + 1] + A[i * 4 + 2] + A[i * 4 + 3]
            B[n] = T.float32(n)

    return program


def chained():
    """``n`` stands beside ``m``, which another axis gives."""
    n, m = T.dynamic("n, m")

    @T.prim_func
    def program(A: T.Tensor((m, n * m + 3), "float32"), B: T.Tensor((n - 2,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n - 2):
                B[i] = A[m - 1, i]

    return program


@everywhere
@pytest.mark.parametrize("out_idx", [None, [1]])
def test_a_product_gives_its_size(place, out_idx):
    a = torch.randn(28)
    want = torch.cat([a.view(7, 4).sum(1), torch.tensor([7.0])])
    with kernel(place, fours_and_their_number(), out_idx=out_idx) as call:
        out = call(a) if out_idx else torch.zeros(8)
        if not out_idx:
            call(a, out)
        torch.testing.assert_close(out, want)
        with pytest.raises(ArgumentError, match=r"expected \(n \* 4,\), got \(27,\) \(no n makes n \* 4 = 27\)"):
            call(torch.zeros(27), *([] if out_idx else [out]))


@everywhere
def test_other_axes_must_agree_with_the_solution(place):
    with kernel(place, fours_and_their_number()) as call:
        with pytest.raises(ArgumentError, match=r"expected \(n \+ 1,\), got \(9,\) \(axis 0 is 9, not 8; n is 7 by A\)"):
            call(torch.zeros(28), torch.zeros(9))


@everywhere
def test_sizes_are_solved_one_after_the_other(place):
    a = torch.randn(3, 3 * 5 + 3)
    with kernel(place, chained(), out_idx=[1]) as call:
        assert torch.equal(call(a), a[2, :3])
        for shape in ((3, 19), (0, 3)):
            with pytest.raises(ArgumentError, match="no n makes"):
                call(torch.zeros(shape))


@everywhere
def test_a_negative_solution_is_refused(place):
    with kernel(place, fours_and_their_number(), out_idx=[0]) as call:
        with pytest.raises(ArgumentError, match=r"no n makes n \+ 1 = 0"):
            call(torch.zeros(0))


@pytest.mark.parametrize("backend", supported("cuda"))
def test_pairs_of_half_bytes_give_their_number(backend):
    n = T.dynamic("n")

    @T.prim_func
    def program(A: T.Tensor((n * 2,), "uint4"), B: T.Tensor((n * 2,), "uint8")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n * 2):
                B[i] = T.cast(A[i], "uint8")

    with kernel(("cuda", backend), program, out_idx=[1]) as call:
        assert call(torch.tensor([0x21, 0x43, 0x65], dtype=torch.uint8)).tolist() == [1, 2, 3, 4, 5, 6]


def test_a_traced_call_solves_with_symbolic_sizes():
    call = tilelang.compile(fours_and_their_number(), target="cpu", execution_backend="torch", out_idx=[1])
    traced = torch.compile(lambda a: call(a) + 1, fullgraph=True, dynamic=True, backend="aot_eager")
    for n in (7, 12):
        a = torch.randn(4 * n)
        torch.testing.assert_close(traced(a), torch.cat([a.view(n, 4).sum(1), torch.tensor([float(n)])]) + 1)


def test_bindings_prefer_sizes_that_stand_alone():
    params = [
        KernelParam("A", "tensor", "float32", (("mul", "n", 4), ("add", "m", "n"))),
        KernelParam("B", "tensor", "float32", ("n",)),
        KernelParam("s", "scalar", "int32"),
    ]
    assert bindings(params, {"s"}) == (Binding("n", "B", 0), Binding("m", "A", 1, ("sub", AXIS, "n")))


def test_a_size_that_divides_is_not_solved():
    assert bindings([KernelParam("A", "tensor", "float32", (("floordiv", "n", 4),))], ()) == ()
    assert bindings([KernelParam("A", "tensor", "float32", (("mul", "n", "n"),))], ()) == ()


@pytest.mark.parametrize(
    ("dim", "size", "value"),
    [
        (("add", ("mul", "n", 4), 1), 33, 8),
        (("add", ("mul", "n", 4), 1), 32, None),
        (("sub", 10, "n"), 3, 7),
        (("sub", 10, "n"), 11, None),
        (("mul", "k", "n"), 12, None),
        (("mul", "m", "n"), 12, 4),
    ],
)
def test_solved(dim, size, value):
    assert solved(dim, size, {"m": 3, "k": 0}) == (None if value is None else ("n", value))


@everywhere
def test_a_row_of_half_bytes_gives_its_length(place):
    n = T.dynamic("n")

    @T.prim_func
    def program(A: T.Tensor((2, n), "uint4"), B: T.Tensor((2, n), "uint8")):
        with T.Kernel(2, threads=32) as b:
            for i in T.Parallel(n):
                B[b, i] = T.cast(A[b, i], "uint8")

    with kernel(place, program, out_idx=[1]) as call:
        assert call(torch.tensor([[0x21, 0x43], [0x65, 0x87]], dtype=torch.uint8)).tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]


@everywhere
@pytest.mark.parametrize("fixed", [True, False])
def test_strides_of_half_bytes(place, fixed):
    """They count elements; the torch tensors hold bytes, of which other rows' ends stay as they are."""
    m, n, s, r = (4, 16, 24, 32) if fixed else T.dynamic("m, n, s, r")

    @T.prim_func
    def program(A: T.StridedTensor((m, n), (s, 1), "uint4"), B: T.StridedTensor((m, n), (r, 1), "uint4")):
        with T.Kernel(m, threads=32) as b:
            for i in T.Parallel(n):
                B[b, i] = A[b, n - 1 - i]

    rows = torch.arange(48, dtype=torch.uint8).view(4, 12)
    result = torch.full((4, 16), 0x5A, dtype=torch.uint8)
    want = result.clone()
    want[:, 4:12] = rows[:, 1:9].flip(1) >> 4 | rows[:, 1:9].flip(1) << 4
    with kernel(place, program) as call:
        call(rows[:, 1:9], result[:, 4:12])
        assert torch.equal(result, want)
        with pytest.raises(ArgumentError):
            call(rows[:, :8:2], result[:, 4:12])


@everywhere
def test_a_stride_gives_a_size_inside_arithmetic(place):
    m, n, s = T.dynamic("m, n, s")

    @T.prim_func
    def program(A: T.StridedTensor((m, n + 1), (s * 2, 1), "float32"), B: T.Tensor((m, n + 1), "float32")):
        with T.Kernel(m, threads=32) as b:
            for i in T.Parallel(n + 1):
                B[b, i] = A[b, i]

    rows = torch.randn(4, 12)[:, 1:6]
    with kernel(place, program, out_idx=[1]) as call:
        assert torch.equal(call(rows), rows)


@pytest.mark.parametrize("strides", [(15, 1), (16, 2), (T.dynamic("s"), T.dynamic("t"))], ids=str)
def test_rows_of_half_bytes_begin_with_a_byte(strides):
    with pytest.raises(CompileError, match="the last stride must be 1 and the others even"):
        T.StridedTensor((4, 8), strides, "int4")


@pytest.mark.parametrize("size", [2**31 + 8, 2**32 + 8])
@pytest.mark.parametrize(("target", "backend"), [("cpu", "ctypes"), ("cpu", "torch"), ("c", "cython"), ("interpret", "auto")])
def test_a_size_that_its_type_does_not_hold_is_an_error(target, backend, size):
    """It was cut; the kernel read elsewhere. The tensor's memory is never touched."""
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "int8"), B: T.Tensor((1,), "int64")):
        with T.Kernel(1, threads=32):
            B[0] = A[n - 1]

    kernel = tilelang.compile(main, target=target, out_idx=-1, execution_backend=backend)
    with pytest.raises(ArgumentError, match=r'n does not fit int32, its type: declare T.dynamic\("n", "int64"\): n is \d+$'):
        kernel(torch.empty(size, dtype=torch.int8))
    assert kernel(torch.ones(5, dtype=torch.int8)).tolist() == [1]


@pytest.mark.parametrize("size", [2**31 + 8, 2**32 + 8])
@pytest.mark.parametrize("target", ["cpu", "c", {"kind": "cuda", "arch": "sm_80"}], ids=str)
def test_a_size_that_its_type_does_not_hold_is_an_error_with_the_default_backend(target, size):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "int8"), B: T.Tensor((1,), "int64")):
        with T.Kernel(1, threads=32):
            B[0] = A[n - 1]

    with tilelang.simulator(), pytest.raises(ArgumentError, match="n does not fit int32"):
        tilelang.compile(main, target=target, out_idx=-1)(torch.empty(size, dtype=torch.int8))


@pytest.mark.parametrize("target", ["cpu", "c", {"kind": "cuda", "arch": "sm_80"}], ids=str)
@pytest.mark.parametrize(("of_size", "of_stride"), [("int32", "int64"), ("int64", "int32")])
@pytest.mark.parametrize("shared", [True, False], ids=["size of two tensors", "size of one"])
def test_sizes_and_strides_of_different_types(target, of_size, of_stride, shared):
    """TVM's convention takes those of a tensor to be of one type."""
    n, s = T.dynamic("n", of_size), T.dynamic("s", of_stride)

    @T.prim_func
    def main(A: T.StridedTensor((n, 8), (s, 1), "float32"), B: T.Tensor((n if shared else 5, 8), "float32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(n, 8):
                B[i, j] = A[i, j] + s

    whole = torch.arange(100.0).reshape(5, 20)
    with tilelang.simulator():
        kernel = tilelang.compile(main, target=target)
        b = torch.zeros(5, 8)
        kernel(whole[:, 3:11], b)
        assert torch.equal(b, whole[:, 3:11] + 20)
        for wrong in (whole[:, 3:10], whole.T[:8].T[:, :7]):
            with pytest.raises(ArgumentError):
                kernel(wrong, b)
        if shared:
            with pytest.raises(ArgumentError):
                kernel(whole[:3, 3:11], b)
