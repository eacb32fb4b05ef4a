"""Hand-written kernels over the device headers, on the simulator with every checker on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tilelang import simulator
from tilelang.target.cuda.headers import names_in, prelude
from tilelang.target.cuda.toolchain.compile import compile_device

KERNELS = Path(__file__).parent / "kernels"


def load(body: str, name: str, arch: str = "sm_90a") -> simulator.Function:
    binary = compile_device(prelude(names_in(body)) + body, arch)
    return simulator.load(binary.ptx.decode()).get_function(name)


def uniform(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.rand(*shape).sub(0.5).to(dtype)


@pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 256), (200, 136, 72)])
def test_hopper_gemm_by_hand(m: int, n: int, k: int) -> None:
    torch.manual_seed(0)
    a, b = uniform(m, k), uniform(k, n)
    c = torch.zeros(m, n, dtype=torch.float16)
    kernel = load((KERNELS / "hopper_gemm.cu").read_text(), "hopper_gemm")
    a_map = simulator.encode_tensor_map(a, (128, 64), swizzle=128)
    b_map = simulator.encode_tensor_map(b, (64, 64), swizzle=128)
    report = kernel.launch(
        (-(-n // 128), -(-m // 128), 1), 256, [a_map, b_map, c, m, n, k], shared_bytes=6 * 16384 + 64, strict=True
    )
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=2e-3, atol=2e-3)
    assert report.counters is not None
