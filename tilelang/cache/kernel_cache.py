"""The cache that the rest of the package calls: look a kernel up, or compile it once and keep it.

    memory -> directory -> read-only layers -> shared tier -> compile, publish

Nothing that goes wrong with the cache fails a call: a bad entry is moved aside and compiled again, a directory that
cannot be written to is replaced by a private one, and each kind of trouble is one warning.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MethodType
from typing import Any

from tilelang import env
from tilelang.artifact import KernelArtifact
from tilelang.cache import private, warn
from tilelang.cache.disk import DiskCache, shared_tier
from tilelang.cache.entries.entry import CacheEntry
from tilelang.cache.entries.files import (
    DEVICE_KERNEL_PATH,
    EXECUTABLE_PATH,
    HOST_KERNEL_PATH,
    KERNEL_CUBIN_PATH,
    KERNEL_LIB_PATH,
    KERNEL_PTX_PATH,
    KERNEL_PY_PATH,
    PARAMS_PATH,
)
from tilelang.cache.keys import header_watch
from tilelang.cache.keys.key import KernelKey
from tilelang.cache.keys.memo import CallMemo
from tilelang.cache.keys.source_key import SourceKey
from tilelang.cache.locks.flight import Flights
from tilelang.cache.locks.forks import Lock
from tilelang.cache.places import location
from tilelang.cache.uncached import without_cache
from tilelang.provided import provided

__all__ = [
    "DEVICE_KERNEL_PATH",
    "EXECUTABLE_PATH",
    "HOST_KERNEL_PATH",
    "KERNEL_CUBIN_PATH",
    "KERNEL_LIB_PATH",
    "KERNEL_PTX_PATH",
    "KERNEL_PY_PATH",
    "PARAMS_PATH",
    "CacheEntry",
    "KernelCache",
    "cached",
    "clear_cache",
    "compile_fixed",
    "default_cache",
    "disable_cache",
    "enable_cache",
    "is_cache_enabled",
]

_DISABLED = env.raw_key("TILELANG_DISABLE_CACHE")
_MAX_IN_MEMORY = 4096
Compile = Callable[[], KernelArtifact]


class _OfInstanceOrDefault:
    """A method that the class itself offers too, for the process's cache: ``KernelCache.cached(func)``."""

    def __init__(self, function: Callable[..., Any]):
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: KernelCache | None, owner: type) -> MethodType:
        return MethodType(self._function, default_cache() if instance is None else instance)


