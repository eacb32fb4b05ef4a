"""Scripts in a compiler's place that are known to do no more than run one program with some flags more.

A script may compute what it runs from anything, so that no list of files describes it completely. One that is a single command,

    #!/bin/sh
    exec ccache "$(dirname "$0")/gcc" -DNAME $EXTRA_FLAGS "$@"

depends on the programs, flags and variables that are written there, and on nothing else.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

_SHELL = re.compile(r"#![ \t]*(?:/\S*/env[ \t]+|/\S*/)(sh|dash|bash)(?:[ \t]+-[eux]+)*[ \t]*$")
_IDLE = re.compile(r"[ \t]*(?:#.*|set[ \t]+-[eux]+[ \t]*)?$")
"""Lines of no consequence."""
_HERE, _REAL = "\1", "\2"
_FOLDERS = (
    (_REAL, re.compile(r'\$\(dirname (?:-- )?("?)\$\((?:readlink -f|realpath) (?:-- )?("?)\$0\2\)\1\)')),
    (_HERE, re.compile(r'\$\(dirname (?:-- )?("?)\$0\1\)|\$\{0%/\*\}')),
)
"""How a script names the folder that holds it, and the one that holds the file at the end of a link to it."""
_ARGUMENTS = re.compile(r'"\$@"|\$@|\$\*|\$\{1\+"\$@"\}')
_VARIABLE = re.compile(r'("?)\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})\1')
_LITERAL = re.compile(r"""(?:[\w@%+=:,./\1\2-]|'[^'\1\2]*'|"[^"$`\\]*")+""".replace(r"\1\2", _HERE + _REAL))
_COMPILER = re.compile(
    r"(?:[\w.+-]*-)?(?:cc|gcc|g\+\+|c\+\+|clang|clang\+\+|icx|icpx|tcc|nvc|nvc\+\+|nvcc|ptxas|as|ld(?:\.\w+)?|lld|mold)(?:-[\d.]+)?$"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


@dataclass(frozen=True)
class Command:
    """What a script runs.

    Attributes:
        shell: that reads it.
        words: the program, and what is written after it.
        variables: environment variables that are more words.
    """

    shell: str
    words: tuple[str, ...]
    variables: tuple[str, ...]


def is_compiler(name: str) -> bool:
    """Whether a program of this name is a compiler, an assembler or a linker, perhaps with a target or a version in its name."""
    return _COMPILER.match(name) is not None


def command_of(text: str, path: str) -> Command | None:
    """The one command that a script consists of, or None for any other script.

    Args:
        text: of the script.
        path: by which it is run.
    """
    first, _, rest = text.partition("\n")
    shell = _SHELL.match(first)
    lines = [line for line in rest.replace("\\\n", " ").split("\n") if not _IDLE.match(line)]
    # The marks stand for folders in what follows: a script that has such a character itself would be misread.
    if shell is None or len(lines) != 1 or {_HERE, _REAL} & set(text):
        return None
    found = _words(lines[0])
    if found is None:
        return None
    words, variables = found
    words = words[words[:1] == ["exec"] :]
    if not words or _ASSIGNMENT.match(words[0]):
        return None
    folders = {_HERE: os.path.dirname(path), _REAL: os.path.dirname(os.path.realpath(path))}
    for mark, folder in folders.items():
        words = [word.replace(mark, folder) for word in words]
    return Command(shell.group(1), tuple(words), tuple(variables))


def _words(line: str) -> tuple[list[str], list[str]] | None:
    """The words of a command without the script's own arguments, and the variables among them; None for any other line."""
    for mark, folder in _FOLDERS:
        line = folder.sub(mark, line)
    words, variables, position = list[str](), list[str](), 0
    while line[position:].strip(" \t"):
        position += len(line[position:]) - len(line[position:].lstrip(" \t"))
        matches = [pattern.match(line, position) for pattern in (_ARGUMENTS, _VARIABLE, _LITERAL)]
        # A pattern counts only if it ends with its word: "$@"x is not the list of arguments.
        ends = [match.end() if match else -1 for match in matches]
        arguments, variable, literal = (
            match if match and (end == len(line) or line[end] in " \t") else None for match, end in zip(matches, ends)
        )
        position = max(ends)
        if variable and words:
            variables.append(variable.group(2) or variable.group(3))
        elif literal:
            words.append(re.sub("[\"']", "", literal.group()))
        elif not (arguments and words):
            return None
    return words, variables
