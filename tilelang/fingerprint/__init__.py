"""Fingerprints of Python functions and values by content, usable without the rest of the package.

describer = Describer()
describer.value(function)
describer.finish()
describer.digest()              the same in every process in which the function would do the same
Watch(describer.records).holds()    whether that is still so in this process, in some hundred nanoseconds
"""

from __future__ import annotations

from tilelang.fingerprint import cached, classes, functions, objects  # noqa: F401  (they add what they describe)
from tilelang.fingerprint.walk import Describer, Unfaithful
from tilelang.fingerprint.watch import Watch

__all__ = ["Describer", "Unfaithful", "Watch"]
