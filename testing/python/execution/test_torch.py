"""The torch backend's operator under torch's own tracers."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import tilelang
import tilelang.language as T
from tilelang.execution import load, supported

from . import handmade


@pytest.fixture(scope="module")
def axpy(tmp_path_factory):
    """``axpy(A, B, C, scale)``, which writes C."""
    directory = tmp_path_factory.mktemp("torch")
    return load(handmade.artifact("torch", directory, written=("C",)), directory).call


@pytest.fixture(scope="module")
def axpy_out(tmp_path_factory):
    """``axpy(A, B, scale) -> C``, which writes none of its arguments."""
    directory = tmp_path_factory.mktemp("torch")
    return load(handmade.artifact("torch", directory, (2,), written=("C",)), directory).call


def test_fake_tensors_get_the_shape(axpy_out):
    with FakeTensorMode():
        c = axpy_out(torch.empty(7, 64), torch.empty(7, 64), 2)
    assert c.shape == (7, 64) and c.dtype == torch.float32


def test_meta_tensors_get_the_shape(axpy_out):
    a = torch.empty(7, 64, device="meta")
    assert axpy_out(a, a, 2).shape == (7, 64) and axpy_out(a, a, 2).device.type == "meta"


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_without_graph_breaks(axpy_out, dynamic):
    def program(a, b):
        return axpy_out(a + 1, b, 2) * 3

    compiled = torch.compile(program, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for n in (3, 5, 6):
        a, b = torch.randn(n, 64), torch.randn(n, 64)
        torch.testing.assert_close(compiled(a, b), ((a + 1) * 2 + b) * 3)


def test_compiles_a_kernel_that_writes_its_argument(axpy):
    def program(a, b):
        c = torch.zeros_like(a)
        axpy(a, b, c, 4)
        return c + 1

    a, b = torch.randn(3, 64), torch.randn(3, 64)
    compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(a, b), a * 4 + b + 1)


def test_autograd_sees_the_write(axpy):
    a, b, c = (torch.randn(2, 64) for _ in range(3))
    before = c._version
    axpy(a, b, c, 1)
    assert c._version > before and a._version == 0


def test_passes_torchs_own_checks(axpy_out):
    operator = next(cell.cell_contents for cell in axpy_out.__closure__ if isinstance(cell.cell_contents, torch._ops.OpOverload))
    torch.library.opcheck(operator, (torch.randn(3, 64), torch.randn(3, 64), 2))


def scaled(dtype="float32"):
    """``B = A * s`` for any number of rows."""
    n = T.dynamic("n")

    @T.prim_func
    def program(A: T.Tensor((n, 8), dtype), s: T.float32, B: T.Tensor((n, 8), dtype)):
        with T.Kernel(T.ceildiv(n, 4), threads=32) as block:
            for row, j in T.Parallel(4, 8):
                if block * 4 + row < n:
                    B[block * 4 + row, j] = A[block * 4 + row, j] * s

    return program


@pytest.mark.parametrize("place", [(target, b) for target in ("cpu", "cuda") for b in supported(target)], ids="-".join)
def test_a_kernel_of_any_backend_is_an_operator_in_a_graph(place):
    target, backend = place
    options = {"target": {"kind": "cuda", "arch": "sm_80"} if target == "cuda" else target, "execution_backend": backend}
    given, allocated = tilelang.compile(scaled(), **options), tilelang.compile(scaled(), out_idx=[2], **options)

    def program(a):
        out = torch.zeros_like(a)
        given(a, 2.0, B=out)
        return allocated(out + 1, s=3.0) * 2

    torch.compiler.reset()  # it counts the compilations of one text
    compiled = torch.compile(program, fullgraph=True, backend="aot_eager", dynamic=True)
    with tilelang.simulator():
        for n in (5, 9):
            a = torch.randn(n, 8)
            torch.testing.assert_close(compiled(a), (a * 2 + 1) * 6)
        torch.testing.assert_close(program(a), (a * 2 + 1) * 6)


def test_a_kernel_outside_of_tracing_registers_no_operator():
    kernel = tilelang.compile(scaled("float64"), target="cpu", execution_backend="cython", out_idx=[2])
    before = set(dir(torch.ops.tilelang))
    kernel(torch.zeros(3, 8, dtype=torch.float64), 1.0)
    assert set(dir(torch.ops.tilelang)) == before
    assert kernel._in_graph.call is kernel.func


@tilelang.jit(target="cpu")
def scaled_sum(A, B, factor: T.float32, offset: int = 2):
    rows, columns = T.dynamic("rows"), T.const("columns")
    A: T.Tensor((rows, columns), "float32")
    B: T.Tensor((rows, columns), "float32")
    C = T.empty((rows, columns), "float32")
    with T.Kernel(rows, threads=32) as row:
        for i in T.Parallel(columns):
            C[row, i] = A[row, i] + B[row, i] * factor + offset
    return C


@tilelang.jit(target="cpu", out_idx=-1)
def tripled(columns):
    rows = T.dynamic("rows")

    @T.prim_func
    def main(A: T.Tensor((rows, columns), "float32"), B: T.Tensor((rows, columns), "float32")):
        with T.Kernel(rows, threads=32) as row:
            for i in T.Parallel(columns):
                B[row, i] = A[row, i] * 3

    return main


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_jit_functions_are_called_inside_of_a_graph(dynamic):
    """An eager function and a factory; sizes of T.const and the factory's arguments are what the graph is for, others are not."""
    torch.compiler.reset()
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    @torch.compile(fullgraph=True, dynamic=dynamic, backend=count)
    def model(x, y):
        return scaled_sum(x + 1, y, 0.5, offset=1) + tripled(x.shape[1])(y)

    for shape in ((3, 8), (5, 8), (7, 8), (7, 16), (9, 16)):
        x, y = torch.randn(shape), torch.randn(shape)
        torch.testing.assert_close(model(x, y), x + 2 + y * 3.5)
    assert len(graphs) == {None: 3, True: 2, False: 5}[dynamic]


