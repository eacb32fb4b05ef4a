"""What every backend does with right and with wrong arguments, on one hand-made program."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch

import tilelang
from tilelang.errors import ArgumentCountError, ArgumentError, ArgumentValueError, KernelFailedError, SimulatorError
from tilelang.execution import load, supported

from . import handmade

MAKERS = {"cpu": handmade.artifact, "cuda": handmade.cuda_artifact}
PLACES = [(target, backend) for target in MAKERS for backend in supported(target)]


@pytest.fixture(scope="module", params=PLACES, ids=lambda place: "-".join(place))
def make(request, tmp_path_factory):
    """``make(out_idx, **metadata)`` gives the call of the program, for each target and backend; CUDA on the simulator."""
    target, backend = request.param

    def build(*args, **metadata):
        directory = tmp_path_factory.mktemp(f"{target}-{backend}")
        return load(MAKERS[target](backend, directory, *args, **metadata), directory).call

    build.target = target
    with tilelang.simulator() if target == "cuda" else contextlib.nullcontext():
        yield build


@pytest.fixture(scope="module")
def axpy(make):
    """``axpy(A, B, C, scale)``."""
    return make()


@pytest.fixture(scope="module")
def axpy_out(make):
    """``axpy(A, B, scale) -> C``."""
    return make((2,))


def tensors(n: int = 5):
    """Three tensors that fit."""
    generator = torch.Generator().manual_seed(n)
    return [torch.randn(n, 64, generator=generator) for _ in range(3)]


def test_writes_its_argument(axpy):
    a, b, c = tensors()
    assert axpy(a, b, c, 3) is None
    torch.testing.assert_close(c, a * 3 + b)


def test_allocates_outputs_of_dynamic_shape(axpy_out):
    for n in (1, 2, 17):
        a, b, _ = tensors(n)
        c = axpy_out(a, b, -2)
        assert c.shape == (n, 64) and c.dtype == torch.float32 and c.is_contiguous()
        torch.testing.assert_close(c, a * -2 + b)


def test_takes_keywords(axpy):
    a, b, c = tensors()
    axpy(a, scale=2, C=c, B=b)
    torch.testing.assert_close(c, a * 2 + b)


def test_takes_parameters_and_arrays_of_other_libraries(axpy):
    a, b, c = tensors()
    axpy(torch.nn.Parameter(a), b.numpy(), c, 2)
    torch.testing.assert_close(c, a * 2 + b)


@pytest.mark.parametrize("scale", [np.int64(4), torch.tensor(4), True, np.uint8(9)])
def test_takes_whole_numbers_of_other_types(axpy, scale):
    a, b, c = tensors()
    axpy(a, b, c, scale)
    torch.testing.assert_close(c, a * int(scale) + b)


def test_takes_empty_tensors_of_any_strides(axpy, axpy_out):
    odd = torch.empty(0, 64).as_strided((0, 64), (1, 1))
    axpy(odd, odd, odd, 1)
    assert axpy_out(odd, odd, 1).shape == (0, 64)


def test_takes_any_stride_of_an_axis_of_one(axpy):
    a, b, c = (t.as_strided((1, 64), (999, 1)) for t in tensors())
    axpy(a, b, c, 1)
    torch.testing.assert_close(c, a + b)


def test_takes_aligned_views_into_a_tensor(axpy):
    storage = torch.randn(64 * 5 + 1)
    a, (b, c) = storage[1:].view(5, 64), tensors()[:2]
    axpy(a, b, c, 1)
    torch.testing.assert_close(c, a + b)


def wrong_calls():
    """Name, arguments, aspect of the error, parameter, and what the message must say."""
    a, b, c = tensors()
    return [
        ("dtype", (a, b.double(), c, 1), "dtype", "B", "expected float32, got float64"),
        ("rank", (a[0], b, c, 1), "shape", "A", "expected 2 axes (n, 64), got 1 axes (64,)"),
        ("extent", (a, b, c[:, :32].contiguous(), 1), "shape", "C", "expected (n, 64), got (5, 32) (axis 1 is 32, not 64)"),
        ("dynamic extent", (a, b[:3], c, 1), "shape", "B", "got (3, 64) (axis 0 is 3, not 5; n is 5 by A)"),
        ("strides", (torch.randn(64, 5).t(), b, c, 1), "strides", "A", "got (1, 5)"),
        ("device", (a, b.to("meta"), c, 1), "device", "B", "expected cpu, got meta"),
        ("overflow", (a, b, c, 2**31), "value", "scale", "expected int32, from -2147483648 to 2147483647, got 2147483648"),
        ("big overflow", (a, b, c, 2**70), "value", "scale", str(2**70)),
        ("float for int", (a, b, c, 1.0), "type", "scale", "expected a number for int32, got float"),
        ("text for int", (a, b, c, "1"), "type", "scale", "got str"),
        ("none", (a, None, c, 1), "type", "B", "expected a torch tensor, got None"),
        ("number for tensor", (a, 7, c, 1), "type", "B", "got int"),
        ("address for tensor", (a, b.data_ptr(), c, 1), "type", "B", "got int"),
        ("list for tensor", ([1.0], b, c, 1), "type", "A", "got list"),
        ("sparse", (a.to_sparse(), b, c, 1), "layout", "A", "got torch.sparse_coo"),
        ("backwards", (a.numpy()[::-1], b, c, 1), "strides", "A", "strides that are not negative, got (-256, 4) bytes"),
        ("nested", (torch.nested.nested_tensor([a]), b, c, 1), "layout", "A", "got a nested tensor"),
        ("tensor for int", (a, b, c, torch.randn(2)), "type", "scale", "got torch.Tensor"),
    ]


@pytest.mark.parametrize("call", wrong_calls(), ids=lambda call: call[0])
def test_names_what_is_wrong(axpy, call):
    _, arguments, aspect, parameter, text = call
    before = [t.clone() if isinstance(t, torch.Tensor) and t.device.type == "cpu" else t for t in arguments]
    with pytest.raises(ArgumentValueError) as caught:
        axpy(*arguments)
    assert caught.value.parameter == parameter and caught.value.aspect == aspect
    assert text in str(caught.value) and "axpy" in str(caught.value)
    assert len(str(caught.value).splitlines()) < 4
    if isinstance(before[2], torch.Tensor):
        torch.testing.assert_close(arguments[2], before[2])


@pytest.mark.parametrize("place", [0, 2])
def test_refuses_a_tensor_whose_memory_is_freed(axpy, place):
    given = [*tensors(), 1]
    given[place].untyped_storage().resize_(0)
    with pytest.raises((ArgumentValueError, SimulatorError)) as caught:
        axpy(*given)
    # tvm_ffi's generated CUDA host passes the address on, and the simulator reports what the kernel does with it.
    refused = f"{'ABC'[place]} (position {place}): expected a tensor with data, got a torch.Tensor without memory"
    assert refused in str(caught.value) or "at 0x0 in global memory: no argument points there" in str(caught.value)


@pytest.mark.parametrize("backend", ["ctypes", "cython"])
def test_an_output_without_memory_is_an_error(backend, tmp_path):
    call = load(MAKERS["cpu"](backend, tmp_path, (2,)), tmp_path).call
    a, b, _ = tensors()
    with torch._subclasses.fake_tensor.FakeTensorMode(allow_non_fake_inputs=True):
        with pytest.raises(KernelFailedError, match="an output without memory"):
            call(a, b, 1)


def test_refuses_what_torch_func_hands_to_functions_or_computes_it(axpy_out):
    a, b, _ = tensors()
    many = torch.stack([a, b])
    try:
        made = torch.vmap(lambda x: axpy_out(x, b, 2))(many)
    except ArgumentValueError as error:
        assert "A (position 0): expected a tensor with data" in str(error)
    else:  # the torch backend's operators
        torch.testing.assert_close(made, many * 2 + b)


@pytest.mark.parametrize(
    "args, kwargs, text",
    [
        ((), {}, "arguments A, B, C, scale missing"),
        ((1, 2), {}, "arguments C, scale missing (got 2 of 4)"),
        ((1, 2, 3, 4, 5), {}, "takes 4 arguments, got 5"),
        ((1,), {"A": 1}, "A is given twice"),
        ((1, 2, 3, 4), {"D": 1}, "has no argument D"),
    ],
)
def test_counts_arguments(axpy, args, kwargs, text):
    with pytest.raises(ArgumentCountError) as caught:
        axpy(*args, **kwargs)
    assert text in str(caught.value) and "axpy(A, B, C, scale)" in str(caught.value)


def test_says_how_a_call_makes_a_missing_output(axpy, axpy_out):
    with pytest.raises(ArgumentCountError, match=r"compile with out_idx=\[2\], by which a call makes and returns C"):
        axpy(1, 2, scale=3)
    with pytest.raises(ArgumentCountError) as caught:
        axpy(1, 2)  # a number is missing, too
    assert "out_idx" not in str(caught.value)
    with pytest.raises(ArgumentCountError) as caught:
        axpy_out(1, scale=3)  # C is made already
    assert "out_idx" not in str(caught.value)


def test_says_that_it_allocates_outputs(axpy_out):
    a, b, c = tensors()
    with pytest.raises(ArgumentCountError, match="the call itself allocates C"):
        axpy_out(a, b, c, 1)


def test_reports_a_failing_kernel(axpy, make):
    a, b, c = tensors()
    error, text = {"cpu": (KernelFailedError, "thirteen is unlucky"), "cuda": (SimulatorError, "trap")}[make.target]
    with pytest.raises(error, match=text) as caught:
        axpy(a, b, c, 13)
    assert not isinstance(caught.value, ArgumentError)


def test_checks_the_alignment_that_the_code_needs(make):
    call = make(alignment={"A": 16})
    storage, (b, c) = torch.randn(64 * 5 + 1), tensors()[:2]
    with pytest.raises(ArgumentValueError, match="multiple of 16 bytes") as caught:
        call(storage[1:].view(5, 64), b, c, 1)
    assert caught.value.aspect == "alignment"
    call(storage[:-1].view(5, 64), b, c, 1)