class KernelCache:
    """Kernels by key, in memory and on disk.

    Args:
        root: the directory; None follows ``tilelang.option.cache_dir`` and the environment, also when they change.
        enabled: False as after :meth:`disable`, of this object alone.

    Attributes:
        execution_backend: what :meth:`cached` uses where its caller names none; may be set.
    """

    execution_backend = "auto"

    def __init__(self, root: Path | str | None = None, enabled: bool = True):
        self._own_root = None if root is None else Path(root).absolute()
        self._disks: dict[location.Location, DiskCache] = {}
        self._entries: dict[str, CacheEntry] = {}
        self._kernels: dict[str, Any] = {}
        self._flights = Flights()
        self._memo = CallMemo()
        self._enabled = enabled

    # -- look-up ----------------------------------------------------------------------------------------------------

    def lookup_or_compile(self, key: KernelKey, compile: Compile, source: SourceKey | None = None) -> CacheEntry:
        """The entry of ``key``; ``compile`` is called, once among all threads and processes, where there is none.

        Args:
            key: what decides the code.
            compile: makes the artifact; its errors go to the caller.
            source: links this source key to the kernel, and says which function it is of.

        Returns:
            The entry, with a lease that keeps its files from eviction.
        """
        digest = private.digest_of(key) if self.enabled else None
        if digest is None:
            return self._compile_privately(key, compile)
        entry = self._in_memory(digest)
        if entry is None:
            # Threads of this process first, then processes (`only_one` of the disk), then hosts (`flight` of the shared tier):
            # each wider lock costs more, and is asked for by one at a time.
            with self._flights.only_one(digest):
                entry = self._in_memory(digest) or self._remember(self._find_or_compile(key, compile, source))
        if source is not None:
            self.link(source, digest)
        return entry

    def lookup_source(self, source: SourceKey) -> CacheEntry | None:
        """The entry that ``source`` leads to, or None; neither traces nor compiles."""
        digest = source.digest
        if digest is None or not self.enabled or not self.keeps_files:
            return None
        return warn.guarded(lambda: self._follow(digest), None, "a kernel is not looked up by its source key")

    def _follow(self, source_key: str) -> CacheEntry | None:
        tier = shared_tier()
        digest = self.disk.find_source(source_key) or (tier.find_source(source_key) if tier else None)
        if digest is None:
            return None
        entry = self._in_memory(digest)
        if entry is not None:
            return entry
        entry = self.disk.find(digest)
        if entry is None and tier is not None:
            entry = self._adopt(digest, tier.fetch(digest))
        return None if entry is None else self._remember(entry)

    def link(self, source: SourceKey, key: str) -> None:
        """Lets ``source`` lead to the kernel ``key``; does nothing where the source key is off or files are not kept."""
        if source.digest is not None and self.keeps_files:
            warn.guarded(lambda: self.disk.link(source, key), None, "a source key is not kept")

    def lookup(self, key: str) -> CacheEntry | None:
        """The entry of a kernel key in hexadecimal, or None."""
        entry = self._in_memory(key)
        if entry is not None:
            return entry
        return self._find(key) if self.keeps_files else None

    def private_entry(self, key: str, artifact: KernelArtifact) -> CacheEntry:
        """An entry for an artifact that came from elsewhere, in a directory that goes with the process."""
        return CacheEntry(key, private.materialise(key, artifact), artifact, "memory")

    def compile_anew(self, key: KernelKey, compile: Compile) -> CacheEntry:
        """Compiles whatever the cache has, keeps the result where there is none yet, and returns this very result: the
        explicit way around the cache, for callers with a table of their own."""
        artifact, seconds = _timed(compile)
        digest = private.digest_of(key)
        if digest is not None and self.keeps_files and self._keep(key, artifact, seconds, None) is not None:
            stored = self._find(digest)
            if stored is not None and stored.artifact.files.items() >= artifact.files.items():
                return dataclasses.replace(stored, origin="compiled")
        return private.entry_of(key, artifact, seconds)

    def get_or_build(
        self,
        key: KernelKey,
        compile: Compile,
        load: Callable[[CacheEntry], Any],
        source: SourceKey | None = None,
    ) -> Any:
        """The loaded kernel of ``key``, remembered in memory, so that all callers of this process share one object.

        Args:
            key, compile, source: as for :meth:`lookup_or_compile`.
            load: makes the object from the entry; called once.

        Returns:
            What ``load`` gave.
        """
        digest = private.digest_of(key) if self.enabled else None
        if digest is None:
            return load(self._compile_privately(key, compile))
        kernel = self._kernels.get(digest)
        if kernel is None:
            entry = self.lookup_or_compile(key, compile, source)
            with self._flights.only_one("load " + digest):
                kernel = self._kernels.get(digest)
                if kernel is None:
                    kernel = _bounded_put(self._kernels, digest, self.load(entry, load))
        elif source is not None:
            self.link(source, digest)
        return kernel

    def load(self, entry: CacheEntry, load: Callable[[CacheEntry], Any]) -> Any:
        """``load(entry)``, from a private copy where someone has removed its files meanwhile."""
        try:
            return load(entry)
        except Exception:
            # The files are all there, so they are not why loading failed.
            if all(os.path.isfile(entry.path / name) for name in entry.artifact.files):
                raise
            return load(dataclasses.replace(entry, path=private.materialise(entry.key, entry.artifact)))

    @_OfInstanceOrDefault
    def cached(
        self,
        func: Any = None,
        out_idx: int | list[int] | None = None,
        *args: Any,
        target: Any = "auto",
        target_host: Any = None,
        execution_backend: str | None = None,
        verbose: bool = False,
        pass_configs: dict[Any, Any] | None = None,
        compile_flags: list[str] | str | None = None,
    ) -> Any:
        """The kernel of a program, compiled where the cache has none.

        A repeated call with the same object and options is a look-up in memory.

        Args:
            func: a ``PrimFunc``, or a factory of one.
            args: the factory's arguments.
            out_idx, target, target_host, verbose, pass_configs, compile_flags: as for :func:`tilelang.compile`.
            execution_backend: as for :func:`tilelang.compile`; by default :attr:`execution_backend`.

        Returns:
            JITKernel: the callable kernel.
        """
        backend = execution_backend or self.execution_backend
        options = (out_idx, args, target, target_host, backend, pass_configs, compile_flags)
        kernel = self._recall(func, options) if self.enabled else None
        if kernel is None:
            files = warn.guarded(header_watch.records, None, "a kernel is not kept in memory")
            kernel = self._build(func, options, verbose)
            if self.enabled and not kernel.reads_files and files is not None:
                warn.guarded(lambda: self._memo.put(func, options, kernel, files), None, "a kernel is not kept in memory")
        return kernel

    def _recall(self, func: Any, options: tuple[Any, ...]) -> Any:
        try:
            return self._memo.get(func, options)
        except Exception as error:  # a closure for warn.guarded would cost a third of the look-up
            warn.once("memory", f"a kernel is not looked up in memory: {warn.describe(error)}")
            return None

    def _build(self, func: Any, options: tuple[Any, ...], verbose: bool) -> Any:
        out_idx, args, target, target_host, execution_backend, pass_configs, compile_flags = options
        return provided("build_kernel")(
            func,
            out_idx=out_idx,
            args=args,
            target=target,
            target_host=target_host,
            execution_backend=execution_backend,
            verbose=verbose,
            pass_configs=pass_configs,
            compile_flags=compile_flags,
            cache=self,
        )

    # -- state ------------------------------------------------------------------------------------------------------

    @property
    def enabled(self) -> bool:
        """Whether kernels are looked up and kept at all."""
        return self._enabled and (_DISABLED not in env.raw_table() or not env.get("TILELANG_DISABLE_CACHE"))

    @property
    def is_enabled_here(self) -> bool:
        """Whether :meth:`disable` was not called; the environment is not asked."""
        return self._enabled

    @property
    def keeps_files(self) -> bool:
        """Whether the disk is used."""
        return self.enabled and not env.get("TILELANG_DISABLE_FILE_CACHING")

    @property
    def disk(self) -> DiskCache:
        """The directory in force."""
        place = location.current() if self._own_root is None else location.at(self._own_root)
        disk = self._disks.get(place)
        if disk is None:
            disk = self._disks[place] = DiskCache(place)
        return disk

    @property
    def root(self) -> Path:
        """The directory in force."""
        return self.disk.root

    def enable(self) -> None:
        """Uses the cache again after :meth:`disable`."""
        self._turn(True)

    def disable(self) -> None:
        """Compiles afresh at every request, and keeps nothing."""
        self._turn(False)

    def _turn(self, on: bool) -> None:
        self._enabled = on
        if self._own_root is None:
            location.turn_off(not on)

    def forget(self) -> None:
        """Empties the memory; entries on disk stay."""
        self._memo.clear()
        self._entries.clear()
        self._kernels.clear()

    @_OfInstanceOrDefault
    def clear_cache(self) -> int:
        """Empties the memory and removes all entries on disk, also pinned ones, that no process holds; returns their number."""
        from tilelang.cache.command import maintenance  # only maintenance needs it

        self.forget()
        disk = self.disk
        disk.release_leases()
        if not disk.place.writable:
            return 0
        return warn.guarded(lambda: maintenance.clear(disk.root, disk.index), 0, "the kernel cache is not cleared")

    # -- steps ------------------------------------------------------------------------------------------------------

    def _in_memory(self, digest: str) -> CacheEntry | None:
        entry = self._entries.get(digest)
        # Another process may have cleared the cache since; what is loaded goes on running, and the entry is made anew.
        if entry is None or not os.path.isdir(entry.path):
            return None
        return dataclasses.replace(entry, origin="memory")

    def _find(self, digest: str) -> CacheEntry | None:
        return warn.guarded(lambda: self.disk.find(digest), None, "a kernel is not looked up")

    def _find_or_compile(self, key: KernelKey, compile: Compile, source: SourceKey | None) -> CacheEntry:
        if not self.keeps_files:
            return self._compile_privately(key, compile)
        entry = self._find(key.digest)
        if entry is not None:
            return entry
        with self.disk.only_one(key.digest):
            # The process that held the lock before may have made it.
            return self._find(key.digest) or self._fetch_or_compile(key, compile, source)

    def _fetch_or_compile(self, key: KernelKey, compile: Compile, source: SourceKey | None) -> CacheEntry:
        tier = shared_tier()
        if tier is None:
            return self._compile(key, compile, source)
        with tier.flight(key.digest) as flight:
            entry = self._adopt(key.digest, flight.files)
            if entry is None:
                entry = self._compile(key, compile, source)
                # A kernel that could not be kept is in a private directory, which goes with this process, and is not sent.
                if entry.path.is_relative_to(self.disk.root):
                    flight.send(entry.path)
            return entry

    def _compile(self, key: KernelKey, compile: Compile, source: SourceKey | None) -> CacheEntry:
        artifact, seconds = _timed(compile)
        path = self._keep(key, artifact, seconds, source)
        if path is None:
            return private.entry_of(key, artifact, seconds)
        return CacheEntry(key.digest, path, artifact, "compiled", seconds, key.inputs)

    def _keep(self, key: KernelKey, artifact: KernelArtifact, seconds: float, source: SourceKey | None) -> Path | None:
        """Where the artifact was kept; None, after a warning, where it was not."""

        def add() -> Path | None:
            if self._may_keep(key):
                return self.disk.add(key, artifact, seconds, source)
            self.disk.count("uncacheable")
            return None

        return warn.guarded(add, None, "a kernel could not be kept")

    def _adopt(self, digest: str, files: Mapping[str, bytes] | None) -> CacheEntry | None:
        if files is None:
            return None
        return warn.guarded(lambda: self.disk.adopt(digest, files), None, "a kernel of the shared cache is not used")

    def _compile_privately(self, key: KernelKey, compile: Compile) -> CacheEntry:
        if self.keeps_files:
            warn.guarded(lambda: self.disk.count("uncacheable"), None, "a compilation is not counted")
        return private.entry_of(key, *_timed(compile))

    def _may_keep(self, key: KernelKey) -> bool:
        """Whether the code that was just made is what the key says: the compiler must not have changed meanwhile."""
        # A key made now has the fingerprint as it is now; that of `key` was taken before the compilation.
        now = key.compiler if key.fingerprint is not None else KernelKey("", "", "", "").compiler
        if now.loaded_is_on_disk and now.parts == key.compiler.parts:
            return True
        warn.once(
            "compiler changed",
            "tilelang's own files changed while this process ran; its kernels are not kept",
        )
        return False

    def _remember(self, entry: CacheEntry) -> CacheEntry:
        return _bounded_put(self._entries, entry.key, entry)


