"""Every call on the cache's directory is made to fail in turn, alone and with all that follow: a kernel is still returned."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

from tilelang.cache import warn
from tilelang.cache.entries.entry import CacheEntry
from tilelang.cache.kernel_cache import KernelCache
from tilelang.cache.keys.source_key import SourceKey
from tilelang.cache.places import location

from . import fakes
from .faults import Faults

SOURCE = SourceKey("5" * 64, "module.make")
LIBRARY = fakes.artifact().files["kernel_lib.so"]


def use(root: Path) -> None:
    """What processes do with a cache: compile, find by both keys, compile another, load, clear."""
    first = KernelCache(root)
    check(first, first.lookup_or_compile(fakes.key(), fakes.artifact, SOURCE))
    second = KernelCache(root)
    found = second.lookup_source(SOURCE)
    check(second, found or second.lookup_or_compile(fakes.key(), fakes.artifact))
    second.forget()
    check(second, second.lookup_or_compile(fakes.key(), fakes.artifact))
    check(second, second.lookup_or_compile(fakes.key("sub"), fakes.artifact))
    first.disk.release_leases()
    second.clear_cache()
    check(second, second.lookup_or_compile(fakes.key(), fakes.artifact))
    for cache in (first, second):
        cache.disk.release_leases()
        cache.disk.index.close()


def check(cache: KernelCache, entry: CacheEntry) -> None:
    assert entry.artifact.files["kernel_lib.so"] == LIBRARY
    assert cache.load(entry, lambda entry: (entry.path / "kernel_lib.so").read_bytes()) == LIBRARY


def run(root: Path, faults: Faults) -> list[str]:
    """The calls of :func:`use` under ``faults``; then the directory works, or can be used again."""
    shutil.rmtree(root, ignore_errors=True)
    location._prepared.clear()
    warn.reset()
    with pytest.MonkeyPatch.context() as patch:
        faults.install(patch)
        use(root)
    location._prepared.clear()
    cache = KernelCache(root)
    check(cache, cache.lookup_or_compile(fakes.key(), fakes.artifact))
    assert cache.lookup_or_compile(fakes.key("mul"), fakes.artifact).path.is_relative_to(root)
    cache.disk.index.close()
    return faults.seen


@pytest.fixture
def folder(tmp_path):
    """A folder in memory where there is such a place: thousands of transactions would wait for the disk one after the other."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="tilelang-test-", dir=memory if os.access(memory, os.W_OK) else tmp_path) as name:
        yield Path(name)


@pytest.mark.slow
@pytest.mark.parametrize(("only_one", "stride"), [(True, 1), (False, 5)], ids=["one call", "all from one on"])
def test_every_call_fails_in_turn(folder, only_one, stride):
    root = folder / "root"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = run(root, Faults(root))
        # Paths of Python 3.10 make folders by a function that they got when they were imported.
        made = {"mkdir"} if sys.version_info >= (3, 11) else set()
        assert {"open", "write", "fsync", "rename", "flock", "sqlite3.execute"} | made <= set(calls)
        for number in range(0, len(calls), stride):
            try:
                run(root, Faults(root, number, only_one))
            except Exception as error:
                raise AssertionError(f"call {number} of {len(calls)}, {calls[number]}, failed the kernel") from error
