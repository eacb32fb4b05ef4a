"""Kernels in memory go when a device header changes under the running process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilelang.cache.keys import fingerprint, header_watch, memo, source_key
from tilelang.cache.keys.memo import CallMemo
from tilelang.cache.keys.source_key import FunctionTracker
from tilelang.fingerprint import plain, watch


@pytest.fixture(params=["compiled", "python"])
def headers(request, tmp_path: Path, monkeypatch) -> Path:
    """A directory of headers that the compiler is said to read; with and without the compiled helper."""
    folder = tmp_path / "tl_templates"
    (folder / "cuda").mkdir(parents=True)
    (folder / "cuda" / "mma.h").write_text("// one\n")
    monkeypatch.setattr(fingerprint, "_HEADERS_IN_TREE", folder)
    monkeypatch.setattr(source_key, "compiler_fingerprint", lambda memo_file: content(folder))
    if request.param == "python":
        monkeypatch.setattr(watch, "plain_key", plain._python_plain_key)
        for module in (source_key, memo):
            monkeypatch.setattr(module, "Watch", watch.PythonWatch)
        monkeypatch.setattr(source_key, "Recall", watch.PythonRecall)
    header_watch._renew()
    yield folder / "cuda"
    monkeypatch.undo()
    header_watch._renew()


def content(folder: Path) -> fingerprint.Fingerprint:
    texts = {str(path): path.read_text() for path in sorted(folder.rglob("*.h"))}
    return fingerprint.Fingerprint((("headers", repr(texts)),), True)


def make(n):
    return n


def rewrite(folder: Path) -> None:
    (folder / "mma.h").write_text("// two\n")


def overwrite_in_place(folder: Path) -> None:
    before = os.stat(folder / "mma.h")
    with open(folder / "mma.h", "r+") as file:
        file.write("// 2ne\n")
    os.utime(folder / "mma.h", ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(folder: Path) -> None:
    (folder / "new").write_text("// two\n")
    (folder / "new").replace(folder / "mma.h")


def add(folder: Path) -> None:
    (folder / "more.h").write_text("")


def remove(folder: Path) -> None:
    (folder / "mma.h").unlink()


@pytest.mark.parametrize("change", [rewrite, overwrite_in_place, replace, add, remove], ids=lambda f: f.__name__)
@pytest.mark.parametrize("queue", ["inotify", "stat"])
def test_a_changed_header_is_noticed_by_the_next_call(headers, change, queue, monkeypatch):
    if queue == "stat":
        monkeypatch.setattr(header_watch, "_open", lambda folders: None)
        header_watch._renew()
    tracker = FunctionTracker(make)
    before = tracker.source_key((1,), {})
    tracker.remember((1,), {}, "kernel", tracker.source_key((1,), {}))
    cached = CallMemo()
    cached.put(make, (1,), "kernel", header_watch.records())
    assert tracker.recall((1,), {}) == "kernel" and cached.get(make, (1,)) == "kernel"
    change(headers)
    assert tracker.recall((1,), {}) is None and cached.get(make, (1,)) is None
    assert tracker.source_key((1,), {}).digest != before.digest
    tracker.remember((1,), {}, "new kernel", tracker.source_key((1,), {}))
    cached.put(make, (1,), "new kernel", header_watch.records())
    assert tracker.recall((1,), {}) == "new kernel" and cached.get(make, (1,)) == "new kernel"


def test_touching_a_file_without_a_change_keeps_the_kernel(headers):
    tracker = FunctionTracker(make)
    tracker.remember((1,), {}, "kernel", tracker.source_key((1,), {}))
    (headers / "mma.h").write_text("// one\n")
    assert tracker.recall((1,), {}) == "kernel"


def test_a_child_process_has_its_own_inotify_queue(headers):
    tracker = FunctionTracker(make)
    tracker.remember((1,), {}, "kernel", tracker.source_key((1,), {}))
    child = os.fork()
    if child == 0:
        ok = tracker.recall((1,), {}) == "kernel"
        rewrite(headers)
        ok &= tracker.recall((1,), {}) is None
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert tracker.recall((1,), {}) is None
