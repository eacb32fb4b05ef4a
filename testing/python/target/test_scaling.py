"""No pass takes more than linear time in the length of a kernel: calls are counted, so that a loaded machine cannot fail it."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from benchmark.scaling import KINDS, request
from tilelang.target.cpu import pipeline as cpu
from tilelang.target.cpu.context import CpuContext, vector_unit
from tilelang.target.cuda.compile import lower
from tilelang.transform import roll
from tilelang.transform.pipeline import run

SIZES = {"cpu": (120, 360), "sm_80": (40, 120), "sm_90a": (40, 120)}
"""Statements of the smaller and the larger kernel; both of them long enough to be divided on the CPU."""


def _lowered(kind: str, count: int, target: str) -> None:
    func, wanted = KINDS[kind](count), request(target)
    if target.startswith("sm_"):
        lower(func, wanted)
    else:
        run(cpu.LLVM, func, CpuContext(wanted, "main", vector_unit(wanted.target)), stop_after="lower_host")


def _calls(kind: str, count: int, target: str) -> int:
    """Calls of Python functions while a kernel is traced and lowered."""
    calls: Counter[str] = Counter()

    def count_calls(frame: object, event: str, arg: object) -> None:
        calls[event] += 1

    sys.setprofile(count_calls)
    try:
        _lowered(kind, count, target)
    finally:
        sys.setprofile(None)
    return calls["call"] + calls["c_call"]


SHORT = ("copies", "loops", "branches", "buffers")
"""Kinds that become little code on a CPU."""

CASES = [(target, kind) for target in ("cpu", "sm_80", "sm_90a") for kind in (SHORT if target == "cpu" else KINDS)]


@pytest.mark.parametrize(("target", "kind"), CASES)
def test_lowering_is_linear(kind, target, monkeypatch):
    monkeypatch.setattr(roll, "LONG", sys.maxsize)  # as for a program whose statements do not repeat
    _lowered(kind, 8, target)
    small, large = SIZES[target]
    assert _calls(kind, large, target) < 1.25 * large / small * _calls(kind, small, target)
