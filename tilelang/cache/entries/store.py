"""Entries on disk: one immutable directory for each key.

Publishing stages all files, flushes them, and renames the directory into place, so that a reader sees all of an entry or
none. Every read verifies sizes and SHA-256 against the manifest, which carries a digest of itself; an entry that fails is
moved aside, never repaired in place and never deleted under a reader.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tilelang.artifact import KernelArtifact
from tilelang.cache.entries import codec
from tilelang.cache.entries.files import MANIFEST_PATH, PARAMS_PATH, is_safe_name
from tilelang.cache.entries.manifest import MAX_BYTES, BadEntry, is_key, seal, unseal
from tilelang.cache.locks import forks
from tilelang.cache.places import plain_files
from tilelang.records import Record

__all__ = [
    "BadEntry", "StoredEntry", "discard", "entry_path", "from_files", "is_key", "keys", "load", "move_aside", "publish",
    "read_manifest", "seal", "unseal", "verified_files",
]  # fmt: skip

_FLUSH_THREADS = 16


class StoredEntry(Record):
    """A verified entry.

    Attributes:
        path: its directory.
        artifact: what was published.
        manifest: the manifest: ``key``, ``name``, ``target``, ``backend``, ``created`` (seconds since 1970),
            ``compile_seconds``, ``inputs``, ``files`` (name -> [bytes, SHA-256]).
    """

    path: Path
    artifact: KernelArtifact
    manifest: Mapping[str, Any]


def reached(step: str) -> None:
    """Called at every step of publishing; the fault tests put their faults here."""


def entry_path(root: Path, key: str) -> Path:
    """The directory of ``key`` in the cache ``root``."""
    if not is_key(key):
        raise ValueError(f"not a kernel key: {key!r}")
    return root / "kernels" / key


def publish(root: Path, key: str, artifact: KernelArtifact, facts: Mapping[str, Any], for_all: bool = False) -> Path:
    """Makes the entry of ``key``. Another process may have been faster: then its entry stays.

    Args:
        root: the cache's directory.
        key: 64 hexadecimal digits.
        artifact: what is stored.
        facts: further fields of its manifest.
        for_all: lets every user read it.

    Returns:
        The entry's directory.

    Raises:
        OSError: a full disk, a missing permission. Nothing is left behind.
        ValueError: a file of the artifact has a name that leads out of the directory.
    """
    destination = entry_path(root, key)
    stage = root / "staging" / f"{key[:16]}.{os.getpid()}.{os.urandom(4).hex()}"
    # Beside the entries and so on the same file system, where a rename is atomic. The name is this attempt's alone: what a killed
    # process leaves is removed by the next gc, and no other process touches it.
    stage.mkdir(mode=0o700)
    try:
        reached("staged")
        _write_files(stage, {**artifact.files, PARAMS_PATH: codec.encode(artifact)}, key, facts)
        reached("flushed")
        if for_all:
            open_to_all(stage)
        # A directory that is not empty cannot be renamed over: the first of two publishers wins, and both kernels are good.
        with contextlib.suppress(FileExistsError):
            _rename(stage, destination)
        reached("renamed")
        # Only now is the name itself durable. The files were flushed before the rename, or a crash could leave an entry with
        # empty files.
        _flush(destination.parent)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    reached("published")
    return destination


def open_to_all(folder: Path) -> None:
    """Lets every user read what is in a folder, and run what its owner may run."""
    for path in (folder, *folder.rglob("*")):
        mode = stat.S_IMODE(os.lstat(path).st_mode)
        os.chmod(path, mode | (mode & 0o500) >> 3 | (mode & 0o500) >> 6)


def _rename(stage: Path, destination: Path) -> None:
    try:
        os.rename(stage, destination)
    except OSError as error:
        if os.path.isdir(destination):
            raise FileExistsError(destination) from error
        raise


def _write_files(stage: Path, files: Mapping[str, bytes], key: str, facts: Mapping[str, Any]) -> None:
    table = {}
    for name in sorted(files):
        if not is_safe_name(name) or name == MANIFEST_PATH:
            raise ValueError(f"not a file name of a cache entry: {name!r}")
        content = bytes(files[name])
        _write(stage, name, content)
        table[name] = [len(content), hashlib.sha256(content).hexdigest()]
        reached(f"wrote {name}")
    _write(stage, MANIFEST_PATH, seal({**facts, "format": 1, "key": key, "files": table}))
    names = (*files, MANIFEST_PATH)
    _flush_all([stage / name for name in names] + [stage / folder for folder in {os.path.dirname(name) for name in names}])


def _write(stage: Path, name: str, content: bytes) -> None:
    path = stage / name
    if "/" in name:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Never changed again: an entry is immutable, and its owner cannot write to it by mistake.
    mode = 0o500 if name.endswith((".so", ".sh")) else 0o400
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def _flush_all(paths: list[Path]) -> None:
    """Flushes files and directories at once: the file system then commits its journal once or twice instead of for each
    (measured on a busy ext4: 5 ms for seven files, 29 ms one after the other)."""
    with forks.native:
        from concurrent.futures import ThreadPoolExecutor  # nothing that a process needs whose kernels are all there

    try:
        with ThreadPoolExecutor(min(len(paths), _FLUSH_THREADS)) as pool:
            for _ in pool.map(_flush, paths):
                pass  # an error is raised here
    except RuntimeError:  # there are no new threads when the interpreter ends, or beyond the system's limit
        for path in paths:
            _flush(path)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of the entry at ``path``.

    Raises:
        BadEntry: it is missing, cut, changed or another entry's.
    """
    manifest = unseal(_read(path, MANIFEST_PATH, MAX_BYTES))
    if manifest.get("key") != path.name:
        raise BadEntry(f"the entry was made for another key, {manifest.get('key')!r}")
    return manifest


