"""Failures of directories and databases: no damaged kernel runs, no call fails, one warning gives the reason."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import signal
import sqlite3
import subprocess
import warnings
from collections import Counter
from pathlib import Path

import pytest

from tilelang.artifact import KernelArtifact
from tilelang.cache.command import maintenance
from tilelang.cache.database import index, journal
from tilelang.cache.entries import codec, eviction, sources, store
from tilelang.cache.kernel_cache import KernelCache
from tilelang.cache.keys.source_key import SourceKey
from tilelang.cache.locks import lease
from tilelang.cache.places import filesystem, location
from tilelang.errors import CacheWarning

from . import fakes

SOURCE = SourceKey("5" * 64, "module.make")


def never():
    raise AssertionError("compiled although the entry is there")


def one_warning(caught: list[warnings.WarningMessage], text: str) -> None:
    mine = [str(warning.message) for warning in caught if issubclass(warning.category, CacheWarning)]
    assert len(mine) == 1 and text in mine[0], mine


# -- killed while publishing ----------------------------------------------------------------------------------------

PUBLISH = """
import os, signal, sys
from cache import fakes
from tilelang.cache.entries import store
from tilelang.cache.kernel_cache import KernelCache

def reached(step):
    with open(sys.argv[2], "a") as log:
        log.write(step + "\\n")
    if step == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)

