"""Compiled kernels under every backend: the same results and the same errors."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentError
from tilelang.execution import supported

TARGETS = {"cpu": "cpu", "c": "c", "cuda": {"kind": "cuda", "arch": "sm_80"}}
PLACES = [(target, backend) for target in TARGETS for backend in supported(target)]
everywhere = pytest.mark.parametrize("place", PLACES, ids="-".join)


@contextlib.contextmanager
def kernel(place, program, **options):
    """The kernel of ``program`` for a place; CUDA runs on the simulator."""
    target, backend = place
    made = tilelang.compile(program, target=TARGETS[target], execution_backend=backend, **options)
    with tilelang.simulator() if target == "cuda" else contextlib.nullcontext():
        yield made


def scaled(dtype: str, scalar: str):
    """``B = A * s``, in the scalar's type."""

    n = T.dynamic("n")

    @T.prim_func
    def program(A: T.Tensor((n, 8), dtype), s: scalar, B: T.Tensor((n, 8), dtype)):
        with T.Kernel(T.ceildiv(n, 4), threads=32) as block:
            for row, j in T.Parallel(4, 8):
                i = block * 4 + row
                B[i, j] = T.cast(T.cast(A[i, j], scalar) * s, dtype)

    return program


def transposed_and_summed():
    """Two outputs whose sizes are arithmetic of the inputs': ``(m, n)`` and ``(2 * n,)``."""
    n, m = T.dynamic("n, m")

    @T.prim_func
    def program(A: T.Tensor((n, m), "float32"), B: T.Tensor((m, n), "float32"), C: T.Tensor((n * 2,), "float32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(n, m):
                B[j, i] = A[i, j]
            for i in T.Parallel(n * 2):
                C[i] = T.cast(i, "float32")

    return program


def strided_copy():
    """Copies a matrix whose rows lie ``s`` elements apart."""
    n, s = T.dynamic("n, s")

    @T.prim_func
    def program(A: T.StridedTensor((n, 8), (s, 1), "float32"), B: T.Tensor((n, 8), "float32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(n, 8):
                B[i, j] = A[i, j]

    return program


@everywhere
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "int32", "int64", "uint8"])
def test_tensors_of_each_type(place, dtype):
    scalar = "int32" if "int" in dtype else "float32"
    kind = getattr(torch, dtype)
    with kernel(place, scaled(dtype, scalar), out_idx=[2]) as run:
        a = torch.arange(24).reshape(3, 8).to(kind)
        torch.testing.assert_close(run(a, 3), (a.float() * 3).to(kind))


@everywhere
@pytest.mark.parametrize(
    "scalar, value", [("float64", 1.1), ("float16", 0.1), ("bfloat16", 0.1), ("int64", 2**40 + 1), ("uint8", 255)]
)
def test_scalars_of_each_type(place, scalar, value):
    dtype = {"float64": "float64", "int64": "int64"}.get(scalar, "float32")
    with kernel(place, scaled(dtype, scalar), out_idx=[2]) as run:
        a = torch.ones(2, 8, dtype=getattr(torch, dtype))
        expected = a * torch.tensor(value, dtype=getattr(torch, scalar)).to(a.dtype)
        torch.testing.assert_close(run(a, value), expected, rtol=0, atol=0)


@everywhere
def test_bools_are_zero_or_one(place):
    @T.prim_func
    def program(flag: T.bool, B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            B[0] = T.if_then_else(flag, 7, 5)

    made = torch.zeros(1, dtype=torch.int32)
    with kernel(place, program) as run:
        for flag, value in ((True, 7), (False, 5), (1, 7), (0, 5), (torch.tensor(True), 7)):
            run(flag, made)
            assert made.item() == value
        for flag, text in ((2, "from 0 to 1, got 2"), (-1, "got -1"), (0.5, "expected a number for bool, got float")):
            with pytest.raises(ArgumentError, match=text):
                run(flag, made)


ENDS_OF_TYPES = {
    "bool": (False, True), "uint1": (0, 1), "int4": (-8, 7), "uint4": (0, 15), "int8": (-128, 127), "uint16": (0, 65535),
    "uint32": (0, 2**32 - 1), "int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1),
}  # fmt: skip


@everywhere
@pytest.mark.parametrize("dtype", ENDS_OF_TYPES)
def test_scalars_take_every_number_of_their_type(place, dtype):
    wide = "uint64" if dtype == "uint64" else "int64"

    @T.prim_func
    def program(x: getattr(T, dtype), B: T.Tensor((1,), wide)):
        with T.Kernel(1, threads=32):
            B[0] = T.cast(x, wide)

    least, largest = ENDS_OF_TYPES[dtype]
    with kernel(place, program, out_idx=[1]) as run:
        for value in (least, largest, np.bool_(True), np.array(True), np.uint8(1), torch.tensor(1)):
            assert run(value).item() == int(value)
        for value in (least - 1, largest + 1, np.float32(1), np.array([True, False])):
            with pytest.raises(ArgumentError, match="of argument x"):
                run(value)


@everywhere
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_scalars_take_every_float(place, dtype):
    @T.prim_func
    def program(x: getattr(T, dtype), B: T.Tensor((1,), dtype)):
        with T.Kernel(1, threads=32):
            B[0] = x

    with kernel(place, program, out_idx=[1]) as run:
        for value in (1e300, -1e300, float("inf"), 65519.0, 2.0**-24, -0.0, np.bool_(True), np.float16(0.5), np.int8(-3)):
            torch.testing.assert_close(run(value)[0], torch.tensor(float(value), dtype=getattr(torch, dtype)), rtol=0, atol=0)


@everywhere
def test_outputs_with_sizes_of_their_own(place):
    with kernel(place, transposed_and_summed(), out_idx=[1, 2]) as run:
        for n, m in ((3, 5), (1, 1), (7, 2), (0, 5), (3, 0)):
            a = torch.randn(n, m)
            made = run(a)
            assert type(made) is list  # as in the public package: programs append to it
            b, c = made
            assert b.shape == (m, n) and c.shape == (2 * n,)
            torch.testing.assert_close(b, a.t().contiguous())
            torch.testing.assert_close(c, torch.arange(2 * n).float())


@everywhere
def test_strided_tensors(place):
    with kernel(place, strided_copy(), out_idx=[1]) as run:
        wide = torch.randn(5, 20)
        torch.testing.assert_close(run(wide[:, 3:11]), wide[:, 3:11].contiguous())
        with pytest.raises(ArgumentError, match=r"strides of argument A .* expected \(s, 1\), got \(20, 2\)"):
            run(wide[:, 2:18:2])
        negated = torch.randn(5, 8, dtype=torch.complex64).conj().imag.as_strided((5, 8), (16, 1))
        assert negated.is_neg()
        with pytest.raises(ArgumentError, match="lazily negated view"):
            run(negated)


@everywhere
def test_empty_tensors(place):
    with kernel(place, scaled("float32", "float32"), out_idx=[2]) as run:
        assert run(torch.empty(0, 8), 1.0).shape == (0, 8)


MISTAKES = {
    "missing": lambda a, b: (a,),
    "too many": lambda a, b: (a, 1.0, b, b),
    "dtype": lambda a, b: (a.half(), 1.0, b),
    "integer dtype": lambda a, b: (a.int(), 1.0, b),
    "rank": lambda a, b: (a[0], 1.0, b),
    "extent": lambda a, b: (a[:, :4].contiguous(), 1.0, b),
    "dynamic extent": lambda a, b: (a, 1.0, b[:2]),
    "strides": lambda a, b: (torch.randn(8, 3).t(), 1.0, b),
    "every second row": lambda a, b: (torch.randn(6, 8)[::2], 1.0, b),
    "expanded": lambda a, b: (torch.randn(1, 8).expand(3, 8), 1.0, b),
    "device": lambda a, b: (a.to("meta"), 1.0, b),
    "scalar": lambda a, b: (a, "one", b),
    "none": lambda a, b: (a, 1.0, None),
    "swapped": lambda a, b: (1.0, a, b),
    "sparse": lambda a, b: (a.to_sparse(), 1.0, b),
    "list": lambda a, b: (a.tolist(), 1.0, b),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_all_backends_raise_the_same_errors(mistake):
    messages = {}
    for place in PLACES:
        with kernel(place, scaled("float32", "float32")) as run:
            a, b = torch.randn(3, 8), torch.zeros(3, 8)
            with pytest.raises(ArgumentError) as caught:
                run(*MISTAKES[mistake](a, b))
            messages[place] = str(caught.value)
            assert not b.any()
    assert len(set(messages.values())) == 1, messages


def one_element(size):
    """``B = A + 1`` of tensors of ``size`` elements, which calls give one."""

    @T.prim_func
    def program(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(size):
                B[i] = A[i] + 1.0

    return program


@everywhere
@pytest.mark.parametrize("size", [1, T.dynamic("n")], ids=["fixed", "dynamic"])
def test_one_element_that_torch_negates_lazily_is_refused(place, size):
    given, negated = torch.zeros(1), torch.tensor([1 + 2j]).conj().imag
    assert negated.is_neg() and negated.is_contiguous()
    with kernel(place, one_element(size)) as call:
        for arguments in ((negated, given), (given, negated)):
            with pytest.raises(ArgumentError, match="lazily negated view"):
                call(*arguments)


@everywhere
@pytest.mark.parametrize(
    "given",
    [
        lambda memory: torch._subclasses.fake_tensor.FakeTensorMode().from_tensor(memory),
        lambda memory: memory.to_sparse(),
        lambda memory: torch.complex(memory, memory).conj().imag,
    ],
    ids=["fake", "sparse", "negated"],
)
def test_a_tensor_for_an_address_has_its_values_in_memory(place, given):
    @T.prim_func
    def program(address: T.ptr, B: T.Tensor((4,), "float32")):
        A = T.make_tensor(address, (4,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = A[i]

    memory, made = torch.arange(4.0), torch.zeros(4)
    with kernel(place, program) as call:
        call(memory, made)
        assert torch.equal(made, memory)
        with pytest.raises(ArgumentError, match=r"argument address \(position 0\)"):
            call(given(memory), made)


@everywhere
def test_a_number_beyond_every_float_is_refused(place):
    with kernel(place, scaled("float32", "float32"), out_idx=[2]) as call:
        with pytest.raises(ArgumentError, match="expected a number for float32, got an integer beyond every float"):
            call(torch.zeros(1, 8), 10**400)


@pytest.mark.parametrize("place", [place for place in PLACES if place[1] != "tvm_ffi"], ids="-".join)
def test_sizes_beyond_64_bits_do_not_wrap_around(place):
    n = T.dynamic("n", "int64")

    @T.prim_func
    def program(A: T.StridedTensor((n,), (0,), "float32"), B: T.Tensor((n * n,), "float32"), C: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            C[0] = 1.0

    many, none = torch.zeros(1).expand(2**32), torch.zeros(0)
    with kernel(place, program) as call, pytest.raises(ArgumentError, match=r"B .*axis 0 is 0, not 18446744073709551616"):
        call(many, none, torch.zeros(1))


def partly_used(uses_size: bool):
    """Fills C; A and B of ``m`` elements are never touched, ``m`` itself only where asked for."""
    m = T.dynamic("m")

    @T.prim_func
    def program(A: T.Tensor((m,), "float16"), B: T.Tensor((m, 2), "float32"), C: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                C[i] = i + (m if uses_size else 0)

    return program


@everywhere
def test_none_for_tensors_that_a_kernel_never_touches(place):
    c = torch.zeros(4, dtype=torch.int32)
    with kernel(place, partly_used(uses_size=True)) as call:
        for arguments in ((torch.zeros(7).half(), None), (None, torch.zeros(7, 2))):
            call(*arguments, c.zero_())
            assert c.tolist() == [7, 8, 9, 10]
        with pytest.raises(ArgumentError, match="no argument gives the size m"):
            call(None, None, c)
        with pytest.raises(ArgumentError, match="argument C.*got None"):
            call(None, torch.zeros(7, 2), None)
    with kernel(place, partly_used(uses_size=False)) as call:
        call(None, B=None, C=c)
        assert c.tolist() == [0, 1, 2, 3]


def size_of_one_tensor():
    """Fills C with ``m``, which only A has; A itself is never touched."""
    m = T.dynamic("m")

    @T.prim_func
    def program(A: T.Tensor((2, m), "float16"), C: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                C[i] = m

    return program


@everywhere
def test_none_for_the_only_tensor_of_a_size_makes_it_zero(place):
    c = torch.zeros(4, dtype=torch.int32)
    with kernel(place, size_of_one_tensor()) as call:
        call(torch.zeros(2, 7).half(), c)
        assert c.tolist() == [7] * 4
        for nothing in (None, torch.zeros(2, 0).half()):
            call(nothing, c.fill_(1))
            assert c.tolist() == [0] * 4


@everywhere
def test_read_only_arrays_are_inputs_and_no_outputs(place):
    a, b = np.ones((3, 8), np.float32), np.zeros((3, 8), np.float32)
    with kernel(place, scaled("float32", "float32")) as call:
        a.flags.writeable = False
        call(a, 2.0, b)
        assert (b == 2).all()
        b.flags.writeable = False
        with pytest.raises(ArgumentError, match=r"B \(position 2\): expected memory that the kernel can write, got a read-only"):
            call(a, 3.0, b)
        assert (b == 2).all()


class UnmarkedArray:
    """An array of a library whose arrays must not be written, and whose exports do not say so."""

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


@everywhere
def test_arrays_of_jax_are_not_written(place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(UnmarkedArray, "__module__", "jax")
    array = UnmarkedArray(torch.zeros(3, 8))
    with kernel(place, scaled("float32", "float32")) as call:
        with pytest.raises(ArgumentError, match=r"B \(position 2\): expected memory that the kernel can write"):
            call(torch.ones(3, 8), 2.0, array)
    assert not array.tensor.any()


@everywhere
def test_a_tensor_without_axes_has_none(place):
    @T.prim_func
    def program(A: T.Tensor((), "float32"), B: T.Tensor((), "float32")):
        with T.Kernel(1, threads=32):
            B[()] = A[()] + 1.0

    with kernel(place, program) as call:
        made = torch.zeros(())
        call(torch.tensor(2.0), made)
        assert made == 3
        for wrong in (torch.zeros(0), torch.zeros(1), torch.zeros(2, 2)):
            with pytest.raises(ArgumentError, match=r"A \(position 0\): expected 0 axes"):
                call(wrong, made)


@everywhere
def test_a_grid_of_a_negative_size_is_empty(place):
    n = T.dynamic("n")

    @T.prim_func
    def program(A: T.Tensor((n,), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(n - 4, threads=32) as block:
            B[block] = A[block]

    with kernel(place, program) as call:
        for size, values in ((0, [0, 0]), (3, [0, 0]), (5, [1, 0])):
            made = torch.zeros(2)
            call(torch.ones(size), made)
            assert made.tolist() == values


def test_the_hint_for_a_tensor_with_strides_keeps_what_the_kernel_writes():
    @T.prim_func
    def program(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(A, B)

    kernel, wide = tilelang.compile(program, target="cpu"), torch.zeros(8, 4).t()
    with pytest.raises(ArgumentError, match=r"pass A\.contiguous\(\), or declare"):
        kernel(wide, torch.zeros(4, 8))
    with pytest.raises(ArgumentError, match="pass a contiguous tensor, from which B is copied after the call"):
        kernel(torch.zeros(4, 8), wide)


@pytest.mark.parametrize("backend", ["tvm_ffi", "ctypes", "cython", "torch"])
@pytest.mark.parametrize("dtype", ["int4", "float4_e2m1fn", "uint8"])
def test_a_tensor_of_one_byte(dtype, backend):
    """Of a packed type it has two elements, and no axis of torch's tensor has more than one."""

    @T.prim_func
    def main(A: T.Tensor((1, 1 if dtype == "uint8" else 2), dtype)):
        with T.Kernel(1, threads=1):
            tile = T.alloc_shared(A.shape, dtype)
            T.clear(tile)
            T.copy(tile, A)

    a = torch.ones((1, 1), dtype=torch.int8 if dtype == "int4" else torch.uint8)
    tilelang.compile(main, target="cpu", execution_backend=backend)(a)
    assert a.item() == 0


def test_the_text_of_an_artifact_has_no_contents_of_files():
    artifact = tilelang.compile(scaled("float32", "float32"), target="cpu").artifact
    assert artifact.files
    assert len(repr(artifact)) < 5000
