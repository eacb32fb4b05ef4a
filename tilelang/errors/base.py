"""What all errors have in common: a message, a location in the user's source, a hint; and the families that callers catch."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING

from tilelang.records import Record

if TYPE_CHECKING:
    from typing_extensions import Self


class Location(Record):
    """A range in a source file; lines and columns count from 1, ``end_column`` is exclusive."""

    file: str
    line: int
    column: int = 0
    end_column: int = 0

    def excerpt(self) -> str:
        """The line with a caret under the range, or only ``file:line`` where the source cannot be read."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        head = f"  --> {self.file}:{self.line}"
        if not text.strip():
            return head
        number = str(self.line)
        gutter = " " * len(number)
        column = self.column or len(text) - len(text.lstrip()) + 1
        # A range that ends in a later line is underlined up to the end of its first one.
        end = self.end_column if self.end_column > column else len(text) + 1
        carets = " " * (column - 1) + "^" * max(1, min(end, len(text) + 1) - column)
        return f"{head}\n  {number} | {text}\n  {gutter} | {carets}"


class TileLangError(Exception):
    """Base of every error of this package.

    Args:
        message: what is wrong, in one or two lines.
        location: where in the user's source, if known; it may be attached later with :meth:`at`.
        hint: what to do about it.
    """

    def __init__(self, message: str, location: Location | None = None, hint: str | None = None):
        super().__init__(message)
        self.message = message
        self.location = location
        self.hint = hint

    def at(self, location: Location | None) -> Self:
        """Attaches ``location`` unless the error already has one; returns the error."""
        if self.location is None:
            self.location = location
        return self

    def __str__(self) -> str:
        parts = [self.message]
        if self.location is not None:
            parts.append(self.location.excerpt())
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)


def concise(error: TileLangError) -> TileLangError:
    """``error`` without the compiler's frames, unless ``TILELANG_TRACEBACK=full`` asks for them; raise the result ``from None``.

    The functions that users call catch what comes from inside and raise this, so that a traceback is the user's own frames,
    one of this package, and the message.
    """
    from tilelang import env

    return error if env.get("TILELANG_TRACEBACK") == "full" else error.with_traceback(None)


def first_line(error: BaseException) -> str:
    """The first line of what an exception says, or its class where it says nothing; to be quoted in another message."""
    return next(iter(str(error).splitlines()), type(error).__name__)


class CompileError(TileLangError, ValueError):
    """A program that cannot be compiled."""


class ExecutionError(TileLangError, RuntimeError):
    """A kernel that cannot be loaded or launched."""


class CacheError(TileLangError):
    """A kernel cache that cannot be used."""


class TuningError(TileLangError):
    """A search for configurations that cannot be started, or that has found no usable kernel."""


class CacheWarning(UserWarning):
    """The kernel cache failed in some way; the kernel is correct nevertheless."""


class IgnoredParameterWarning(UserWarning):
    """A parameter that is accepted for other releases' programs, and has no effect, was set."""


class UninitialisedWarning(UserWarning):
    """A program reads a tile or a variable that nothing has written before."""


class ShadowedNameWarning(UserWarning):
    """A branch of a loop gives a name a value of its own, of which other branches know nothing."""


class PerformanceWarning(UserWarning):
    """A statement is compiled to code that is much slower than the machine allows; the kernel is correct nevertheless."""
