"""What the compiler is: a digest of everything that turns a program into code.

Our Python sources, native libraries and device headers count by content; TVM by the hashes that its wheel records. No
absolute path, time or owner enters, so a moved tree and another machine have the same fingerprint.

Reading some hundred files takes tens of milliseconds, their ``stat`` data one: contents are remembered under the digest
of the ``stat`` data (path, size, mtime, ctime, inode). A file that changed within the last seconds is not remembered,
because a second change within one tick of the file system's clock would look the same.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from tilelang.cache.keys import installed, state_memo
from tilelang.records import Record

PACKAGE = Path(__file__).resolve().parents[2]
_HEADERS_IN_TREE = PACKAGE.parent / "src" / "tl_templates"
_RACY_NS = 2_000_000_000
_KIND_BY_SUFFIX = {".py": "python", ".so": "native", **dict.fromkeys((".h", ".cuh", ".hpp", ".inc", ".c", ".cu"), "headers")}
_DISTRIBUTIONS = ("apache-tvm", "apache-tvm-ffi")
_started_ns = time.time_ns()


class Fingerprint(Record):
    """Digests of the parts of the compiler.

    Attributes:
        parts: part (``python``, ``native``, ``headers``, and a distribution each) -> digest.
        loaded_is_on_disk: False where a source changed after this process had started: the code that runs is then not the
            code that was read here, and nothing it makes may be kept under this fingerprint.
    """

    parts: tuple[tuple[str, str], ...]
    loaded_is_on_disk: bool


class _File(NamedTuple):
    kind: str
    name: str  # relative to its tree
    path: str
    stat: tuple[int, ...]  # size, mtime_ns, ctime_ns, inode


def compiler_fingerprint(memo_file: Path | None) -> Fingerprint:
    """The fingerprint of the compiler as it is on disk now; ``memo_file`` keeps contents' digests between processes."""
    found = files()
    listing = repr(sorted((file.name, file.kind, file.path, file.stat) for file in found))
    state = hashlib.sha256(listing.encode()).hexdigest()
    parts = _known.get(state) or _as_parts(state_memo.recall(memo_file, state))
    if parts is None:
        parts = _digest(found)
        # See the module's text: a file that changed a moment ago may change again without another time in its `stat` data.
        if all(_is_settled(file) for file in found):
            state_memo.remember(memo_file, state, parts)
    _known[state] = parts
    return Fingerprint(parts, _loaded_is_on_disk(found))


def _as_parts(value: Any) -> tuple[tuple[str, str], ...] | None:
    try:
        return tuple((str(kind), str(text)) for kind, text in value) or None
    except (TypeError, ValueError):
        return None


_known: dict[str, tuple[tuple[str, str], ...]] = {}
_first_seen: list[frozenset[Any]] = []


def _loaded_is_on_disk(files: list[_File]) -> bool:
    # Headers are read at each compilation; Python and native code is what was loaded.
    loaded = frozenset((file.name, file.stat) for file in files if file.kind != "headers")
    if not _first_seen:
        _first_seen.append(loaded)
    # A file whose ctime is after the start may have been read before or after its change: what was loaded is then not known.
    return loaded == _first_seen[0] and all(file.stat[2] < _started_ns for file in files if file.kind != "headers")


def _is_settled(file: _File) -> bool:
    return max(file.stat[1], file.stat[2]) < time.time_ns() - _RACY_NS


def files() -> list[_File]:
    """The files that make up the compiler."""
    own = [_File(kind, name, entry.path, _stat_data(entry.stat())) for kind, name, _, entry in _entries()]
    return [*own, *(_File(name, name, record, _stat_data(os.stat(record))) for name, record in _records())]


def folders(kinds: Collection[str] | None = None) -> list[str]:
    """The directories that hold files of the compiler, or only those of some kinds."""
    found = {folder for kind, _, folder, _ in _entries() if kinds is None or kind in kinds}
    if kinds is None:
        found |= {os.path.dirname(record) for _, record in _records()}
    return sorted(found)


def _stat_data(found: os.stat_result) -> tuple[int, ...]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


_Entry = tuple[str, str, str, "os.DirEntry[str]"]


def _entries() -> list[_Entry]:
    """(kind, name, folder, entry) of each file in our own trees."""
    found: list[_Entry] = []
    _add_tree(found, str(PACKAGE), "")
    if _HEADERS_IN_TREE.is_dir():
        _add_tree(found, str(_HEADERS_IN_TREE), "tl_templates/")
    return found


def _add_tree(found: list[_Entry], folder: str, prefix: str) -> None:
    # A list and not a generator: every process walks the trees before it finds a kernel.
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if entry.is_dir():
                if name != "__pycache__":
                    _add_tree(found, entry.path, f"{prefix}{name}/")
            elif (kind := _KIND_BY_SUFFIX.get(name[name.rfind(".") :])) is not None:
                found.append((kind, prefix + name, folder, entry))


@functools.cache
def _records() -> tuple[tuple[str, str], ...]:
    """(distribution-version, path of its RECORD) of TVM's distributions."""
    folders = [installed.dist_infos()[name] for name in _DISTRIBUTIONS if name in installed.dist_infos()]
    rows = [(os.path.basename(folder).removesuffix(".dist-info"), os.path.join(folder, "RECORD")) for folder in folders]
    return tuple((name, record) for name, record in rows if os.path.exists(record))


def _digest(files: list[_File]) -> tuple[tuple[str, str], ...]:
    states: dict[str, Any] = {}
    for file in sorted(files, key=lambda file: (file.kind, file.name)):
        content = _record_hashes(file.path) if file.path.endswith("RECORD") else Path(file.path).read_bytes()
        state = states.setdefault(file.kind, hashlib.sha256())
        state.update(f"{file.name}\0{len(content)}\0".encode())
        state.update(content)
    return tuple((kind, state.hexdigest()) for kind, state in sorted(states.items()))


def _record_hashes(path: str) -> bytes:
    """The lines of a RECORD that name packaged files: installers add lines of their own (scripts, byte code, INSTALLER)."""
    lines = Path(path).read_bytes().splitlines()
    kept = (line for line in lines if b",sha256=" in line and b".dist-info/" not in line and not line.startswith(b".."))
    return b"\n".join(sorted(kept))
