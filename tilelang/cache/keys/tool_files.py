"""The files and environment variables that decide what running a tool does: the program, and what a script in its place runs.

A compiler may be a script around another one, or a launcher such as ccache, which runs the next program of its own name on the
``PATH``. So all programs of that name count, and of a script the programs, flags and variables of its command.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilelang import env

if TYPE_CHECKING:
    from tilelang.cache.keys.wrappers import Command

_LONGEST_SCRIPT = 1 << 18
_LAUNCHERS = ("ccache", "sccache", "distcc", "icecc")
"""Programs that run the one that their arguments begin with."""
_REDIRECTED_BY = {
    "ccache": ("CCACHE_COMPILER", "CCACHE_CONFIGPATH", "CCACHE_PATH", "CCACHE_PREFIX", "CCACHE_PREFIX_CPP"),
    "bash": ("BASH_ENV",),
}
"""Program -> variables that make it run, or read, something that is not known here."""
_BESIDE = {"nvcc": ("nvcc.profile",), "clang": ("clang.cfg",)}
"""Program, without its version -> files of its folder that it takes flags from."""


@dataclass(eq=False, repr=False)
class ToolFiles:
    """What decides what a tool does.

    Attributes:
        paths: files, links not resolved; first the program's own, none where there is no such program.
        flags: what scripts among them add to the arguments.
        flag_variables: environment variables whose values scripts add to the arguments.
        names: programs that are looked for on the ``PATH``.
        variables: names of all environment variables that scripts and launchers among them read, set or not.
        problem: why there may be more that decides; empty where there is not.
    """

    paths: list[str] = field(default_factory=list[str])
    flags: list[str] = field(default_factory=list[str])
    flag_variables: list[str] = field(default_factory=list[str])
    names: list[str] = field(default_factory=list[str])
    variables: list[str] = field(default_factory=list[str])
    problem: str = ""


def behind(program: str) -> ToolFiles:
    """What is behind the program at a path."""
    found, resolved = ToolFiles(names=[os.path.basename(program)]), set[str]()
    pending = [program, *_on_path(os.path.basename(program))]
    for path in pending:  # grows meanwhile
        real = os.path.realpath(path)
        # One program may have many names on the PATH, and scripts may run each other in a circle.
        if real in resolved:
            continue
        resolved.add(real)
        found.paths += [path, *_beside(path), *_beside(real)]
        _expect_unset(found, os.path.basename(real))
        text = _script(path)
        if text:
            from tilelang.cache.keys import wrappers  # few compilers are scripts

            pending += _run_by(found, path, wrappers.command_of(text, path))
    found.variables = sorted({*found.variables, *found.flag_variables})
    return found


def _run_by(found: ToolFiles, path: str, command: Command | None) -> list[str]:
    """The programs that a script runs; the other words of its command are added to what was found."""
    if command is None:
        found.problem = f"the script {path} may read any file; of scripts, those are known that are a single command of a shell"
        return []
    _expect_unset(found, command.shell)
    words = list(command.words)
    programs = list(_programs(found, words))
    if not programs or not all(os.path.basename(each) in _LAUNCHERS or _is_compiler(each) for each in programs):
        found.problem = f"the script {path} runs something that is not known to be a compiler: {' '.join(command.words)}"
    found.flags += words
    found.flag_variables += command.variables
    return programs


def _programs(found: ToolFiles, words: list[str]) -> Iterator[str]:
    """The programs at the beginning of a command, which are taken from it: a compiler, and launchers before it."""
    while words:
        name = words.pop(0)
        if "/" in name:
            yield name
        else:
            found.names.append(name)
            yield from _on_path(name)
        if os.path.basename(name) not in _LAUNCHERS:
            return


def _is_compiler(program: str) -> bool:
    """Whether a program has a compiler's name, or is a script, about which that script has to tell."""
    from tilelang.cache.keys import wrappers

    return wrappers.is_compiler(os.path.basename(os.path.realpath(program))) or _script(program) != ""


def _expect_unset(found: ToolFiles, program: str) -> None:
    names = _REDIRECTED_BY.get(program, ())
    found.variables += names
    for name in filter(env.raw_table().get, map(env.raw_key, names)):
        found.problem = f"the variable {os.fsdecode(name)} decides what {program} does"


def _script(path: str) -> str:
    """The text of a file that is not a binary; empty for those."""
    try:
        with open(path, "rb") as file:
            start = file.read(4)
            start += b"" if start == b"\x7fELF" else file.read(_LONGEST_SCRIPT)
    except OSError:
        return ""
    return "" if b"\0" in start or start == b"\x7fELF" else start.decode("utf-8", "replace")


def _beside(path: str) -> list[str]:
    """The files in the folder of a program that it takes flags from."""
    folder, name = os.path.split(path)
    files = (os.path.join(folder, each) for each in _BESIDE.get(name.rstrip("-.0123456789"), ()))
    return list(filter(os.path.isfile, files))


def _on_path(name: str) -> Iterator[str]:
    for folder in os.get_exec_path():
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            yield path


def places(tool: ToolFiles) -> list[str]:
    """Where a change may make a tool another one: its files, those that would be found instead of them, and directories that are
    not there yet."""
    folders = [os.path.abspath(folder) for folder in os.get_exec_path()]
    candidates = (os.path.join(folder, name) for folder in folders for name in tool.names)
    return [*tool.paths, *candidates, *(each for folder in folders for each in missing(folder))]


def missing(folder: str) -> Iterator[str]:
    """A directory and those around it, as far as they do not exist."""
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        yield folder
        folder = os.path.dirname(folder)


def folders_to(path: str) -> set[str]:
    """The directories in which the file, or a link on the way to it, can be replaced by another one."""
    found = {os.path.dirname(path)}
    while path != os.path.dirname(path):
        folder = os.path.dirname(path)
        if os.path.islink(path):
            found |= {folder} | folders_to(os.path.join(folder, os.readlink(path)))
        path = folder
    return found
