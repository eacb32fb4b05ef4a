"""Files of the user that the toolchain reads for a kernel: headers that its sources include, and files that its flags name.

The closure of ``#include`` is taken over all branches of conditionals, in the directories that the flags and the variables of the
toolchain name, and in that for headers of this machine. Every file of a name counts, in whichever of them it is: compilers search
them in orders of their own. What is found nowhere there is the toolchain's own, which counts by version.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tilelang import env

_SPACE = r"[ \t\f\v]*"
_HASH = rf"^{_SPACE}(?:#|%:|\?\?=){_SPACE}"  # also as a digraph or trigraph
_INCLUDE = re.compile(
    _HASH + rf'(include|include_next|import|embed)\b{_SPACE}(?:"([^"\n]+)"|<([^>\n]+)>|([^\s"<][^\n]*))', re.MULTILINE
)
_ASKED = re.compile(rf'__has_(?:include|embed)(?:_next)?{_SPACE}\({_SPACE}(?:["<]([^">\n]+)[">]|([^\s"<)]))')
_FOLDER = re.compile(
    r"^(?:-I|-iquote|-isystem|-cxx-isystem|-idirafter|--include-path|--include-directory-after|--include-directory|-L|--library-path"
    r"|--library-directory|--system-include)=?(.*)$"
)
_BEFORE = re.compile(r"^(?:-include|-imacros|--include|--imacros|--pre-include)=?(.*)$")
_MOVES = re.compile(
    r"^(?:--?sysroot|-isysroot|-iprefix|-iwithprefix|--include-(?:with-)?prefix|-imultilib|-working-directory|-optf|--options-file"
    r"|--config|--?specs|-B(?!symbolic|static|dynamic)|--prefix|-wrapper|--script|-T|-ccbin|--compiler-bindir)"
)
"""Flags after which headers, tools or libraries are looked for elsewhere, or which name more flags."""
_PASSED_ON = re.compile(r"^(?:-X[a-z]+|-W[alp]|--[a-z]+-options)(?:[=,]|$)")
"""What stands before a flag that the compiler hands to one of its tools."""
_LIBRARY = re.compile(r"^(?:-l|--library=)(:?)(.+)$")
_BINARIES = (b"\x7fELF", b"!<arch>\n")
"""How files begin that name no other files."""
_CONTINUED = re.compile(r"(?:\\|\?\?/)[ \t]*\r?\n")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_JOINT = re.compile(r'"\s*"|\s*##\s*')
_ASSEMBLY = re.compile(r"\b(?:asm|__asm|__asm__)\b")
_BY_ASSEMBLER = re.compile(r"incbin|\.\s*inc|\\[0-7x]")
"""What may make assembly read a file: its directives, and escapes that may spell one."""
_CLOCK = re.compile(r"\b__(?:DATE|TIME|TIMESTAMP)__\b")
_REMARK = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".cu", ".h", ".hpp", ".cuh", ".inc")
_OF_MACHINE = "/usr/local/include"
_TOOLS_FROM = ("COMPILER_PATH", "GCC_EXEC_PREFIX")
_MOST_FILES = 2000


@dataclass
class UserFiles:
    """Files of the user that one compilation reads.

    Attributes:
        digests: name, as it is written in the source or the flag -> SHA-256 of the content.
        problem: why there may be others; empty where there are none.
        folders: directories that the user names, in which files are looked for.
        searched: a name that a source or flag has and that would be found there, if not now then later; empty without one.
    """

    digests: dict[str, str] = field(default_factory=dict)
    problem: str = ""
    folders: list[str] = field(default_factory=list[str])
    searched: str = ""


def user_files(
    source: str,
    flags: Sequence[str],
    variables: Mapping[str, str],
    own: Callable[[list[str]], Iterable[str]] = lambda folders: (),
) -> UserFiles:
    """The files of the user behind a source text.

    Args:
        source: what the program adds to the generated code.
        flags: for the toolchain.
        variables: those of the toolchain that are set.
        own: gives, for the directories that the user names, the names of the headers and libraries that any compilation reads;
            asked where there are such directories.

    Returns:
        The files that were found, with their digests; ``problem`` is set where there may be others.
    """
    found = UserFiles()
    words = list(_words(flags))
    found.folders = list(dict.fromkeys((*_folders(words), *_folders_of_variables(variables))))
    folders = [*found.folders, _OF_MACHINE]
    pending = [(source, "")]
    for name in own(found.folders) if found.folders else ():
        _read(found, name, found.folders, pending)
    for name in filter(variables.get, _TOOLS_FROM):
        found.problem = f"the variable {name} decides which tools the compiler runs"
    for name in _values(words, _BEFORE):
        _note_search(found, name)
        _read(found, name, ["", *folders], pending)
    for word in words:
        _named(found, word, pending)
        if _MOVES.match(word):
            found.problem = f"the flag {word} decides where files are looked for"
        for name in _libraries(word):
            _note_search(found, name)
            _expect_binaries(found, name, folders)
    while pending and len(found.digests) < _MOST_FILES:
        text, home = pending.pop()
        for name in _included(found, text):
            _note_search(found, name)
            _read(found, name, [home, *folders], pending)
    if pending:
        found.problem = f"it includes more than {_MOST_FILES} files"
    return found


def _note_search(found: UserFiles, name: str) -> None:
    """Notes a name whose file may appear where none, or another one, is now."""
    if found.folders or os.path.isabs(name):
        found.searched = found.searched or name


def _words(flags: Iterable[str]) -> Iterator[str]:
    """Flags one by one, also those that are handed on, one after the other or in lists."""
    for flag in flags:
        word = _PASSED_ON.sub("", flag)
        if word:
            yield word
        if "," in word:
            yield from word.split(",")


def _folders(words: Sequence[str]) -> Iterator[str]:
    yield from _values(words, _FOLDER)


def _values(words: Sequence[str], flags: re.Pattern[str]) -> Iterator[str]:
    """What follows the flags of a kind, in the same word or as the next one."""
    for position, word in enumerate(words):
        flag = flags.match(word)
        if flag is not None:
            yield flag.group(1) or (words[position + 1] if position + 1 < len(words) else "")


def _folders_of_variables(variables: Mapping[str, str]) -> Iterator[str]:
    for name in (*env.INCLUDE_PATHS, "LIBRARY_PATH"):
        if variables.get(name):
            yield from (folder or "." for folder in variables[name].split(os.pathsep))


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
            elif not name.endswith(_SOURCES):
                _expect_binaries(found, name, [""])


def _expect_binaries(found: UserFiles, name: str, folders: Iterable[str]) -> None:
    """Adds object files and libraries; what is none of these (a linker's script, a thin archive) may name further files."""
    for path in _paths(name, folders):
        _add(found, name, path)
        with open(path, "rb") as file:
            if not file.read(8).startswith(_BINARIES):
                found.problem = f"the file {name} may name others"


def _included(found: UserFiles, text: str) -> Iterator[str]:
    """Names of files that a text includes; a comment may stand inside of a directive."""
    joined = _CONTINUED.sub("", text.replace("\r", "\n"))  # to some compilers a carriage return alone ends a line
    if _ASSEMBLY.search(joined) and _assembly_may_read(_JOINT.sub("", _INCLUDE.sub("", joined))):
        found.problem = "the assembler may read a file that its source names"
    clock = _CLOCK.search(joined)
    if clock is not None:
        found.problem = f"{clock.group()} is another at every compilation"
    # With comments and without: `/*` in a string begins none, and one may stand inside of a directive. A file too many only
    # makes the key change more often.
    for each in {joined, _COMMENT.sub(" ", joined)}:
        for directive, quoted, bracketed, computed in _INCLUDE.findall(each):
            if computed.strip() and not computed.startswith("/*"):
                found.problem = f"#{directive} {computed.strip()} names no file"
            elif not computed:
                yield quoted or bracketed
        for name, computed in _ASKED.findall(each):
            if computed:
                found.problem = f"__has_include({computed}…) names no file"
            else:
                yield name


def _assembly_may_read(text: str) -> bool:
    """Whether a text has a directive of an assembler that reads a file, or a word that a macro may make one of."""
    return _BY_ASSEMBLER.search(text) is not None or re.search(r"\binclude\b", _REMARK.sub("", text)) is not None


def _read(found: UserFiles, name: str, folders: Iterable[str], pending: list[tuple[str, str]]) -> None:
    """Adds the files of a name, and their texts to what is still to be searched.

    Args:
        found: what is added to.
        name: as it is written.
        folders: where it is looked for.
        pending: texts, each with its folder.
    """
    for path in _paths(name, folders):
        content = _add(found, name, path)
        if content is not None:
            pending.append((content.decode("utf-8", "replace"), os.path.dirname(path) or "."))


def _paths(name: str, folders: Iterable[str]) -> list[str]:
    paths = dict.fromkeys(os.path.join(folder, name) for folder in folders)
    return [path for path in paths if os.path.isfile(path)]


def _add(found: UserFiles, name: str, path: str) -> bytes | None:
    """The content of a file that was not added under this name before."""
    with open(path, "rb") as file:
        content = file.read()
    # The same name may mean another file, with another content, for another includer.
    digest = hashlib.sha256(content).hexdigest()
    if digest in found.digests.get(name, ""):
        return None
    found.digests[name] = found.digests.get(name, "") + digest
    return content
