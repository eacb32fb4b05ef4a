"""Every example, compiled for sm_80 and run on the simulator with all checkers on."""

from __future__ import annotations

import pytest
import torch

import tilelang
from testing.python.examples.test_examples import SMALL, load


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_example(name, capsys, monkeypatch):
    monkeypatch.setenv("TILELANG_CUDA_ARCH", "sm_80")
    torch.manual_seed(0)
    with tilelang.simulator(strict=True):
        load(name).main(**SMALL[name])
    assert "matches torch" in capsys.readouterr().out
