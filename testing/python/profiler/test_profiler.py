"""Inputs, comparisons and measurements of the profiler."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.jit import programs
from tilelang.profiler import DEFAULT_SIZE, Profiler, cloned, do_bench
from tilelang.simulator import virtual_device
from tilelang.utils.tensor import TensorSupplyType, get_tensor_supply, torch_assert_close


def profiler(kind: TensorSupplyType = TensorSupplyType.Auto) -> Profiler:
    return programs.scaled_add(200).get_profiler(tensor_supply_type=kind)


def right(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b * programs.SCALE + programs.offset()


def test_a_call_is_measured_on_the_device_of_its_tensors():
    places: list[int] = []
    with virtual_device(devices=2):
        do_bench(lambda: places.append(torch.cuda.current_device()), warmup=0, rep=0, device="cuda:1")
        measured = Profiler(lambda a: places.append(torch.cuda.current_device()), (), (), device="cuda")
        measured.do_bench(warmup=0, rep=0, input_tensors=[torch.ones(1, device="cuda:1")])
        assert torch.cuda.current_device() == 0
    assert places and set(places) == {1}


def test_assert_allclose_accepts_a_correct_kernel_and_refuses_a_wrong_reference():
    profiler().assert_allclose(right, rtol=1e-5, atol=1e-5)
    with pytest.raises(AssertionError, match="elements differ"):
        profiler().assert_allclose(lambda a, b: right(a, b) + 1)


def test_run_once_and_consistency():
    assert profiler().run_once().shape == (200,)
    profiler().assert_consistent(repeat=3)


@pytest.mark.parametrize("mode", ["min", "max", "mean", "median"])
def test_do_bench_measures_the_kernel_and_any_function(mode: str):
    one = profiler().do_bench(warmup=1, rep=2, return_mode=mode)
    other = profiler().do_bench(right, n_warmup=1, n_repeat=3)
    assert one > 0 and other > 0


def test_do_bench_returns_quantiles_in_order_and_rejects_invalid_arguments():
    low, high = do_bench(lambda: None, rep=1, quantiles=[0.1, 0.9])
    assert low <= high
    with pytest.raises(ValueError, match="return_mode"):
        do_bench(lambda: None, return_mode="average")
    with pytest.raises(ValueError, match="backend"):
        do_bench(lambda: None, backend="sundial")
    with pytest.raises(ValueError, match="numbers of calls are not negative"):
        profiler().do_bench(n_repeat=-1)


@pytest.mark.parametrize("kind", list(TensorSupplyType))
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "uint8", "int32", "bool"])
def test_every_supply_makes_every_dtype(kind: TensorSupplyType, dtype: str):
    from tilelang.artifact import KernelParam

    tensor = get_tensor_supply(kind, sizes={"m": 3})(KernelParam("A", "tensor", dtype, ("m", ("mul", "m", 2))))
    assert tensor.shape == (3, 6) and str(tensor.dtype) == f"torch.{dtype}"


@pytest.mark.parametrize("dtype, one", [("int4", 0x11), ("uint4", 0x11), ("float4_e2m1fn", 0x22)])
def test_types_of_half_a_byte_are_supplied_as_they_are_stored(dtype: str, one: int):
    @T.prim_func
    def program(A: T.Tensor((4, 6), dtype), B: T.Tensor((4, 6), dtype)):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(4, 6):
                B[i, j] = A[i, j]

    kernel = tilelang.compile(program, out_idx=[1], target="cpu")
    for kind in TensorSupplyType:
        (made,) = kernel.get_profiler(kind).inputs()
        stored = made.view(torch.uint8)
        assert stored.shape == (4, 3) and torch.equal(kernel(made).view(torch.uint8), stored)
        assert (kind is TensorSupplyType.One) == bool((stored == one).all())


def padded() -> Profiler:
    """Of a kernel that adds one to a matrix in place, whose rows are ``s`` elements apart."""
    n, s = T.dynamic("n, s")

    @T.prim_func
    def program(A: T.StridedTensor((n, 200), (s, 1), "float32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(n, 200):
                A[i, j] += 1.0

    return tilelang.compile(program, target="cpu").get_profiler()


def test_made_up_inputs_and_their_copies_have_the_declared_strides():
    (made,) = padded().inputs({"n": 3, "s": 208})
    (copy,) = cloned([made])
    assert made.shape == (3, 200) and made.stride() == copy.stride() == (208, 1) and torch.equal(made, copy)
    padded().assert_allclose(lambda a: a.add_(1), dynamic_symbolic_constraints={"n": 3, "s": 208})


def test_a_reference_gets_what_the_kernel_got():
    given, seen = torch.zeros(2, 200), []
    padded().manual_assert_close(lambda a: a + 1, [given], lambda _, wanted: seen.extend(wanted))
    assert torch.equal(given, seen[0])


def test_dynamic_sizes_are_given_or_made_up():
    dynamic = programs.dynamic_copy().get_profiler()
    assert dynamic.run_once().shape[0] == DEFAULT_SIZE
    dynamic.assert_allclose(lambda a: a, dynamic_symbolic_constraints={"m": 7})
    assert dynamic.do_bench(n_warmup=1, n_repeat=1, dynamic_symbolic_constraints={"m": 7}) > 0


def test_close_enough_allows_a_share_of_outliers_only():
    left = torch.zeros(1000)
    right_ = left.clone()
    right_[7] = 1.0
    assert torch_assert_close(left, right_, max_mismatched_ratio=0.002)
    with pytest.raises(AssertionError, match=r"the worst is at \(7,\)"):
        torch_assert_close(left, right_, max_mismatched_ratio=0.0005)
    with pytest.raises(AssertionError, match="dtype differs"):
        torch_assert_close(left, left.half())


def test_every_argument_of_the_reference_package_is_taken():
    assert do_bench(lambda: None, warmup=1, rep=1, cache_size=16, device="cpu") > 0
    assert profiler().do_bench(warmup=1, rep=1, device="cpu") > 0
    with pytest.raises(TypeError, match="did you mean 'tensor_supply_type'"):
        programs.scaled_add(200).get_profiler(tensor_suply_type=TensorSupplyType.Normal)
