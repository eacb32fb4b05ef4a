"""One cache directory with its index, and the read-only layers beneath it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tilelang import env
from tilelang.artifact import KernelArtifact
from tilelang.cache import journal, layers, lease, location, sources, store, warn
from tilelang.cache.entry import CacheEntry
from tilelang.cache.files import OPTIONS_PATH, PROGRAM_PATH
from tilelang.cache.key import KernelKey
from tilelang.cache.source_key import SourceKey

if TYPE_CHECKING:
    from tilelang.cache.index import Index
    from tilelang.cache.shared_tier import SharedTier

_MAX_LEASES = 256  # an open file each; a kernel whose lease is given back stays loaded and can only lose its files
_MAX_REASON_INPUTS = 6


class DiskCache:
    """The entries at one location."""

    def __init__(self, place: location.Location):
        self.place = place
        self.root = place.root
        self._leases: OrderedDict[str, lease.Lock] = OrderedDict()
        self._guard = threading.Lock()

    @functools.cached_property
    def index(self) -> Index:
        """The index; a process that only reads kernels never loads the database's driver (6 ms)."""
        from tilelang.cache.index import Index

        return Index(self.root)

    @functools.cached_property
    def has_locks(self) -> bool:
        """Whether the file system's locks work; without them the index and eviction are left out."""
        try:
            works = lease.locks_work(self.root / "locks")
        except OSError:
            works = False
        if not works and self.place.writable:
            warn.once(
                "locks",
                f"the file system of the kernel cache {self.root} has no working locks: the index and eviction are off, "
                "and processes may compile the same kernel twice",
            )
        return works

    @property
    def keeps_index(self) -> bool:
        """Whether rows are written."""
        return self.place.writable and self.place.kept and self.has_locks

    def find(self, key: str) -> CacheEntry | None:
        """The verified entry of ``key``, or None; a bad one is moved aside."""
        for root in (self.root, *layers.roots()):
            path = store.entry_path(root, key)
            held = lease.share_directory(path) if root is self.root else None
            try:
                found = store.load(path)
            except FileNotFoundError:
                continue
            except store.BadEntry as error:
                self._reject(root, path, error)
                continue
            self._hold(key, held)
            origin = "disk" if root is self.root else "layer"
            seconds = float(found.manifest.get("compile_seconds", 0.0))
            if self.place.writable:
                journal.append(self.root, key)
            return CacheEntry(key, path, found.artifact, origin, seconds, found.manifest.get("inputs", {}), held)
        return None

    def find_source(self, source_key: str) -> str | None:
        """The kernel key that a source key leads to, or None."""
        return next(filter(None, (sources.find(root, source_key) for root in (self.root, *layers.roots()))), None)

    @contextlib.contextmanager
    def only_one(self, key: str) -> Iterator[None]:
        """Holds ``key`` against other processes, where the file system can."""
        if not self.place.writable or not self.has_locks:
            yield
            return
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(lease.exclusive(self.root / "locks" / f"{key}.lock"))
            except OSError as error:
                warn.once(
                    "lock",
                    f"no lock in the kernel cache {self.root}: {error.strerror}; a kernel may be compiled twice",
                )
            yield

    def add(self, key: KernelKey, artifact: KernelArtifact, seconds: float) -> Path | None:
        """Publishes an entry; None where it could not be kept, after a warning."""
        if not self.place.writable:
            return None
        facts = self._facts(key, artifact, seconds)
        try:
            path = store.publish(self.root, key.digest, with_texts(key, artifact), facts)
        except OSError as error:
            warn.once("publish", f"a kernel could not be kept in {self.root}: {error.strerror}")
            return None
        self._hold(key.digest, lease.share_directory(path))
        from tilelang.cache import eviction, scripts  # nothing that a process needs whose kernels are all there

        scripts.link(self.root, key.name, scripts.group_of(key.name, key.target), key.digest)
        if self.keeps_index:
            with contextlib.suppress(store.BadEntry):
                self.index.published(store.read_manifest(path))
            eviction.enforce(self.root, self.index, env.get("TILELANG_CACHE_MAX_SIZE"))
        return path

    def adopt(self, key: str, files: Mapping[str, bytes]) -> CacheEntry | None:
        """Publishes an entry that came from elsewhere; None where it is not what its manifest says, after a warning."""
        try:
            artifact, facts = store.from_files(key, files)
            path = store.publish(self.root if self.place.writable else location.private().root, key, artifact, facts)
        except store.BadEntry as error:
            warn.once("shared entry", f"a kernel from the shared cache is damaged and compiled here: {error}")
            return None
        except OSError as error:
            warn.once("publish", f"a kernel could not be kept in {self.root}: {error.strerror}")
            return None
        held = lease.share_directory(path)
        self._hold(key, held)
        if self.keeps_index:
            with contextlib.suppress(store.BadEntry):
                self.index.published(store.read_manifest(path))
        seconds = float(facts.get("compile_seconds", 0.0))
        return CacheEntry(key, path, artifact, "shared", seconds, facts.get("inputs", {}), held)

    def link(self, source: SourceKey, key: str) -> None:
        """Lets a source key lead to the entry of ``key``."""
        if source.digest is None or not self.place.writable or sources.find(self.root, source.digest) == key:
            return
        source = source.confirmed()
        if source.digest is None:
            return
        try:
            sources.record(self.root, source.digest, key)
        except OSError as error:
            warn.once("publish", f"a source key could not be kept in {self.root}: {error.strerror}")
            return
        if self.keeps_index:
            self.index.linked(source.digest, key, source.function)
        tier = shared_tier()
        if tier is not None:
            tier.send_source(source.digest, key, source.function)

    def release_leases(self) -> None:
        """Gives all entries free for eviction."""
        with self._guard:
            self._leases.clear()

    def _facts(self, key: KernelKey, artifact: KernelArtifact, seconds: float) -> dict:
        nearest = self.index.nearest(key.name, key.inputs) if self.keeps_index else None
        return {
            "name": key.name,
            "target": key.target,
            "arch": _arch(key.target),
            "backend": key.backend,
            "space": int(key.options.get("space", 0)),
            "created": time.time(),
            "compile_seconds": seconds,
            "inputs": key.inputs,
            "reason": _reason(nearest),
        }

    def _reject(self, root: Path, path: Path, error: store.BadEntry) -> None:
        if root is self.root and self.place.writable:
            store.move_aside(root, path)
            action = "it was moved to quarantine/ and is compiled again"
        else:
            action = "it is compiled again"
        warn.once("bad entry", f"the cache entry {path} is damaged ({error}); {action}")

    def _hold(self, key: str, held: lease.Lock | None) -> None:
        if held is None:
            return
        with self._guard:
            self._leases[key] = held
            while len(self._leases) > _MAX_LEASES:
                self._leases.popitem(last=False)


