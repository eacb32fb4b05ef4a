"""Programs as people write them keep the shortcut where it can be sound."""

from __future__ import annotations

import functools
import importlib
import sys

import pytest

from tilelang.cache.keys import source_key
from tilelang.cache.keys.fingerprint import Fingerprint
from tilelang.cache.keys.source_key import FunctionTracker, trace

from .styles import STYLES


@pytest.fixture
def reasons(tmp_path, monkeypatch):
    """Style -> why it has no shortcut; empty where it has."""
    pytest.importorskip("torch")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(source_key, "compiler_fingerprint", lambda memo_file: Fingerprint((), True))
    monkeypatch.syspath_prepend(str(tmp_path))
    found = {}
    for number, (name, text) in enumerate(STYLES):
        (tmp_path / f"style{number}.py").write_text(text)
        importlib.invalidate_caches()
        make = importlib.import_module(f"style{number}").make
        tracker = FunctionTracker(make)
        _, source = trace(tracker.source_key((7,), {}), functools.partial(make, 7))
        tracker.remember((7,), {}, "kernel", source)
        found[name] = source.reason
        assert (tracker.recall((7,), {}) is not None) == (source.here is not None)
        del sys.modules[f"style{number}"]
    return found


def test_four_of_five_styles_are_fast(reasons):
    slow = {name: reason for name, reason in reasons.items() if reason}
    assert len(reasons) >= 100
    assert len(slow) <= len(reasons) // 10, slow
    assert slow.keys().isdisjoint({"TVM constants", "enum beside a text"}), slow