store.reached = reached
print(KernelCache().lookup_or_compile(fakes.key(), fakes.artifact).origin)
"""
STEPS = [
    "staged",
    "wrote device_kernel.cu",
    "wrote kernel_lib.so",
    "wrote options.txt",
    "wrote params.pkl",
    "wrote program.txt",
    "flushed",
    "renamed",
    "published",
]


def test_the_list_of_steps_is_complete(tmp_path):
    fakes.run_python(PUBLISH, "none", str(tmp_path / "log"))
    assert (tmp_path / "log").read_text().splitlines() == STEPS


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step_of_publishing(step, tmp_path, own_cache):
    killed = fakes.run_python(PUBLISH, step, str(tmp_path / "log"), check=False)
    assert killed.returncode == -signal.SIGKILL
    complete = step in ("renamed", "published")
    entry = KernelCache().lookup_or_compile(fakes.key(), never if complete else fakes.artifact)
    assert entry.origin == ("disk" if complete else "compiled")
    assert entry.artifact.files["kernel_lib.so"] == fakes.artifact().files["kernel_lib.so"]
    cache = KernelCache()
    maintenance.verify(cache.root, cache.disk.index, repair=True)
    assert cache.disk.index.listed() == [fakes.key().digest]
    for leftover in (own_cache / "staging").iterdir():
        os.utime(leftover, (0, 0))
    maintenance.collect(cache.root, cache.disk.index, 0)
    assert list((own_cache / "staging").iterdir()) == [] and list((own_cache / "locks").iterdir()) == []


# -- disks ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of half a megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", folder], capture_output=True).returncode:
        # Without the right to mount, a limit on file sizes gives the same error at the same call.
        yield None
        return
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_full_disk(small_disk, tmp_path, monkeypatch):
    if small_disk is None:
        real = os.write

        def full(descriptor, data):
            if len(data) > 100_000:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(descriptor, data)

        monkeypatch.setattr(os, "write", full)
    cache = KernelCache((small_disk or tmp_path) / "cache")
    assert cache.lookup_or_compile(fakes.key(), fakes.artifact).path.is_relative_to(cache.root)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in ("big", "bigger"):
            entry = cache.lookup_or_compile(fakes.key(name), lambda: fakes.artifact(size=1 << 20))
            assert (entry.path / "kernel_lib.so").stat().st_size == 1 << 20
    one_warning(caught, "No space left on device")
    assert list((cache.root / "staging").iterdir()) == []
    assert KernelCache(cache.root).lookup_or_compile(fakes.key(), never).origin == "disk"


def test_a_directory_of_another_user_is_refused_with_a_fallback(own_cache, monkeypatch):
    KernelCache().lookup_or_compile(fakes.key(), fakes.artifact)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    monkeypatch.setattr(location, "_prepared", {})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in ("theirs", "mine"):
            entry = KernelCache().lookup_or_compile(fakes.key(name), fakes.artifact)
            assert entry.origin == "compiled" and not entry.path.is_relative_to(own_cache)
    one_warning(caught, "it belongs to user")


def test_a_world_writable_directory_is_refused_with_a_fallback(own_cache):
    own_cache.mkdir()
    own_cache.chmod(0o777)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        entry = KernelCache().lookup_or_compile(fakes.key(), fakes.artifact)
    one_warning(caught, "everyone may write to it")
    assert not entry.path.is_relative_to(own_cache) and entry.path.is_dir()
    assert list(own_cache.iterdir()) == []


def test_the_directory_is_private(cache, own_cache):
    path = cache.lookup_or_compile(fakes.key(), fakes.artifact).path
    assert own_cache.stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in path.iterdir())


def test_a_root_that_cannot_be_made(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(CacheWarning, match="is not used"):
        assert KernelCache().lookup_or_compile(fakes.key("nowhere"), fakes.artifact).origin == "compiled"


def test_a_read_only_directory_is_read(cache, own_cache, monkeypatch):
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    monkeypatch.setattr(location, "_prepared", {})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fresh = KernelCache()
        assert fresh.lookup_or_compile(fakes.key(), never).origin == "disk"
        entry = fresh.lookup_or_compile(fakes.key("sub"), fakes.artifact)
        assert entry.path.is_dir() and not entry.path.is_relative_to(own_cache)
    one_warning(caught, "cannot be written to")


# -- entries and databases ------------------------------------------------------------------------------------------


def test_a_deleted_directory_drops_its_row(cache):
    path = cache.lookup_or_compile(fakes.key(), fakes.artifact, SOURCE).path
    shutil.rmtree(path)
    fresh = KernelCache()
    assert fresh.lookup_source(SOURCE) is None
    found = maintenance.verify(fresh.root, fresh.disk.index, repair=True)
    assert found.missing_directories == [fakes.key().digest]
    assert fresh.disk.index.listed() == [] and fresh.disk.index.totals() == (0, 0)
    assert fresh.lookup_or_compile(fakes.key(), fakes.artifact).origin == "compiled"


def test_deleted_rows_come_back(cache):
    cache.lookup_or_compile(fakes.key(), fakes.artifact, SOURCE)
    with sqlite3.connect(cache.disk.index.path) as database:
        database.execute("delete from kernels")
        database.execute("delete from sources")
    assert KernelCache().lookup_source(SOURCE).key == fakes.key().digest
    found = maintenance.verify(cache.root, cache.disk.index, repair=True)
    assert found.missing_rows == [fakes.key().digest]
    assert cache.disk.index.listed() == [fakes.key().digest]


@pytest.mark.parametrize("damage", ["garbage", "truncated", "flipped", "empty", "removed", "directory"])
def test_a_damaged_database_is_rebuilt_from_the_entries(cache, damage):
    cache.lookup_or_compile(fakes.key(), fakes.artifact, SOURCE)
    database = cache.disk.index.path
    cache.disk.index.close()
    raw = bytearray(database.read_bytes())
    database.unlink()
    if damage == "garbage":
        database.write_bytes(b"not a database" * 1000)
    elif damage == "truncated":
        database.write_bytes(raw[: len(raw) // 3])
    elif damage == "flipped":
        for position in range(60, len(raw), 97):
            raw[position] ^= 0xFF
        database.write_bytes(raw)
    elif damage == "empty":
        database.write_bytes(b"")
    elif damage == "directory":
        database.mkdir()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fresh = KernelCache()
        assert fresh.lookup_or_compile(fakes.key(), never).origin == "disk"
        assert fresh.lookup_or_compile(fakes.key("sub"), fakes.artifact).origin == "compiled"
        listed = set(fresh.disk.index.listed())
    assert len([w for w in caught if issubclass(w.category, CacheWarning)]) <= 1
    if damage != "directory":
        assert listed == {fakes.key().digest, fakes.key("sub").digest}


def test_a_database_of_a_newer_version_is_left_alone(cache):
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    database = cache.disk.index.path
    cache.disk.index.close()
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA user_version=999")
        connection.execute("create table from_the_future (x)")
    connection.close()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fresh = KernelCache()
        assert fresh.lookup_or_compile(fakes.key(), never).origin == "disk"
        assert fresh.lookup_or_compile(fakes.key("sub"), fakes.artifact).path.is_relative_to(fresh.root)
    one_warning(caught, "schema is version 999")
    with sqlite3.connect(database) as connection:
        assert connection.execute("select count(*) from from_the_future").fetchone() == (0,)


def test_the_system_clock_is_set_back(cache, monkeypatch):
    with monkeypatch.context() as future:
        future.setattr("time.time", lambda: 4_000_000_000.0)
        cache.lookup_or_compile(fakes.key(), fakes.artifact)
    fresh = KernelCache()
    assert fresh.lookup_or_compile(fakes.key(), never).origin == "disk"
    cache.disk.release_leases()
    fresh.disk.release_leases()
    fresh.forget()
    cache.forget()
    # Its last use is in the future, yet it can be evicted.
    assert eviction.evict(fresh.root, fresh.disk.index, 1).entries == 1


def test_two_versions_of_the_package_share_a_cache(cache):
    old = fakes.key(fingerprint=fakes.Fingerprint((("python", "a" * 64),), True))
    new = fakes.key(fingerprint=fakes.Fingerprint((("python", "b" * 64),), True))
    assert cache.lookup_or_compile(old, fakes.artifact).origin == "compiled"
    assert cache.lookup_or_compile(new, fakes.artifact).origin == "compiled"
    fresh = KernelCache()
    assert [fresh.lookup_or_compile(key, never).origin for key in (old, new)] == ["disk", "disk"]


def test_an_entry_under_another_name_is_refused(cache):
    path = cache.lookup_or_compile(fakes.key(), fakes.artifact).path
    shutil.copytree(path, path.with_name(fakes.key("sub").digest))
    with pytest.warns(CacheWarning, match="made for another key"):
        assert KernelCache().lookup_or_compile(fakes.key("sub"), fakes.artifact).origin == "compiled"


class Hostile:
    def __init__(self, target: str):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (self.target,)


def test_a_malicious_pickle_does_not_execute(cache, tmp_path):
    target = tmp_path / "executed"
    for raw in (pickle.dumps(Hostile(str(target))), b"cos\nsystem\n(S'mkdir " + str(target).encode() + b"'\ntR."):
        with pytest.raises(pickle.UnpicklingError, match="not a plain type"):
            codec.decode(raw, {})
    path = cache.lookup_or_compile(fakes.key(), fakes.artifact).path
    reseal(path, "params.pkl", pickle.dumps(Hostile(str(target))))
    with pytest.warns(CacheWarning, match="not a plain type"):
        assert KernelCache().lookup_or_compile(fakes.key(), fakes.artifact).origin == "compiled"
    assert not target.exists()


@pytest.mark.parametrize("field", ["params", "launches", "metadata", "name", "out_idx"])
def test_a_pickle_of_our_types_with_unexpected_contents_is_refused(field):
    artifact = fakes.artifact()
    object.__setattr__(artifact, field, {1, 2})
    raw = pickle.dumps(artifact)
    with pytest.raises((pickle.UnpicklingError, TypeError)):
        codec.decode(raw, {})


def reseal(path: Path, name: str, content: bytes) -> None:
    """Replaces a file and makes the manifest agree, as an attacker would."""
    import hashlib

    manifest = store.read_manifest(path)
    manifest["files"][name] = [len(content), hashlib.sha256(content).hexdigest()]
    for file, data in ((name, content), ("manifest.json", store.seal(manifest))):
        (path / file).unlink(missing_ok=True)
        (path / file).write_bytes(data)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b", "", "a//b", ".hidden", "a\0b", "ir/../x"])
def test_a_name_that_leads_out_of_the_entry_is_refused(cache, name):
    with pytest.raises(ValueError, match="not a file name"):
        store.publish(cache.root, "1" * 64, with_file(name), {})
    assert list((cache.root / "staging").iterdir()) == []


def with_file(name: str) -> KernelArtifact:
    artifact = fakes.artifact()
    object.__setattr__(artifact, "files", {**artifact.files, name: b"x"})
    return artifact


def test_a_link_out_of_the_entry_is_not_followed(cache, tmp_path):
    secret = tmp_path / "ir"
    secret.mkdir()
    (secret / "00_start.txt").write_bytes(b"// ir")
    path = cache.lookup_or_compile(fakes.key(), lambda: with_file("ir/00_start.txt")).path
    shutil.rmtree(path / "ir")
    (path / "ir").symlink_to(secret)
    with pytest.raises(store.BadEntry):
        store.load(path)


# -- processes, threads, locks --------------------------------------------------------------------------------------


def test_fork_after_use(cache):
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    child = os.fork()
    if child == 0:
        try:
            ok = cache.lookup_or_compile(fakes.key(), never).origin == "memory"
            ok &= cache.lookup_or_compile(fakes.key("sub"), fakes.artifact).origin == "compiled"
            ok &= len(cache.disk.index.listed()) == 2
        finally:
            os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(cache.disk.index.listed()) == 2
    assert cache.lookup_or_compile(fakes.key("sub"), never).origin == "disk"


def test_a_child_does_not_hold_its_parents_locks(own_cache, tmp_path):
    path = tmp_path / "lock"
    with lease.exclusive(path):
        child = os.fork()
        if child == 0:
            signal.pause()
    try:
        with lease.exclusive(path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_file_system_without_locks_is_detected(cache, monkeypatch):
    def unsupported(descriptor, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", unsupported)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert cache.lookup_or_compile(fakes.key(), fakes.artifact).origin == "compiled"
        assert KernelCache().lookup_or_compile(fakes.key(), never).origin == "disk"
        cache.lookup_or_compile(fakes.key("sub"), fakes.artifact)
    one_warning(caught, "no working locks")
    assert not cache.disk.index.path.exists()


def test_locks_without_effect_are_detected(cache, monkeypatch):
    monkeypatch.setattr("fcntl.flock", lambda descriptor, operation: None)
    with pytest.warns(CacheWarning, match="no working locks"):
        assert not cache.disk.has_locks


def test_a_network_file_system_has_no_shared_memory_journal(cache, monkeypatch):
    monkeypatch.setattr(filesystem, "is_network", lambda path: True)
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    with sqlite3.connect(cache.disk.index.path) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert filesystem.kind(Path("/proc")) == "proc"


def test_an_error_of_the_database_never_fails_a_compile(cache, monkeypatch):
    def busy(*args, **kwargs):
        raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(index.sqlite3, "connect", busy)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in ("add", "sub"):
            assert cache.lookup_or_compile(fakes.key(name), fakes.artifact).path.is_relative_to(cache.root)
    one_warning(caught, "database is locked")


def test_a_cut_link_is_a_miss(cache, own_cache):
    cache.lookup_or_compile(fakes.key(), fakes.artifact, SOURCE)
    link = own_cache / "sources" / "55" / SOURCE.digest
    whole = link.read_text()
    for text in (whole[:-1], whole[: len(whole) // 2], "", whole.replace("5" * 64, "6" * 64)):
        link.write_text(text)
        assert sources.find(own_cache, SOURCE.digest) is None
    link.write_text(whole)
    assert KernelCache().lookup_source(SOURCE).key == fakes.key().digest


def test_a_damaged_journal_is_only_statistics(cache, own_cache):
    key = fakes.key().digest
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    (own_cache / "journal").write_bytes(b"\xff\xfe garbage\n" + key.encode() + b" not-a-time\n" + key.encode() + b" 5.0\n")
    assert journal.take(own_cache) == journal.Taken([journal.Use(key, 1, 5.0)], Counter(hit=1))
