"""Texts with run-time values in them, which a kernel can print and Python cannot look into."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilelang.errors import RunTimeValueError
from tilelang.frontend.values import is_symbolic


class Text(str):
    """An f-string with run-time values in it: a Python string with their expressions, of which a kernel prints the values.

    Attributes:
        parts: texts and values, in order.
    """

    parts: tuple[Any, ...]

    @staticmethod
    def of(parts: Iterable[Any]) -> Text:
        """The string of its parts."""
        pieces = tuple(piece for part in parts for piece in (part.parts if isinstance(part, Text) else (part,)))
        text = Text("".join(map(str, pieces)))
        text.parts = pieces
        return text

    def __add__(self, other: str) -> str:
        return Text.of((self, other))

    def __radd__(self, other: str) -> str:
        return Text.of((other, self))

    def __bool__(self) -> bool:
        return True  # a number has digits

    def _fail(self, *args: Any, **kwargs: Any) -> Any:
        raise RunTimeValueError(
            "a text with a run-time value is known while the kernel runs", hint="it can be printed: print(text), T.print(text)"
        )


_KEPT = frozenset("add new str repr format getattribute sizeof getnewargs doc".split())
"""What a text of the kernel has of Python's, without underscores: it can be joined to others, and shown in a message."""

for _name in (name for name in vars(str) if name.strip("_") not in _KEPT or name == "format"):
    setattr(Text, _name, Text._fail)


def text_of(value: Any, *spec: str) -> Text:
    """``str`` of a run-time value."""
    return Text.of((value,))


def _joined(separator: str, items: Iterable[str]) -> str:
    items = [*items]
    if not any(isinstance(item, Text) for item in items):
        return separator.join(items)
    first, *others = items
    return Text.of((first, *(part for item in others for part in (separator, item))))


def _filled(form: str, *args: Any, **kwargs: Any) -> str:
    if any(isinstance(each, Text) or is_symbolic(each) for each in (*args, *kwargs.values())):
        raise RunTimeValueError("str.format of a run-time value", hint='write an f-string, f"{value}", which a kernel prints')
    return form.format(*args, **kwargs)


METHODS_OF_TEXTS: Mapping[str, Callable[..., str]] = {"join": _joined, "format": _filled}
"""Methods of texts that take run-time values, or refuse them."""
