"""Caches of a given size, filled fast: entries are made without the compiler and without flushing."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from pathlib import Path

from tilelang.artifact import KernelArtifact, KernelParam
from tilelang.cache.database import statements
from tilelang.cache.database.index import Index
from tilelang.cache.entries import codec, sources, store
from tilelang.cache.keys.fingerprint import Fingerprint
from tilelang.cache.keys.key import KernelKey
from tilelang.cache.places import location

FINGERPRINT = Fingerprint((("python", "0" * 64),), True)
TARGET = '{"kind": "llvm", "mcpu": "bench"}'
SOURCE_BYTES = 4_000
LIBRARY_BYTES = 16_000


def key(number: int) -> KernelKey:
    """The key of the entry ``number``."""
    return KernelKey(f"kernel{number % 97}", f"program {number}", TARGET, "ctypes", fingerprint=FINGERPRINT)


def source_key(number: int) -> str:
    """A source key that leads to the entry ``number``."""
    return hashlib.sha256(b"source %d" % number).hexdigest()


def artifact() -> KernelArtifact:
    """An artifact of the size of a small CPU kernel."""
    files = {"device_kernel.c": b"x" * SOURCE_BYTES, "kernel_lib.so": os.urandom(LIBRARY_BYTES)}
    params = tuple(KernelParam(name, "tensor", "float32", (1024, 1024)) for name in "ABC")
    return KernelArtifact("kernel", TARGET, "ctypes", params, (2,), files)


def fill(root: Path, count: int, real: int = 200) -> list[int]:
    """Makes ``count`` entries in ``root``: ``real`` of them with all files, the others as an empty directory, a link and a
    row, which is what the cost of a look-up can depend on. Returns the numbers of the real ones."""
    location.prepare(root)
    index = Index(root)
    index.totals()
    made = artifact()
    params = codec.encode(made)
    step = max(1, count // min(real, count))
    whole = set(range(0, count, step))
    kernels = str(root / "kernels")
    with sqlite3.connect(index.path) as database:
        database.execute("PRAGMA synchronous=OFF")
        for number in range(count):
            name = key(number).digest if number in whole else hashlib.sha256(b"key %d" % number).hexdigest()
            place = f"{kernels}/{name}"
            os.mkdir(place)
            if number in whole:
                _write(Path(place), name, {**made.files, "params.pkl": params})
            database.execute(statements.PUT_KERNEL, _row(name, number))
            if number % 10_000 == 0:
                database.commit()
            if number in whole or count <= 20_000:
                sources.record(root, source_key(number), name)
        database.execute(statements.ADD_TOTALS, {"more_bytes": count * 20_000, "more_entries": count})
    database.close()
    return sorted(whole)


def _write(place: Path, name: str, files: dict[str, bytes]) -> None:
    table = {}
    for file, content in files.items():
        (place / file).write_bytes(content)
        table[file] = [len(content), hashlib.sha256(content).hexdigest()]
    facts = {"format": 1, "key": name, "name": "kernel", "created": time.time(), "compile_seconds": 0.1, "inputs": {}}
    (place / "manifest.json").write_bytes(store.seal({**facts, "files": table}))


def _row(name: str, number: int) -> dict:
    return {
        "key": name,
        "name": f"kernel{number % 97}",
        "target": TARGET,
        "arch": "bench",
        "backend": "ctypes",
        "space": 0,
        "bytes": 20_000,
        "created": float(number),
        "compile_seconds": 0.1,
        "hits": 0,
        "last_used": float(number),
        "pinned": False,
        "inputs": "{}",
        "reason": "",
        "shortcut": "",
    }
