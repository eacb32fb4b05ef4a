"""Versions of packages and tools, for the ``toolchain`` of a kernel key; cheap enough for the warm path."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys

from tilelang.cache import location, state_memo
from tilelang.cache.canonical import digest


@functools.cache
def package_version(distribution: str) -> str:
    """The version of an installed distribution; empty where it is not installed.

    Read from the names of ``.dist-info`` directories: ``importlib.metadata`` takes 20 ms to import.
    """
    return _installed().get(_normal(distribution), "")


@functools.cache
def _installed() -> dict[str, str]:
    found: dict[str, str] = {}
    for folder in dict.fromkeys(sys.path):
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith(".dist-info"):
                distribution, _, version = name.removesuffix(".dist-info").rpartition("-")
                found.setdefault(_normal(distribution), version)
    return found


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def executable_version(program: str, *arguments: str) -> str:
    """What ``program --version`` prints (or with ``arguments`` in its place), asked once for each state of the file."""
    path = shutil.which(program)
    if path is None:
        return ""
    found = os.stat(path)
    return _version(path, arguments or ("--version",), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


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
