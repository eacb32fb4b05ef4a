"""The mark for what is not there."""

from __future__ import annotations

MISSING = object()
"""Stands for a name that is not in a dictionary, and for an empty cell."""
