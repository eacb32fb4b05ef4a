"""A PostgreSQL server of the tests' own, on loopback, from Debian's package ``postgresql``."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .needs import missing

_ACCOUNTS = ("postgres", "nobody")


def _program(name: str) -> str:
    folders = os.pathsep.join((os.environ["PATH"], *sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)))
    found = shutil.which(name, path=folders)
    if found is None:
        missing(f"{name}: install Debian's package postgresql")
    return found


def _account() -> str | None:
    """Whom to run the server as: it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in _ACCOUNTS if name in known)


def free_port() -> int:
    """A port of the loopback interface without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A running server; :attr:`url` is what ``TILELANG_CACHE_URL`` takes."""

    def __init__(self, folder: Path, port: int, account: str | None):
        self.folder, self.port, self._account = folder, port, account
        self.url = f"postgresql+psycopg://tester@127.0.0.1:{port}/postgres"
        self._process: subprocess.Popen | None = None

    def run(self, *command: str) -> None:
        """Runs a program of the package to its end."""
        subprocess.run(command, check=True, capture_output=True, timeout=60, user=self._account, cwd="/")

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        self.run(
            _program("pg_ctl"),
            *("-D", str(self.folder / "data"), "-w", "-t", "30", "-l", str(self.folder / "log")),
            *("-o", f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"),
            "start",
        )

    def stop(self) -> None:
        """Stops the server at once."""
        self.run(_program("pg_ctl"), "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")


@contextmanager
def server() -> Iterator[Server]:
    """A new, empty server."""
    folder = Path(tempfile.mkdtemp(prefix="tilelang-postgres-"))
    account = _account()
    if account is not None:
        shutil.chown(folder, account)
    running = Server(folder, free_port(), account)
    try:
        options = ("-U", "tester", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        running.run(_program("initdb"), "-D", str(folder / "data"), *options)
        running.start()
        yield running
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            running.stop()
        shutil.rmtree(folder, ignore_errors=True)
