"""The cache stays below its cap, and no entry in use is evicted."""

from __future__ import annotations

import os
import threading
import time

from tilelang.cache.command.catalog import Catalog
from tilelang.cache.entries import eviction, store
from tilelang.cache.kernel_cache import KernelCache
from tilelang.cache.locks import lease

from . import fakes


def fill(cache: KernelCache, count: int, size: int = 20_000) -> list[str]:
    """``count`` entries; the first was used least recently. Nothing holds them afterwards."""
    keys = []
    for n in range(count):
        key = fakes.key(f"k{n}")
        path = cache.lookup_or_compile(key, lambda: fakes.artifact(size=size)).path
        keys.append(path.name)
    cache.forget()
    cache.disk.release_leases()
    return keys


def test_least_recently_used_go_first(cache):
    keys = fill(cache, 6)
    reader = KernelCache()
    reader.lookup_or_compile(fakes.key("k0"), fakes.artifact)
    reader.forget()
    reader.disk.release_leases()
    total = cache.disk.index.totals()[0]
    found = eviction.enforce(cache.root, cache.disk.index, int(total * 0.6), grace=0)
    left = set(store.keys(cache.root))
    assert found.entries == 3 and keys[0] in left and left == {keys[0], *keys[4:]}
    assert cache.disk.index.totals()[1] == 3


def test_the_cap_is_kept_while_publishing(cache, monkeypatch):
    monkeypatch.setattr(eviction, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(eviction.enforce, "__defaults__", (0.0,))
    monkeypatch.setenv("TILELANG_CACHE_MAX_SIZE", "100K")
    monkeypatch.setattr(lease, "claim_directory", lambda path: lease.Lock(os.open(path, os.O_RDONLY)))
    fill(cache, 12)
    assert cache.disk.index.totals()[0] <= 100 << 10
    assert 2 <= len(list(store.keys(cache.root))) <= 5


def test_recent_pinned_and_leased_entries_stay(cache):
    keys = fill(cache, 4)
    Catalog(cache.disk.index).pin(keys[0], True)
    reader = KernelCache()
    held = reader.lookup_or_compile(fakes.key("k1"), fakes.artifact)
    found = eviction.evict(cache.root, cache.disk.index, 1 << 40, grace=0)
    assert found.entries == 2 and set(store.keys(cache.root)) == {keys[0], held.key}
    assert eviction.evict(cache.root, cache.disk.index, 1 << 40, grace=60).entries == 0


def test_a_lease_dies_with_its_holder(cache, tmp_path):
    (key,) = fill(cache, 1)
    path = store.entry_path(cache.root, key)
    child = os.fork()
    if child == 0:
        held = lease.share_directory(path)
        (tmp_path / "held").touch() if held else None
        threading.Event().wait(60)
    while not (tmp_path / "held").exists():
        threading.Event().wait(0.01)
    assert lease.claim_directory(path) is None
    os.kill(child, 9)
    os.waitpid(child, 0)
    assert lease.claim_directory(path) is not None


def test_readers_and_evictors_at_once(cache):
    """Readers either get a whole entry or none, while everything is evicted again and again."""
    keys = [fakes.key(f"k{n}") for n in range(8)]
    stop = threading.Event()
    wrong = []

    def read():
        while not stop.is_set():
            for key in keys:
                reader = KernelCache()
                entry = reader.lookup_or_compile(key, lambda: fakes.artifact(size=5000))
                try:
                    if (entry.path / "kernel_lib.so").stat().st_size != 5000:
                        wrong.append("size")
                except OSError as error:
                    wrong.append(str(error))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    evicted, end = 0, time.monotonic() + 1.5
    while time.monotonic() < end:
        evicted += eviction.evict(cache.root, cache.disk.index, 1 << 40, grace=0).entries
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == [] and evicted > 0


def test_no_cap(cache):
    fill(cache, 2)
    assert eviction.enforce(cache.root, cache.disk.index, 0, grace=0).entries == 0
