"""A cache never fails a call: whatever its directory contains and whatever values a program has, the kernel is compiled."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.cache import warn
from tilelang.cache.database import journal
from tilelang.cache.entries import manifest, scratch, store
from tilelang.cache.kernel_cache import KernelCache
from tilelang.cache.keys.source_key import FunctionTracker, SourceKey
from tilelang.cache.places import location
from tilelang.errors import CacheWarning
from tilelang.fingerprint import plain
from tilelang.fingerprint.plain import _python_plain_key

from . import fakes, hostile
from .needs import as_nobody

SOURCE = SourceKey("5" * 64, "module.make")
SM90 = {"kind": "cuda", "arch": "sm_90a"}


# -- values ---------------------------------------------------------------------------------------------------------

GLOBAL = None


def factory(n, value=None):
    return n, GLOBAL


@pytest.mark.parametrize("name", hostile.VALUES)
@pytest.mark.parametrize("place", ["argument", "global"])
def test_values_that_cannot_be_looked_at(name, place, monkeypatch):
    value = hostile.VALUES[name]()
    arguments = (1, value) if place == "argument" else (1,)
    monkeypatch.setattr(sys.modules[__name__], "GLOBAL", value if place == "global" else None)
    tracker = FunctionTracker(factory)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            assert tracker.recall(arguments, {}) in (None, "kernel")
            key = tracker.source_key(arguments, {})
            assert (key.digest is None) == bool(key.reason)
            tracker.remember(arguments, {}, "kernel", key)


@pytest.mark.parametrize("encode", [plain.plain_key, _python_plain_key])
def test_deep_arguments_are_left_to_the_full_fingerprint(encode):
    assert encode(hostile.nested(plain.DEEPEST - 1))
    with pytest.raises(plain.NotPlain):
        encode(hostile.nested(plain.DEEPEST))


@pytest.mark.parametrize("name", ["deep", "class", "metaclass"])
def test_a_kernel_without_a_key_is_compiled_and_not_kept(cache, own_cache, name):
    key = fakes.key(pass_configs={"tl.x": hostile.VALUES[name]()})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            entry = cache.lookup_or_compile(key, fakes.artifact)
            assert entry.origin == "compiled" and (entry.path / "kernel_lib.so").is_file()
        assert cache.get_or_build(key, fakes.artifact, load=lambda entry: entry.origin) == "compiled"
    assert len([w for w in caught if "has no key" in str(w.message)]) == 1
    assert list((own_cache / "kernels").iterdir()) == []
    assert journal.take(own_cache).events["uncacheable"] == 3


def test_texts_that_utf8_cannot_hold_are_kept_as_escapes(cache):
    key = fakes.key("add\ud800", program="C = '\udfff'")
    assert cache.lookup_or_compile(key, fakes.artifact).path.is_relative_to(cache.root)
    entry = KernelCache().lookup_or_compile(key, fakes.never)
    assert entry.artifact.files["program.txt"] == b"C = '\\udfff'" and cache.disk.index.listed() == [key.digest]


# -- what lies in the directory -------------------------------------------------------------------------------------


def put_directory(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("")


WRONG_KINDS: dict[str, Callable[[Path], object]] = {
    "directory": put_directory,
    "pipe": os.mkfifo,
    "file": lambda path: path.write_text("?"),
    "dangling link": lambda path: path.symlink_to("/nowhere/at/all"),
}
PLACES = [
    "index.db", "index.db-wal", "journal", "fingerprints.json", "scripts", "quarantine", "kernels", "sources", "staging", "locks",
    "kernels/{key}", "kernels/{key}/kernel_lib.so", "kernels/{key}/manifest.json", "kernels/{key}/params.pkl", "sources/55",
    "sources/55/{link}", "locks/{key}.lock", "locks/index.lock", ".gitignore", "CACHEDIR.TAG",
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", WRONG_KINDS)
def test_files_of_the_wrong_kind(cache, own_cache, place, kind, monkeypatch):
    cache.lookup_or_compile(fakes.key(), fakes.artifact, SOURCE)
    cache.disk.index.close()
    cache.disk.release_leases()
    path = own_cache / place.format(key=fakes.key().digest, link=SOURCE.digest)
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
    WRONG_KINDS[kind](path)
    monkeypatch.setattr(location, "_prepared", {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        fresh = KernelCache()
        for name in ("add", "sub"):
            entry = fresh.lookup_or_compile(fakes.key(name), fakes.artifact, SOURCE if name == "add" else None)
            assert entry.artifact.files["kernel_lib.so"] == fakes.artifact().files["kernel_lib.so"]
            assert fresh.load(entry, lambda entry: (entry.path / "kernel_lib.so").stat().st_size) == 64
        fresh.lookup_source(SOURCE)
        fresh.clear_cache()


WRONG_VALUES = [None, "x", 10**12, "\ud800", 1 << 70, -1, float("nan"), float("inf"), True, [], [[1]], {"a": 1}, {"\udc00": "x"}]


@pytest.mark.parametrize("field", manifest.FIELDS)
def test_a_manifest_with_wrong_values(cache, field):
    key = fakes.key()
    path = cache.lookup_or_compile(key, fakes.artifact).path
    good = store.read_manifest(path)
    file = path / "manifest.json"
    for value in WRONG_VALUES:
        file.unlink(missing_ok=True)
        file.write_bytes(manifest.seal({**good, field: value}))
        with contextlib.suppress(store.BadEntry):
            read = store.read_manifest(path)
            assert manifest.FIELDS[field](read[field])
            cache.disk.index.published(read)
    path.joinpath("manifest.json").write_bytes(manifest.seal({**good, field: [[1]]}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert KernelCache().lookup_or_compile(key, fakes.artifact).origin == "compiled"
    assert ["damaged" in str(warning.message) for warning in caught] == [True]


@pytest.mark.parametrize("raw", [b"[" * 100_000, b"null", b"[]", b'"x"', b"{}", b"NaN"])
def test_malformed_manifests_are_misses(cache, raw):
    import hashlib

    path = cache.lookup_or_compile(fakes.key(), fakes.artifact).path
    (path / "manifest.json").unlink()
    (path / "manifest.json").write_bytes(raw + b"\n" + hashlib.sha256(raw).hexdigest().encode() + b"\n")
    with pytest.warns(CacheWarning, match="damaged"):
        assert KernelCache().lookup_or_compile(fakes.key(), fakes.artifact).origin == "compiled"


def test_an_entry_that_cannot_be_read_for_the_moment_stays(cache, own_cache, monkeypatch):
    cache.lookup_or_compile(fakes.key(), fakes.artifact)

    def too_many_open(path, limit):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as now, pytest.warns(CacheWarning, match="cannot be read: Too many open files"):
        now.setattr(store.plain_files, "read", too_many_open)
        assert KernelCache().lookup_or_compile(fakes.key(), fakes.artifact).artifact == fakes.artifact()
    assert not (own_cache / "quarantine").exists()
    assert KernelCache().lookup_or_compile(fakes.key(), fakes.never).origin == "disk"


def test_the_directory_is_removed_while_it_is_used(cache, own_cache):
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    shutil.rmtree(own_cache)
    entry = cache.lookup_or_compile(fakes.key("sub"), fakes.artifact, SOURCE)
    assert entry.path.is_relative_to(own_cache) and cache.lookup_source(SOURCE).key == entry.key
    assert cache.lookup_or_compile(fakes.key(), fakes.artifact).origin == "compiled"
    assert sorted(cache.disk.index.listed()) == sorted((fakes.key().digest, fakes.key("sub").digest))


def test_files_that_are_deleted_before_they_are_loaded(cache):
    def load(entry):
        return (entry.path / "kernel_lib.so").read_bytes()

    def vanishing(entry):
        if entry.path.is_relative_to(cache.root):
            shutil.rmtree(entry.path)
        return load(entry)

    assert cache.get_or_build(fakes.key(), fakes.artifact, vanishing) == fakes.artifact().files["kernel_lib.so"]
    with pytest.raises(RuntimeError, match="no such device"):
        cache.get_or_build(fakes.key("sub"), fakes.artifact, raising)


def raising(entry):
    raise RuntimeError("no such device")


@pytest.mark.parametrize("variables", [{"TILELANG_CACHE_DIR": "relative"}, {"TILELANG_CACHE_SCOPE": "repo"}])
def test_the_working_directory_is_deleted(tmp_path, monkeypatch, variables):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.delenv("TILELANG_CACHE_DIR")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.warns(CacheWarning, match="there is no directory for the kernel cache"):
        entry = KernelCache().lookup_or_compile(fakes.key(), fakes.artifact)
    assert (entry.path / "kernel_lib.so").is_file()


def test_the_scratch_directory_is_deleted(cache):
    cache.disable()
    for _ in range(2):
        entry = cache.lookup_or_compile(fakes.key(), fakes.artifact)
        assert (entry.path / "kernel_lib.so").is_file()
        shutil.rmtree(scratch.root())
    cache.enable()


@pytest.mark.parametrize(
    ("target", "backend"),
    [("cpu", "tvm_ffi"), ("cpu", "cython"), ("c", "ctypes"), (SM90, "nvrtc"), (SM90, "tvm_ffi")],
    ids=lambda value: value if isinstance(value, str) else "cuda",
)
def test_the_directory_for_temporary_files_is_deleted(target, backend, tmp_path, monkeypatch, own_cache):
    """As by a batch system whose job ends while one of its processes still compiles."""

    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(A, B)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    a, b = torch.randn(8), torch.empty(8)
    with tilelang.simulator():
        tilelang.compile(main, target=target, execution_backend=backend)(a, b)
    assert torch.equal(a, b)


def test_kernels_in_memory_whose_files_were_removed_are_made_again(cache, monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_FILE_CACHING", "1")
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    shutil.rmtree(scratch.root())
    entry = cache.lookup_or_compile(fakes.key(), fakes.artifact)
    assert entry.origin == "compiled" and (entry.path / "kernel_lib.so").is_file()


# -- layers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["", "kernels", "kernels/{key}", "sources"])
def test_an_unreadable_layer_is_a_miss(place):
    key = fakes.key().digest
    with as_nobody() as home:
        baked = KernelCache(home / "baked")
        baked.lookup_or_compile(fakes.key(), fakes.artifact, SOURCE)
        victim = baked.root / place.format(key=key)
        home.give_away(baked.root)
        victim.chmod(0)
        answer = home.run(
            "from tilelang.cache.kernel_cache import KernelCache\n"
            "from tilelang.cache.keys.source_key import SourceKey\n"
            "from cache import fakes\n"
            "KernelCache().lookup_source(SourceKey('5' * 64))\n"
            "print(KernelCache().lookup_or_compile(fakes.key(), fakes.artifact).origin)\n",
            TILELANG_CACHE_LAYERS=str(baked.root),
            TILELANG_CACHE_DIR=str(home / "own"),
        )
        assert answer in ("compiled", "layer")
        answer = home.run(
            "from tilelang.cache.kernel_cache import KernelCache\n"
            "from cache import fakes\n"
            "print(KernelCache().lookup_or_compile(fakes.key('sub'), fakes.artifact).origin)\n",
            TILELANG_CACHE_DIR=str(baked.root),
        )
        assert answer == "compiled"


# -- the whole ------------------------------------------------------------------------------------------------------


def test_a_repeated_problem_warns_once_and_is_counted(cache, own_cache):
    for _ in range(2):
        path = KernelCache().lookup_or_compile(fakes.key(), fakes.artifact).path
        (path / "kernel_lib.so").unlink()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            path = KernelCache().lookup_or_compile(fakes.key(), fakes.artifact).path
            (path / "kernel_lib.so").unlink()
    assert len(caught) == 0  # said in the loop before
    KernelCache().disk.index.take_journal()
    assert KernelCache().disk.index.counts()["error"] >= 2


def test_an_exception_without_a_message_is_described():
    assert warn.describe(hostile.Unprintable()) == "Unprintable"
    assert warn.describe(ValueError("one\ntwo")) == "ValueError: one"


def test_a_disabled_cache_touches_no_disk(own_cache, monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    cache = KernelCache()
    assert location.memo_file() is None
    cache.lookup_or_compile(fakes.key(), fakes.artifact, SOURCE)
    assert cache.lookup_source(SOURCE) is None and not own_cache.exists()
    monkeypatch.delenv("TILELANG_DISABLE_CACHE")
    cache.lookup_or_compile(fakes.key(), fakes.artifact, SOURCE)
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    before = {path: path.stat().st_mtime_ns for path in own_cache.rglob("*")}
    assert cache.lookup_or_compile(fakes.key(), fakes.artifact, SOURCE).origin == "compiled"
    assert before == {path: path.stat().st_mtime_ns for path in own_cache.rglob("*")}


def test_cached_follows_the_environment_at_every_call(cache, monkeypatch):
    built = []
    monkeypatch.setattr(KernelCache, "_build", lambda self, *rest: built.append(1) or dataclasses.replace(ENTRY))

    class Program:
        """Something that can be referred to weakly."""

    program = Program()
    for text, count in (("0", 1), ("0", 1), ("1", 2), ("1", 3), ("0", 3)):
        monkeypatch.setenv("TILELANG_DISABLE_CACHE", text)
        cache.cached(program)
        assert len(built) == count


@dataclasses.dataclass
class Entry:
    """Stands for a kernel."""

    reads_files: bool = False


ENTRY = Entry()


def test_a_journal_is_bounded(cache, own_cache, monkeypatch):
    monkeypatch.setattr(journal, "MAX_BYTES", 2_000)
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    for keeps in (True, False):
        monkeypatch.setattr(cache.disk, "_has_locks", keeps)
        for _ in range(200):
            cache.forget()
            cache.lookup_or_compile(fakes.key(), fakes.never)
            assert (own_cache / "journal").stat().st_size < 2_200 if (own_cache / "journal").exists() else True


def test_every_root_is_marked_as_a_cache(cache, own_cache, tmp_path):
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    assert (own_cache / ".gitignore").read_text() == "*\n"
    assert (own_cache / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    project = tmp_path / "project"
    project.mkdir()
    (project / "main.py").write_text("")
    KernelCache(project).lookup_or_compile(fakes.key(), fakes.artifact)
    assert not (project / ".gitignore").exists()


def test_a_manifest_keeps_why_the_shortcut_is_off(cache):
    path = cache.lookup_or_compile(fakes.key(), fakes.artifact, SourceKey(None, "m.f", "it reads a file")).path
    assert json.loads((path / "manifest.json").read_text().splitlines()[0])["shortcut"] == "it reads a file"
