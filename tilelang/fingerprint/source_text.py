"""The source text of a function, found fast, and the check that it is the text of the code that runs.

``inspect.getsource`` tokenises in Python, which takes milliseconds; here the last line comes from the byte code and the
indentation of what follows it.
"""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Iterable
from types import CodeType

from tilelang.fingerprint.reads import code_tree


def block(code: CodeType) -> str | None:
    """The lines of the ``def`` (with decorators) that ``code`` came from, or None where there is no source."""
    lines = linecache.getlines(code.co_filename)
    first = code.co_firstlineno - 1
    if not 0 <= first < len(lines) or code.co_name == "<lambda>":
        return None
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
        linecache.checkcache(file)
        text = "".join(linecache.getlines(file))
        try:
            compiled = {_place(part): part for part in code_tree(compile(text, file, "exec", dont_inherit=True))}
        except (SyntaxError, ValueError):
            return file
        if not all(_same(code, compiled.get(_place(code))) for code in members):
            return file
    return None


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_name, code.co_firstlineno


def _same(code: CodeType, other: CodeType | None) -> bool:
    if other is None or code.co_code != other.co_code or code.co_names != other.co_names:
        return False
    mine = [part for part in code.co_consts if not isinstance(part, CodeType)]
    theirs = [part for part in other.co_consts if not isinstance(part, CodeType)]
    inner = zip(code_tree(code), code_tree(other), strict=False)
    return repr(mine) == repr(theirs) and all(a is code or a.co_code == b.co_code for a, b in inner)
