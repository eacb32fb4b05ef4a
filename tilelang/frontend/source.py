"""The source text of a function: of a file, a notebook cell, a generated module, ``python -c`` or ``exec``."""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType

from tilelang.errors import SourceUnavailableError

FUTURE_ANNOTATIONS = 0x1000000
"""The flag of code under ``from __future__ import annotations``, which ``exec`` inherits from its caller."""

_NAMELESS = "<string>"
"""The file name of code that was compiled from a text without a file."""

_texts: dict[str, None] = {}
"""The texts without a file in which functions were found, as an ordered set."""


def source_lines(code: CodeType) -> tuple[list[str], int]:
    """The lines of a function's definition, and the number of the first.

    Python keeps no text of code given to ``exec``. A string that a calling frame holds is taken for it only if it compiles to
    exactly this function.

    Raises:
        SourceUnavailableError: Python does not know the text.
    """
    with suppress(OSError, TypeError):
        if code.co_filename != _NAMELESS:
            return inspect.getsourcelines(code)
        text = next((text for text in _candidates(code) if _defines(text, code)), None)
        if text is None:
            raise SourceUnavailableError(code.co_name, code.co_filename)
        _texts[text] = None
        lines = text.splitlines(keepends=True)
        linecache.cache[_NAMELESS] = (len(text), None, lines, _NAMELESS)  # for the excerpts of errors
        return inspect.getblock(lines[code.co_firstlineno - 1 :]), code.co_firstlineno
    raise SourceUnavailableError(code.co_name, code.co_filename)


def remember(code: CodeType) -> None:
    """Looks for the text of a function without a file now, since the frame that gave it to ``exec`` may be gone later."""
    if code.co_filename == _NAMELESS:
        with suppress(SourceUnavailableError):
            source_lines(code)


def _candidates(code: CodeType) -> Iterator[str]:
    """Texts that may define the function: where others were found, what ``python -c`` runs, and what calling code holds."""
    yield from list(_texts)
    if sys.argv[:1] == ["-c"]:
        yield sys.orig_argv[sys.orig_argv.index("-c") + 1]
    frame = sys._getframe(1)
    while frame is not None:
        held = (*frame.f_locals.values(), *frame.f_code.co_consts)
        yield from (value for value in held if isinstance(value, str) and f"def {code.co_name}" in value)
        frame = frame.f_back


def _defines(text: str, code: CodeType) -> bool:
    """Whether a text compiles to the function, instruction by instruction and line by line."""
    try:
        module = compile(text, _NAMELESS, "exec", dont_inherit=True, flags=code.co_flags & FUTURE_ANNOTATIONS)
    except (SyntaxError, ValueError):
        return False
    return code in _functions_in(module)


def _functions_in(code: CodeType) -> list[CodeType]:
    """The code of the functions that are defined in ``code``, however deep."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return inner + [deeper for each in inner for deeper in _functions_in(each)]
