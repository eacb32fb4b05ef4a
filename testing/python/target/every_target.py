"""The targets that small programs are run on, and how."""

from __future__ import annotations

from typing import Any

import pytest

import tilelang
from testing.python.target.cuda.support import cuda

TARGETS = {"cpu": "cpu", "c": "c", "sm_80": cuda("sm_80"), "sm_90a": cuda("sm_90a")}


every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


def run(program: Any, target: Any, *tensors: Any) -> Any:
    """What a call returns; a finding of the simulator is an error."""
    with tilelang.simulator(strict=True):
        return tilelang.compile(program, target=target, out_idx=-1)(*tensors)
