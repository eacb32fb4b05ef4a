"""The private directory of this process, for entries that are not to be kept; removed when the process ends."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from pathlib import Path

_lock = threading.Lock()
_made: dict[int, Path] = {}  # by process id, so that a forked child neither uses nor removes its parent's


def root() -> Path:
    """The directory, made (0700) at the first call in this process."""
    with _lock:
        here = _made.get(os.getpid())
        if here is None:
            here = _made[os.getpid()] = Path(tempfile.mkdtemp(prefix="tilelang-"))
        return here


@atexit.register
def _remove() -> None:
    here = _made.pop(os.getpid(), None)
    if here is not None:
        shutil.rmtree(here, ignore_errors=True)
