"""One warning for one kind of trouble: a full disk met by a thousand kernels is said once."""

from __future__ import annotations

import warnings

from tilelang.errors import CacheWarning

_said: set[tuple[str, str]] = set()


def once(kind: str, message: str) -> None:
    """Warns with ``message`` unless this process has already warned of the same ``kind`` and message."""
    if (kind, message) not in _said:
        _said.add((kind, message))
        warnings.warn(message, CacheWarning, stacklevel=3)


def reset() -> None:
    """Forgets what was said (for tests)."""
    _said.clear()
