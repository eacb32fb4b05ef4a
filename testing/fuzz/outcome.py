"""The outcome of running a program on a target."""

from __future__ import annotations

import re
from dataclasses import dataclass

RIGHT, REFUSED, INTERNAL, FINDING, DIFFERENT, CRASH = "right", "refused", "internal error", "finding", "different", "crash"
LIMIT = "too large"
"""A program that needs more memory than the target has: no failure."""
BAD = (INTERNAL, FINDING, DIFFERENT, CRASH, REFUSED)


@dataclass(frozen=True)
class Outcome:
    """The result of one program on one target.

    Attributes:
        status: one of the names above.
        message: the error message, or the names of the outputs that differ.
    """

    status: str
    message: str = ""

    @property
    def signature(self) -> str:
        """A text that is equal for failures with the same cause."""
        if self.status == DIFFERENT:
            return self.status
        return f"{self.status}: {general(self.message)}"


def general(message: str) -> str:
    """The first line of a message without names, numbers and source locations."""
    line = message.strip().splitlines()[0] if message.strip() else ""
    line = re.sub(r"/\S+", "PATH", line)
    line = re.sub(r"\b0x[0-9a-f]+", "N", line)
    line = re.sub(r"\b(?:[a-zA-Z]{1,4}|flat)_?\d+\w*\b", "NAME", line)
    return re.sub(r"\d+", "N", line)[:160]
