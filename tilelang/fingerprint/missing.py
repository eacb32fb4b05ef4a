"""The sentinel for a value that does not exist."""

from __future__ import annotations

MISSING = object()
"""Stands for a name that is not in a dictionary, and for an empty cell."""
