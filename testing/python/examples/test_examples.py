"""Every example runs on the CPU with small sizes and checks itself against torch."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[3] / "examples"

SMALL = {
    # example -> sizes that are small, and divided by no tile
    "elementwise": {"M": 70, "N": 333},
    "gemm_relu": {"M": 200, "N": 150, "K": 100},
    "batched_gemm": {"batch": 2, "M": 70, "N": 80, "K": 50},
    "gemm_int8": {"M": 70, "N": 100, "K": 90},
    "gemm_fp8": {"M": 70, "N": 90, "K": 100},
    "splitk_gemm": {"M": 70, "N": 100, "K": 300},
    "gemv": {"N": 100, "K": 300},
    "softmax": {"M": 30, "N": 600},
    "layer_norm": {"M": 30, "N": 256},
    "rms_norm": {"M": 30, "N": 300},
    "transpose": {"M": 100, "N": 130},
    "convolution": {"N": 1, "C": 24, "H": 9, "W": 11, "F": 40},
    "flash_attention": {"heads": 2, "seq_len": 150, "dim": 32},
    "flash_decoding": {"batch": 1, "heads": 4, "kv_heads": 2, "seq_len": 301, "dim": 32},
    "linear_attention": {"heads": 2, "seq_len": 150, "dim_k": 32, "dim_v": 64},
    "dequantize_gemm": {"M": 50, "N": 70, "K": 128},
    "topk": {"M": 50, "N": 64, "k": 4},
    "cumsum": {"M": 20, "N": 300},
    "histogram": {"N": 5000, "bins": 64},
    "flash_attention_backward": {"heads": 1, "seq_len": 150, "dim": 32},
    "mla_decode": {"heads": 40, "seq_len": 150, "dim": 128, "rope_dim": 32},
    "gemm_fp8_blockscale": {"M": 70, "N": 200, "K": 300},
    "grouped_gemm": {"sizes": (33, 0, 70, 1), "N": 70, "K": 50},
    "streamk_gemm": {"M": 100, "N": 150, "K": 200},
    "sparse_gemm": {"M": 70, "N": 90, "K": 128},
    "block_sparse_attention": {"heads": 2, "seq_len": 150, "dim": 32},
    "mamba2_chunk_scan": {"chunks": 2, "chunk": 80, "heads": 2, "dim": 32, "state": 32},
    "retention": {"heads": 2, "seq_len": 150, "dim_k": 32, "dim_v": 48},
    "swiglu_fp8": {"M": 21, "N": 256},
    "moe_routing": {"tokens": 21, "experts": 32, "groups": 4, "top_groups": 2, "topk": 4},
    "fused_moe": {"tokens": 40, "experts": 4, "hidden": 72, "inner": 40},
    "hyper_connections": {"tokens": 9, "width": 300, "rounds": 10},
    "native_sparse_attention": {"kv_heads": 1, "seq_len": 40, "dim": 32},
    "gated_delta_net": {"heads": 1, "seq_len": 70, "dim_k": 32, "dim_v": 48, "chunk": 32},
    "varlen_attention": {"lengths_q": (70, 1, 0, 5), "lengths_k": (70, 100, 8, 5), "heads": 2, "kv_heads": 1, "dim": 32},
    "radix_sort": {"N": 300},
    "cross_entropy": {"tokens": 5, "vocabulary": 2100},
    "layer_norm_backward": {"M": 37, "N": 200},
    "stencil": {"H": 40, "W": 70, "D": 4, "steps": 3},
    "deterministic_splitk": {"M": 70, "N": 100, "K": 300},
    "sampling": {"rows": 4, "vocabulary": 2100, "seeds": 2},
}


def load(name: str):
    """The example's module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / name / f"example_{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_example_is_tested():
    assert sorted(path.parent.name for path in EXAMPLES.glob("*/example_*.py")) == sorted(SMALL)


def run(name, capsys):
    torch.manual_seed(0)
    load(name).main(**SMALL[name])
    assert "matches torch" in capsys.readouterr().out


@pytest.mark.parametrize("name", SMALL)
def test_example(name, capsys):
    run(name, capsys)


THROUGH_C = [
    "elementwise",
    "gemm_int8",
    "gemm_fp8",
    "splitk_gemm",
    "softmax",
    "topk",
    "cumsum",
    "histogram",
    "grouped_gemm",
    "sparse_gemm",
]


@pytest.mark.parametrize("name", THROUGH_C)
def test_example_through_c(name, capsys, monkeypatch):
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "c")
    run(name, capsys)
