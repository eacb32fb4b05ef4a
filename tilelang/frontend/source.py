"""The source text of a function: of a file, a notebook cell, a generated module, ``python -c`` or ``exec``."""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FrameType

from tilelang.code_texts import NAMELESS, note, text_of, tree
from tilelang.errors import SourceUnavailableError

FUTURE_ANNOTATIONS = 0x1000000
"""The flag of code under ``from __future__ import annotations``, which ``exec`` inherits from its caller."""


def source_lines(code: CodeType) -> tuple[list[str], int]:
    """The lines of a function's definition, and the number of the first.

    Python keeps no text of code given to ``exec``. A string that a calling frame holds is taken for it only if it compiles to
    exactly this function.

    Raises:
        SourceUnavailableError: Python does not know the text.
    """
    with suppress(OSError, TypeError):
        if code.co_filename != NAMELESS:
            return inspect.getsourcelines(code)
        remember(code)
        text = text_of(code)
        if text is None:
            raise SourceUnavailableError(code.co_name, code.co_filename)
        lines = text.splitlines(keepends=True)
        linecache.cache[NAMELESS] = (len(text), None, lines, NAMELESS)  # for the excerpts of errors
        return inspect.getblock(lines[code.co_firstlineno - 1 :]), code.co_firstlineno
    raise SourceUnavailableError(code.co_name, code.co_filename)


def remember(code: CodeType) -> None:
    """Looks for the text of a function without a file now, since the frame that gave it to ``exec`` may be gone later."""
    if code.co_filename != NAMELESS or text_of(code) is not None:
        return
    text = next((text for text in _candidates(code) if _defines(text, code)), None)
    if text is not None:
        note(code, text)
        for outer in _outer(code):
            note(outer, text)


def _candidates(code: CodeType) -> Iterator[str]:
    """Texts that may define the function: what calling code holds, the nearest first, and what ``python -c`` runs."""
    for frame in _callers():
        held = (*frame.f_locals.values(), *frame.f_code.co_consts)
        yield from (value for value in held if isinstance(value, str) and f"def {code.co_name}" in value)
    if sys.argv[:1] == ["-c"]:
        yield sys.orig_argv[sys.orig_argv.index("-c") + 1]


def _outer(code: CodeType) -> Iterator[CodeType]:
    """The running code that the function is defined in: other functions there, a macro for instance, have the same text."""
    for frame in _callers():
        if frame.f_code.co_filename == NAMELESS and any(part is code for part in tree(frame.f_code)):
            yield frame.f_code


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _defines(text: str, code: CodeType) -> bool:
    """Whether a text compiles to the function, instruction by instruction and line by line."""
    try:
        module = compile(text, NAMELESS, "exec", dont_inherit=True, flags=code.co_flags & FUTURE_ANNOTATIONS)
    except (SyntaxError, ValueError):
        return False
    # Code objects are equal if instructions, constants and lines are: a similar text, or one that was edited since, is none.
    return any(code == part for part in tree(module))
