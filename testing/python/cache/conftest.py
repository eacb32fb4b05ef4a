"""A cache directory of its own for every test, and artifacts that no compiler was needed for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilelang.cache import warn
from tilelang.cache.kernel_cache import KernelCache
from tilelang.cache.keys import key, source_key
from tilelang.cache.keys.fingerprint import Fingerprint
from tilelang.cache.places import location

from . import fakes


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root that the environment names in this test."""
    root = tmp_path / "cache"
    for name in [name for name in os.environ if name.startswith("TILELANG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(root))
    # The package may be edited while its tests run; what that means is tested on a copy.
    for module in (key, source_key):
        monkeypatch.setattr(module, "compiler_fingerprint", lambda memo_file: fakes.FINGERPRINT)
    warn.reset()
    location.choose(None)
    return root


@pytest.fixture
def cache(own_cache: Path) -> KernelCache:
    """A cache in the test's directory, with nothing in memory."""
    return KernelCache()


@pytest.fixture
def fingerprint() -> Fingerprint:
    """A compiler that never changes."""
    return fakes.FINGERPRINT