def test_numbers_of_a_call_may_be_open():
    torch.compiler.reset()
    model = torch.compile(lambda x, factor: scaled_sum(x, x, factor), fullgraph=True, dynamic=True, backend="eager")
    for factor in (1.5, 2.5, 3.5):
        torch.testing.assert_close(model(torch.ones(2, 4), factor), torch.full((2, 4), factor + 3))


@tilelang.jit(target="cpu", out_idx=-1)
def multiplied(columns, factor):
    @T.prim_func
    def main(A: T.Tensor((2, columns), "float32"), B: T.Tensor((2, columns), "float32")):
        with T.Kernel(2, threads=32) as row:
            for i in T.Parallel(columns):
                B[row, i] = A[row, i] * factor

    return main


def test_numbers_that_choose_a_kernel_are_those_of_the_call():
    """The tracer keeps them open, computed ones too, until a factory takes them."""
    torch.compiler.reset()
    model = torch.compile(lambda x, s: multiplied(4, s * 2)(x) + s, fullgraph=True, dynamic=True, backend="eager")
    for factor in (0.5, 1.5, float("inf"), 0.5):
        torch.testing.assert_close(model(torch.ones(2, 4), factor), torch.full((2, 4), factor * 3))


@tilelang.jit(target="cpu")
def halves(A, factor: T.float32):
    """Two outputs."""
    n = T.const("n")
    A: T.Tensor((n,), "float32")
    B = T.empty((n,), "float32")
    C = T.empty((n,), "float32")
    with T.Kernel(1):
        for i in T.Parallel(n):
            B[i] = A[i] * factor
            C[i] = A[i] * (1 - factor)
    return B, C


@pytest.mark.parametrize("target", ["cpu", "interpret"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", None])
def test_several_outputs_are_a_list_inside_and_outside_of_graphs(target, backend):
    with tilelang.interpret() if target == "interpret" else contextlib.nullcontext():
        if backend is None:
            made = halves(torch.ones(8), 0.25)
        else:
            made = torch.compile(lambda x: halves(x, 0.25), fullgraph=True, backend=backend)(torch.ones(8))
    assert type(made) is list
    torch.testing.assert_close(made, [torch.full((8,), 0.25), torch.full((8,), 0.75)])
