"""The result of a backend: a loaded artifact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.artifact import KernelArtifact
from tilelang.records import Record


class Executor(Record):
    """An artifact that is loaded and can be called.

    Attributes:
        artifact: what was loaded.
        backend: the backend's name.
        call: takes the parameters that are not outputs, in order or by name; returns the output, a list of them, or None.
            It keeps alive what it needs.
    """

    artifact: KernelArtifact
    backend: str
    call: Callable[..., Any]
