"""Every kernel that these tests compile is checked between the steps of the pipeline."""

from __future__ import annotations

import functools

import pytest


@pytest.fixture(autouse=True)
def verified_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the postcondition of each step."""
    from tilelang.target.cuda import compile as cuda

    monkeypatch.setattr(cuda, "run", functools.partial(cuda.run, verify=True))
