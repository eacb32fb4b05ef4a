"""The source text of a function, found fast, and the check that it is the text of the code that runs.

``inspect.getsource`` tokenises in Python, which takes milliseconds; here the last line comes from the byte code and the
indentation of what follows it.
"""

from __future__ import annotations

import ast
import functools
import linecache
import textwrap
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any

from tilelang.code_texts import NAMELESS, ByIdentity, text_of
from tilelang.fingerprint.reads import code_tree


def block(code: CodeType, variables: dict[str, Any] | None = None) -> str | None:
    """The lines of the ``def`` (with decorators) that ``code`` came from, or None where there is no source.

    Args:
        code: of the function. Its lines are read once: what was compiled does not change with the file.
        variables: the globals of the function; a loader named there knows the text of a module in a ZIP file, for instance.
    """
    if code.co_filename == NAMELESS:
        text = text_of(code)
        return None if text is None else _block(text.splitlines(keepends=True), code)
    if variables is not None:
        linecache.lazycache(code.co_filename, variables)
    return _block_of_file(ByIdentity(code))


@functools.lru_cache(maxsize=4096)
def _block_of_file(key: ByIdentity) -> str | None:
    linecache.checkcache(key.code.co_filename)  # what another version of the file left there, before it was loaded again
    return _block(linecache.getlines(key.code.co_filename), key.code)


def _block(lines: list[str], code: CodeType) -> str | None:
    first = code.co_firstlineno - 1
    if not 0 <= first < len(lines) or code.co_name == "<lambda>":
        return None
    # The byte code has no line for a trailing comment or bracket; what is indented more than the `def` still belongs to it.
    last = max(line for part in code_tree(code) for _, _, line in part.co_lines() if line is not None)
    indent = _indent(lines[first])
    end = last
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > indent):
        # A string over several lines may be indented in any way; then the rest of the file counts.
        if '"""' in lines[end] or "'''" in lines[end]:
            end = len(lines)
            break
        end += 1
    return textwrap.dedent("".join(lines[first:end])).rstrip()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def changed_file(codes: Iterable[CodeType]) -> str | None:
    """The first file whose text is no longer what the running code was compiled from, or None."""
    by_file: dict[str, list[CodeType]] = {}
    for code in codes:
        by_file.setdefault(code.co_filename, []).append(code)
    for file, members in by_file.items():
        if file == NAMELESS:
            continue  # a text that was noted for this very code
        linecache.checkcache(file)
        lines = linecache.getlines(file)
        if not any(_is_text_of(members, lines, compiled) for compiled in (_as_module, _as_cell)):
            return file
    return None


def _is_text_of(codes: Iterable[CodeType], lines: list[str], compiled: Callable[[str, str], Iterator[CodeType]]) -> bool:
    """Whether code comes from a text that was compiled in one of two ways."""
    codes = list(codes)
    try:
        parts = {_place(part): part for whole in compiled("".join(lines), codes[0].co_filename) for part in code_tree(whole)}
    except (SyntaxError, ValueError):
        return False
    # An annotation of a local variable is in the text alone.
    return all(_same(code, parts.get(_place(code))) and block(code) == _block(lines, code) for code in codes)


def _as_module(text: str, file: str) -> Iterator[CodeType]:
    yield compile(text, file, "exec", dont_inherit=True)


def _as_cell(text: str, file: str) -> Iterator[CodeType]:
    """Statement by statement, as notebooks do; calls of what the same unit imports have other instructions."""
    for statement in ast.parse(text, file).body:
        yield compile(ast.Module([statement], []), file, "exec", dont_inherit=True)


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_name, code.co_firstlineno


def _same(code: CodeType, other: CodeType | None) -> bool:
    if other is None or code.co_code != other.co_code or code.co_names != other.co_names:
        return False
    mine = [part for part in code.co_consts if not isinstance(part, CodeType)]
    theirs = [part for part in other.co_consts if not isinstance(part, CodeType)]
    inner = zip(code_tree(code), code_tree(other), strict=False)
    return repr(mine) == repr(theirs) and all(a is code or a.co_code == b.co_code for a, b in inner)
