"""Opening what should be a plain file. A directory, a pipe, a device or a link in its place is an error, and never waited for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_ALWAYS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_OTHER_KINDS = frozenset((errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.ENODEV))


class NotAPlainFile(OSError):
    """Something other than a file lies at this path."""

    def __init__(self, path: object):
        super().__init__(errno.EINVAL, "it is not a plain file", str(path))


def descriptor_of(path: Path | str, flags: int = os.O_RDONLY) -> int:
    """An open plain file; a new one is for this user only.

    Raises:
        OSError: there is none, or it cannot be opened.
    """
    descriptor = os.open(path, flags | _ALWAYS, 0o600)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        raise NotAPlainFile(path)
    except BaseException:
        os.close(descriptor)
        raise


def read(path: Path | str, limit: int) -> bytes:
    """The first ``limit`` bytes of a plain file.

    Raises:
        OSError: there is none, or it cannot be read.
    """
    descriptor = descriptor_of(path)
    try:
        content = os.read(descriptor, limit)
        while len(content) < limit and (more := os.read(descriptor, limit - len(content))):
            content += more
        return content
    finally:
        os.close(descriptor)


def is_wrong_kind(error: OSError) -> bool:
    """Whether what lies at the path is missing or no plain file; any other error may pass (too many open files, a network)."""
    return isinstance(error, NotAPlainFile) or error.errno in _OTHER_KINDS
