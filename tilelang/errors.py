"""Every error that a user of tilelang can meet.

An error says what is wrong, which two things disagree, where in the user's program, and what to do. Each kind is a class
with a message template; the location is attached by :class:`TileLangError`, so that all of them read alike:

    tilelang.errors.GemmShapeError: T.gemm: the K extents of A and B differ: A is (128, 32), B is (64, 128)
      --> /home/me/gemm.py:21
         |
      21 |         T.gemm(A_shared, B_shared, C_local)
         |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      hint: B must be (32, N), or (N, 32) with transpose_B=True
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Location:
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
        end = self.end_column if self.end_column > column else len(text) + 1
        carets = " " * (column - 1) + "^" * max(1, min(end, len(text) + 1) - column)
        return f"{head}\n  {gutter} |\n  {number} | {text}\n  {gutter} | {carets}"


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

    def at(self, location: Location | None) -> TileLangError:
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


class CompileError(TileLangError):
    """A program that cannot be compiled."""


class CacheError(TileLangError):
    """A kernel cache that cannot be used."""


class CacheWarning(UserWarning):
    """The kernel cache could not do all it should; the kernel is right all the same."""


class ExecutionError(TileLangError):
    """A kernel that cannot be loaded or launched."""


class CopyShapeError(CompileError):
    """The two regions of a copy have different extents."""

    def __init__(self, source: str, target: str, operator: str = "T.copy"):
        super().__init__(
            f"{operator}: the source is {source} and the destination is {target}",
            hint="the extents must agree, axes of length 1 aside; slice one side, or copy to a buffer of the same shape",
        )


class GemmShapeError(CompileError):
    """An operand of a matrix product has the wrong shape."""

    def __init__(self, operand: str, got: str, want: str, context: str):
        super().__init__(
            f"T.gemm: {operand} is {got}, expected {want} ({context})",
            hint="A is (M, K), or (K, M) with transpose_A=True; B is (K, N), or (N, K) with transpose_B=True; C is (M, N)",
        )


class GemmDtypeError(CompileError):
    """The element types of a matrix product do not go together."""

    def __init__(self, a: str, b: str, c: str, reason: str):
        super().__init__(f"T.gemm: A is {a}, B is {b}, C is {c}: {reason}")


class ReduceShapeError(CompileError):
    """Source and destination of a reduction or a scan do not fit."""

    def __init__(self, kind: str, dim: int, source: str, target: str):
        super().__init__(f"T.{kind if kind.startswith('cum') else 'reduce_' + kind}: source {source} and destination "
                         f"{target} do not fit for dim={dim}")


class PassFailedError(CompileError):
    """A compiler pass failed in a way that is not the program's fault."""

    def __init__(self, step: str, cause: BaseException):
        first_line = next(iter(str(cause).splitlines()), "")
        super().__init__(
            f"internal error in pass {step!r}: {type(cause).__name__}: {first_line}",
            hint="this is a defect of the compiler; TILELANG_TRACEBACK=full shows where it happened",
        )
