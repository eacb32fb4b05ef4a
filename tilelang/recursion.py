"""How deep functions may call each other while programs nest as deep: a sum of hundreds of terms, hundreds of ``elif``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

SYNTAX = 100_000
"""Walks through syntax trees. Python's compiler has read the author's text before: its depth has a limit that suits the stack."""
PASSES = 5_000
"""Walks through programs, which may pass through frames of C."""


@contextmanager
def recursion(calls: int) -> Iterator[None]:
    """Lets functions call each other as deep inside, if Python's limit is lower."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, calls))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
