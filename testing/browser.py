"""Renders a page in a headless browser."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from testing.python.cache.needs import missing

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def dom(page: Path, fragment: str = "") -> str:
    """The document after its scripts ran; ends the test where no browser is installed."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        missing("browser: install Debian's package chromium")
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={page.parent / 'profile'}",
        "--virtual-time-budget=2000", "--dump-dom", page.as_uri() + fragment,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
