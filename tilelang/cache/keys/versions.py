"""Versions and contents of tools, for the ``toolchain`` of a kernel key; cheap enough for the warm path.

The files that were asked for are watched from then on, so that a tool that is replaced is noticed by the kernels in memory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilelang import env
from tilelang.cache.keys import header_watch, state_memo, tool_files
from tilelang.cache.keys.tool_files import ToolFiles
from tilelang.cache.places import location
from tilelang.fingerprint.canonical import digest

_RACY_NS = 2_000_000_000
"""A file that changed so lately may change again without another time in its ``stat`` data."""
_LARGE = 1 << 18
"""Bytes from which on a file's digest is kept between processes."""
_answers: dict[str, str] = {}
_variables: dict[str, None] = {"PATH": None}


def variables_of_tools() -> list[bytes]:
    """Keys of :func:`tilelang.env.raw_table` for the variables that decided which tools were found, and what they do."""
    return [env.raw_key(name) for name in _variables]


def files_of(program: str) -> ToolFiles:
    """What decides what a program does, watched from now on; nothing where there is no such program."""
    path = shutil.which(program)
    if path is None:
        return ToolFiles()
    tool = tool_files.behind(path)
    _variables.update(dict.fromkeys(tool.variables))
    header_watch.also(tool_files.places(tool))
    return tool


def version_of(tool: ToolFiles, *arguments: str) -> str:
    """What ``tool --version`` prints (or with ``arguments`` in its place), asked once for each state of its files."""
    if not tool.paths:
        return ""
    state = [text for each in tool.paths for text in (each, *map(str, _stat(each)))]
    asked = digest("tool", *(arguments or ("--version",)), *_values(tool), *state)
    return _answered(asked, lambda: _ask(tool.paths[0], arguments or ("--version",)), keep=True)


def content_of(tool: ToolFiles) -> str:
    """Digest of the program's file, which may be a script around another one, and of what that names; empty where there is
    no such program."""
    try:
        return digest(*dict.fromkeys(map(file_content, tool.paths)), *_values(tool)) if tool.paths else ""
    except OSError:
        return ""


def added_flags(tool: ToolFiles) -> list[str]:
    """What scripts in a tool's place add to its arguments now; the value of a variable counts as one word and as many."""
    table = env.raw_table()
    values = [os.fsdecode(table.get(env.raw_key(name), b"")) for name in tool.flag_variables]
    return [*tool.flags, *values, *(word for value in values for word in value.split())]


def file_content(path: str) -> str:
    """SHA-256 of a file."""
    state = _stat(path)
    if max(state[1:3]) > time.time_ns() - _RACY_NS:
        return _sha256(path)
    return _answered(digest("content", path, *map(str, state)), lambda: _sha256(path), keep=state[0] > _LARGE)


def _values(tool: ToolFiles) -> list[str]:
    table = env.raw_table()
    return [f"{name}={table.get(env.raw_key(name))!r}" for name in tool.variables]


def _stat(path: str) -> tuple[int, ...]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _answered(state: str, ask: Callable[[], str], keep: bool) -> str:
    """The answer that holds for a state: of this process, else of an earlier one, else a new one.

    Args:
        state: digest of what the answer depends on.
        ask: gives the answer.
        keep: whether it is kept between processes.
    """
    text: Any = _answers.get(state)
    if text is None and keep:
        text = state_memo.recall(location.memo_file(), state)
    if not isinstance(text, str):
        text = ask()
        if keep:
            state_memo.remember(location.memo_file(), state, text)
    _answers[state] = text
    return text


def _sha256(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _ask(path: str, arguments: tuple[str, ...]) -> str:
    # What is asked for must not depend on the user's headers, which the state of the tool does not tell.
    table = {os.fsdecode(name): os.fsdecode(value) for name, value in env.raw_table().items()}
    variables = {name: value for name, value in table.items() if name not in env.INCLUDE_PATHS}
    result = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=20, check=False, env=variables)
    # A version text may name the path that it was called by.
    return (result.stdout or result.stderr).replace(path, os.path.basename(path)).strip()
