"""Code by its identity, and the text that code without a file came from.

Equal code may come from different texts: Python compiles no annotation of a local variable (``A: T.Tensor((N,), dtype)``), and
the name of the file takes no part in the comparison of code.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType

NAMELESS = "<string>"
"""The file of code that was compiled from a text without saying where that is."""

_texts: dict[int, tuple[CodeType, str]] = {}


class ByIdentity:
    """Code as the key of a table in which equal code is not the same."""

    __slots__ = ("code",)

    def __init__(self, code: CodeType):
        self.code = code

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByIdentity) and self.code is other.code

    def __hash__(self) -> int:
        return id(self.code)


def note(code: CodeType, text: str) -> None:
    """Remembers the whole text that ``code``, and all code inside it, was compiled from."""
    for part in tree(code):
        _texts[id(part)] = (part, text)


def text_of(code: CodeType) -> str | None:
    """The text that was noted for this very code, or None."""
    known = _texts.get(id(code))
    return None if known is None else known[1]


def tree(code: CodeType) -> Iterator[CodeType]:
    """``code`` and all code inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from tree(constant)