def _timed(compile: Compile) -> tuple[KernelArtifact, float]:
    started = time.perf_counter()
    artifact = compile()
    return artifact, time.perf_counter() - started


def _bounded_put(table: dict[str, Any], key: str, value: Any) -> Any:
    while len(table) >= _MAX_IN_MEMORY:
        # Dictionaries keep the order of insertion, so the oldest goes first. Another thread may take it out at the same time.
        with contextlib.suppress(KeyError, StopIteration):
            table.pop(next(iter(table)))
    table[key] = value
    return value


_default: list[KernelCache] = []
_default_guard = Lock()


def default_cache() -> KernelCache:
    """The cache of this process."""
    if not _default:
        with _default_guard:
            if not _default:
                _default.append(KernelCache())
    return _default[0]


def cached(
    func: Any = None, out_idx: int | list[int] | None = None, *args: Any, target: Any = "auto", target_host: Any = None,
    execution_backend: str | None = None, verbose: bool = False, pass_configs: dict[Any, Any] | None = None,
    compile_flags: list[str] | str | None = None,
) -> Any:  # fmt: skip
    """The kernel of a program, from the cache of this process or compiled now.

    Args:
        func, out_idx, args, target, target_host: as for :meth:`KernelCache.cached`.
        execution_backend, verbose, pass_configs, compile_flags: as for :meth:`KernelCache.cached`.

    Returns:
        JITKernel: the callable kernel.
    """
    return default_cache().cached(
        func, out_idx, *args, target=target, target_host=target_host, execution_backend=execution_backend, verbose=verbose,
        pass_configs=pass_configs, compile_flags=compile_flags,
    )  # fmt: skip


def compile_fixed(func: Any, out_idx: int | list[int] | None = None, *args: Any, **options: Any) -> Any:
    """Compiles the program ``func`` now and returns its kernel: nothing is looked up, kept or counted.

    For callers with a dictionary of their own.

    Args:
        func, out_idx, args, options: as for :meth:`KernelCache.cached`.

    Returns:
        JITKernel: the callable kernel.
    """
    return KernelCache(enabled=False).cached(func, out_idx, *args, **options)


def clear_cache() -> int:
    """Removes all kernels from memory and disk; returns how many entries were on disk."""
    return default_cache().clear_cache()


def enable_cache() -> None:
    """Uses the cache again after :func:`disable_cache`."""
    default_cache().enable()


def disable_cache(function: Callable[..., Any] | None = None) -> Any:
    """Compiles afresh at every request and keeps nothing, in this process.

    ``@tilelang.disable_cache`` above a function (and above its ``@tilelang.jit``) does so while the function runs.
    """
    if function is not None:
        return without_cache(function, default_cache)
    default_cache().disable()
    return None


def is_cache_enabled() -> bool:
    """Whether kernels are looked up and kept."""
    return default_cache().enabled