def load(path: Path) -> StoredEntry:
    """The entry at ``path``, every file verified.

    Raises:
        FileNotFoundError: there is none.
        BadEntry: it is not what was published.
        OSError: it cannot be read now, whatever it is.
    """
    try:
        found = os.lstat(path)
    except NotADirectoryError as error:
        raise FileNotFoundError(path) from error
    if not stat.S_ISDIR(found.st_mode):
        raise BadEntry("it is not a directory")
    if not plain_files.is_ours(found):
        raise BadEntry("another user owns it or may write to it")
    manifest = read_manifest(path)
    return StoredEntry(path, _decode(dict(verified_files(path, manifest))), manifest)


def from_files(key: str, files: Mapping[str, bytes]) -> tuple[KernelArtifact, dict[str, Any]]:
    """(artifact, facts for :func:`publish`) of an entry that came as names and contents, verified like one on disk.

    Raises:
        BadEntry: it is not what was published.
    """
    manifest = unseal(files.get(MANIFEST_PATH, b""))
    if manifest.get("key") != key:
        raise BadEntry(f"the entry was made for another key, {manifest.get('key')!r}")
    table = manifest.pop("files")
    content: dict[str, bytes] = {}
    for name, (size, checksum) in table.items():
        raw = files.get(name)
        if raw is None or len(raw) != size or hashlib.sha256(raw).hexdigest() != checksum:
            raise BadEntry(f"{name} is missing or does not match its SHA-256")
        content[name] = raw
    return _decode(content), manifest


_DECODE_ERRORS = (
    pickle.UnpicklingError,
    TypeError,
    EOFError,
    ValueError,
    AttributeError,
    IndexError,
    KeyError,
    MemoryError,
    RecursionError,
)


def _decode(files: dict[str, bytes]) -> KernelArtifact:
    try:
        return codec.decode(files.pop(PARAMS_PATH), files)
    except _DECODE_ERRORS as error:
        raise BadEntry(f"{PARAMS_PATH}: {error}") from error


def verified_files(path: Path, manifest: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """(name, content) of each file that the manifest lists.

    Raises:
        BadEntry: a file is missing, a link, or has another size or content.
    """
    for name, (size, checksum) in manifest["files"].items():
        content = _read(path, name, size)
        if len(content) != size:
            raise BadEntry(f"{name} has {len(content)} bytes, {size} were published")
        if hashlib.sha256(content).hexdigest() != checksum:
            raise BadEntry(f"{name} does not match its SHA-256")
        yield name, content


def _read(path: Path, name: str, size: int) -> bytes:
    """A file's content, and one byte more than ``size`` of a file that is longer."""
    try:
        folder, _, _ = name.rpartition("/")
        if folder and (path / folder).resolve() != path.resolve() / folder:
            raise BadEntry(f"{name} leads out of the entry")
        return plain_files.read(path / name, size + 1)
    except OSError as error:
        if not plain_files.is_wrong_kind(error):
            raise
        raise BadEntry(f"{name}: {error.strerror}") from error


def move_aside(root: Path, path: Path) -> Path | None:
    """Moves a bad entry to ``<root>/quarantine``; None where it is gone already or cannot be moved."""
    shelter = root / "quarantine"
    try:
        shelter.mkdir(mode=0o700, exist_ok=True)
        target = shelter / f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}"
        os.rename(path, target)
    except OSError:
        return None
    return target


def discard(root: Path, path: Path) -> bool:
    """Takes an entry out of sight in one step, then deletes it; False where it could not be moved."""
    target = root / "staging" / f"trash.{path.name[:16]}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        os.rename(path, target)
        if stat.S_ISDIR(os.lstat(target).st_mode):
            shutil.rmtree(target, ignore_errors=True)
        else:
            os.unlink(target)
    except OSError:
        return False
    return True


def keys(root: Path) -> Iterator[str]:
    """The keys that have an entry in ``root``; something else may lie in an entry's place, which :func:`load` tells."""
    try:
        entries = os.scandir(root / "kernels")
    except OSError:
        return
    with entries:
        yield from (entry.name for entry in entries if is_key(entry.name))
