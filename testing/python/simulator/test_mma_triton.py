"""PTX of another compiler: kernels that Triton compiled (data/compile_triton.py) against torch.

Its fragment layouts, descriptors, swizzles and waits were made for hardware, by others.
"""

import re
from pathlib import Path

import pytest
import torch

import tilelang.simulator
from testing.python.simulator.models import kernels

SEED = 20240621
DATA = Path(__file__).resolve().parent / "data"


def run(name, grid, args):
    """Launches a stored kernel; trailing scratch parameters get null pointers."""
    text = (DATA / f"{name}.ptx").read_text()
    shared, threads = map(int, re.match(r"// shared (\d+), threads (\d+)", text).groups())
    entry = re.search(r"\.entry (\w+)", text).group(1)
    function = tilelang.simulator.load(text).get_function(entry)
    args = [*args, *[0] * (len(function.parameters) - len(args))]
    kernels.clean(function.launch(grid, (threads, 1, 1), args, shared_bytes=shared, seed=SEED))


MATMULS = {
    "matmul_fp16_sm80": (torch.float16, 1e-4),
    "matmul_bf16_sm90": (torch.bfloat16, 1e-4),
    "matmul_fp8_sm90": (torch.float8_e4m3fn, 1e-4),
    "matmul_tf32_sm90": (torch.float32, 1e-1),  # the tensor core drops 13 bits of every operand
}


@pytest.mark.parametrize("name", list(MATMULS))
def test_matmul(name):
    dtype, tolerance = MATMULS[name]
    generator = torch.Generator().manual_seed(SEED)
    m, n, k = 128, 128, 192
    a, b = (torch.randn(s, generator=generator).to(dtype) for s in ((m, k), (k, n)))
    c = torch.zeros(m, n)
    run(name, (m // 64, n // 64, 1), [a, b, c, n, k])
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", ["attention_sm80", "attention_sm90"])
def test_attention(name):
    generator = torch.Generator().manual_seed(SEED)
    length, width = 192, 64
    q, k, v = (torch.randn(length, width, generator=generator).half() for _ in range(3))
    out = torch.zeros(length, width)
    run(name, (length // 64, 1, 1), [q, k, v, out, length])
    want = torch.softmax(q.double() @ k.double().T * 0.125, -1) @ v.double()
    torch.testing.assert_close(out.double(), want, rtol=0, atol=1e-3)


def test_matmul_through_tensor_maps():
    generator = torch.Generator().manual_seed(SEED)
    m, n, k = 256, 256, 128
    a, b = (torch.randn(s, generator=generator).half() for s in ((m, k), (k, n)))
    c = torch.zeros(m, n, dtype=torch.float16)
    maps = []
    for tensor, box in ((a, (128, 64)), (b, (64, 64)), (c, (128, 64))):
        encoded = tilelang.simulator.encode_tensor_map(tensor, box, swizzle=128)
        maps += [encoded, *tensor.shape, *tensor.stride()]
    run("matmul_maps_sm90", (m // 128, n // 128, 1), [*maps, k])
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-3, atol=1e-2)
