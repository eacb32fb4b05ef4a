"""Programs beside Python that a few tests drive: a browser, a database server."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Ends a test whose program is not installed: skipped on a developer's machine, failed in CI, which installs them."""
    (pytest.fail if os.environ.get("REQUIRE_PROGRAMS") else pytest.skip)(f"no {what}")
