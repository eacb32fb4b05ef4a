"""Look-up, publication and the public functions."""

from __future__ import annotations

import dataclasses
import threading

import pytest

from tilelang.cache.entries import store
from tilelang.cache.entries.files import PARAMS_PATH
from tilelang.cache.kernel_cache import KernelCache
from tilelang.errors import CacheWarning

from . import fakes


def never():
    raise AssertionError("compiled although the entry is there")


def test_compiled_once_then_memory_then_disk(cache, own_cache):
    key = fakes.key()
    first = cache.lookup_or_compile(key, fakes.artifact)
    again = cache.lookup_or_compile(key, never)
    fresh = KernelCache().lookup_or_compile(key, never)
    assert [first.origin, again.origin, fresh.origin] == ["compiled", "memory", "disk"]
    assert fresh.path == own_cache / "kernels" / key.digest
    names = {path.name for path in fresh.path.iterdir()}
    assert names == {*("device_kernel.cu", "kernel_lib.so", "params.pkl", "program.txt", "options.txt", "manifest.json")}
    assert dataclasses.replace(fresh.artifact, files={}) == dataclasses.replace(fakes.artifact(), files={})
    assert fresh.artifact.files["kernel_lib.so"] == fakes.artifact().files["kernel_lib.so"]
    assert fresh.artifact.files["program.txt"] == b"C = A + B"


def test_a_compiler_error_is_raised_and_leaves_no_entry(cache, own_cache):
    def fails():
        raise RuntimeError("no such instruction")

    with pytest.raises(RuntimeError, match="no such instruction"):
        cache.lookup_or_compile(fakes.key(), fails)
    assert list((own_cache / "kernels").iterdir()) == []
    assert list((own_cache / "locks").iterdir()) == []
    assert cache.lookup_or_compile(fakes.key(), fakes.artifact).origin == "compiled"


def test_index_row(cache):
    key = fakes.key()
    cache.lookup_or_compile(key, fakes.artifact)
    KernelCache().lookup_or_compile(key, never)
    total, entries = cache.disk.index.totals()
    assert entries == 1 and total > 64
    cache.disk.index.take_journal()
    assert cache.disk.index.listed() == [key.digest]


def test_threads_share_one_compilation(cache):
    compilations = []
    gate = threading.Barrier(16)

    def compile_slowly():
        compilations.append(1)
        threading.Event().wait(0.05)
        return fakes.artifact()

    kernels = []

    def ask():
        gate.wait()
        kernels.append(cache.get_or_build(fakes.key(), compile_slowly, load=lambda entry: object()))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compilations) == 1
    assert len(kernels) == 16 and len(set(map(id, kernels))) == 1


def test_disabled_cache_compiles_each_time_and_keeps_nothing(cache, own_cache):
    cache.disable()
    entries = [cache.lookup_or_compile(fakes.key(), fakes.artifact) for _ in range(2)]
    assert all(entry.origin == "compiled" and (entry.path / "kernel_lib.so").is_file() for entry in entries)
    assert not own_cache.exists()
    cache.enable()
    assert cache.enabled


def test_file_caching_off_keeps_memory(cache, own_cache, monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_FILE_CACHING", "1")
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    assert cache.lookup_or_compile(fakes.key(), never).origin == "memory"
    assert not own_cache.exists()


def test_clear(cache, own_cache):
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    assert cache.clear_cache() == 1
    assert list((own_cache / "kernels").iterdir()) == []
    assert cache.disk.index.totals() == (0, 0)
    assert cache.lookup_or_compile(fakes.key(), fakes.artifact).origin == "compiled"


@pytest.mark.parametrize("name", ["device_kernel.cu", "kernel_lib.so", PARAMS_PATH, "manifest.json", "program.txt"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "removed", "link", "empty"])
def test_a_damaged_file_is_a_miss_and_is_moved_aside(cache, own_cache, name, damage):
    key = fakes.key()
    path = cache.lookup_or_compile(key, fakes.artifact).path
    victim = path / name
    raw = bytearray(victim.read_bytes())
    path.chmod(0o700)
    victim.unlink()
    if damage == "truncated":
        victim.write_bytes(raw[:-1])
    elif damage == "flipped":
        raw[len(raw) // 2] ^= 4
        victim.write_bytes(raw)
    elif damage == "link":
        victim.symlink_to("/etc/hostname")
    elif damage == "empty":
        victim.write_bytes(b"")
    with pytest.warns(CacheWarning, match="damaged"):
        entry = KernelCache().lookup_or_compile(key, fakes.artifact)
    assert entry.origin == "compiled"
    assert len(list((own_cache / "quarantine").iterdir())) == 1
    assert store.load(path).artifact.name == "add"
    assert KernelCache().lookup_or_compile(key, never).origin == "disk"
