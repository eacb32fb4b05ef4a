"""Names of attributes that code reads: which of them are part of a value, and which may be read without being written out.

``getattr`` and ``str.format`` take names as values. What they may be asked for is judged by the texts that the program has: an
attribute with two underscores that shows more than a value is refused where a text could be (a part of) its name.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from types import AsyncGeneratorType, CodeType, CoroutineType, FrameType, GeneratorType, TracebackType

_SAFE_SPECIAL_NAMES = frozenset(
    name for kind in (int, float, complex, str, tuple, list, dict, set, type(len)) for name in dir(kind)
) - frozenset("__doc__ __hash__ __sizeof__ __reduce__ __reduce_ex__ __getstate__ __text_signature__ __self__ __module__".split())
_SAFE_NAMES = _SAFE_SPECIAL_NAMES | frozenset(
    "__name__ __qualname__ __class__ __dict__ __post_init__ __enter__ __exit__ __next__ __members__ __call__ __version__ __file__"
    " __fspath__ __args__ __origin__ __mro__ __bases__ __isabstractmethod__ __missing__ __annotations__ __func__"
    " __dataclass_fields__".split()
)
"""Attributes with two underscores whose values are part of what is described."""

_INTROSPECTION = {
    # prefix of the attributes that lead to a stack frame, its variables, code and line -> types that have them
    "f_": FrameType, "tb_": TracebackType, "co_": CodeType, "gi_": GeneratorType, "cr_": CoroutineType, "ag_": AsyncGeneratorType,
}  # fmt: skip
_OF_FRAMES = frozenset(name for prefix, kind in _INTROSPECTION.items() for name in dir(kind) if name.startswith(prefix))

READERS = (getattr, hasattr, vars)
READER_NAMES = frozenset("__getattribute__ __getattr__ __dict__ get_field".split())
"""Attributes that give others under names that are values."""
FORMATTERS = frozenset("format format_map vformat".split())
"""Methods that read the attributes which a text names: ``"{0.name}"``."""
SEPARATING = FORMATTERS | {"__format__"}
"""Methods that may put the locale's separators into numbers."""

CODERS = frozenset("encode decode".split())
"""Methods that ask codecs and handlers of errors, which a program can register; ``encode()`` is one that asks for none."""

_PART_OF_NAME = re.compile(r"[\w.\[\]]*__[\w.\[\]]*")
_IN_FIELD = re.compile(r"[.\[]\s*(\w+)")
_OPEN_FIELD = re.compile(r"(?<!\{)\{\w*(?:[.\[][^{}]*)?$")


def is_hidden(name: str) -> bool:
    """Whether an attribute shows what is not part of a value: the variables of a function, its text and lines, the classes below
    one."""
    return name in _OF_FRAMES or is_special(name) and name not in _SAFE_NAMES


def is_special(name: str) -> bool:
    """Whether a name begins and ends with two underscores."""
    return name.startswith("__") and name.endswith("__")


def hidden_part(texts: Collection[str], prefixes: bool) -> str | None:
    """A text that is the name of a hidden attribute, or a part of one; None where there is none.

    Args:
        texts: the strings of a program.
        prefixes: whether two underscores alone are a part; they are also what names are filtered by.
    """
    for text in texts:
        # getattr(x, "f_" + name) reaches a frame: with computed names a prefix is enough to refuse.
        if text in _OF_FRAMES or prefixes and text in _INTROSPECTION:
            return text
        if _PART_OF_NAME.fullmatch(text) and text not in _SAFE_NAMES and text != "__main__" and (prefixes or text != "__"):
            return text
    return None


def formatted(texts: Collection[str]) -> tuple[set[str], bool]:
    """What format texts read: the attributes and keys that their fields name, and whether a field may be put together from
    parts."""
    formats = [text for text in texts if "{" in text]
    names = {name for text in formats for name in _IN_FIELD.findall(text)}
    is_open = any(_OPEN_FIELD.search(text) for text in formats)
    return names, is_open and any("__" in name for text in texts for name in _IN_FIELD.findall(text))
