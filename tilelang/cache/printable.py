"""Text for a terminal. Names and messages may come from a bundle or another user: none of their characters may steer it."""

from __future__ import annotations

# Control characters, format characters (which reorder text), surrogates, private use, and separators of lines.
_STEERING = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))


def printable(text: str) -> str:
    """``text`` with an escape such as ``\\x1b`` for every character that is not shown as itself."""
    if text.isprintable():
        return text
    import unicodedata  # seldom needed

    return "".join(_escape(char) if unicodedata.category(char) in _STEERING and char != "\n" else char for char in text)


def one_line(text: str) -> str:
    """As :func:`printable`, and without line breaks."""
    return printable(text).replace("\n", "\\n")


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode()
