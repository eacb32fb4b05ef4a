"""Tensor maps: every backend's host encodes them from the launch record, with sizes of the call."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.artifact import KernelLaunch, KernelParam, TensorMapSpec
from tilelang.errors import ExecutionError, SimulatorError
from tilelang.execution import load, runtime, supported

from . import handmade

# One block of 32 threads copies a 16 x 32 tile of A to C by a bulk tensor load; rows past the end read as zero.
SOURCE = """
struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void tile_kernel(const __grid_constant__ CUtensorMap map, float* c, float scale) {
  __shared__ alignas(128) float tile[16 * 32];
  __shared__ alignas(8) unsigned long long barrier;
  unsigned bar = (unsigned)__cvta_generic_to_shared(&barrier), dst = (unsigned)__cvta_generic_to_shared(tile);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 2048;" :: "r"(bar) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(dst), "l"(&map), "r"(0), "r"((int)(blockIdx.x * 16)), "r"(bar) : "memory");
  }
  asm volatile("{ .reg .pred p; WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra WAIT; }"
               :: "r"(bar) : "memory");
  for (int row = 0; row < 16; ++row) c[(blockIdx.x * 16 + row) * 32 + threadIdx.x] = tile[row * 32 + threadIdx.x] * scale;
}
"""

MAP = TensorMapSpec("A_map", "A", "float32", (32, "n"), (128,), (32, 16), (1, 1))
PARAMS = (
    KernelParam("A", "tensor", "float32", ("n", 32)),
    KernelParam("C", "tensor", "float32", (("mul", ("ceildiv", "n", 16), 16), 32)),
    KernelParam("scale", "scalar", "float32"),
)
LAUNCH = KernelLaunch(
    "tile_kernel",
    (("tensor_map", "A_map"), ("tensor", "C"), ("scalar", "scale")),
    ("handle", "handle", "float32"),
    (("ceildiv", "n", 16), 1, 1),
    (32, 1, 1),
    tensor_maps=(MAP,),
)


@pytest.fixture(scope="module")
def code():
    """The kernel for sm_90a."""
    from tilelang.target.cuda.toolchain.compile import compile_device

    return compile_device(SOURCE, "sm_90a")


@pytest.mark.parametrize("backend", supported("cuda"))
def test_loads_a_tile_of_a_dynamic_tensor(backend, code, tmp_path):
    artifact = handmade.cuda_artifact(backend, tmp_path, (1,), PARAMS, (LAUNCH,), code)
    call = load(artifact, tmp_path).call
    with tilelang.simulator():
        for n in (16, 21, 0):
            a = torch.randn(n, 32)
            c = call(a, 0.5)
            assert c.shape == (-(-n // 16) * 16, 32)
            torch.testing.assert_close(c[:n], a * 0.5)
            assert not c[n:].any()


@pytest.mark.parametrize("backend", supported("cuda"))
def test_a_product_without_terms_is_zero(backend):
    m, k = T.dynamic("m, k")

    @T.prim_func
    def product(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, 64), "float16"), C: T.Tensor((m, 64), "float32")):
        with T.Kernel(T.ceildiv(m, 64), threads=128) as bx:
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, 32), num_stages=2):
                T.copy(A[bx * 64, step * 32], a)
                T.copy(B[step * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C[bx * 64, 0])

    kernel = tilelang.compile(product, target={"kind": "cuda", "arch": "sm_90a"}, execution_backend=backend)
    assert "tl::tma_load_2d" in kernel.get_kernel_source()
    for rows, terms in ((70, 0), (0, 64), (70, 64)):
        a, b, c = torch.randn(rows, terms).half(), torch.randn(terms, 64).half(), torch.full((rows, 64), 7.0)
        with tilelang.simulator():
            kernel(a, b, c)
        torch.testing.assert_close(c, a.float() @ b.float(), atol=1e-2, rtol=1e-2)


def test_a_copy_from_a_tensor_without_elements_is_stopped(tmp_path, code):
    grid = (("add", ("ceildiv", "n", 16), 1), 1, 1)
    params = (*PARAMS[:1], KernelParam("C", "tensor", "float32", (16, 32)), PARAMS[2])
    artifact = handmade.cuda_artifact("tvm_ffi", tmp_path, (1,), params, (replace(LAUNCH, grid=grid),), code)
    with tilelang.simulator(), pytest.raises(SimulatorError, match="0x100"):
        load(artifact, tmp_path).call(torch.empty(0, 32), 0.5)


def test_names_what_a_tensor_map_cannot_be():
    with pytest.raises(ExecutionError, match="A_map.*'48B'"):
        runtime.tensor_map_row(TensorMapSpec("A_map", "A", "float32", (32,), (), (32,), (1,), l2_promotion="48B"))
