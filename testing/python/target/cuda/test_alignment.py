"""Alignment that PTX asks of tensors."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda, simulate
from tilelang.artifact import KernelLaunch, KernelParam, TensorMapSpec
from tilelang.errors import ArgumentError
from tilelang.target.cuda.toolchain.alignment import tensor_alignment

PARAMS = (
    KernelParam("A", "tensor", "float16", (8,)),
    KernelParam("B", "tensor", "float64", (8,)),
    KernelParam("s", "scalar", "int32"),
)
ARGUMENTS = (("tensor", "A"), ("tensor", "B"), ("scalar", "s"))
LAUNCH = KernelLaunch("main", ARGUMENTS, ("handle", "handle", "int32"), (1, 1, 1), (32, 1, 1))


def alignment(*lines: str, function: str = ".visible .entry main(", launch: KernelLaunch = LAUNCH) -> dict[str, int]:
    return tensor_alignment("\n".join([function, ".param .u64 main_param_0", ")", "{", *lines, "}"]), PARAMS, (launch,))


@pytest.mark.parametrize(
    "line, expected",
    [
        ("ld.global.nc.f32 %f1, [%rd1];", {}),
        ("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];", {"A": 16, "B": 16}),
        ("ld.global.nc.L1::no_allocate.v2.f32 {%f1, %f2}, [%rd1];", {"A": 8}),
        ("st.global.v2.b16 [%rd1], {%rs1, %rs2};", {"A": 4}),
        ("st.shared.v4.b32 [%r1], {%r1, %r2, %r3, %r4};", {}),
        ("cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;", {"A": 16, "B": 16}),
        ("cp.async.ca.shared.global [%r1], [%rd1], 4;", {"A": 4}),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];", {"A": 16, "B": 16}),
    ],
)
def test_an_access_of_unknown_origin_counts_for_all_parameters(line, expected):
    assert alignment(line) == expected
    assert alignment("ld.param.u64 \t%rd1, [helper_param_0];", line, function=".func helper(") == expected


def test_an_access_counts_for_the_tensors_that_its_address_is_computed_from():
    a = ["ld.param.u64 \t%rd1, [main_param_0];", "cvta.to.global.u64 \t%rd3, %rd1;", "ld.global.u64 %rd9, [%rd3];"]
    b = ["ld.param.u64 \t%rd2, [main_param_1];", "@%p1 add.s64 \t%rd4, %rd2, %rd5;", "st.global.v2.b64 [%rd4+16], {%rd9, %rd3};"]
    assert alignment(*a, *b) == {"B": 16}
    assert alignment(*a, *b, "selp.b64 %rd4, %rd3, %rd4, %p1;") == {"A": 16, "B": 16}
    assert alignment(*a, "st.global.v2.b64 [%rd9], {%rd9, %rd9};") == {}  # an address that a tensor holds


def test_a_tensor_map_counts_for_its_tensor():
    spec = TensorMapSpec("A_map", "A", "float16", (64,), (), (64,), (1,))
    launch = KernelLaunch("main", ARGUMENTS, LAUNCH.arg_dtypes, LAUNCH.grid, LAUNCH.block, tensor_maps=(spec,))
    line = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1];"
    assert alignment(line, launch=launch) == {"A": 16}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_lengths_may_start_anywhere_beside_tiles_that_are_copied_by_vectors(arch):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), first: T.Tensor((4,), "int32"), B: T.Tensor((4, 16, 64), "float16")):
        with T.Kernel(4, threads=128) as bx:
            tile = T.alloc_shared((16, 64), "float16")
            T.copy(A[first[bx], 0], tile)
            T.copy(tile, B[bx, 0, 0])

    a, starts = torch.randn(64, 64).half(), torch.tensor([9, 3, 0, 16, 48], dtype=torch.int32)
    with tilelang.simulator(strict=True):
        kernel = tilelang.compile(main, out_idx=-1, target=cuda(arch))
        assert torch.equal(kernel(a, starts[1:]), torch.stack([a[low : low + 16] for low in (3, 0, 16, 48)]))
        with pytest.raises(ArgumentError, match="alignment of argument A"):
            kernel(torch.zeros(64 * 64 + 4).half()[4:].reshape(64, 64), starts[1:])


def test_an_address_from_a_table_of_pointers_is_not_the_tables():
    @T.prim_func
    def main(P: T.Tensor((1,), T.ptr), X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=16):
            x = T.make_tensor(P[0], (64,), T.float32)
            f = T.alloc_fragment((64,), "float32")
            T.copy(x, f)
            for i in T.Parallel(64):
                Y[i] = f[i] + X[i]

    x, out = torch.randn(64, generator=torch.Generator().manual_seed(0)), torch.zeros(64)
    simulate(main, torch.tensor([0, x.data_ptr(), 0])[1:2], x, out)
    assert torch.equal(out, 2 * x)


def copied_from_a_pointer():
    @T.prim_func
    def main(p: T.ptr, B: T.Tensor((64,), "float16")):
        with T.Kernel(1, threads=32):
            a = T.make_tensor(p, (64,), "float16")
            tile = T.alloc_shared((64,), "float16")
            T.copy(a, tile)
            T.copy(tile, B)

    return main


@pytest.mark.parametrize("backend", ["ctypes", "cython", "nvrtc", "torch", "tvm_ffi"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_pointer_is_aligned_to_what_the_copies_from_it_need(arch, backend):
    a, b = torch.randn(80).half(), torch.zeros(64).half()
    with tilelang.simulator(strict=True):
        kernel = tilelang.compile(copied_from_a_pointer(), target=cuda(arch), execution_backend=backend)
        kernel(a[8:72], b)
        assert torch.equal(a[8:72], b)
        for address in (a[1:65], a[1:65].data_ptr()):
            with pytest.raises(ArgumentError, match="alignment of argument p .*: expected .* multiple of 16 bytes"):
                kernel(address, b)


def test_a_pointer_whose_elements_are_accessed_one_by_one_may_be_anywhere():
    @T.prim_func
    def main(p: T.ptr, B: T.Tensor((64,), "float16")):
        with T.Kernel(1, threads=64):
            a = T.make_tensor(p, (64,), "float16")
            for i in T.Parallel(64):
                B[63 - i] = a[i]

    a, b = torch.randn(80).half(), torch.zeros(64).half()
    simulate(main, a[1:65], b)
    assert torch.equal(a[1:65].flip(0), b)
