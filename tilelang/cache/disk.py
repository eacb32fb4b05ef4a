"""One cache directory with its index, and the read-only layers beneath it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
from collections import OrderedDict
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang import env
from tilelang.artifact import KernelArtifact
from tilelang.cache import warn
from tilelang.cache.database import journal
from tilelang.cache.entries import sources, store
from tilelang.cache.entries.entry import CacheEntry
from tilelang.cache.entries.files import OPTIONS_PATH, PROGRAM_PATH
from tilelang.cache.entries.manifest import storable
from tilelang.cache.keys.key import KernelKey
from tilelang.cache.keys.source_key import SourceKey
from tilelang.cache.locks import forks, lease
from tilelang.cache.places import layers, location

if TYPE_CHECKING:
    from tilelang.cache.database.index import Index
    from tilelang.cache.travel.shared_tier import SharedTier

_MAX_LEASES = 256  # an open file each; a kernel whose lease is given back stays loaded and can only lose its files
_MAX_REASON_INPUTS = 6
_COMMON_NAME = "main"
PATIENCE_SECONDS = 300.0
"""The longest wait for another process that compiles the same kernel, while it runs."""


class DiskCache:
    """The entries at one location."""

    def __init__(self, place: location.Location):
        self.place = place
        self.root = place.root
        self._leases: OrderedDict[str, lease.Lock] = OrderedDict()
        self._guard = forks.Lock()
        self._index: Index | None = None
        self._has_locks: bool | None = None

    @property
    def index(self) -> Index:
        """The index; a process that only reads kernels never loads the database's driver (6 ms)."""
        if self._index is None:
            with forks.native:
                from tilelang.cache.database.index import Index

            self._index = Index(self.root)
        return self._index

    @property
    def has_locks(self) -> bool:
        """Whether the file system's locks work; without them the index and eviction are left out."""
        if self._has_locks is None:
            try:
                self._has_locks = lease.locks_work(self.root / "locks")
            except OSError:
                self._has_locks = False
            if not self._has_locks and self.place.writable:
                warn.once(
                    "locks",
                    f"the file system of the kernel cache {self.root} has no working locks: the index and eviction are off, "
                    "and processes may compile the same kernel twice",
                )
        return self._has_locks

    @property
    def keeps_index(self) -> bool:
        """Whether rows are written."""
        return self.place.writable and self.place.kept and self.has_locks

    def find(self, key: str) -> CacheEntry | None:
        """The verified entry of ``key``, or None; a bad one is moved aside."""
        return next(filter(None, (self._find_in(root, key) for root in (self.root, *layers.roots()))), None)

    def _find_in(self, root: Path, key: str) -> CacheEntry | None:
        path = store.entry_path(root, key)
        try:
            # The lease before the files: in the other order the entry could be evicted between the two.
            held = lease.share_directory(path) if root is self.root else None
            found = store.load(path)
        except (FileNotFoundError, BlockingIOError):
            return None
        except store.BadEntry as error:
            self._reject(root, path, error)
            return None
        except OSError as error:
            self.trouble("unreadable entry", f"the cache entry {path} cannot be read: {error.strerror}; it is compiled again")
            return None
        self._hold(key, held)
        self._note(journal.append(self.root, key) if self.place.writable else 0)
        seconds = float(found.manifest.get("compile_seconds", 0.0))
        origin = "disk" if root is self.root else "layer"
        return CacheEntry(key, path, found.artifact, origin, seconds, found.manifest.get("inputs", {}), held)

    def count(self, event: str) -> None:
        """Notes one of :data:`journal.EVENTS`."""
        if self.place.writable and self.place.kept:
            self._note(journal.count(self.root, event))

    def trouble(self, kind: str, message: str) -> None:
        """Warns once, and counts an error."""
        warn.once(kind, message)
        self.count("error")

    def _note(self, waiting: int) -> None:
        """Takes a journal of ``waiting`` bytes over before it grows without bound."""
        if waiting > journal.MAX_BYTES:
            if self.keeps_index:
                self.index.take_journal()
            else:
                journal.cut(self.root)

    def find_source(self, source_key: str) -> str | None:
        """The kernel key that a source key leads to, or None."""
        return next(filter(None, (sources.find(root, source_key) for root in (self.root, *layers.roots()))), None)

    @contextlib.contextmanager
    def only_one(self, key: str, patience: float = PATIENCE_SECONDS) -> Generator[None]:
        """Holds ``key`` against other processes, where the file system can; waits at most ``patience`` seconds for one."""
        if not self.place.writable or not self.has_locks:
            yield
            return
        if not os.path.isdir(self.root / "locks"):
            location.again(self.root)  # someone removed the whole cache
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(lease.exclusive(self.root / "locks" / f"{key}.lock", patience))
            except OSError as error:
                self.trouble("lock", f"no lock in the kernel cache {self.root}: {error.strerror}; a kernel may be compiled twice")
            yield

    def add(self, key: KernelKey, artifact: KernelArtifact, seconds: float, source: SourceKey | None = None) -> Path | None:
        """Publishes an entry.

        Args:
            key: what decides the kernel's code.
            artifact: the compiler's output.
            seconds: how long the compilation took.
            source: the source key of the call, which is linked to the entry.

        Returns:
            The entry's directory; None where it could not be kept, after a warning.
        """
        if not self.place.writable:
            return None
        name = title(key, source)
        facts = self._facts(key, name, seconds, source)
        path = self._publish(key.digest, with_texts(key, artifact), facts)
        if path is None or not self._share(key.digest, path):
            return None
        warn.guarded(lambda: self._register(path, key, name), None, f"a kernel in {self.root} is not listed")
        return path

    def _share(self, key: str, path: Path) -> bool:
        """Keeps a new entry from eviction; False where someone was faster."""
        try:
            self._hold(key, lease.share_directory(path))
        except BlockingIOError:
            return False
        return os.path.isdir(path)

    def _publish(self, key: str, artifact: KernelArtifact, facts: Mapping[Any, Any]) -> Path | None:
        try:
            try:
                return store.publish(self.root, key, artifact, facts)
            except FileNotFoundError:
                location.again(self.root)  # someone removed the whole cache meanwhile
                return store.publish(self.root, key, artifact, facts)
        except (OSError, ValueError, TypeError) as error:
            reason = getattr(error, "strerror", None) or warn.describe(error)
            self.trouble("publish", f"a kernel could not be kept in {self.root}: {reason}")
            return None

    def _register(self, path: Path, key: KernelKey, name: str) -> None:
        """What is known about a new entry beside its own directory: its link, its row, and what has to make room for it."""
        with forks.native:
            from tilelang.cache.entries import eviction, scripts  # nothing that a process needs whose kernels are all there

        self.count("miss")
        scripts.link(self.root, name, scripts.group_of(name, key.target), key.digest)
        if self.keeps_index:
            with contextlib.suppress(store.BadEntry):
                # What lies there now, which another process may have published a moment earlier.
                self.index.published(store.read_manifest(path))
            # After the row: what is not in the index counts for nothing in the total.
            eviction.enforce(self.root, self.index, env.get("TILELANG_CACHE_MAX_SIZE"))

    def adopt(self, key: str, files: Mapping[str, bytes]) -> CacheEntry | None:
        """Publishes an entry that came from elsewhere; None where it is not what its manifest says, after a warning."""
        try:
            artifact, facts = store.from_files(key, files)
            path = store.publish(self.root if self.place.writable else location.private().root, key, artifact, facts)
        except store.BadEntry as error:
            self.trouble("shared entry", f"a kernel from the shared cache is damaged and compiled here: {error}")
            return None
        except OSError as error:
            self.trouble("publish", f"a kernel could not be kept in {self.root}: {error.strerror}")
            return None
        if not self._share(key, path):
            return None
        if self.keeps_index:
            with contextlib.suppress(store.BadEntry, OSError):
                self.index.published(store.read_manifest(path))
        seconds = float(facts.get("compile_seconds", 0.0))
        return CacheEntry(key, path, artifact, "shared", seconds, facts.get("inputs", {}), self._leases.get(key))

    def link(self, source: SourceKey, key: str) -> None:
        """Lets a source key lead to the entry of ``key``."""
        if source.digest is None or not self.place.writable or sources.find(self.root, source.digest) == key:
            return
        try:
            sources.record(self.root, source.digest, key)
        except OSError as error:
            self.trouble("publish", f"a source key could not be kept in {self.root}: {error.strerror}")
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

    def _facts(self, key: KernelKey, name: str, seconds: float, source: SourceKey | None) -> dict[Any, Any]:
        # Why it was compiled is told by the entry of the same name whose key differs least.
        nearest = self.index.nearest(name, key.inputs) if self.keeps_index else None
        return {
            "name": name,
            "target": storable(key.target),
            "arch": _arch(key.target),
            "backend": storable(key.backend),
            "space": int(key.options.get("space", 0)),
            "created": time.time(),
            "compile_seconds": seconds,
            "inputs": {storable(label): storable(text) for label, text in key.inputs.items()},
            "reason": _reason(nearest),
            "shortcut": storable(source.reason) if source is not None else "",
        }

    def _reject(self, root: Path, path: Path, error: store.BadEntry) -> None:
        if root is self.root and self.place.writable:
            store.move_aside(root, path)
            action = "it was moved to quarantine/ and is compiled again"
        else:
            action = "it is compiled again"
        self.trouble("bad entry", f"the cache entry {path} is damaged ({error}); {action}")

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
    with forks.native:
        from tilelang.cache.travel import shared_tier as module

    return module.current()


