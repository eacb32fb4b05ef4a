"""The texts of a kernel: the tile program, the CUDA source that was made of it, and its PTX."""

from __future__ import annotations

import json
import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

CUDA, PTX, ORIGINS = "device_kernel.cu", "kernel.ptx", "origins.json"

_POOL = 1024
"""Where the shared tiles of a kernel begin in a block's window: after what the hardware reserves."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A line of a tile program.

    Attributes:
        file, line: where it stands now, the file as modules are found; where the file is not found, where it stood; ``line`` is 0
            where the file has changed and the line is not in it any more.
        text: what it says, without its indentation.
    """

    file: str
    line: int
    text: str

    @classmethod
    def found(cls, file: str, line: int, text: str) -> Statement:
        """A statement by its place when the kernel was compiled, at its place in the file as it is now.

        Args:
            file: path of the program, in a folder that modules are imported from.
            line: where the statement was.
            text: what it said, without indentation; it is looked for where the line has another text now.
        """
        lines = linecache.getlines(file)
        if not lines or "".join(lines[line - 1 : line]).strip() == text:
            return cls(file, line, text)
        same = [number for number, other in enumerate(lines, 1) if other.strip() == text]
        return cls(file, min(same, key=lambda number: abs(number - line), default=0), text)

    @property
    def place(self) -> str:
        """The file and the line."""
        return f"{self.file}:{self.line or '?'}"

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


class KernelSources:
    """The texts of the kernels of one artifact.

    Args:
        directory: with the artifact's files.
        resources: kernel -> what the device compiler says of it (``registers`` and others).
    """

    def __init__(self, directory: Path, resources: Mapping[str, Mapping[str, Any]]):
        self._directory = directory
        self.resources = resources

    @cached_property
    def cuda(self) -> str:
        """The CUDA source, empty where it is not kept."""
        return self._text(CUDA)

    @cached_property
    def ptx(self) -> str:
        """The PTX."""
        return self._text(PTX)

    @cached_property
    def ptx_lines(self) -> Sequence[str]:
        """The lines of the PTX."""
        return self.ptx.splitlines()

    @cached_property
    def _origins(self) -> Mapping[str, Any]:
        return json.loads(self._text(ORIGINS) or '{"places": [], "kernels": []}')

    def origins(self, kernel: str) -> Mapping[str, Any]:
        """What a kernel's text comes from: ``lines``, ``shared`` and ``fragments``."""
        found = (item for item in self._origins["kernels"] if item["symbol"] == kernel)
        return next(found, {"lines": {}, "shared": [], "fragments": []})

    def statement(self, kernel: str, file: str, line: int) -> Statement | None:
        """The statement of the tile program that a line of the CUDA source comes from, or None.

        Args:
            kernel: name of the kernel.
            file: the CUDA source's name in the PTX's line table.
            line: in that file, from 1.
        """
        place = self.origins(kernel)["lines"].get(str(line)) if Path(file).name == CUDA else None
        return None if place is None else Statement.found(*self._origins["places"][place])

    def tile(self, kernel: str, file: str, line: int, address: int) -> str | None:
        """The tile at an address in shared memory, and the place in it; None where several tiles may lie there.

        Args:
            kernel, file, line: as for :meth:`statement`, of what accesses it.
            address: in the block's window.
        """
        offset = address - _POOL
        tiles = [tile for tile in self.origins(kernel)["shared"] if tile["offset"] <= offset < tile["offset"] + tile["bytes"]]
        if len(tiles) > 1 and Path(file).name == CUDA:  # tiles that are not needed at the same time share memory
            tiles = [tile for tile in tiles if tile["lines"] and tile["lines"][0] <= line <= tile["lines"][1]]
        return f"byte {offset - tiles[0]['offset']} of {tiles[0]['name']}" if len(tiles) == 1 else None

    def _text(self, name: str) -> str:
        path = self._directory / name
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
