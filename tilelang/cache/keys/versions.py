"""Versions of tools, for the ``toolchain`` of a kernel key; cheap enough for the warm path."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tilelang.cache.keys import state_memo
from tilelang.cache.places import location
from tilelang.fingerprint.canonical import digest


def executable_version(program: str, *arguments: str) -> str:
    """What ``program --version`` prints (or with ``arguments`` in its place), asked once for each state of the file."""
    path = shutil.which(program)
    return "" if path is None else _version(path, arguments or ("--version",), *_state(path))


def executable_content(program: str) -> str:
    """SHA-256 of the program's file, which may be a script around another one; empty where it cannot be read."""
    path = shutil.which(program)
    try:
        return "" if path is None else _content(path, *_state(path))
    except OSError:
        return ""


def _state(path: str) -> tuple[int, ...]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


@functools.lru_cache(maxsize=32)
def _content(path: str, *state: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@functools.cache
def _version(path: str, arguments: tuple[str, ...], *state: int) -> str:
    known = digest("tool", path, *arguments, *map(str, state))
    text = state_memo.recall(location.memo_file(), known)
    if not isinstance(text, str):
        text = _ask(path, arguments)
        state_memo.remember(location.memo_file(), known, text)
    return text


def _ask(path: str, arguments: tuple[str, ...]) -> str:
    result = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=20, check=False)
    # A version text may name the path that it was called by.
    return (result.stdout or result.stderr).replace(path, os.path.basename(path)).strip()
