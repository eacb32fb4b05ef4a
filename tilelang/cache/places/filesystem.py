"""Which file system a directory is on: some cannot lock, and none across hosts can share memory."""

from __future__ import annotations

import os
from pathlib import Path

NETWORK = frozenset(("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs"))
_MOUNTS = Path("/proc/self/mountinfo")


def kind(path: Path) -> str:
    """The type of the file system that holds ``path`` (``ext4``, ``nfs4``, ``fuse.sshfs`` …), or an empty text."""
    resolved = os.path.realpath(path)
    best, found = "", ""
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        # proc(5): id, parent, device, root, mount point, options, optional fields, "-", type, source, options
        fields, _, tail = line.partition(" - ")
        mount = fields.split(" ")[4].encode().decode("unicode_escape")
        inside = resolved == mount or resolved.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, found = mount, tail.split(" ", 1)[0]
    return found


def is_network(path: Path) -> bool:
    """Whether other hosts may have the same file system."""
    name = kind(path)
    return name in NETWORK or name.startswith("fuse.sshfs")
