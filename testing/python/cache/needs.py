"""What a few tests need beside Python: a browser, a database server, another user."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

NOBODY = 65534


def missing(what: str) -> NoReturn:
    """Ends a test whose program is not installed: skipped on a developer's machine, failed in CI, which installs them."""
    (pytest.fail if os.environ.get("REQUIRE_PROGRAMS") else pytest.skip)(f"no {what}")


class Home:
    """A directory that another user can reach, and Python run as that user."""

    def __init__(self, path: Path):
        self.path = path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def give_away(self, folder: Path) -> None:
        """Makes everything in a folder the other user's."""
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    def run(self, code: str, **environment: str) -> str:
        """What ``code`` prints."""
        from . import fakes

        names = {**os.environ, "PYTHONPATH": fakes.python_path(), "HOME": str(self.path / "home"), **environment}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            capture_output=True,
            text=True,
            timeout=120,
            cwd="/",
            env=names,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@contextlib.contextmanager
def as_nobody() -> Iterator[Home]:
    """A place to run programs as another user; the test ends where this user may not."""
    if os.geteuid() != 0:
        missing("right to run programs as another user")
    path = Path(tempfile.mkdtemp(prefix="tilelang-other-user-"))
    path.chmod(0o777)
    try:
        yield Home(path)
    finally:
        shutil.rmtree(path)
