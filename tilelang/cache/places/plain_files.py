"""Opening what should be a plain file that only the user or root can change. A directory, a pipe, a device or a link in its
place is an error, and never waited for."""

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


class NotOurs(OSError):
    """Another user owns the file or may write to it."""

    def __init__(self, path: object):
        super().__init__(errno.EPERM, "another user owns it or may write to it", str(path))


def is_ours(found: os.stat_result) -> bool:
    """Whether only this user and root can change what the data of ``stat`` are of."""
    return found.st_uid in (os.geteuid(), 0) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def descriptor_of(path: Path | str, flags: int = os.O_RDONLY) -> int:
    """An open plain file; a new one is for this user only.

    Raises:
        OSError: there is none, or it cannot be opened.
    """
    descriptor = os.open(path, flags | _ALWAYS, 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotAPlainFile(path)
        if not is_ours(found):
            raise NotOurs(path)
        return descriptor
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


def write_new(path: Path, text: str) -> None:
    """Writes a new file for this user only, whatever the mask of the process.

    Raises:
        OSError: there is one, or it cannot be made.
    """
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _ALWAYS, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def is_wrong_kind(error: OSError) -> bool:
    """Whether what lies at the path is missing, no plain file or another user's; any other error may pass (too many open files, a
    network)."""
    return isinstance(error, (NotAPlainFile, NotOurs)) or error.errno in _OTHER_KINDS
