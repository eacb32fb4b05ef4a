"""Entries as one file, to carry to another machine: a gzipped tar of ``kernels/<key>/…`` and ``sources.json``.

A bundle comes from elsewhere, so that importing takes nothing on trust but the code itself: only plain files with plain
names are read, each entry is verified against its manifest, and it is published anew under the key that the manifest
names. Nothing is ever extracted to a path that the bundle chose. Kernels run as the user who calls them: import bundles
only from people whose programs you would run.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tilelang.cache import sources, store
from tilelang.cache.files import MANIFEST_PATH, is_safe_name
from tilelang.cache.index import Index
from tilelang.errors import CacheError

MAX_MEMBER_BYTES = 1 << 30
_SOURCES = "sources.json"
Progress = Callable[[Iterable], Iterable]


@dataclass
class Imported:
    """What an import did: keys that are new, keys that were there, and what was refused with the reason."""

    added: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def export(root: Path, keys: Iterable[str], file: Path, progress: Progress = iter) -> int:
    """Writes the entries of ``keys``, each verified, and the links that lead to them; returns how many entries.

    Raises:
        store.BadEntry: an entry is damaged.
        OSError: the file cannot be written.
    """
    wanted = sorted(set(keys))
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with tarfile.open(draft, "w:gz") as archive:
            links = {link: key for link, key in sources.links(root) if key in wanted}
            _add(archive, _SOURCES, json.dumps(links, sort_keys=True).encode())
            for key in progress(wanted):
                path = store.entry_path(root, key)
                manifest = store.read_manifest(path)
                _add(archive, f"kernels/{key}/{MANIFEST_PATH}", (path / MANIFEST_PATH).read_bytes())
                for name, content in store.verified_files(path, manifest):
                    _add(archive, f"kernels/{key}/{name}", content)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return len(wanted)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def load(root: Path, index: Index | None, file: Path, progress: Progress = iter) -> Imported:
    """Adds a bundle's entries to the cache at ``root``.

    Raises:
        CacheError: the file is not a bundle.
    """
    result = Imported()
    links: dict[str, str] = {}
    try:
        with tarfile.open(file, "r:*") as archive:
            for key, files in progress(_entries(archive, result, links)):
                _publish(root, index, key, files, result)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise CacheError(f"{file} is not a bundle of kernels: {error}") from error
    for link, key in links.items():
        if store.entry_path(root, key).is_dir():
            sources.record(root, link, key)
            if index is not None:
                index.linked(link, key, "")
    return result


def _entries(archive: tarfile.TarFile, result: Imported, links: dict[str, str]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Entries of an archive, one after the other; what is not a plain file of an entry is refused by name."""
    current, files = "", {}
    for member in archive:
        problem = _problem(member)
        if problem:
            result.refused[member.name] = problem
            continue
        stream = archive.extractfile(member)
        content = stream.read(member.size) if stream is not None else b""
        if member.name == _SOURCES:
            links.update(_links(content))
            continue
        _, key, name = member.name.split("/", 2)
        if key != current and current:
            yield current, files
            files = {}
        current = key
        files[name] = content
    if current:
        yield current, files


def _problem(member: tarfile.TarInfo) -> str:
    if not member.isreg():
        return "not a plain file"
    if member.size > MAX_MEMBER_BYTES:
        return f"larger than {MAX_MEMBER_BYTES} bytes"
    if member.name == _SOURCES:
        return ""
    top, _, rest = member.name.partition("/")
    key, _, name = rest.partition("/")
    if top != "kernels" or not store.is_key(key) or not is_safe_name(name):
        return "its name leads out of an entry"
    return ""


def _links(content: bytes) -> dict[str, str]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {link: key for link, key in found.items() if store.is_key(link) and isinstance(key, str) and store.is_key(key)}


def _publish(root: Path, index: Index | None, key: str, files: dict[str, bytes], result: Imported) -> None:
    if store.entry_path(root, key).is_dir():
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
