"""The canonical text of a program: what its kernel key is made from, and what ``program.txt`` shows."""

from __future__ import annotations

from typing import Any


def program_text(func: Any) -> str:
    """TVM's script of ``func``: the same in every process; spans are not in it, so moving a program keeps its key."""
    return func.script()