def title(key: KernelKey, source: SourceKey | None) -> str:
    """The name of a kernel for people: the factory's, where the program is called ``main`` as in most examples."""
    if key.name != _COMMON_NAME or source is None or not source.function:
        return storable(key.name)
    parts = [part for part in source.function.split(".") if part != "<locals>"]
    return storable(parts[-1])


def with_texts(key: KernelKey, artifact: KernelArtifact) -> KernelArtifact:
    """``artifact`` with ``program.txt`` and ``options.txt``, where the compiler did not write its own."""
    options = "".join(f"{name} = {text}\n" for name, text in sorted(key.inputs.items()))
    texts = {PROGRAM_PATH: storable(key.program).encode(), OPTIONS_PATH: storable(options).encode()}
    files = {**texts, **artifact.files}
    return dataclasses.replace(artifact, files=files)


def _arch(target: str) -> str:
    try:
        parsed: dict[str, Any] | list[Any] | None = json.loads(target)
    except ValueError:
        return ""
    return str(parsed.get("arch") or parsed.get("mcpu") or "") if isinstance(parsed, dict) else ""


def _reason(nearest: tuple[str, list[str]] | None) -> str:
    if nearest is None:
        return "first of its name"
    key, names = nearest
    more = f" and {len(names) - _MAX_REASON_INPUTS} more" if len(names) > _MAX_REASON_INPUTS else ""
    changed = ", ".join(names[:_MAX_REASON_INPUTS])
    return f"differs from {key[:12]} in {changed}{more}" if names else f"entry {key[:12]} was gone or damaged"
