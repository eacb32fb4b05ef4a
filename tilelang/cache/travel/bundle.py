"""Entries as one file, to carry to another machine: a gzipped tar of ``kernels/<key>/…`` and ``sources.json``.

A bundle comes from elsewhere, so that importing takes nothing on trust but the code itself: only plain files with plain
names are read, never more of them than the entry's manifest says, each entry is verified against it and published anew
under the key that it names. A bundle may add source keys that lead to its own kernels, and changes none that are there.
Nothing is ever extracted to a path that the bundle chose. Kernels run as the user who calls them: import bundles only from
people whose programs you would run.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import tarfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tilelang.cache.database.index import Index
from tilelang.cache.entries import manifest, sources, store
from tilelang.cache.entries.files import MANIFEST_PATH, is_safe_name
from tilelang.errors import CacheError

MAX_MEMBER_BYTES = 256 << 20
_MAX_LINKS_BYTES = 64 << 20
_SOURCES = "sources.json"
_GZIP = b"\x1f\x8b"
Progress = Callable[[Iterable[Any]], Iterable[Any]]


@dataclass
class Imported:
    """What an import did: keys that are new, keys that were there, and what was refused with the reason."""

    added: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def export(root: Path, keys: Iterable[str], file: Path, progress: Progress = iter) -> int:
    """Writes the entries of ``keys``, each verified, and the links that lead to them; returns how many entries.

    Args:
        root: the cache's directory.
        keys: of the entries.
        file: the bundle to write; it appears when it is complete.
        progress: wraps the keys, to show how far the work is.

    Raises:
        store.BadEntry: an entry is damaged.
        OSError: the file cannot be written.
    """
    wanted = dict.fromkeys(sorted(keys))
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with tarfile.open(draft, "w:gz") as archive:
            links = {link: key for link, key in sources.links(root) if key in wanted}
            _add(archive, _SOURCES, json.dumps(links, sort_keys=True).encode())
            for key in progress(wanted):
                path = store.entry_path(root, key)
                listed = store.read_manifest(path)
                _add(archive, f"kernels/{key}/{MANIFEST_PATH}", (path / MANIFEST_PATH).read_bytes())
                for name, content in store.verified_files(path, listed):
                    _add(archive, f"kernels/{key}/{name}", content)
        draft.replace(file)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    return len(wanted)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def load(root: Path, index: Index | None, file: Path, progress: Progress = iter) -> Imported:
    """Adds a bundle's entries to the cache at ``root``.

    Args:
        root: the cache's directory.
        index: its index; None where it keeps none.
        file: the bundle.
        progress: wraps the entries, to show how far the work is.

    Raises:
        CacheError: the file is not a bundle, or holds more than its manifests say.
    """
    result = Imported()
    try:
        with _Bundle.opened(file) as bundle:
            for key, files in progress(bundle.entries(result)):
                _publish(root, index, key, files, result)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise CacheError(f"{file} is not a bundle of kernels: {getattr(error, 'strerror', None) or error}") from error
    own = {*result.added, *result.present}
    for link, key in bundle.links.items():
        if key in own:
            _link(root, index, link, key, result)
    return result


def _link(root: Path, index: Index | None, link: str, key: str, result: Imported) -> None:
    present = sources.find(root, link)
    if present is None:
        sources.record(root, link, key)
        if index is not None:
            index.linked(link, key, "")
    elif present != key:
        # A source key says what a program is compiled to: a bundle that could change one could replace a user's kernel.
        result.refused[link] = f"this source key leads to another kernel here, {present[:12]}"


class _Capped:
    """A file that reads at most ``MAX_MEMBER_BYTES`` at once, since the header of an archive may request any number."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile | io.BufferedReader):
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        if not 0 <= size <= MAX_MEMBER_BYTES:
            raise tarfile.ReadError(f"a part of it is larger than {MAX_MEMBER_BYTES} bytes")
        return self._file.read(size)


