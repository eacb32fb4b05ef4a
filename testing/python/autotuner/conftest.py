"""The package may be edited while its tests run; results of a search are kept under a fixed fingerprint of the compiler."""

from __future__ import annotations

import pytest

from tilelang.cache.keys import key, source_key
from tilelang.cache.keys.fingerprint import Fingerprint


@pytest.fixture(autouse=True)
def steady_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pins the compiler's part of every key."""
    for module in (key, source_key):
        monkeypatch.setattr(module, "compiler_fingerprint", lambda memo_file: Fingerprint((), True))
