"""Every test process has a kernel cache of its own, in a directory that is removed at its end."""

from __future__ import annotations

import gc
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tilelang.target.cuda.toolchain import nvrtc

settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("repeatable")


@pytest.fixture(scope="session", autouse=True)
def session_cache():
    """The cache directory of this process; also that of the processes it starts."""
    before = os.environ.get("TILELANG_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="tilelang-test-") as directory:
        os.environ["TILELANG_CACHE_DIR"] = directory
        yield directory
        if before is None:
            del os.environ["TILELANG_CACHE_DIR"]
        else:
            os.environ["TILELANG_CACHE_DIR"] = before


@pytest.fixture(autouse=True)
def repeatable_numbers():
    """The same random tensors in every run."""
    try:
        import torch
    except ImportError:
        return
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def quick_assembler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Where no GPU executes the cubins, the assembler checks them with few optimisations: a third of NVRTC's time.

    The simulator executes PTX, which is the same. Tests of registers, spills and SASS are marked ``assembled``.
    """
    if not _HAS_GPU and request.node.get_closest_marker("assembled") is None:
        monkeypatch.setattr(nvrtc, "_BASE_OPTIONS", (*nvrtc._BASE_OPTIONS, "--ptxas-options=-O1"))


_HAS_GPU = Path("/proc/driver/nvidia").exists()


def pytest_configure(config: pytest.Config) -> None:
    """Workers of one machine share its cores."""
    if hasattr(config, "workerinput"):
        os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is loaded by now stays loaded: looking for garbage in it took a twentieth of the suite's processor time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
