"""Where temporary files go."""

from __future__ import annotations

import os
import tempfile


def folder() -> str:
    """The directory for temporary files; it is made again if something has removed it.

    A batch system removes a job's directory (``TMPDIR``) while processes of the job may still compile.

    Raises:
        OSError: it cannot be made.
    """
    found = tempfile.gettempdir()
    os.makedirs(found, mode=0o700, exist_ok=True)
    return found
