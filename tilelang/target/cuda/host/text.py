"""What the C host and the Python host have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tilelang.artifact import KernelLaunch, TensorMapSpec

MAP_BYTES = 128
"""Size of a tensor map."""

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64, "bool": 8}


class Names:
    """Distinct identifiers for a program's names, none of them reserved or beginning with ``tl_``, which is ours."""

    def __init__(self, reserved: Iterable[str]):
        self._taken = set(reserved)
        self._given: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        """The identifier that stands for ``name``."""
        if name not in self._given:
            plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
            plain = f"u_{plain}" if plain.startswith("tl_") else plain
            while plain in self._taken:
                plain += "_"
            self._taken.add(plain)
            self._given[name] = plain
        return self._given[name]


def tensor_maps(launch: KernelLaunch) -> dict[str, tuple[int, TensorMapSpec]]:
    """Number and record of each of a launch's tensor maps, by name."""
    return {spec.name: (index, spec) for index, spec in enumerate(launch.tensor_maps)}
