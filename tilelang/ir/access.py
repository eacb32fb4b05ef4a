"""What a statement may do to memory: the kinds of access that all stages name."""

from __future__ import annotations

READ, WRITE, UPDATE, ADDRESS = "read", "write", "update", "address"
"""An update is atomic. ``ADDRESS``: the address is passed on to code that may read and write there."""
