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

_INCLUDE = re.compile(
    r'^[ \t]*#[ \t]*(?:include(?:_next)?|import|embed)\b[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|([^\s"<][^\n]*))', re.MULTILINE
)
_ASKED = re.compile(r'__has_(?:include|embed)(?:_next)?[ \t]*\([ \t]*["<]([^">\n]+)[">]')
_FOLDER = re.compile(r"^(?:-I|-iquote|-isystem|-idirafter|--include-path|-B|-L|--system-include)=?(.*)$")
_CONTINUED = re.compile(r"\\\r?\n")
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
    for word in words:
        _named(found, word, pending)
    while pending and len(found.digests) < _MOST_FILES:
        text, home = pending.pop()
        for name in _included(found, text):
            _read(found, name, [home, *folders] if home else ["", *folders], pending)
    return found


def _words(flags: Iterable[str]) -> Iterator[str]:
    """Flags one by one; those for the host compiler come in lists."""
    for flag in flags:
        yield flag
        if "," in flag:
            yield from flag.split(",")


def _folders(words: Sequence[str]) -> Iterator[str]:
    for position, word in enumerate(words):
        folder = _FOLDER.match(word)
        if folder is not None:
            yield folder.group(1) or (words[position + 1] if position + 1 < len(words) else "")


def _folders_of_variables(variables: Mapping[str, str]) -> Iterator[str]:
    for name in env.INCLUDE_PATHS:
        yield from filter(None, variables.get(name, "").split(os.pathsep))


def _named(found: UserFiles, word: str, pending: list[tuple[str, str]]) -> None:
    """A flag may be a file, or end in one after ``=`` or ``@``."""
    for name in (word, word.partition("=")[2], word.removeprefix("@")):
        if name and os.path.isfile(name):
            _read(found, name, [""], pending)
            if word.startswith("@"):
                found.problem = f"the flag {word} names a file of flags"


def _included(found: UserFiles, text: str) -> Iterator[str]:
    text = _CONTINUED.sub(" ", text)
    for quoted, bracketed, computed in _INCLUDE.findall(text):
        if computed:
            found.problem = f"#include {computed.strip()} names no file"
        else:
            yield quoted or bracketed
    yield from _ASKED.findall(text)


def _read(found: UserFiles, name: str, folders: Sequence[str], pending: list[tuple[str, str]]) -> None:
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
            return
