"""Random flash attention on Hopper: lengths, head dims, tiles, threads, stages and masks, against torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang.language as T
from testing.python.target.cuda.hopper import attention
from testing.python.target.cuda.support import simulate


def check(length: int, dim: int, block: tuple[int, int], threads: int, causal: bool, stages: int, dynamic: bool) -> None:
    """Runs one program on the simulator and compares it with torch."""
    torch.manual_seed(0)
    tensors: list[Any] = [torch.randn(1, length, 1, dim).half() for _ in range(3)]
    out = torch.zeros_like(tensors[0])
    size = T.dynamic("length") if dynamic else length
    program = attention(1, size, dim, block=block, threads=threads, causal=causal, stages=stages)
    simulate(program, *tensors, out, arch="sm_90a")
    q, k, v = (tensor.transpose(1, 2).float() for tensor in tensors)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)
    torch.testing.assert_close(out.float(), want, rtol=1e-2, atol=4e-3)


@pytest.mark.property
@settings(max_examples=6, deadline=None)
@given(
    st.integers(1, 260), st.sampled_from([32, 64, 96, 128]),
    st.tuples(st.sampled_from([64, 128]), st.sampled_from([32, 64, 96, 128])), st.sampled_from([128, 256]), st.booleans(),
    st.integers(1, 4), st.booleans(),
)  # fmt: skip
def test_flash_attention(
    length: int, dim: int, block: tuple[int, int], threads: int, causal: bool, stages: int, dynamic: bool
) -> None:
    if threads == 256:
        block = (128, block[1])  # a warp group has 64 rows
    if (stages * 2 * block[1] + 2 * block[0]) * dim * 2 > 220000:
        stages = 1
    check(length, dim, block, threads, causal, stages, dynamic)