def shared_tier() -> SharedTier | None:
    """The tier that hosts share, where the environment names one."""
    if not env.get("TILELANG_CACHE_URL"):
        return None
    from tilelang.cache import shared_tier as module

    return module.current()


def with_texts(key: KernelKey, artifact: KernelArtifact) -> KernelArtifact:
    """``artifact`` with ``program.txt`` and ``options.txt``, where the compiler did not write its own."""
    options = "".join(f"{name} = {text}\n" for name, text in sorted(key.inputs.items()))
    files = {PROGRAM_PATH: key.program.encode(), OPTIONS_PATH: options.encode(), **artifact.files}
    return dataclasses.replace(artifact, files=files)


def _arch(target: str) -> str:
    try:
        parsed = json.loads(target)
    except ValueError:
        return ""
    return str(parsed.get("arch") or parsed.get("mcpu") or "") if isinstance(parsed, Mapping) else ""


def _reason(nearest: tuple[str, list[str]] | None) -> str:
    if nearest is None:
        return "first of its name"
    key, names = nearest
    more = f" and {len(names) - _MAX_REASON_INPUTS} more" if len(names) > _MAX_REASON_INPUTS else ""
    changed = ", ".join(names[:_MAX_REASON_INPUTS])
    return f"differs from {key[:12]} in {changed}{more}" if names else f"entry {key[:12]} was gone or damaged"
