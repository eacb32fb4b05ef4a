"""An entry's manifest: what it is, and the size and SHA-256 of its files, under a digest of itself.

It is read from directories, bundles and databases that others may have written to, so every field is checked to hold what
the cache's own code put there: a text that can be stored and printed, a finite number, a table of safe names.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tilelang.cache.entries.files import MANIFEST_PATH, PARAMS_PATH, is_safe_name

MAX_BYTES = 16 << 20
_LARGEST = 1 << 60
_LAST_MOMENT = 10**11  # seconds since 1970: what calendars can still show
_KEY = re.compile(r"[0-9a-f]{64}\Z")  # `$` would let a newline follow


Json: TypeAlias = "dict[str, Any] | list[Any] | str | float | None"
"""What a file of JSON holds."""


class BadEntry(Exception):
    """An entry that is not what was published; the message says which file and why."""


def is_key(text: Any) -> bool:
    """Whether ``text`` is a kernel key."""
    return isinstance(text, str) and _KEY.match(text) is not None


def seal(manifest: Mapping[str, Any]) -> bytes:
    """A manifest as text, with its digest on the second line."""
    text = json.dumps(manifest, sort_keys=True).encode()
    return text + b"\n" + hashlib.sha256(text).hexdigest().encode() + b"\n"


def unseal(raw: bytes) -> dict[str, Any]:
    """The manifest that :func:`seal` wrote.

    Raises:
        BadEntry: it was changed or cut, or a field does not hold what it should.
    """
    # The digest covers the bytes as they are, and is compared before they are parsed: a file that was cut is never interpreted.
    text, _, tail = raw.partition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() + b"\n" != tail:
        raise BadEntry(f"{MANIFEST_PATH} does not match its own digest")
    try:
        manifest: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadEntry(f"{MANIFEST_PATH} is not JSON: {error}") from error
    if not isinstance(manifest, dict):
        raise BadEntry(f"{MANIFEST_PATH} does not list files")
    wrong = [name for name, holds in FIELDS.items() if name in manifest and not holds(manifest[name])]
    if wrong:
        raise BadEntry(f"{MANIFEST_PATH} has a wrong value of {', '.join(wrong)}")
    if "files" not in manifest or PARAMS_PATH not in manifest["files"]:
        raise BadEntry(f"{MANIFEST_PATH} does not list the files of an entry")
    return manifest


def storable(text: str) -> str:
    """``text`` with what UTF-8 cannot hold written as an escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def _is_text(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < _LARGEST and math.isfinite(value)


def _is_moment(value: Any) -> bool:
    return _is_number(value) and 0 <= value < _LAST_MOMENT


def _are_texts(value: Json) -> bool:
    return isinstance(value, dict) and all(_is_text(name) and _is_text(text) for name, text in value.items())


def _are_files(value: Json) -> bool:
    return isinstance(value, dict) and all(is_safe_name(name) and _is_file(row) for name, row in value.items())


def _is_file(row: Json) -> bool:
    return isinstance(row, list) and len(row) == 2 and _is_size(row[0]) and is_key(row[1])


FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "key": is_key,
    **dict.fromkeys(("name", "target", "arch", "backend", "reason", "shortcut"), _is_text),
    **dict.fromkeys(("format", "space"), _is_size),
    "created": _is_moment,
    "compile_seconds": _is_number,
    "inputs": _are_texts,
    "files": _are_files,
}
"""Field -> what it must hold where it is there."""
