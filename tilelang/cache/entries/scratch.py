"""The private directory of this process, for entries that are not to be kept; removed when the process ends."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from tilelang import temporary
from tilelang.cache.locks.forks import Lock

_lock = Lock()
_made: dict[int, Path] = {}  # by process id, so that a forked child neither uses nor removes its parent's


def root() -> Path:
    """The directory (0700), made at the first call in this process and again where something has removed it."""
    with _lock:
        here = _made.get(os.getpid())
        if here is None or not os.path.isdir(here):
            here = _made[os.getpid()] = Path(tempfile.mkdtemp(prefix="tilelang-", dir=temporary.folder()))
        return here


@atexit.register
def _remove() -> None:
    here = _made.pop(os.getpid(), None)
    if here is not None:
        shutil.rmtree(here, ignore_errors=True)