class _Bundle:
    """An archive that is read from its beginning to its end."""

    def __init__(self, archive: tarfile.TarFile):
        self._archive = archive
        self.links: dict[str, str] = {}
        self._key = ""
        self._sizes: dict[str, int] = {}
        self._files: dict[str, bytes] = {}

    @classmethod
    @contextlib.contextmanager
    def opened(cls, file: Path) -> Generator[_Bundle]:
        with open(file, "rb") as raw:
            compressed = raw.read(2) == _GZIP
            raw.seek(0)
            stream = gzip.GzipFile(fileobj=raw) if compressed else raw
            capped: Any = _Capped(stream)
            with tarfile.TarFile.open(fileobj=capped, mode="r:") as archive:
                yield cls(archive)

    def entries(self, result: Imported) -> Iterator[tuple[str, dict[str, bytes]]]:
        """Entries, one after the other; what is not a plain file of an entry is refused by name."""
        for member in self._archive:
            key = member.name.split("/")[1] if member.name.startswith("kernels/") else ""
            # Members of an entry follow each other, so a new key completes the one before.
            if key != self._key:
                yield from self._complete()
                self._key, self._sizes, self._files = key, {MANIFEST_PATH: manifest.MAX_BYTES}, {}
            problem = _problem(member)
            if not problem and (excess := self._excess(member)):
                # Without a good manifest the entry is refused as a whole.
                result.refused[member.name if len(self._sizes) > 1 else key] = excess
            elif problem:
                result.refused[member.name] = problem
            else:
                self._take(member)
        yield from self._complete()

    def _complete(self) -> Iterator[tuple[str, dict[str, bytes]]]:
        if self._files:
            yield self._key, self._files

    def _excess(self, member: tarfile.TarInfo) -> str:
        """Why a member may not be read, where it is no part of what its manifest lists."""
        if member.name == _SOURCES:
            limit = _MAX_LINKS_BYTES
        else:
            limit = self._sizes.get(member.name.split("/", 2)[2], -1)
        if member.size > max(limit, 0) and member.size > manifest.MAX_BYTES:
            # Even skipping it would mean to decompress it.
            raise tarfile.ReadError(f"{member.name} has {member.size} bytes, which no manifest before it lists")
        return "" if member.size <= limit else "the manifest before it lists no such file"

    def _take(self, member: tarfile.TarInfo) -> None:
        stream = self._archive.extractfile(member)
        content = stream.read(member.size) if stream is not None else b""
        if member.name == _SOURCES:
            self.links.update(_links(content))
            return
        name = member.name.split("/", 2)[2]
        self._files[name] = content
        if name == MANIFEST_PATH:
            self._sizes = _sizes(content)


def _sizes(raw: bytes) -> dict[str, int]:
    """File -> bytes, of a manifest that may be anything."""
    try:
        found = manifest.unseal(raw)["files"]
    except store.BadEntry:
        return {}
    return {name: size for name, (size, _) in found.items() if size <= MAX_MEMBER_BYTES}


def _problem(member: tarfile.TarInfo) -> str:
    if not member.isreg() or member.issparse():
        return "not a plain file"
    if member.name == _SOURCES:
        return ""
    top, _, rest = member.name.partition("/")
    key, _, name = rest.partition("/")
    if top != "kernels" or not store.is_key(key) or not is_safe_name(name):
        return "its name leads out of an entry"
    return ""


def _links(content: bytes) -> dict[str, str]:
    try:
        found: dict[str, Any] | list[Any] | None = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {link: key for link, key in found.items() if store.is_key(link) and store.is_key(key)}


def _publish(root: Path, index: Index | None, key: str, files: dict[str, bytes], result: Imported) -> None:
    if store.entry_path(root, key).is_dir():
        # Entries are immutable, so the one that is here stays, whatever the bundle has under its key.
        result.present.append(key)
        return
    try:
        artifact, facts = store.from_files(key, files)
        path = store.publish(root, key, artifact, facts)
    except (store.BadEntry, ValueError) as error:
        result.refused[key] = str(error)
        return
    if index is not None:
        index.published(store.read_manifest(path))
    result.added.append(key)
