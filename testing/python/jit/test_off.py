"""Functions without a source key: one warning, and correct results at every call."""

from __future__ import annotations

import logging
import os
import threading

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.jit.lookup import say_off

LOCK = threading.Lock()
FACTORS = {"own": 2.0}
NAME = "FACTOR"


def program(n: int, factor: float):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(n):
                B[i] = A[i] * factor

    return main


@tilelang.jit(out_idx=[-1], target="cpu")
def locked(n):
    with LOCK:
        return program(n, FACTORS["own"])


@tilelang.jit(out_idx=[-1], target="cpu")
def computed_name(n):
    return program(n, float(os.environ.get(f"KERNEL_{NAME}", "2")))


@tilelang.jit(target="cpu")
def eager_locked(A):
    A: T.Tensor((4,), "float32")
    B = T.empty((4,), "float32")
    with T.Kernel(1, threads=1):
        for i in T.serial(4):
            B[i] = A[i] * (FACTORS["own"] if LOCK else 0)
    return B


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """A cache of the test's own, and nothing said yet."""
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    say_off.cache_clear()
    for function in (locked, computed_name, eager_locked):
        function.clear_memory()


def times(kernel) -> float:
    return kernel(torch.ones(4))[0].item()


def test_functions_without_a_fingerprint_are_traced_at_every_call_with_one_warning(caplog, monkeypatch):
    with caplog.at_level(logging.WARNING, "tilelang"):
        first = locked(4)
        assert times(first) == 2 and locked(4) is first
        monkeypatch.setitem(FACTORS, "own", 3.0)
        assert times(locked(4)) == 3
    assert len(caplog.records) == 1 and "locked is traced at every call" in caplog.text and "lock" in first.source_reason


def test_functions_with_a_process_local_fingerprint_are_traced_once(caplog, monkeypatch):
    with caplog.at_level(logging.WARNING, "tilelang"):
        first = computed_name(4)
        _, tracker = computed_name.resolved()
        assert times(first) == 2 and tracker.recall((4,), {}) is first
        monkeypatch.setenv("KERNEL_FACTOR", "3")
        assert tracker.recall((4,), {}) is None and times(computed_name(4)) == 3
    assert "computed_name is traced in every process" in caplog.text


def test_eager_programs_without_a_fingerprint_say_so_too(caplog, monkeypatch):
    with caplog.at_level(logging.WARNING, "tilelang"):
        assert [eager_locked(torch.ones(4))[0].item() for _ in range(2)] == [2, 2]
        monkeypatch.setitem(FACTORS, "own", 3.0)
        assert eager_locked(torch.ones(4))[0].item() == 3
    assert len(caplog.records) == 1 and "eager_locked is traced at every call" in caplog.text
