"""Tensor maps: every backend's host encodes them from the launch record, with sizes of the call."""

from __future__ import annotations

import pytest
import torch

import tilelang
from tilelang.artifact import KernelLaunch, KernelParam, TensorMapSpec
from tilelang.errors import ExecutionError
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
    from tilelang.target.cuda.toolchain import compile_device

    return compile_device(SOURCE, "sm_90a")


@pytest.mark.parametrize("backend", supported("cuda"))
def test_loads_a_tile_of_a_dynamic_tensor(backend, code, tmp_path):
    artifact = handmade.cuda_artifact(backend, tmp_path, (1,), PARAMS, (LAUNCH,), code)
    call = load(artifact, tmp_path).call
    with tilelang.simulator():
        for n in (16, 21):
            a = torch.randn(n, 32)
            c = call(a, 0.5)
            assert c.shape == (-(-n // 16) * 16, 32)
            torch.testing.assert_close(c[:n], a * 0.5)
            assert not c[n:].any()


def test_names_what_a_tensor_map_cannot_be():
    with pytest.raises(ExecutionError, match="A_map.*'48B'"):
        runtime.tensor_map_row(TensorMapSpec("A_map", "A", "float32", (32,), (), (32,), (1,), l2_promotion="48B"))
