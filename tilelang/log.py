"""What the package says while it works: one logger, ``tilelang``."""

from __future__ import annotations

import logging

logger = logging.getLogger("tilelang")


def set_log_level(level: int | str) -> None:
    """Shows messages of ``level`` and above: ``"DEBUG"``, ``"INFO"``, ``"WARNING"``, ``"ERROR"`` or a number of ``logging``.

    Raises:
        ValueError: no such level.
    """
    logger.setLevel(level.upper() if isinstance(level, str) else level)
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s: %(message)s"))
        logger.addHandler(handler)
