"""Every example, compiled for Ampere and for Hopper, and run on the simulator with all checkers on."""

from __future__ import annotations

import pytest
import torch

import tilelang
from testing.python.examples.test_examples import SMALL, load

FITTING = {
    # example -> ragged sizes whose rows are whole units of 16 bytes, which the tensor memory accelerator can load
    "gemm_relu": {"M": 200, "N": 152, "K": 104},
    "batched_gemm": {"batch": 2, "M": 70, "N": 80, "K": 56},
    "gemm_int8": {"M": 70, "N": 112, "K": 96},
    "gemm_fp8": {"M": 70, "N": 96, "K": 112},
    "splitk_gemm": {"M": 70, "N": 104, "K": 296},
    "gemm_fp8_blockscale": {"M": 70, "N": 200, "K": 304},
    "grouped_gemm": {"sizes": (33, 0, 70, 1), "N": 72, "K": 56},
    "streamk_gemm": {"M": 104, "N": 152, "K": 200},
    "sparse_gemm": {"M": 70, "N": 96, "K": 128},
    "dequantize_gemm": {"M": 50, "N": 70, "K": 128},
}


def run(name: str, arch: str, sizes: dict, capsys, monkeypatch) -> None:
    monkeypatch.setenv("TILELANG_CUDA_ARCH", arch)
    torch.manual_seed(0)
    with tilelang.simulator(strict=True):
        load(name).main(**sizes)
    assert "matches torch" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_example(name, arch, capsys, monkeypatch):
    run(name, arch, SMALL[name], capsys, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", FITTING)
def test_example_with_rows_that_the_accelerator_loads(name, capsys, monkeypatch):
    run(name, "sm_90a", FITTING[name], capsys, monkeypatch)
