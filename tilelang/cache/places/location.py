"""Where the cache is, and whether its directory may be trusted.

A directory that another user owns, or that others may write to, could hand us a library of their making; it is refused,
with a message, and the process uses a private directory instead. The same holds for the directories right below it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from tilelang import env
from tilelang.cache import warn
from tilelang.cache.entries import scratch
from tilelang.records import Record

REPOSITORY_DIRECTORY = ".tilelang_cache"
FINGERPRINTS = "fingerprints.json"
SUBDIRECTORIES = ("kernels", "sources", "staging", "locks")
MARKS = {
    ".gitignore": "*\n",
    "CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n# Compiled kernels of tilelang; see https://bford.info/cachedir/\n",
}
"""Files that keep a cache out of repositories and backups."""
_DATABASE = ("index.db", "index.db-wal", "index.db-shm")
_OWN = frozenset((*SUBDIRECTORIES, *MARKS, *_DATABASE, FINGERPRINTS, "journal", "scripts", "quarantine"))


class Location(Record):
    """The cache's directory.

    Attributes:
        root: the directory.
        writable: whether entries can be added.
        kept: False for a private directory that ends with the process.
    """

    root: Path
    writable: bool
    kept: bool


_chosen: list[Path] = []
_prepared: dict[tuple[Path, int], Location] = {}
_off: list[bool] = []


def choose(root: Path | None) -> None:
    """Sets the root for this process, above the environment; None takes the choice back."""
    _chosen[:] = [] if root is None else [root]


def turn_off(off: bool) -> None:
    """While off, this process remembers nothing about the compiler in the root either."""
    _off[:] = [off] if off else []


def current() -> Location:
    """The location in force, prepared at its first use; a changed environment or choice gives another one."""
    try:
        root = default_root()
    except OSError as error:  # a relative path, and the working directory is gone
        warn.once(
            "location", f"there is no directory for the kernel cache: {error.strerror}; kernels of this process are not kept"
        )
        return private()
    return at(root)


def at(root: Path) -> Location:
    """The location ``root``, prepared at its first use in this process."""
    key = (root, os.getpid())
    found = _prepared.get(key)
    if found is None:
        found = _prepared[key] = prepare(key[0])
    return found


def again(root: Path) -> None:
    """Makes the directories of a root that were removed since its first use."""
    _prepared.pop((root, os.getpid()), None)
    at(root)


def memo_file() -> Path | None:
    """Where digests of the compiler's files are remembered; None where the disk is not used."""
    if _off or env.get("TILELANG_DISABLE_CACHE") or env.get("TILELANG_DISABLE_FILE_CACHING"):
        return None
    here = current()
    return here.root / FINGERPRINTS if here.kept and here.writable else None


def default_root() -> Path:
    """The root in force: :func:`choose`, else ``TILELANG_CACHE_DIR``, else the enclosing git work tree under
    ``TILELANG_CACHE_SCOPE=repo``, else ``$XDG_CACHE_HOME/tilelang``, else ``~/.cache/tilelang``."""
    if _chosen:
        return _chosen[0]
    chosen = env.get("TILELANG_CACHE_DIR")
    if chosen:
        return Path(os.path.abspath(os.path.expanduser(chosen)))
    if env.get("TILELANG_CACHE_SCOPE") == "repo":
        work_tree = _work_tree(Path.cwd())
        if work_tree is not None:
            return work_tree / REPOSITORY_DIRECTORY
    base = env.get("XDG_CACHE_HOME")
    # The XDG specification has relative paths ignored.
    return (Path(base) if base and os.path.isabs(base) else Path(os.path.expanduser("~")) / ".cache") / "tilelang"


def _work_tree(start: Path) -> Path | None:
    return next((folder for folder in (start, *start.parents) if os.path.exists(folder / ".git")), None)


def prepare(root: Path) -> Location:
    """Makes ``root`` and its subdirectories where they are missing, or falls back to a private directory with a warning."""
    made = _make(root)
    # `min` asks every directory, and thereby makes it; `all` would stop at the first that cannot be written to.
    writable = made is None and distrust(root, (os.geteuid(),)) is None and min(_usable(root / name) for name in SUBDIRECTORIES)
    trouble = made or problem(root)
    if trouble is not None:
        warn.once("location", f"the kernel cache {root} is not used: {trouble}; kernels of this process are not kept")
        return private()
    if writable:
        _mark(root)
    else:
        warn.once(
            "read-only",
            f"the kernel cache {root} cannot be written to; kernels are read from it, new ones are not kept",
        )
    return Location(root, writable, True)


def problem(root: Path) -> str | None:
    """Why the cache at ``root`` is not used, or None."""
    below = (_distrust_below(root / name) for name in SUBDIRECTORIES)
    return distrust(root, (os.geteuid(),)) or next(filter(None, below), None)


def _distrust_below(directory: Path) -> str | None:
    try:
        kind = os.lstat(directory).st_mode
    except OSError:
        return None  # what is not there hands us nothing
    if not stat.S_ISDIR(kind):
        return f"{directory.name}/ is not a directory"
    reason = distrust(directory, (os.geteuid(),))
    return reason and f"{directory.name}/: {reason}"


def _mark(root: Path) -> None:
    with contextlib.suppress(OSError):
        present = set(os.listdir(root))
        if not present <= _OWN:
            return  # a directory that the user has other files in is not ours to hide
        for name in MARKS.keys() - present:
            descriptor = os.open(root / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "w", encoding="ascii") as file:
                file.write(MARKS[name])


def private() -> Location:
    """A cache that ends with this process."""
    root = scratch.root() / "cache"
    _make(root)
    for name in SUBDIRECTORIES:
        _usable(root / name)
    return Location(root, True, False)


def distrust(root: Path, owners: tuple[int, ...]) -> str | None:
    """Why ``root`` must not be read, or None: it has to belong to one of ``owners`` and be closed to other writers."""
    try:
        found = os.stat(root)
    except OSError as error:
        return error.strerror
    if not stat.S_ISDIR(found.st_mode):
        return "it is not a directory"
    if found.st_uid not in owners:
        return f"it belongs to user {found.st_uid}, not to {owners[0]}"
    # A user who may write to the directory may put a library there, which a call of a kernel then runs as this user.
    if found.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        who = "everyone" if found.st_mode & stat.S_IWOTH else "its group"
        return f"{who} may write to it (chmod go-w would fix that)"
    return None


def _make(root: Path) -> str | None:
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        return error.strerror
    return None


def _usable(directory: Path) -> bool:
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return False
    return os.access(directory, os.W_OK | os.X_OK)
