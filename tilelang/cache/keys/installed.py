"""The installed distributions, by the names of their ``.dist-info`` directories: ``importlib.metadata`` takes 20 ms to import."""

from __future__ import annotations

import functools
import os
import re
import sys


@functools.cache
def dist_infos() -> dict[str, str]:
    """Name of each distribution, in its normal form -> path of its ``.dist-info``; the first on ``sys.path`` counts."""
    found: dict[str, str] = {}
    for folder in dict.fromkeys(sys.path):
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith(".dist-info"):
                found.setdefault(normal(_stem(name).rpartition("-")[0]), os.path.join(folder, name))
    return found


def package_version(distribution: str) -> str:
    """The version of an installed distribution; empty where it is not installed."""
    path = dist_infos().get(normal(distribution))
    return "" if path is None else _stem(path).rpartition("-")[2]


def _stem(path: str) -> str:
    """``<distribution>-<version>``."""
    return os.path.basename(path).removesuffix(".dist-info")


def normal(distribution: str) -> str:
    """A distribution's name as the packaging specifications compare it: lower case, runs of ``-_.`` as one ``-``."""
    return re.sub(r"[-_.]+", "-", distribution).lower()
