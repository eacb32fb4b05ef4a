"""Files of the user that the toolchain reads for a kernel: headers that its sources include, and files that its flags name.

The closure of ``#include`` is taken over all branches of conditionals, in the directories that the flags and the variables of the
toolchain name. What is found nowhere there is the toolchain's own, which counts by version.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tilelang import env

_HASH = r"^[ \t]*(?:#|%:|\?\?=)[ \t]*"  # also as a digraph or trigraph
_INCLUDE = re.compile(
    _HASH + r'(include|include_next|import|embed)\b[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|([^\s"<][^\n]*))', re.MULTILINE
)
_ASKED = re.compile(r'__has_(?:include|embed)(?:_next)?[ \t]*\([ \t]*(?:["<]([^">\n]+)[">]|([^\s"<)]))')
_FOLDER = re.compile(
    r"^(?:-I|-iquote|-isystem|-cxx-isystem|-idirafter|--include-path|--include-directory|-B|-L|--system-include)=?(.*)$"
)
_BEFORE = re.compile(r"^(?:-include|-imacros|--include|--imacros|--pre-include)=?(.*)$")
_MOVES = re.compile(
    r"^(?:--?sysroot|-isysroot|-iprefix|-iwithprefix|-imultilib|-working-directory|-optf|--options-file|--config)"
)
"""Flags after which headers are looked for elsewhere, or which name more flags."""
_LIBRARY = re.compile(r"^-l(:?)(.+)$")
_CONTINUED = re.compile(r"\\[ \t]*\r?\n")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_BY_ASSEMBLER = ".incbin"
_MOST_FILES = 2000


@dataclass
class UserFiles:
    """Files of the user that one compilation reads.

    Attributes:
        digests: name, as it is written in the source or the flag -> SHA-256 of the content.
        problem: why there may be others; empty where there are none.
    """

    digests: dict[str, str] = field(default_factory=dict)
    problem: str = ""


def user_files(source: str, flags: Sequence[str], variables: Mapping[str, str]) -> UserFiles:
    """The files of the user behind a source text.

    Args:
        source: what the program adds to the generated code.
        flags: for the toolchain.
        variables: those of the toolchain that are set.

    Returns:
        The files that were found, with their digests; ``problem`` is set where there may be others.
    """
    found = UserFiles()
    words = list(_words(flags))
    folders = [*_folders(words), *_folders_of_variables(variables)]
    pending = [(source, "")]
    for name in _values(words, _BEFORE):
        _read(found, name, ["", *folders], pending)
    for word in words:
        _named(found, word, pending)
        if _MOVES.match(word):
            found.problem = f"the flag {word} decides where files are looked for"
        for name in _libraries(word):
            _read(found, name, folders, [])  # no text, so that nothing in it is searched for
    while pending and len(found.digests) < _MOST_FILES:
        text, home = pending.pop()
        for name, every in _included(found, text):
            _read(found, name, [home, *folders], pending, every)
    if pending:
        found.problem = f"it includes more than {_MOST_FILES} files"
    return found


def _words(flags: Iterable[str]) -> Iterator[str]:
    """Flags one by one; those for the host compiler come in lists."""
    for flag in flags:
        yield flag
        if "," in flag:
            yield from flag.split(",")


def _folders(words: Sequence[str]) -> Iterator[str]:
    yield from _values(words, _FOLDER)


def _values(words: Sequence[str], flags: re.Pattern[str]) -> Iterator[str]:
    """What follows the flags of a kind, in the same word or as the next one."""
    for position, word in enumerate(words):
        flag = flags.match(word)
        if flag is not None:
            yield flag.group(1) or (words[position + 1] if position + 1 < len(words) else "")


def _folders_of_variables(variables: Mapping[str, str]) -> Iterator[str]:
    for name in env.INCLUDE_PATHS:
        yield from filter(None, variables.get(name, "").split(os.pathsep))


def _libraries(word: str) -> tuple[str, ...]:
    """The files that ``-lname`` or ``-l:file`` stands for."""
    library = _LIBRARY.match(word)
    if library is None:
        return ()
    is_file, name = library.groups()
    return (name,) if is_file else (f"lib{name}.so", f"lib{name}.a")


def _named(found: UserFiles, word: str, pending: list[tuple[str, str]]) -> None:
    """A flag may be a file, or end in one after ``=`` or ``@``."""
    for name in (word, word.partition("=")[2], word.removeprefix("@")):
        if name and os.path.isfile(name):
            _read(found, name, [""], pending)
            if word.startswith("@"):
                found.problem = f"the flag {word} names a file of flags"


def _included(found: UserFiles, text: str) -> Iterator[tuple[str, bool]]:
    """(name of a file that a text includes, whether it may be any of that name); a comment may stand inside of a directive."""
    joined = _CONTINUED.sub("", text)
    if _BY_ASSEMBLER in joined:
        found.problem = f"{_BY_ASSEMBLER} names a file for the assembler"
    # With comments and without: `/*` in a string begins none, and one may stand inside of a directive. A file too many only
    # makes the key change more often.
    for each in {joined, _COMMENT.sub(" ", joined)}:
        for directive, quoted, bracketed, computed in _INCLUDE.findall(each):
            if computed.strip() and not computed.startswith("/*"):
                found.problem = f"#{directive} {computed.strip()} names no file"
            elif not computed:
                yield quoted or bracketed, directive == "include_next"
        for name, computed in _ASKED.findall(each):
            if computed:
                found.problem = f"__has_include({computed}…) names no file"
            else:
                yield name, True


def _read(found: UserFiles, name: str, folders: Iterable[str], pending: list[tuple[str, str]], every: bool = False) -> None:
    """Adds a file, and its text to what is still to be searched.

    Args:
        found: what is added to.
        name: as it is written.
        folders: where it is looked for.
        pending: texts, each with its folder.
        every: whether all files of that name count, and not only the first.
    """
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                content = file.read()
            # The same name may mean another file, with another content, for another includer.
            digest = hashlib.sha256(content).hexdigest()
            if digest not in found.digests.get(name, ""):
                found.digests[name] = found.digests.get(name, "") + digest
                pending.append((content.decode("utf-8", "replace"), os.path.dirname(path) or "."))
            if not every:
                return
