"""The files and environment variables that decide what running a tool does: the program, and what a script in its place names.

A compiler may be a script around another one, or a launcher such as ccache, which runs the next program of its own name on the
``PATH``. So all programs of that name count, and of a script every file, program and variable whose name is a word of its text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_WORD = re.compile(r"[\w./+-]+")
_VARIABLE = re.compile(r"""[$"'({]([A-Za-z_]\w*)""")  # $NAME, ${NAME}, "NAME"
_LONGEST_SCRIPT = 1 << 18


@dataclass
class ToolFiles:
    """What decides what a tool does.

    Attributes:
        paths: files, links not resolved.
        variables: names of environment variables that scripts among them may read, set or not.
    """

    paths: list[str] = field(default_factory=list[str])
    variables: list[str] = field(default_factory=list[str])


def behind(program: str) -> ToolFiles:
    """What is behind the program at a path."""
    found, resolved = ToolFiles(), set[str]()
    pending = [program, *_on_path(os.path.basename(program))]
    for path in pending:  # grows meanwhile
        real = os.path.realpath(path)
        if real in resolved:
            continue
        resolved.add(real)
        found.paths.append(path)
        text = _script(path)
        found.variables += _VARIABLE.findall(text)
        folders = {os.path.dirname(path), os.path.dirname(real)}
        pending += [each for word in dict.fromkeys(_WORD.findall(text)) for each in _named(word, folders)]
    found.variables = sorted(set(found.variables))
    return found


def _script(path: str) -> str:
    """The text of a file that is not a binary; empty for those."""
    try:
        with open(path, "rb") as file:
            start = file.read(_LONGEST_SCRIPT)
    except OSError:
        return ""
    return "" if b"\0" in start else start.decode("utf-8", "replace")


def _named(word: str, folders: set[str]) -> Iterator[str]:
    """The files that a word of a script in one of ``folders`` may mean."""
    beside = (os.path.join(folder, word.lstrip("/")) for folder in sorted(folders))  # "$(dirname $0)/word"
    yield from filter(os.path.isfile, (word, *beside))
    if "/" not in word:
        yield from _on_path(word)


def _on_path(name: str) -> Iterator[str]:
    for folder in os.get_exec_path():
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            yield path


def folders_to(path: str) -> set[str]:
    """The directories in which the file, or a link on the way to it, can be replaced by another one."""
    found = {os.path.dirname(path)}
    while path != os.path.dirname(path):
        folder = os.path.dirname(path)
        if os.path.islink(path):
            found |= {folder} | folders_to(os.path.join(folder, os.readlink(path)))
        path = folder
    return found
