"""Input tensors for tuning, given around the call: ``with set_autotune_inputs(a, b): kernel = factory(m, n)``."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

_local = threading.local()


@contextlib.contextmanager
def set_autotune_inputs(*tensors: Any) -> Iterator[None]:
    """Tunes on ``tensors`` (or on one list of them) inside the ``with`` body."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    before = get_autotune_inputs()
    _local.tensors = list(tensors)
    try:
        yield
    finally:
        _local.tensors = before


def get_autotune_inputs() -> list[Any] | None:
    """The tensors of the innermost :func:`set_autotune_inputs`, or None."""
    return getattr(_local, "tensors", None)
